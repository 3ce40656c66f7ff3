package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"go/ast"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/test/schemas"
)

// TestSchemas compares docs/schemas with the types of the documents. -update writes them. Whatever such a type can hold complies with its
// schema, and so does an empty document.
func TestSchemas(t *testing.T) {
	source := &sourceCode{packages: map[string][]*ast.File{}}
	for _, d := range documents {
		t.Run(d.schema, func(t *testing.T) {
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")
			require.NoError(t, encoder.Encode(schemaOf(t, source, d.schema, d.parts)))
			comparePage(t, filepath.Join("../..", schemas.Folder, d.schema+".json"), want.String())
			for name, value := range map[string]reflect.Value{"an empty": reflect.New(reflect.TypeOf(d.parts[0].of)), "a full": sample(reflect.TypeOf(d.parts[0].of), nil).Addr()} {
				if field := value.Elem().FieldByName("Schema"); field.IsValid() {
					field.SetString(d.schema)
				}
				var document bytes.Buffer
				require.NoError(t, escape.JSON(&document, value.Interface()))
				assert.NoErrorf(t, schemas.Check(document.Bytes()), "%s document does not comply\n%s", name, document.String())
			}
		})
	}
}

// TestNoOtherSchemas: each file in docs/schemas is the schema of a document.
func TestNoOtherSchemas(t *testing.T) {
	files, err := os.ReadDir(filepath.Join("../..", schemas.Folder))
	require.NoError(t, err)
	for _, file := range files {
		if !slices.ContainsFunc(documents, func(d document) bool { return d.schema+".json" == file.Name() }) {
			t.Errorf("docs/schemas/%s is the schema of no document", file.Name())
		}
	}
}

// TestSchemasRefuse: a schema does not admit everything.
func TestSchemasRefuse(t *testing.T) {
	const fine = `{"schema": "berth.version.v1", "version": "v1.0.0", "go": "go1.26.0", "platform": "linux/amd64"}`
	assert.NoError(t, schemas.Check([]byte(fine)), "what is fine is refused")
	for name, change := range map[string][2]string{
		"a number for a text":  {`"v1.0.0"`, `1`},
		"a field is missing":   {`"go": "go1.26.0", `, ``},
		"a field is not known": {`"go"`, `"moon": 1, "go"`},
		"another schema":       {"berth.version.v1", "berth.version.v2"},
		"a path":               {"berth.version.v1", "../schemas/berth.version.v1"},
	} {
		assert.Errorf(t, schemas.Check([]byte(strings.Replace(fine, change[0], change[1], 1))), "%s is not refused", name)
	}
}

// TestRecordedDocuments: documents that tests have recorded, of the commands and of clusters, comply with their schemas.
func TestRecordedDocuments(t *testing.T) {
	seen := map[string]bool{}
	for _, pattern := range []string{"catalog/*/testdata/*.json", "internal/*/testdata/*.json", "migrate/*/testdata/*.json"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if !regexp.MustCompile(`^{\s*"schema": *"berth\.`).Match(text) {
				continue
			}
			assert.NoError(t, schemas.Check(text), file)
			seen[file] = true
		}
	}
	assert.GreaterOrEqual(t, len(seen), 3, "found documents; with fewer, this shows little")
}

// object is a JSON Schema, or a part of one.
type object = map[string]any

// generator makes a schema of Go types. Structures are in defs, by their names.
type generator struct {
	source *sourceCode
	defs   object
}

