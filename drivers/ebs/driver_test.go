package ebs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// Tests that apply to every driver are in package drivers.

func TestTagVolumes(t *testing.T) {
	type tags = []configv1.AWSResourceTag
	for name, test := range map[string]struct {
		tags    tags
		want    []string
		leftOut []string // a fragment of each sentence
	}{
		"none":                    {},
		"sorted":                  {tags: tags{{Key: "team", Value: "a b"}, {Key: "cost", Value: "x=y"}}, want: []string{"--extra-tags=cost=x=y,team=a b"}},
		"an empty value":          {tags: tags{{Key: "team"}}, want: []string{"--extra-tags=team="}},
		"reserved by AWS":         {tags: tags{{Key: "aws:x", Value: "1"}, {Key: "a", Value: "b"}}, want: []string{"--extra-tags=a=b"}, leftOut: []string{`"aws:x"`}},
		"the driver's own":        {tags: tags{{Key: "kubernetes.io/created-for/pvc/name", Value: "1"}}, leftOut: []string{"kubernetes.io"}},
		"a comma in a value":      {tags: tags{{Key: "a", Value: "b,c"}}, leftOut: []string{"','"}},
		"an equals sign in a key": {tags: tags{{Key: "a=b", Value: "c"}}, leftOut: []string{"'='"}},
		"a variable":              {tags: tags{{Key: "a", Value: "$(HOME)"}}, leftOut: []string{"'$'"}},
		"a quote":                 {tags: tags{{Key: `a"`, Value: "b"}}, leftOut: []string{`'"'`}},
	} {
		t.Run(name, func(t *testing.T) {
			infrastructure := &configv1.Infrastructure{}
			infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{AWS: &configv1.AWSPlatformStatus{ResourceTags: test.tags}}
			container := &corev1.Container{}
			leftOut := tagVolumes(drivers.Cluster{Infrastructure: infrastructure}, container)
			assert.Empty(t, cmp.Diff(test.want, container.Args), "arguments (-want +got)")
			require.Len(t, leftOut, len(test.leftOut), "left out")
			for i, fragment := range test.leftOut {
				assert.Contains(t, leftOut[i], fragment, "left out")
			}
		})
	}
}

func TestTagsOfAnotherPlatform(t *testing.T) {
	container := &corev1.Container{}
	if leftOut := tagVolumes(drivers.Cluster{Infrastructure: &configv1.Infrastructure{}}, container); leftOut != nil || container.Args != nil {
		t.Errorf("arguments %q, left out %q; want neither", container.Args, leftOut)
	}
}

func TestEncryptionKey(t *testing.T) {
	const arn = "arn:aws:kms:us-east-1:123456789012:key/abc"
	for name, test := range map[string]struct {
		aws  *operatorv1.AWSCSIDriverConfigSpec
		want map[string]string
	}{
		"nothing said":       {},
		"nothing said of it": {aws: &operatorv1.AWSCSIDriverConfigSpec{}},
		"a key":              {aws: &operatorv1.AWSCSIDriverConfigSpec{KMSKeyARN: arn}, want: map[string]string{"kmsKeyId": arn}},
	} {
		custom := &operatorv1.ClusterCSIDriver{}
		custom.Spec.DriverConfig.AWS = test.aws
		assert.Emptyf(t, cmp.Diff(test.want, encryptionKey(drivers.Cluster{ClusterCSIDriver: custom})), "%s: parameters (-want +got)", name)
	}
}
