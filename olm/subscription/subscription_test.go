package subscription_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/olm/subscription"
	"github.com/berth-csi/berth/test/tenant"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestUndecodable: a tenant creates a Subscription with a quantity that OLM's API admits, and that no client decodes. Those of others are read.
func TestUndecodable(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{OLM: true})
	somebody := tenant.New(t, c)
	project := somebody.Project(t, "")
	for name, cpu := range map[string]string{"a-broken": "1e1.5", "b-huge": "1e99999999999999999999", "c-fine": "100m"} {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"name": "boat", "channel": "stable", "source": "sea", "sourceNamespace": "olm", "installPlanApproval": "Manual",
			"config": map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": cpu}}},
		}}}
		o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.SubscriptionKind))
		o.SetNamespace(project)
		o.SetName(name)
		require.NoError(t, somebody.Client.Create(t.Context(), o))
	}
	assert.ErrorContains(t, c.Client().List(t.Context(), &v1alpha1.SubscriptionList{}), "quantities must match", "a client can decode them: the test proves nothing")
	client, err := subscription.Client(c.Config())
	require.NoError(t, err)
	for _, namespace := range []string{project, ""} {
		var names []string
		require.NoError(t, subscription.Each(t.Context(), client, namespace, func(s v1alpha1.Subscription) error {
			if s.Namespace != project {
				return nil
			}
			names = append(names, s.Name)
			assert.Nil(t, s.Spec.Config)
			s.Spec.Config = nil
			assert.Equal(t, &v1alpha1.SubscriptionSpec{Package: "boat", Channel: "stable", CatalogSource: "sea", CatalogSourceNamespace: "olm", InstallPlanApproval: v1alpha1.ApprovalManual}, s.Spec)
			assert.NotEmpty(t, s.UID)
			assert.NotEmpty(t, s.ResourceVersion)
			return nil
		}))
		assert.Equal(t, []string{"a-broken", "b-huge", "c-fine"}, names)
	}
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
