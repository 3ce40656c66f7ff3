package provision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestRequestFor reads a cluster, of which some nodes are not machines of AWS.
func TestRequestFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := cluster.Shared(t, cluster.Options{}).Client()
	nodes := map[string]string{"elsewhere": "kind://docker/x/y", "odd": "aws:///us-east-1a/i-0123/../i-0456", "new": ""}
	for i, id := range p.request.Instances {
		nodes["worker-"+string(rune('a'+i))] = "aws:///us-east-1a/" + id
	}
	for name, id := range nodes {
		if err := c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	request, region, err := RequestFor(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Request{Cluster: cluster.InfrastructureName, Tags: map[string]string{}, Instances: p.request.Instances}, request); diff != "" || region != "us-east-1" {
		t.Errorf("region %s, request (-want +got):\n%s", region, diff)
	}
}
