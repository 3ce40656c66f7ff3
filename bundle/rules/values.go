package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/registry"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/constraint"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/internal/openshift"
)

// stated is a property of a bundle, with the place where it is stated.
type stated struct {
	property.Property
	file string
	path []any
}

// properties returns the properties in properties.yaml and in the annotation of the ClusterServiceVersion.
func (c *checked) properties() (all []stated) {
	for i, p := range c.bundle.Metadata.Properties {
		all = append(all, stated{property.Property{Type: p.Type, Value: p.Value}, c.inMetadata(c.bundle.Metadata.PropertiesIn), []any{"properties", i}})
	}
	var annotated []registry.Property
	if json.Unmarshal([]byte(c.annotations()[registry.PropertyKey]), &annotated) != nil {
		return all // checkProperties reports it
	}
	for _, p := range annotated {
		all = append(all, stated{property.Property{Type: p.Type, Value: p.Value}, c.csvFile, propertiesAnnotation})
	}
	return all
}

var propertiesAnnotation = []any{"metadata", "annotations", registry.PropertyKey}

// annotations returns the annotations of the ClusterServiceVersion that are strings.
func (c *checked) annotations() map[string]string {
	texts := map[string]string{}
	for _, o := range c.bundle.Objects {
		metadata, _ := o.Object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		for key, value := range annotations {
			if text, is := value.(string); is && o.File == c.csvFile {
				texts[key] = text
			}
		}
	}
	return texts
}

func checkProperties(c *checked, rule findings.Rule) {
	if text, given := c.annotations()[registry.PropertyKey]; given {
		var all []registry.Property
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			c.find(rule, c.csvFile, propertiesAnnotation, "annotation %s: expected a JSON array of objects with type and value; OLM's tools leave the annotation out, so the bundle lacks its properties in catalogs: %v", registry.PropertyKey, err)
		}
	}
	mild := rule
	mild.Severity = findings.Warning
	for _, p := range c.properties() {
		if p.Type == "" {
			c.find(mild, p.file, p.path, "a property has no type, so it has no effect; expected one such as %s", property.TypePackageRequired)
			continue
		}
		if len(p.Value) == 0 {
			p.Value = json.RawMessage("null")
			// nobody refuses it in properties that only the package's maker knows
			c.find(mild, p.file, p.path, "property of type %s has no value, so its value in catalogs is null", p.Type)
		}
		if rawjson.IsDeep(p.Value) {
			c.find(mild, p.file, append(slices.Clone(p.path), "value"), "property of type %s nests more than %d levels deep; expected fewer, as Berth refuses catalogs with such values", p.Type, rawjson.MaxDepth)
		}
		_, err := fbc.ParseProperty(p.Property)
		if err == nil {
			err = constraint.Check(p.Property)
		}
		if err != nil {
			c.find(rule, p.file, append(slices.Clone(p.path), "value"), "property of type %s: %v", p.Type, err)
		}
	}
	c.checkStatedPackage(rule, mild)
}

// checkStatedPackage checks the package and the version in the annotation, which take precedence over annotations.yaml and spec.version.
func (c *checked) checkStatedPackage(rule, mild findings.Rule) {
	last := -1
	all := c.properties()
	for i, p := range all {
		if p.Type == property.TypePackage && p.file == c.csvFile {
			last = i
		}
	}
	var said property.Package
	if last < 0 || json.Unmarshal(all[last].Value, &said) != nil { // reported
		return
	}
	find := func(rule findings.Rule, format string, args ...any) {
		c.find(rule, c.csvFile, propertiesAnnotation, "property of type %s: %s", property.TypePackage, fmt.Sprintf(format, args...))
	}
	if said.PackageName != c.bundle.Package {
		find(rule, "its packageName is %q; expected %q, the package of the bundle; remove the property: OLM's tools add the right one", said.PackageName, c.bundle.Package)
	}
	version, err := semver.Parse(said.Version)
	switch {
	case err != nil:
		find(rule, "its version is %q; expected MAJOR.MINOR.PATCH; remove the property: OLM's tools add the right one", said.Version)
	case c.csv != nil && version.String() != c.csv.Spec.Version.String():
		find(mild, "its version is %s, which counts in catalogs, and spec.version is %s; remove the property: OLM's tools add the right one", version, c.csv.Spec.Version)
	}
}

// dependencyTypes are the types in dependencies.yaml, and passedOn are the types that opm passes on as properties.
var (
	dependencyTypes = []string{property.TypePackage, property.TypeGVK, registry.LabelType, property.TypeConstraint}
	passedOn        = []string{property.TypePackageRequired, property.TypeGVKRequired, constraint.LabelRequired}
)

