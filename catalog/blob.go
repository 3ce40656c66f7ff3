package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"golang.org/x/sync/errgroup"
)

// blob is one document of a catalog, decoded.
type blob struct {
	declcfg.Meta
	document document
	config   *declcfg.DeclarativeConfig // holds just this one
}

// kinds make empty values of the types of the documents that OLM knows, by schema.
var kinds = map[string]func() any{
	declcfg.SchemaPackage:     func() any { return &declcfg.Package{} },
	declcfg.SchemaChannel:     func() any { return &declcfg.Channel{} },
	declcfg.SchemaBundle:      func() any { return &declcfg.Bundle{} },
	declcfg.SchemaDeprecation: func() any { return &declcfg.Deprecation{} },
}

// reserved starts the schemas that are OLM's to define. A catalog may hold documents of any other
// schema; they are passed through.
const reserved = "olm."

// servable is what the server demands of documents that are not OLM's own.
var servable = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// isKnown tells whether OLM itself reads the blob.
func (b blob) isKnown() bool { return kinds[b.Schema] != nil }

// title says which blob this is.
func (b blob) title() string {
	if b.Name == "" {
		return b.Schema
	}
	return fmt.Sprintf("%s %q", b.Schema, b.Name)
}

// inPackage returns the package that the blob is part of.
func (b blob) inPackage() string {
	if b.Schema == declcfg.SchemaPackage {
		return b.Name
	}
	return b.Package
}

// readFiles decodes files below dir, several at a time. It returns what they hold and what is wrong
// in them, both in the files' order.
func readFiles(ctx context.Context, dir string, files []string) ([]blob, []*Finding, error) {
	blobs := make([][]blob, len(files))
	faults := make([][]*Finding, len(files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range files {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			path := filepath.Join(dir, file)
			data, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("catalog folder %s: %w", dir, err)
			}
			blobs[i], faults[i] = decodeFile(path, data)
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(blobs...), slices.Concat(faults...), err
}

// decodeFile decodes the documents of a file.
func decodeFile(path string, data []byte) ([]blob, []*Finding) {
	documents, faults := split(path, data)
	var blobs []blob
	for _, d := range documents {
		b, fault := decode(d)
		if fault != nil {
			faults = append(faults, fault)
			continue
		}
		blobs = append(blobs, b)
	}
	if len(faults) > 0 && !slices.Contains(extensions, filepath.Ext(path)) {
		faults = faults[:1]
		faults[0].Message += fmt.Sprintf("; if this file is no part of the catalog, name it in an %s file beside it", ignoreFile)
	}
	return blobs, faults
}

// extensions are those of files that are meant to hold catalog documents.
var extensions = []string{".yaml", ".yml", ".json"}

// decode makes a blob of a document, by operator-registry's own decoders.
func decode(d document) (blob, *Finding) {
	b := blob{document: d}
	if err := json.Unmarshal(d.json, &b.Meta); err != nil {
		return b, explain(d, err, &map[string]any{}, &identity{})
	}
	if fault := checkIdentity(b); fault != nil {
		return b, fault
	}
	var err error
	if b.config, err = declcfg.LoadSlice([]*declcfg.Meta{&b.Meta}); err != nil {
		return b, explain(d, err, kinds[b.Schema]())
	}
	return b, nil
}

// identity is the part of a document that any schema has.
type identity struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	Name    string `json:"name"`
}

// checkIdentity finds out whether a document says what it is, and of which package.
func checkIdentity(b blob) *Finding {
	known := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	switch {
	case bytes.Equal(b.document.json, []byte("null")):
		return b.document.fault("the document is empty; remove it and its line of %s", separator)
	case b.Schema == "":
		return b.document.fault("the document has no field schema; expected one of %s", known)
	case !b.isKnown() && strings.HasPrefix(b.Schema, reserved):
		return b.document.fault("unknown schema %q; of those that begin with %q, a catalog holds %s", b.Schema, reserved, known)
	case !b.isKnown() && (!servable.MatchString(b.Schema) || b.Package != "" && !servable.MatchString(b.Package)):
		return b.document.fault("schema %q, package %q: OLM's server takes only names that match %s", b.Schema, b.Package, servable)
	case b.isKnown() && b.inPackage() == "":
		field := "package"
		if b.Schema == declcfg.SchemaPackage {
			field = "name"
		}
		return b.document.fault("%s has no field %s", b.title(), field)
	}
	return nil
}

// explain turns err, which came of decoding d, into a finding at the line of the value that is to
// blame, where decoding d again into one of the given types tells that value.
func explain(d document, err error, into ...any) *Finding {
	for _, target := range into {
		if finding := (*Finding)(nil); errors.As(d.decode(target), &finding) {
			return finding
		}
	}
	return d.fault("%v", err)
}
