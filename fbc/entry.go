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

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/fbc/document"
	"github.com/berth-csi/berth/fbc/rawjson"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/yaml"
)

// The rules that single documents are read by, besides those of package document.
var (
	Schema = findings.Rule{ID: "schema", Severity: findings.Error,
		What: "Every document says what it is, and is something that belongs into a catalog.",
		Why:  "OLM's tools reject a document without a schema. One with a schema that they do not know they pass over in silence, misspelt ones and unfilled templates included."}
	Object = findings.Rule{ID: "bundle-object", Severity: findings.Error,
		What: "Every object that a bundle carries is a Kubernetes object.",
		Why:  "OLM fails to install the bundle otherwise; its tools do not look."}
	Duplicate = findings.Rule{ID: "duplicate", Severity: findings.Error,
		What: "Nothing is declared twice.",
		Why:  "OLM's tools reject the catalog."}
)

// Rules are all rules of this package.
var Rules = []findings.Rule{Schema, Object, Duplicate}

// entry is what one document says: one of the fields is set. It may be a fault instead.
type entry struct {
	number      int
	span        document.Span
	content     []byte // of the bundle's document, if no file holds it
	pkg         *declcfg.Package
	channel     *declcfg.Channel
	bundle      *declcfg.Bundle
	deprecation *declcfg.Deprecation
	other       *declcfg.Meta
	fault       *findings.Finding
}

// decode decodes the documents of a section. It fails if they are to be kept and cannot be.
func (sc *scanner) decode(s document.Section) (entries []entry, err error) {
	documents, faults := s.Documents(sc.content)
	for _, d := range documents {
		if err := sc.keep(d); err != nil {
			return nil, err
		}
		if !d.JSON {
			sc.content = d.Content // to use its memory again
		}
		if b := sc.bundle(d.Content); b != nil {
			entries = append(entries, entry{span: d.Span, bundle: b})
			continue
		}
		e, wrong := decodeDocument(d)
		e.span = d.Span
		faults = append(faults, wrong...)
		if len(wrong) == 0 {
			entries = append(entries, e)
		}
	}
	for _, fault := range faults {
		entries = append(entries, entry{span: s.Span, fault: fault})
	}
	return entries, nil
}

// decodeDocument decodes a document by operator-registry's own types. What is wrong with it is placed
// where it stands.
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
		return entry{}, one(fault)
	}
	var e entry
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
		meta.Blob = nil // it may be long, too
		return entry{other: &meta}, nil
	}
	if err := json.Unmarshal(content, into); err != nil {
		if e.pkg != nil && errors.As(err, new(base64.CorruptInputError)) {
			return entry{}, one(d.FaultAt(document.Field, []any{"icon", "base64data"}, "the icon is not in base64: %v", err))
		}
		return entry{}, one(explain(d, err, into))
	}
	if e.bundle != nil {
		return e, lighten(d, e.bundle)
	}
	return e, nil
}

func one(fault *findings.Finding) []*findings.Finding { return []*findings.Finding{fault} }

// known are the schemas of the documents that OLM itself reads.
var known = []string{declcfg.SchemaBundle, declcfg.SchemaChannel, declcfg.SchemaDeprecation, declcfg.SchemaPackage}

// reserved starts the schemas that are OLM's to define. A catalog may hold documents of any other
// schema; they are passed through.
const reserved = "olm."

// servable is what the server demands of documents that are not OLM's own.
var servable = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// IsServable tells whether OLM's server takes a name of a schema or package.
func IsServable(name string) bool { return servable.MatchString(name) }

// identity is the part of a document that any schema has.
type identity struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	Name    string `json:"name"`
}

// checkIdentity finds out whether a document says what it is, and of which package.
func checkIdentity(d document.Document, meta declcfg.Meta) *findings.Finding {
	isKnown := slices.Contains(known, meta.Schema)
	expected := strings.Join(known, ", ")
	switch {
	case bytes.Equal(d.Content, []byte("null")):
		return d.Fault(Schema, "the document is empty; remove it and its line of ---")
	case meta.Schema == "":
		return d.Fault(Schema, "the document has no field schema; expected one of %s", expected)
	case !isKnown && strings.HasPrefix(meta.Schema, reserved):
		return d.FaultAt(Schema, []any{"schema"}, "unknown schema %q; of those that begin with %q, a catalog holds %s", meta.Schema, reserved, expected)
	case !isKnown && (!IsServable(meta.Schema) || meta.Package != "" && !IsServable(meta.Package)):
		return d.FaultAt(Schema, []any{"schema"}, "schema %q, package %q: OLM's server takes only names that match %s", meta.Schema, meta.Package, servable)
	case isKnown && packageOf(meta) == "":
		field := "package"
		if meta.Schema == declcfg.SchemaPackage {
			field = "name"
		}
		return d.Fault(document.Field, "%s has no field %s", title(meta.Schema, meta.Name), field)
	}
	return nil
}

// packageOf returns the package that a document is part of.
func packageOf(meta declcfg.Meta) string {
	if meta.Schema == declcfg.SchemaPackage {
		return meta.Name
	}
	return meta.Package
}

// title says which document of a package it is.
func title(schema, name string) string {
	if name == "" {
		return schema
	}
	return fmt.Sprintf("%s %q", schema, name)
}

// explain turns err, which came of decoding d, into a finding at the value that is to blame, where
// decoding d again into one of the given types tells that value.
func explain(d document.Document, err error, into ...any) *findings.Finding {
	for _, target := range into {
		if finding := (*findings.Finding)(nil); errors.As(d.Decode(target), &finding) {
			return finding
		}
	}
	return d.Fault(document.Field, "%v", err)
}

// lighten checks the bulk of a bundle and drops it: its objects and the description of its
// ClusterServiceVersion.
func lighten(d document.Document, b *declcfg.Bundle) (faults []*findings.Finding) {
	for i, p := range b.Properties {
		if len(faults) >= document.MaxFaults {
			return append(faults, d.Fault(Object, "properties from number %d on were not looked at, because so much is wrong with those before; mend these first", i+1))
		}
		if !IsBulk(p.Type) {
			b.Properties[i].Value = canonical(p.Value)
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
			}
		}
		b.Properties[i].Value = nil
	}
	return faults
}

// canonical returns the one form that equal values have.
func canonical(value []byte) []byte {
	s := rawjson.Scan(value)
	if written := s.Append(nil, rawjson.Style{}); s.End() {
		return written
	}
	var decoded any
	if json.Unmarshal(value, &decoded) != nil {
		return value // there is none
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(decoded) // what was decoded can be encoded
	return bytes.TrimSpace(written.Bytes())
}

// ParseProperty parses the value of one property.
func ParseProperty(p property.Property) (*property.Properties, error) {
	parsed, err := property.Parse([]property.Property{p})
	if parse := (property.ParseError{}); errors.As(err, &parse) {
		return nil, parse.Err // without an index, which would mean nothing
	}
	return parsed, err
}

// IsBulk tells whether properties of a type are long and of no use for most purposes. A Bundle has
// them without their values.
func IsBulk(propertyType string) bool {
	return propertyType == property.TypeBundleObject || propertyType == property.TypeCSVMetadata
}

// checkObject makes sure that data is an object, as JSON or YAML.
func checkObject(data []byte) error {
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("its data is no Kubernetes object: %w", err)
	}
	if kind, _ := object["kind"].(string); kind == "" {
		return errors.New("its data is no Kubernetes object: it has no kind")
	}
	return nil
}
