package placement_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/sample"
)

// TestNamedAt: only the record of a manager that has written nothing else shows when a namespace was named. Any other manager may have changed something
// else since, and a namespace that a stranger has created meanwhile would count.
func TestNamedAt(t *testing.T) {
	const (
		names     = `"f:berth.dev/driver-namespace":{}`
		namesUID  = `"f:berth.dev/driver-namespace-uid":{}`
		something = `"f:other.example.com/a":{}`
	)
	for name, test := range map[string]struct {
		fields string
		want   int
	}{
		"the annotation alone":                  {`{"f:metadata":{"f:annotations":{` + names + `}}}`, 20},
		"the first annotation of the object":    {`{"f:metadata":{"f:annotations":{".":{},` + names + `}}}`, 20},
		"both annotations about the namespace":  {`{"f:metadata":{"f:annotations":{` + names + `,` + namesUID + `}}}`, 20},
		"another annotation, too":               {`{"f:metadata":{"f:annotations":{` + names + `,` + something + `}}}`, 10},
		"a label, too":                          {`{"f:metadata":{"f:annotations":{` + names + `},"f:labels":{` + something + `}}}`, 10},
		"the whole object":                      {`{"f:metadata":{"f:annotations":{` + names + `}},"f:spec":{"f:logLevel":{}}}`, 10},
		"only something else":                   {`{"f:metadata":{"f:annotations":{` + something + `}}}`, 10},
		"no namespace":                          {`{"f:spec":{"f:logLevel":{}}}`, 10},
		"fields that are no object":             {`[]`, 10},
		"annotations of the record of a scalar": {`{"f:metadata":{"f:annotations":{` + names + `},"f:name":{}}}`, 10},
	} {
		custom := &metav1.ObjectMeta{Name: "d", CreationTimestamp: metav1.NewTime(at(10)), Annotations: map[string]string{placement.NamespaceAnnotation: "named"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Time: new(metav1.NewTime(at(20))), FieldsV1: &metav1.FieldsV1{Raw: []byte(test.fields)}}}}
		observed, err := placement.Observe(t.Context(), fake.NewClientBuilder().Build(), sample.Driver, "", custom)
		require.NoError(t, err)
		assert.Equalf(t, at(test.want), observed.Driver.NamedAt, "a manager that has written %s: the time", name)
	}
}
