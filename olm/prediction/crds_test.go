package prediction

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/catalogs/operators"
)

// TestCRDs checks CRDs of bundles against one in the cluster and its custom resources.
func TestCRDs(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{OLM: true})
	api := c.Client()
	namespace := c.Namespace(t)
	present := &operators.Definition{Group: namespace + ".example.com", Versions: []string{"v1alpha1", "v1"}}
	crd := &unstructured.Unstructured{Object: present.CRD()}
	require.NoError(t, api.Create(t.Context(), crd))
	t.Cleanup(func() {
		assert.NoError(t, api.Delete(context.Background(), crd))
	})
	for i := range 4 {
		cluster.Eventually(t, limit, "an object of the CRD", func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(api.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": present.Group + "/v1", "kind": "Mooring", "metadata": map[string]any{"name": fmt.Sprintf("pier-%d", i), "namespace": namespace},
				"spec": map[string]any{"depth": "7 m"},
			}}))
		})
	}
	stored, err := newAPIReader(c.Config())
	require.NoError(t, err)
	carried := func(d operators.Definition) *fbc.Details {
		return &fbc.Details{Carried: true, Objects: []*unstructured.Unstructured{{Object: d.CRD()}}}
	}
	stricter, trusted := *present, *present
	stricter.Required, trusted.Required = []string{"chain"}, []string{"chain"}
	trusted.Conversion = string(apiextensionsv1.WebhookConverter)
	described := &v1alpha1.ClusterServiceVersion{}
	described.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: present.Name(), Version: "v1"}, {Name: present.Name(), Version: "v1alpha1"}, {Name: "moons.sea.example.com"}}
	for name, test := range map[string]struct {
		details *fbc.Details
		want    Code
		says    string
	}{
		"the same": {carried(*present), "", ""},
		// An object counts once, although OLM validates it in each version.
		"stricter": {carried(stricter), InvalidObjects,
			fmt.Sprintf("Mooring %[1]s/pier-0 (spec.chain: Required value), Mooring %[1]s/pier-1 (spec.chain: Required value), Mooring %[1]s/pier-2 (spec.chain: Required value) and 1 more", namespace)},
		"stricter, with a webhook": {carried(trusted), "", ""},
		"described": {&fbc.Details{CSV: described}, DefinitionsUnchecked,
			"could not check whether existing objects let OLM update"},
		"no content":     {&fbc.Details{}, "", ""},
		"another object": {&fbc.Details{Carried: true, Objects: []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := Installed(tide(t), "tide", "0.0.0", "")
			require.NoError(t, err)
			st.api = stored
			f := st.subject(st.Subscriptions[0])
			f.Next = &Update{Name: "tide.v1.0.0"}
			require.NoError(t, f.checkCRDs(t.Context(), test.details))
			got := append(f.Blockers, f.Risks...)
			if test.want == "" {
				assert.Empty(t, got)
				return
			}
			if len(got) != 1 || got[0].Code != test.want || !strings.Contains(got[0].What, test.says) {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.says)
			}
		})
	}
}

// TestUnreadableObjects: the API server cannot convert objects, because nothing answers its conversion webhook. OLM reads them, whatever the
// bundle's CRD is.
func TestUnreadableObjects(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	definition := &operators.Definition{Group: "unread.example.com", Versions: []string{"v1alpha1", "v1"}}
	crd, err := toCRD(&unstructured.Unstructured{Object: definition.CRD()})
	require.NoError(t, err)
	require.NoError(t, c.Client().Create(t.Context(), crd))
	t.Cleanup(func() { assert.NoError(t, c.Client().Delete(context.Background(), crd)) })
	cluster.Eventually(t, limit, "an object of the CRD", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.Client().Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "unread.example.com/v1", "kind": "Mooring", "metadata": map[string]any{"name": "pier", "namespace": namespace},
			"spec": map[string]any{"depth": "7 m"}}}))
	})
	reasons := func() []Reason {
		found, err := Objects(t.Context(), c.Config(), "tide.v1.0.0", []string{crd.Name, "moons.sea.example.com"})
		require.NoError(t, err)
		return found
	}
	assert.Empty(t, reasons())

	path := "/convert"
	converted := crd.DeepCopy()
	converted.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"},
		ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: "nobody", Path: &path}}}}
	require.NoError(t, c.Client().Patch(t.Context(), converted, client.MergeFrom(crd)))
	cluster.Eventually(t, limit, "the API server to convert by the webhook", func(context.Context) error {
		if found := reasons(); len(found) != 1 || found[0].Code != UnreadableObjects || !strings.Contains(found[0].What, "cannot be read in version v1alpha1") {
			return fmt.Errorf("got %+v", found)
		}
		return nil
	})
}

// TestDependencyMissing: the catalog or an installed operator may provide a dependency.
func TestDependencyMissing(t *testing.T) {
	for name, test := range map[string]struct {
		required property.Property
		want     bool
	}{
		"API of the catalog":     {property.MustBuildGVKRequired("sea.example.com", "v1", "Tide"), false},
		"API of an operator":     {property.MustBuildGVKRequired("sky.example.com", "v1", "Moon"), false},
		"unknown API":            {property.MustBuildGVKRequired("sky.example.com", "v1", "Sun"), true},
		"package of the catalog": {property.MustBuildPackageRequired("tide", ">=1.0.0"), false},
		"later package":          {property.MustBuildPackageRequired("tide", ">=3.0.0"), true},
		"unknown package":        {property.MustBuildPackageRequired("sun", ">=1.0.0"), true},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := Installed(tide(t), "tide", "0.0.0", "")
			require.NoError(t, err)
			st.CSVs[0].Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "moons.sky.example.com", Version: "v1", Kind: "Moon"}}
			b := &fbc.Bundle{}
			b.Properties = []property.Property{test.required}
			assert.Equal(t, test.want, st.dependencyMissing(b))
		})
	}
}