// schemaOf returns the schema of a document.
func schemaOf(t *testing.T, source *sourceCode, name string, parts []part) object {
	g := &generator{source, object{}}
	root := g.of(t, reflect.TypeOf(parts[0].of))
	if len(parts) > 1 { // the parts of a list, of which the commands choose one kind
		var kinds []any
		for _, p := range parts[1:] {
			kinds = append(kinds, g.of(t, reflect.TypeOf(p.of)))
		}
		definition := g.defs[defName(reflect.TypeOf(parts[0].of))].(object)
		definition["properties"].(object)["items"].(object)["items"] = object{"anyOf": kinds}
	}
	return object{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": name + ".json", "title": name, "$ref": root["$ref"], "$defs": g.defs}
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// writesItself reports whether a type says itself how JSON has it.
func writesItself(of reflect.Type) bool {
	return of.Implements(marshaler) || of.Implements(textMarshaler) || reflect.PointerTo(of).Implements(marshaler) || reflect.PointerTo(of).Implements(textMarshaler)
}

// of returns the schema of a type.
func (g *generator) of(t *testing.T, of reflect.Type) object {
	t.Helper()
	switch {
	case of.Kind() == reflect.Pointer:
		return g.of(t, of.Elem())
	case writesItself(of):
		return object{}
	}
	switch of.Kind() {
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string"}
		}
		return object{"type": "array", "items": g.of(t, of.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.of(t, of.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Interface:
		return object{"type": "array", "items": object{}}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		if !strings.HasPrefix(of.PkgPath()+"/", module) {
			return object{"type": "object"}
		}
		name := defName(of)
		if g.defs[name] == nil {
			g.defs[name] = object{} // so that a type within itself ends
			definition := object{"type": "object", "properties": object{}}
			g.defs[name] = definition
			g.fields(t, of, definition)
		}
		return object{"$ref": "#/$defs/" + name}
	}
	return object{"type": "integer"}
}

// fields adds the fields of a structure to its definition.
func (g *generator) fields(t *testing.T, of reflect.Type, definition object) {
	t.Helper()
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			g.fields(t, f.Type, definition)
			continue
		case !f.IsExported() || name == "-":
			continue
		}
		property := g.of(t, f.Type)
		if meaning := oneLine(g.source.comment(t, of, f.Name)); meaning != "" {
			property["description"] = strings.ReplaceAll(meaning, `\|`, "|")
		}
		if at := slices.IndexFunc(documents, func(d document) bool { return reflect.TypeOf(d.parts[0].of) == of }); at >= 0 && name == "schema" {
			property["const"] = documents[at].schema
		}
		mayMiss := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if kind, has := property["type"]; has && !mayMiss && slices.Contains([]reflect.Kind{reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface}, f.Type.Kind()) {
			property["type"] = []any{kind, "null"}
		}
		if to, has := property["$ref"]; has && !mayMiss && f.Type.Kind() == reflect.Pointer {
			delete(property, "$ref")
			property["anyOf"] = []any{object{"$ref": to}, object{"type": "null"}}
		}
		definition["properties"].(object)[name] = property
		if !mayMiss {
			required, _ := definition["required"].([]any)
			definition["required"] = append(required, name)
		}
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// defName returns the name of a structure in a schema.
func defName(of reflect.Type) string {
	name, _, generic := strings.Cut(of.Name(), "[")
	name = filepath.Base(of.PkgPath()) + "." + name
	if generic {
		name += "." + filepath.Base(notInNames.ReplaceAllString(of.Name()[strings.LastIndex(of.Name(), ".")+1:], ""))
	}
	return name
}

// sample returns a value of a type with something in each field. within are the types that it is in.
func sample(of reflect.Type, within []reflect.Type) reflect.Value {
	value := reflect.New(of).Elem()
	if writesItself(of) || slices.Contains(within, of) {
		return value
	}
	switch of.Kind() {
	case reflect.Pointer:
		if !slices.Contains(within, of.Elem()) {
			value.Set(sample(of.Elem(), within).Addr())
		}
	case reflect.Slice:
		value.Set(reflect.Append(value, sample(of.Elem(), within)))
	case reflect.Map:
		value.Set(reflect.MakeMap(of))
		value.SetMapIndex(sample(of.Key(), within), sample(of.Elem(), within))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.String:
		value.SetString("x")
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(1)
	case reflect.Float64:
		value.SetFloat(1.5)
	case reflect.Struct:
		if !strings.HasPrefix(of.PkgPath()+"/", module) {
			return value
		}
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				value.Field(i).Set(sample(f.Type, append(slices.Clone(within), of)))
			}
		}
		if at := slices.IndexFunc(documents, func(d document) bool { return reflect.TypeOf(d.parts[0].of) == of }); at >= 0 {
			value.FieldByName("Schema").SetString(documents[at].schema)
		}
	}
	return value
}
