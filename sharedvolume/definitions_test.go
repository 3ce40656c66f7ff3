package sharedvolume

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMissingFrom(t *testing.T) {
	const group = ".aws-efs.managed.openshift.io"
	for name, test := range map[string]struct{ served, want []string }{
		"nothing is served":       {nil, []string{"sharedvolumes" + group, "sharedvolumegrants" + group, "sharedvolumepolicies" + group}},
		"the community's API":     {[]string{"sharedvolumes", "sharedvolumes/status"}, []string{"sharedvolumegrants" + group, "sharedvolumepolicies" + group}},
		"only a subresource":      {[]string{"sharedvolumes", "sharedvolumegrants", "sharedvolumepolicies/status"}, []string{"sharedvolumepolicies" + group}},
		"all are served, or more": {[]string{"others", "sharedvolumepolicies", "sharedvolumegrants", "sharedvolumes"}, nil},
	} {
		var served []metav1.APIResource
		for _, resource := range test.served {
			served = append(served, metav1.APIResource{Name: resource})
		}
		assert.Equalf(t, test.want, missingFrom(served), "%s: missing", name)
	}
}
