package provision

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/page"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestRequestFor reads a cluster with some nodes outside AWS, by the steps in docs/operate/aws.md.
func TestRequestFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	shared := cluster.Shared(t, cluster.Options{})
	c := shared.Client()
	nodes := map[string]string{"elsewhere": "kind://docker/x/y", "odd": "aws:///us-east-1a/i-0123/../i-0456", "new": ""}
	for i, id := range p.request.Instances {
		nodes["worker-"+string(rune('a'+i))] = "aws:///us-east-1a/" + id
	}
	for name, id := range nodes {
		require.NoError(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}))
	}
	request, region, err := RequestFor(t.Context(), c)
	require.NoError(t, err)
	if diff := cmp.Diff(Request{Cluster: cluster.InfrastructureName, Tags: map[string]string{}, Instances: p.request.Instances}, request); diff != "" || region != "us-east-1" {
		t.Errorf("region %s, request (-want +got):\n%s", region, diff)
	}

	built, err := tools.Programs(t.Context(), "./cmd/berth")
	require.NoError(t, err)
	require.NoError(t, shared.EnsureNamespace(t.Context(), "team-a"))
	if out, err := shared.Kubectl(t.Context(), "apply", "-f", "../../../drivers/efs/assets/crd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := shared.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=1m", "crd/sharedvolumes.aws-efs.managed.openshift.io").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	environment := append(p.Environment(t, nil), aws.Variables(p.AddUser(t, "reader", slices.Concat(Permissions, removal.Permissions)...))...)
	r := page.Reader{
		Docs: "../../../docs", Kubectl: shared.Tools().Path("kubectl"), Kubeconfig: shared.Kubeconfig(), Berth: built.Path("berth"),
		Names: strings.NewReplacer("prod-x7k2p", cluster.InfrastructureName), Varies: regexp.MustCompile(`\b(fs|fsap|fsmt|sg)-[0-9a-f]{17}\b|--confirm=[0-9a-f]{12}\b`),
		Variables: "export " + strings.Join(environment, " "), Limit: time.Minute, Dir: t.TempDir(),
	}
	r.Follow(t, "operate/aws.md", "## Create")
	r.Follow(t, "operate/aws.md", "## Delete")
}
