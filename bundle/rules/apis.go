package rules

import (
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/findings"
)

// checkAPIs checks the names of definitions, from which OLM's tools derive groups and plural names. A validator checks that each owned
// definition is in the bundle, but ignores plural names.
func checkAPIs(c *checked, rule findings.Rule) {
	if c.csv == nil {
		return
	}
	definitions, all := c.csv.Spec.CustomResourceDefinitions, c.plurals()
	for i, owned := range definitions.Owned {
		at := []any{"spec", "customresourcedefinitions", "owned", i, "name"}
		plural, group, dotted := strings.Cut(owned.Name, ".")
		if !dotted {
			c.find(rule, c.csvFile, at, "the owned definition is called %q; expected PLURAL.GROUP, the name of its CustomResourceDefinition", owned.Name)
			continue
		}
		plurals := all[api{group, owned.Version, owned.Kind}]
		if len(plurals) > 0 && !slices.Contains(plurals, plural) {
			c.find(rule, c.csvFile, at, "the owned definition is called %s, and its CustomResourceDefinition says that the plural of %s is %s; expected %s.%s", owned.Name, owned.Kind, plurals[0], plurals[0], group)
		}
	}
	for i, required := range definitions.Required {
		if !strings.Contains(required.Name, ".") {
			c.find(rule, c.csvFile, []any{"spec", "customresourcedefinitions", "required", i, "name"}, "the required definition is called %q; expected PLURAL.GROUP, the name of its CustomResourceDefinition", required.Name)
		}
	}
}

// api identifies a version of an API.
type api struct{ group, version, kind string }

// plurals returns the plural names that the bundle's definitions give each API.
func (c *checked) plurals() map[api][]string {
	plurals := map[api][]string{}
	for _, o := range c.bundle.Objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		// Fields of other types are reported elsewhere.
		text := func(path ...string) string {
			value, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, path...)...)
			return value
		}
		versions := map[string]bool{text("version"): true}
		listed, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "versions")
		all, _ := listed.([]any)
		for _, v := range all {
			of, _ := v.(map[string]any)
			if name, is := of["name"].(string); is {
				versions[name] = true
			}
		}
		for version := range versions {
			key := api{text("group"), version, text("names", "kind")}
			plurals[key] = append(plurals[key], text("names", "plural"))
		}
	}
	return plurals
}

// checkVersion checks that the bundle has a version. The API server refuses an empty one.
func checkVersion(c *checked, rule findings.Rule) {
	stated := func(p stated) bool { return p.Type == property.TypePackage && p.file == c.csvFile }
	if c.csv == nil || slices.ContainsFunc(c.properties(), stated) {
		return
	}
	for _, o := range c.bundle.Objects {
		if o.File != c.csvFile {
			continue
		}
		if version, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "version"); version == nil {
			c.find(rule, c.csvFile, []any{"spec"}, "the ClusterServiceVersion has no spec.version; expected MAJOR.MINOR.PATCH")
		}
	}
}
