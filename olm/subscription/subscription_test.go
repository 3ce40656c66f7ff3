package subscription_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/olm/subscription"
)

// TestUndecodable: Subscriptions with a quantity that OLM's API admits and no client decodes, as test/reports TestHostileTenant creates
// them, are read without it, and other Subscriptions are read whole.
func TestUndecodable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/apis/operators.coreos.com/v1alpha1/namespaces/harbour/subscriptions", r.URL.Path)
		_, _ = w.Write([]byte(`{"metadata":{},"items":[
			{"metadata":{"namespace":"harbour","name":"broken","uid":"u-1","resourceVersion":"7","managedFields":[{"manager":"oc"}]},
				"spec":{"name":"boat","channel":"stable","source":"sea","sourceNamespace":"olm","startingCSV":"boat.v1","installPlanApproval":"Manual",
					"config":{"resources":{"limits":{"cpu":"1e1.5"}},"env":[{"name":"A","value":"B"}]}},
				"status":{"installedCSV":"boat.v1"}},
			{"metadata":{"namespace":"harbour","name":"without"}},
			{"metadata":{"namespace":"harbour","name":"fine"},"spec":{"name":"ship","source":"sea","sourceNamespace":"olm"}}]}`))
	}))
	defer server.Close()
	client, err := subscription.Client(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	var got []v1alpha1.Subscription
	require.NoError(t, subscription.Each(t.Context(), client, "harbour", func(s v1alpha1.Subscription) error {
		got = append(got, s)
		return nil
	}))
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "harbour", Name: name} }
	broken := named("broken")
	broken.UID, broken.ResourceVersion = "u-1", "7"
	assert.Equal(t, []v1alpha1.Subscription{
		{ObjectMeta: broken, Spec: &v1alpha1.SubscriptionSpec{Package: "boat", Channel: "stable", CatalogSource: "sea", CatalogSourceNamespace: "olm", StartingCSV: "boat.v1",
			InstallPlanApproval: v1alpha1.ApprovalManual}, Status: v1alpha1.SubscriptionStatus{InstalledCSV: "boat.v1"}},
		{ObjectMeta: named("without")},
		{ObjectMeta: named("fine"), Spec: &v1alpha1.SubscriptionSpec{Package: "ship", CatalogSource: "sea", CatalogSourceNamespace: "olm"}},
	}, got)
}

// TestOnlyListHere: no other package lists Subscriptions.
func TestOnlyListHere(t *testing.T) {
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil || strings.HasPrefix(below, "test") || strings.HasPrefix(below, "lab") || strings.HasPrefix(below, filepath.Join("olm", "subscription")) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, list := range []string{`Resource: "subscriptions"`, "v1alpha1.SubscriptionList{"} {
			// olm/prediction makes a list of its own for OLM's resolver.
			if bytes.Contains(text, []byte(list)) && below != filepath.Join("olm", "prediction", "subscription_resolver.go") {
				t.Errorf("%s has %s: use subscription.Each, as any user can create a Subscription that no client decodes", below, list)
			}
		}
		return err
	}))
}
