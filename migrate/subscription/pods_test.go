package subscription

import (
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
)

// TestChangesOfPods: only the fields of the driver's pods that may affect mounts are compared.
func TestChangesOfPods(t *testing.T) {
	d, err := registry.Get("efs")
	require.NoError(t, err)
	manifests, err := operand(d, "ns")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		change func(pod map[string]any)
		want   []string
	}{
		"the same":     {func(map[string]any) {}, nil},
		"the DNS":      {func(pod map[string]any) { pod["dnsPolicy"] = "ClusterFirstWithHostNet" }, []string{"dnsPolicy is ClusterFirstWithHostNet, and will be Default"}},
		"the host":     {func(pod map[string]any) { delete(pod, "hostNetwork") }, []string{"hostNetwork is not set, and will be true"}},
		"another name": {func(pod map[string]any) { pod["serviceAccountName"] = "other" }, nil},
		"a variable": {func(pod map[string]any) {
			first := pod["containers"].([]any)[0].(map[string]any)
			first["env"] = append(first["env"].([]any), map[string]any{"name": "MY_PROXY", "value": "x"})
		}, []string{"environment variables go: MY_PROXY"}},
	} {
		live := &unstructured.Unstructured{}
		for _, m := range manifests {
			if m.Object.GetKind() == "DaemonSet" {
				live = m.Object.DeepCopy()
			}
		}
		pod := live.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		test.change(pod)
		assert.Equal(t, test.want, changesOfPods(live, manifests, ""), name)
		if kept, _ := pod["dnsPolicy"].(string); kept != "Default" {
			assert.Emptyf(t, changesOfPods(live, manifests, kept), "%s: changes if the Subscription asks for %s", name, kept)
		}
	}
}

// TestDNSPolicyOf: only settings that the operator will heed count.
func TestDNSPolicyOf(t *testing.T) {
	for value, want := range map[string]string{"": "", "ClusterFirstWithHostNet": "ClusterFirstWithHostNet", "None": ""} {
		s := &v1alpha1.Subscription{Spec: &v1alpha1.SubscriptionSpec{Config: &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: drivers.DNSPolicyEnv, Value: "Default"}, {Name: drivers.DNSPolicyEnv, Value: value}, {Name: "OTHER", Value: "Default"}}}}}
		assert.EqualValues(t, want, dnsPolicyOf(s), value)
	}
	assert.Empty(t, dnsPolicyOf(&v1alpha1.Subscription{Spec: &v1alpha1.SubscriptionSpec{}}), "without a configuration")
}