func checkDependencies(c *checked, rule findings.Rule) {
	m := c.bundle.Metadata
	for i, d := range m.Dependencies {
		rule := rule
		at := []any{"dependencies", i}
		find := func(field, format string, args ...any) {
			c.find(rule, c.inMetadata(m.DependenciesIn), append(slices.Clone(at), field), format, args...)
		}
		switch {
		case slices.Contains(dependencyTypes, d.Type):
			if err := dependencyFault(d); err != nil {
				find("value", "dependency of type %s: %v", d.Type, err)
			}
		case slices.Contains(passedOn, d.Type):
			p := property.Property{Type: d.Type, Value: d.Value}
			_, err := fbc.ParseProperty(p)
			if err == nil {
				err = constraint.Check(p)
			}
			if err != nil {
				find("value", "dependency of type %s: %v", d.Type, err)
			}
		default:
			rule.Severity = findings.Warning
			find("type", "the type is %q, so the dependency has no effect; want one of %s%s", d.Type, strings.Join(dependencyTypes, ", "), nearest.Hint(d.Type, dependencyTypes))
		}
	}
}

// dependencyFault returns an error if OLM's resolver does not understand a dependency of a known type.
func dependencyFault(d registry.Dependency) error {
	switch d.Type {
	case property.TypePackage:
		var of registry.PackageDependency
		if err := json.Unmarshal(d.Value, &of); err != nil {
			return fmt.Errorf("expected an object with packageName and version: %w", err)
		}
		return constraint.Package(of.PackageName, of.Version)
	case property.TypeGVK:
		var of registry.GVKDependency
		if err := json.Unmarshal(d.Value, &of); err != nil {
			return fmt.Errorf("expected an object with group, version and kind: %w", err)
		}
		return constraint.API(of.Group, of.Version, of.Kind)
	case registry.LabelType:
		var of registry.LabelDependency
		if err := json.Unmarshal(d.Value, &of); err != nil || of.Label == "" {
			return fmt.Errorf("expected an object with label")
		}
		return nil
	}
	return constraint.Check(property.Property{Type: d.Type, Value: d.Value})
}

// checkMaxOpenShift checks each property with the newest OpenShift that the operator supports.
func checkMaxOpenShift(c *checked, rule findings.Rule) {
	first := ""
	given := map[string]bool{} // the values, by file
	for _, p := range c.properties() {
		if p.Type != openshift.MaxProperty {
			continue
		}
		key := p.file + " " + c.written(p) + " " + string(p.Value)
		if given[key] {
			continue
		}
		if given[key] = true; len(given) > document.MaxFaults { // each correction parses the document
			c.find(rule, p.file, p.path, "property %s is given more than %d times; OLM accepts one: remove the others", p.Type, document.MaxFaults)
			return
		}
		if value := string(p.Value); first == "" {
			first = value
		} else if value != first { // OLM's tools drop a copy
			c.find(rule, p.file, p.path, "property %s is given twice, as %s and as %s; OLM accepts one: remove the other", p.Type, first, value)
		}
		rule := rule
		readable, err := openshift.CheckMax(string(p.Value), c.written(p))
		if readable {
			rule.Severity = findings.Warning
		}
		if err != nil {
			f := c.find(rule, p.file, append(slices.Clone(p.path), "value"), "%v", err)
			if meant, err := openshift.Parse(strings.TrimSuffix(strings.Trim(cmp.Or(c.written(p), string(p.Value)), `"`), ".0")); err == nil {
				f.Fixed(c.documentOf(p.file).Replaced(append(slices.Clone(p.path), "value"), meant.String()))
			}
		}
	}
}

// written returns the text of a scalar property in its file: the number 4.20 is read as 4.2. It returns "" for a property in an
// annotation.
func (c *checked) written(p stated) string {
	value := c.placesIn(p.file).root
	for _, step := range append(slices.Clone(p.path), "value") {
		if _, value = child(value, step, func(a, b string) bool { return a == b }); value == nil {
			return ""
		}
	}
	if value.Kind != boundedyaml.ScalarNode {
		return ""
	}
	return value.Value
}

// checkEdges checks replaces, skips and the skipRange.
func checkEdges(c *checked, rule findings.Rule) {
	if text, given := c.annotations()[skipRangeAnnotation]; given && text != "" {
		if _, err := fbc.ParseRange(text); err != nil {
			c.find(rule, c.csvFile, []any{"metadata", "annotations", skipRangeAnnotation}, "%s is %q; expected a range such as %q: %v", skipRangeAnnotation, text, ">=1.0.0 <1.2.0", err)
		}
	}
	if c.csv == nil {
		return
	}
	if c.csv.Spec.Replaces != "" && c.csv.Spec.Replaces == c.csv.Name {
		c.find(rule, c.csvFile, []any{"spec", "replaces"}, "%s replaces itself; expected the name of an earlier version, or none", c.csv.Name)
	}
	for i, skipped := range c.csv.Spec.Skips {
		if skipped == "" {
			c.find(rule, c.csvFile, []any{"spec", "skips", i}, "%s skips an empty name; expected names of other versions", c.csv.Name)
		}
		if skipped == c.csv.Name {
			c.find(rule, c.csvFile, []any{"spec", "skips", i}, "%s skips itself; expected names of other versions", c.csv.Name)
		}
	}
}

const skipRangeAnnotation = "olm.skipRange"
