package fbc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// The rules for single documents, in addition to the rules of package document.
var (
	Schema = findings.Rule{ID: "schema", Severity: findings.Error,
		What: "Every document has a schema that belongs in a catalog.",
		Why:  "OLM's tools reject a document without a schema. They silently skip one with an unknown schema, so a misspelt schema or an unrendered template goes unnoticed."}
	Object = findings.Rule{ID: "bundle-object", Severity: findings.Error,
		What: "Every object that a bundle carries is a Kubernetes object.",
		Why:  "OLM fails to install the bundle otherwise, and OLM's tools do not check the objects."}
	Duplicate = findings.Rule{ID: "duplicate", Severity: findings.Error,
		What: "Nothing is declared twice.",
		Why:  "OLM's tools reject the catalog."}
)

// Rules are all rules of this package.
var Rules = []findings.Rule{Schema, Object, Duplicate}

// entry is one decoded document, or a fault in one: exactly one of the types and fault is set.
type entry struct {
	number      int
	span        document.Span
	content     []byte // of the bundle's document, if no file holds it
	pkg         *declcfg.Package
	channel     *declcfg.Channel
	bundle      *declcfg.Bundle
	whole       bool // the bundle has its payload
	undecodable *Undecodable
	deprecation *declcfg.Deprecation
	other       *declcfg.Meta
	fault       *findings.Finding
	owners      []string // the packages that a document with a fault may belong to; nil if it may belong to any
}

// decode decodes the documents of a section. It fails only if keep does.
func (sc *scanner) decode(s document.Section) (entries []entry, err error) {
	if s.JSON {
		d := document.Document{Span: s.Span, Source: s.Source, Content: s.Source}
		if b := sc.bundle(d.Content); b != nil { // it is valid JSON, too
			return []entry{{span: d.Span, bundle: b}}, sc.keep(d)
		}
	}
	documents, faults := s.Documents(sc.content)
	for _, d := range documents {
		if err := sc.keep(d); err != nil {
			return nil, err
		}
		if !d.JSON {
			sc.content = d.Content // to reuse its memory
		}
		if d.Deep {
			entries = append(entries, entry{span: s.Span, fault: d.Fault(document.Expansion, "the document nests more than %d levels deep; expected fewer", rawjson.MaxDepth)})
			continue
		}
		if !d.JSON {
			if b := sc.bundle(d.Content); b != nil {
				entries = append(entries, entry{span: d.Span, bundle: b})
				continue
			}
		}
		e, wrong := decodeDocument(d)
		e.span = d.Span
		for _, fault := range wrong {
			entries = append(entries, entry{span: s.Span, fault: fault, owners: e.owners})
		}
		if len(wrong) == 0 {
			entries = append(entries, e)
		}
	}
	for _, fault := range faults {
		entries = append(entries, entry{span: s.Span, fault: fault})
	}
	return entries, nil
}

// decodeDocument decodes a document into operator-registry's types. Findings are at the values that cause them. The entry of a
// document with faults says only which package it belongs to.
func decodeDocument(d document.Document) (entry, []*findings.Finding) {
	content := d.Content
	meta, ok := ScanMeta(content)
	if !ok {
		if err := json.Unmarshal(content, &meta); err != nil {
			return entry{}, one(explain(d, err, &map[string]any{}, &identity{}))
		}
		content = meta.Blob
	}
	if fault := checkIdentity(d, meta); fault != nil {
		fault.Package = meta.Package
		if fault.Rule == document.Field.ID {
			return entry{}, one(fault)
		}
		return entry{owners: []string{meta.Package, meta.Name}}, one(fault) // perhaps only a typing error keeps OLM from reading it
	}
	e, faults := decodeAs(d, meta, content)
	for _, fault := range faults {
		fault.Package = packageOf(meta)
	}
	if len(faults) > 0 {
		return entry{owners: []string{packageOf(meta)}}, faults
	}
	return e, nil
}

// decodeAs decodes the content of a document into the type of its schema.
func decodeAs(d document.Document, meta declcfg.Meta, content []byte) (e entry, faults []*findings.Finding) {
	var into any
	switch meta.Schema {
	case declcfg.SchemaPackage:
		e.pkg = &declcfg.Package{}
		into = e.pkg
	case declcfg.SchemaChannel:
		e.channel = &declcfg.Channel{}
		into = e.channel
	case declcfg.SchemaBundle:
		e.bundle = &declcfg.Bundle{}
		into = e.bundle
	case declcfg.SchemaDeprecation:
		e.deprecation = &declcfg.Deprecation{}
		into = e.deprecation
	default:
		meta.Blob = nil // it may be long
		return entry{other: &meta}, nil
	}
	if err := json.Unmarshal(content, into); err != nil {
		if e.pkg != nil && errors.As(err, new(base64.CorruptInputError)) {
			return e, one(d.FaultAt(document.Field, []any{"icon", "base64data"}, "the icon is not in base64: %v", err))
		}
		return e, one(explain(d, err, into))
	}
	if e.bundle != nil {
		e.undecodable, faults = strip(d, e.bundle)
	}
	return e, faults
}

func one(fault *findings.Finding) []*findings.Finding { return []*findings.Finding{fault} }

// known are the schemas that OLM reads.
var known = []string{declcfg.SchemaBundle, declcfg.SchemaChannel, declcfg.SchemaDeprecation, declcfg.SchemaPackage}

// reserved is the prefix of schemas that only OLM defines. Documents of any other schema are passed through.
const reserved = "olm."

