package render

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
)

// The beginning and the end of a property with an object of a bundle, in base64. A JSON object begins with a brace and a quote, so
// its base64 begins with ofObject, and every YAML reader takes the base64 for a string.
const (
	encodedBegin = `{"data":"`
	encodedEnd   = `"}`
	ofObject     = "eyJ"
)

// mark stands for an object while its bundle is converted. It is random, so that nobody can write a bundle that contains it.
var mark = ofObject + rand.Text()

// WriteYAML writes the document of a bundle with the same bytes as declcfg.WriteYAML. The library would parse all objects of the
// bundle as JSON and as YAML, which takes ten times as long.
func WriteYAML(b declcfg.Bundle, w io.Writer) error {
	var objects [][]byte
	properties := slices.Clone(b.Properties)
	for i, p := range properties {
		data, begins := bytes.CutPrefix(p.Value, []byte(encodedBegin))
		data, ends := bytes.CutSuffix(data, []byte(encodedEnd))
		if p.Type != property.TypeBundleObject || !begins || !ends || !isPlain(data) {
			continue
		}
		properties[i].Value = fmt.Appendf(nil, "%s%s%d.%s", encodedBegin, mark, len(objects), encodedEnd)
		objects = append(objects, data)
	}
	b.Properties = properties
	var text bytes.Buffer
	if err := declcfg.WriteYAML(declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{b}}, &text); err != nil {
		return err
	}
	rest := text.Bytes()
	for i, object := range objects {
		before, after, found := bytes.Cut(rest, fmt.Appendf(nil, "%s%d.", mark, i))
		if !found {
			return fmt.Errorf("bundle %s: object number %d is lost", b.Name, i+1)
		}
		for _, part := range [][]byte{before, object} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		rest = after
	}
	_, err := w.Write(rest)
	return err
}

// isPlain reports whether data is the base64 of a JSON object, which needs no quotes in YAML.
func isPlain(data []byte) bool {
	if !bytes.HasPrefix(data, []byte(ofObject)) {
		return false
	}
	for _, c := range data {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '=') {
			return false
		}
	}
	return true
}
