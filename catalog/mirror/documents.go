package mirror

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
)

// catalogFile is the file with the documents of a package.
const catalogFile = "catalog.json"

// writeCatalog writes the smaller catalog, with a folder for each package. Documents lose only what was not chosen: fields
// and schemas that we do not know stay.
func writeCatalog(dir string, c *fbc.Catalog, all []*keptPackage) error {
	for _, k := range all {
		if faults := validation.IsDNS1123Label(k.Name); len(faults) > 0 { // it becomes the name of a folder
			return fmt.Errorf("package name %q: %s", k.Name, faults[0])
		}
		folder := filepath.Join(dir, k.Name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		text, err := k.documents()
		if err != nil {
			return err
		}
		for _, o := range c.Others {
			if o.Package == k.Name {
				if text, err = passed(text, o.Span); err != nil {
					return err
				}
			}
		}
		if err := os.WriteFile(filepath.Join(folder, catalogFile), text, 0o644); err != nil {
			return err
		}
	}
	var shared []byte
	for _, o := range c.Others {
		if o.Package != "" {
			continue
		}
		var err error
		if shared, err = passed(shared, o.Span); err != nil {
			return err
		}
	}
	if shared == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, catalogFile), shared, 0o644)
}

// documents returns the documents of a package.
func (k *keptPackage) documents() (text []byte, err error) {
	if text, err = edited(text, k.Span, "defaultChannel", func(json.RawMessage) (any, error) { return k.defaultChannel, nil }); err != nil {
		return nil, err
	}
	for _, c := range k.channels {
		if text, err = edited(text, c.Span, "entries", c.entries); err != nil {
			return nil, err
		}
	}
	for _, b := range k.bundles() {
		if text, err = passed(text, b.Span); err != nil {
			return nil, err
		}
	}
	for _, d := range k.Deprecations {
		if !slices.ContainsFunc(d.Entries, k.concerns) {
			continue
		}
		if text, err = edited(text, d.Span, "entries", k.deprecations); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// passed appends an unchanged document.
func passed(text []byte, span document.Span) ([]byte, error) {
	d, err := document.Load(span)
	if err != nil {
		return nil, err
	}
	return append(append(text, bytes.TrimSpace(d.Content)...), '\n'), nil
}

// edited appends a document, in which a field gets the value that by returns for its old value.
func edited(text []byte, span document.Span, field string, by func(json.RawMessage) (any, error)) ([]byte, error) {
	d, err := document.Load(span)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(d.Content, &fields); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", span.File, span.Line, err)
	}
	value, err := by(fields[field])
	if err == nil {
		fields[field], err = json.Marshal(value)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: field %s: %w", span.File, span.Line, field, err)
	}
	content, err := json.Marshal(fields)
	return append(append(text, content...), '\n'), err
}

// entries returns the kept entries of a channel.
func (c *keptChannel) entries(all json.RawMessage) (any, error) {
	return only(all, func(entry map[string]json.RawMessage, known declcfg.ChannelEntry) (bool, error) {
		e := c.graph.Find(known.Name)
		if e == nil {
			return false, nil
		}
		if len(e.Skips) == len(known.Skips) {
			return true, nil
		}
		skips, err := json.Marshal(e.Skips)
		entry["skips"] = skips
		return true, err
	})
}

// deprecations returns the deprecations that concern kept parts.
func (k *keptPackage) deprecations(all json.RawMessage) (any, error) {
	return only(all, func(_ map[string]json.RawMessage, known declcfg.DeprecationEntry) (bool, error) {
		return k.concerns(known), nil
	})
}

// concerns reports whether a deprecation is about something that is kept.
func (k *keptPackage) concerns(d declcfg.DeprecationEntry) bool {
	switch name := d.Reference.Name; d.Reference.Schema {
	case declcfg.SchemaChannel:
		return slices.ContainsFunc(k.channels, func(c *keptChannel) bool { return c.Name == name })
	case declcfg.SchemaBundle:
		return slices.ContainsFunc(k.channels, func(c *keptChannel) bool { return c.graph.Find(name) != nil })
	}
	return true
}

// only returns the elements of a list that want accepts. want may change their fields. Fields that T does not have stay.
func only[T any](all json.RawMessage, want func(element map[string]json.RawMessage, known T) (bool, error)) ([]map[string]json.RawMessage, error) {
	var elements []map[string]json.RawMessage
	var known []T
	if err := json.Unmarshal(all, &elements); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(all, &known); err != nil {
		return nil, err
	}
	var wanted []map[string]json.RawMessage
	for i, element := range elements {
		is, err := want(element, known[i])
		if err != nil {
			return nil, err
		}
		if is {
			wanted = append(wanted, element)
		}
	}
	return wanted, nil
}
