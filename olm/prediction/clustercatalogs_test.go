package prediction

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/test/catalogs/operators"
)

// TestClusterCatalogs: the catalog from which OLM v1 takes a bundle if there are several.
func TestClusterCatalogs(t *testing.T) {
	all := []string{operators.Rowboats, bundleOf("1.0.0"), bundleOf("1.1.0"), bundleOf("2.0.0")}
	early := strings.Replace(operators.Rowboats, "- {name: rowboat.v2.0.0, skipRange: '<1.1.0', skips: [rowboat.v1.1.0-rc1]}", "- {name: rowboat.v1.1.0}", 1)
	head := "schema: olm.package\nname: rowboat\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: rowboat\nname: stable\nentries: [{name: rowboat.v2.0.0}]\n"
	whole, old, leaking := readCatalog(t, all...), readCatalog(t, early, bundleOf("1.0.0"), bundleOf("1.1.0")), readCatalog(t, head, bundleOf("2.0.0"), deprecated200)
	for name, test := range map[string]struct {
		catalogs []*ClusterCatalog
		selector map[string]any
		want     Reaction
		next     string
		code     Code
		message  string
	}{
		"a higher priority": {catalogs: []*ClusterCatalog{{Name: "a", Content: whole}, {Name: "b", Content: old, Priority: 1}}, want: Installs, next: "1.1.0"},
		"the same priority": {catalogs: []*ClusterCatalog{{Name: "b", Content: whole}, {Name: "a", Content: old}}, want: Refused, code: CatalogsAmbiguous,
			message: `found bundles for package "rowboat" in multiple catalogs with the same priority [a b]`},
		"a selector":         {catalogs: []*ClusterCatalog{{Name: "a", Content: whole}, {Name: "b", Content: old, Labels: map[string]string{"of": "us"}}}, selector: map[string]any{"matchLabels": map[string]any{"of": "us"}}, want: Installs, next: "1.1.0"},
		"an empty selector":  {catalogs: []*ClusterCatalog{{Name: "a", Content: whole}}, selector: map[string]any{}, want: Installs, next: "2.0.0"},
		"a disabled catalog": {catalogs: []*ClusterCatalog{{Name: "a", Content: whole}, {Name: "b", Disabled: true}}, want: Installs, next: "2.0.0"},
		"a broken catalog":   {catalogs: []*ClusterCatalog{{Name: "a", Content: whole}, {Name: "b", Fault: errors.New("it is not served")}}, want: Refused, code: SourceUnreachable},
		"no catalog":         {catalogs: nil, want: Refused, code: PackageAbsent, message: `no bundles found for package "rowboat"`},
		"only one is not deprecated, whatever the priority": {catalogs: []*ClusterCatalog{{Name: "a", Content: leaking, Priority: 5}, {Name: "b", Content: old}}, want: Installs, next: "1.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"source": map[string]any{"catalog": map[string]any{"packageName": "rowboat"}}}}}
			if test.selector != nil {
				require.NoError(t, unstructured.SetNestedMap(object.Object, test.selector, "spec", "source", "catalog", "selector"))
			}
			e, err := ExtensionOf(object)
			require.NoError(t, err)
			p, err := e.PredictFrom(t.Context(), test.catalogs)
			require.NoError(t, err)
			next := ""
			if p.Next != nil {
				next = p.Next.Version
			}
			if p.Reaction != test.want || next != test.next || test.code != "" && !hasCode(p.Why, test.code) || p.Message != test.message {
				t.Errorf("got %s %q, %q:\n%s\nwant %s %q, %s, %q", p.Reaction, next, p.Message, p.format(), test.want, test.next, test.code, test.message)
			}
		})
	}
}
