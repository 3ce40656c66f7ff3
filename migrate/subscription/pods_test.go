package subscription

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers/registry"
)

// TestChangesOfPods: what mounts may depend on in the pods of the driver is compared, and nothing else.
func TestChangesOfPods(t *testing.T) {
	d, err := registry.Get("efs")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := operand(d, "ns")
	if err != nil {
		t.Fatal(err)
	}
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
		if got := changesOfPods(live, manifests); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
