package repository

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

// shape is the required form of a value in a file.
type shape struct {
	kind     string // object, array, string or boolean
	fields   map[string]shape
	closed   bool // no other fields are allowed
	required []string
	items    *shape
	least    int // items
	unique   bool
	oneOf    []string
}

var (
	isString  = shape{kind: "string"}
	isBoolean = shape{kind: "boolean"}
	isUnique  = shape{kind: "array", items: &isString, least: 1, unique: true}
)

// ciShape is the shape of ci.yaml, and releaseShape of release-config.yaml.
// Source: operatorcert/schemas of operator-pipelines.
var (
	ciShape = shape{kind: "object", fields: map[string]shape{
		"updateGraph":     {kind: "string", oneOf: updateModes},
		"reviewers":       {kind: "array", items: &isString, least: 1},
		"merge":           isBoolean,
		"cert_project_id": isString,
		"fbc": {kind: "object", closed: true, fields: map[string]shape{
			"enabled":                    isBoolean,
			"version_promotion_strategy": {kind: "string", oneOf: []string{"review-needed", "always", "never"}},
			"catalog_mapping": {kind: "array", items: &shape{kind: "object", required: []string{"template_name", "type", "catalog_names"}, fields: map[string]shape{
				"template_name": isString,
				"catalog_names": isUnique,
				"type":          {kind: "string", oneOf: []string{"olm.template.basic", semverTemplate}},
			}}},
		}},
	}}
	releaseShape = shape{kind: "object", closed: true, required: []string{"catalog_templates"}, fields: map[string]shape{
		"merge": isBoolean,
		"catalog_templates": {kind: "array", least: 1, unique: true, items: &shape{kind: "object", required: []string{"template_name", "channels"}, fields: map[string]shape{
			"template_name":  isString,
			"channels":       isUnique,
			"defaultChannel": isString,
			"replaces":       isString,
			"skips":          isUnique,
			"skipRange":      isString,
		}}},
	}}
)

const semverTemplate = "olm.semver"

// faults returns the differences between a document and a shape.
func (s shape) faults(rule findings.Rule, d document.Document) (found []*findings.Finding) {
	var value any
	if err := json.Unmarshal(d.Content, &value); err != nil {
		return []*findings.Finding{d.Fault(rule, "%v", err)}
	}
	position := d.Positions()
	s.check(value, nil, func(path []any, fix func(document.Document) []findings.Edit, format string, args ...any) {
		if len(found) == document.MaxFaults {
			return
		}
		f := rule.Finding(d.File, format, args...).At(position(path))
		if fix != nil {
			f.Fixed(fix(d))
		}
		found = append(found, f)
	})
	return found
}

// check calls fault for each difference between the value at a path and the shape, with a correction or nil.
func (s shape) check(value any, at []any, fault func(path []any, fix func(document.Document) []findings.Edit, format string, args ...any)) {
	name := pathText(at)
	if got := kindOf(value); got != s.kind {
		var fix func(document.Document) []findings.Edit
		if s.kind == "string" && (got == "number" || got == "boolean") {
			fix = func(d document.Document) []findings.Edit { return d.Quoted(at) }
		}
		fault(at, fix, "%s is %s, want %s", name, withArticle(got), withArticle(s.kind))
		return
	}
	switch value := value.(type) {
	case string:
		if len(s.oneOf) > 0 && !slices.Contains(s.oneOf, value) {
			var fix func(document.Document) []findings.Edit
			if near := nearest.Of(value, s.oneOf); len(near) == 1 {
				fix = func(d document.Document) []findings.Edit { return d.Replaced(at, near[0]) }
			}
			fault(at, fix, "%s is %q, want one of %s%s", name, value, strings.Join(s.oneOf, ", "), nearest.Hint(value, s.oneOf))
		}
	case []any:
		if len(value) < s.least {
			fault(at, nil, "%s is empty, want at least %d", name, s.least)
		}
		seen := map[string]bool{}
		for i, item := range value {
			encoded, _ := json.Marshal(item)
			if s.unique && seen[string(encoded)] {
				fault(append(slices.Clone(at), i), nil, "%s has %s twice", name, encoded)
			}
			seen[string(encoded)] = true
			s.items.check(item, append(slices.Clone(at), i), fault)
		}
	case map[string]any:
		for _, key := range s.required {
			if _, given := value[key]; !given {
				fault(at, nil, "%s has no field %s", name, key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			below, known := s.fields[key]
			switch {
			case known:
				below.check(value[key], append(slices.Clone(at), key), fault)
			case s.closed:
				fault(append(slices.Clone(at), key), nil, "%s has an unknown field %s; want one of %s%s", name, key, strings.Join(slices.Sorted(maps.Keys(s.fields)), ", "), nearest.Hint(key, slices.Collect(maps.Keys(s.fields))))
			}
		}
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

func withArticle(kind string) string {
	switch kind {
	case "nothing":
		return kind
	case "array", "object":
		return "an " + kind
	}
	return "a " + kind
}

func pathText(at []any) string {
	if len(at) == 0 {
		return "the file"
	}
	var text strings.Builder
	for i, step := range at {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&text, "[%d]", step)
		default:
			if i > 0 {
				text.WriteString(".")
			}
			fmt.Fprint(&text, step)
		}
	}
	return text.String()
}