// servable matches the schemas and packages that OLM's server accepts in documents of schemas that OLM does not define.
var servable = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// IsServable reports whether OLM's server accepts the name of a schema or package.
func IsServable(name string) bool { return servable.MatchString(name) }

// identity holds the fields that documents of every schema have.
type identity struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	Name    string `json:"name"`
}

// checkIdentity checks that a document has a valid schema and, if the schema is OLM's, a package.
func checkIdentity(d document.Document, meta declcfg.Meta) *findings.Finding {
	isKnown := slices.Contains(known, meta.Schema)
	expected := strings.Join(known, ", ")
	switch {
	case bytes.Equal(d.Content, []byte("null")):
		return d.Fault(Schema, "the document is empty; remove it and its --- line")
	case meta.Schema == "":
		return d.Fault(Schema, "the document has no field schema; expected one of %s", expected)
	case !isKnown && strings.HasPrefix(meta.Schema, reserved):
		return d.FaultAt(Schema, []any{"schema"}, "unknown schema %q; a catalog may hold only these that begin with %q: %s", meta.Schema, reserved, expected)
	case !isKnown && (!IsServable(meta.Schema) || meta.Package != "" && !IsServable(meta.Package)):
		return d.FaultAt(Schema, []any{"schema"}, "schema %q, package %q: OLM's server accepts only names that match %s", meta.Schema, meta.Package, servable)
	case isKnown && packageOf(meta) == "":
		field := "package"
		if meta.Schema == declcfg.SchemaPackage {
			field = "name"
		}
		return d.Fault(document.Field, "%s has no field %s", title(meta.Schema, meta.Name), field)
	}
	return nil
}

// packageOf returns the package that a document belongs to.
func packageOf(meta declcfg.Meta) string {
	if meta.Schema == declcfg.SchemaPackage {
		return meta.Name
	}
	return meta.Package
}

// title names a document in messages.
func title(schema, name string) string {
	if name == "" {
		return schema
	}
	return fmt.Sprintf("%s %q", schema, name)
}

// explain turns an error of decoding d into a finding. The finding is at the value that caused the error, if decoding d
// into one of the given types fails at a value.
func explain(d document.Document, err error, into ...any) *findings.Finding {
	for _, target := range into {
		if finding := (*findings.Finding)(nil); errors.As(d.Decode(target), &finding) {
			return finding
		}
	}
	return d.Fault(document.Field, "%v", err)
}

// strip checks the payload of a bundle and drops it.
func strip(d document.Document, b *declcfg.Bundle) (undecodable *Undecodable, faults []*findings.Finding) {
	for i, p := range b.Properties {
		if len(faults) >= document.MaxFaults {
			return nil, append(faults, d.Fault(Object, "properties from number %d on were not checked, because too many before them have faults; fix those first", i+1))
		}
		if !IsPayload(p.Type) {
			b.Properties[i].Value = rawjson.Canonical(p.Value)
			continue
		}
		path := []any{"properties", i, "value"}
		parsed, err := ParseProperty(p)
		if err != nil {
			faults = append(faults, d.FaultAt(document.Field, path, "property of type %s: %v", p.Type, err))
			continue
		}
		for _, object := range parsed.BundleObjects {
			if err := checkObject(object.Data); err != nil {
				faults = append(faults, d.FaultAt(Object, path, "property of type %s: %v", p.Type, err))
			} else if err := checkCSV(object.Data); err != nil && undecodable == nil {
				undecodable = &Undecodable{path, err}
			}
		}
		b.Properties[i].Value = nil
	}
	return undecodable, faults
}

// Undecodable is a property of a bundle with a ClusterServiceVersion that OLM cannot decode, at a path in the bundle's document.
type Undecodable struct {
	Path []any
	Err  error
}

// ParseProperty parses the value of one property.
func ParseProperty(p property.Property) (*property.Properties, error) {
	parsed, err := property.Parse([]property.Property{p})
	if parse := (property.ParseError{}); errors.As(err, &parse) {
		return nil, parse.Err // without the index, which is always 0 here
	}
	return parsed, err
}

// IsPayload reports whether properties of a type are payload: objects of the bundle, or the description of its
// ClusterServiceVersion. They make up nearly all of a catalog and few readers need them, so a Bundle leaves out their
// values.
func IsPayload(propertyType string) bool {
	return propertyType == property.TypeBundleObject || propertyType == property.TypeCSVMetadata
}

// checkObject checks that data is a Kubernetes object, in JSON or YAML.
func checkObject(data []byte) error {
	var object map[string]any
	if err := boundedyaml.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("its data is not a Kubernetes object: %w", err)
	}
	if kind, _ := object["kind"].(string); kind == "" {
		return errors.New("its data is not a Kubernetes object: it has no kind")
	}
	return nil
}

// checkCSV checks that data, a Kubernetes object, can be decoded if it is a ClusterServiceVersion.
func checkCSV(data []byte) error {
	var of metav1.TypeMeta
	if err := boundedyaml.Unmarshal(data, &of); err != nil {
		return fmt.Errorf("its data is not a Kubernetes object: %w", err)
	}
	if of.Kind != v1alpha1.ClusterServiceVersionKind {
		return nil
	}
	if of.APIVersion == "" {
		return fmt.Errorf("its ClusterServiceVersion has no apiVersion; expected %s", v1alpha1.SchemeGroupVersion)
	}
	if err := boundedyaml.Unmarshal(data, &v1alpha1.ClusterServiceVersion{}); err != nil {
		return fmt.Errorf("OLM cannot decode its ClusterServiceVersion: %w", err)
	}
	return nil
}
