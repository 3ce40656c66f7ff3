package build

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/render"
)

// Catalog is the catalog of one package, which was built from a template.
type Catalog struct {
	// Config are its documents. Bundles of opm's templates have no payload there.
	Config *declcfg.DeclarativeConfig
	// Folder names the version of OpenShift that the catalog is for, such as v4.16, or is "".
	Folder string

	json  bool
	store *document.Store
	texts map[string]document.Span // of bundles by name, in the store
}

// Write stores the catalog as <dir>/<package>/catalog.yaml, or <dir>/<folder>/<package>/catalog.yaml, as fbc.WriteFile does.
func (c *Catalog) Write(dir string) (file string, err error) {
	return fbc.WriteFile(filepath.Join(dir, c.Folder), c.Config.Packages[0].Name, c.WriteDocuments)
}

// WriteDocuments writes the documents of the catalog in opm's order and form, as YAML, or as JSON with Options.JSON.
func (c *Catalog) WriteDocuments(w io.Writer) error { return c.write(w, formOf(c.json)) }

// form is the format of the written documents.
type form struct {
	documents func(declcfg.DeclarativeConfig, io.Writer) error
	bundle    func(declcfg.Bundle, io.Writer) error
}

var (
	inYAML = form{declcfg.WriteYAML, render.WriteYAML}
	inJSON = form{declcfg.WriteJSON, func(b declcfg.Bundle, w io.Writer) error {
		return declcfg.WriteJSON(declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{b}}, w)
	}}
)

func formOf(json bool) form {
	if json {
		return inJSON
	}
	return inYAML
}

func (c *Catalog) write(w io.Writer, in form) error {
	bundles := slices.Clone(c.Config.Bundles)
	slices.SortStableFunc(bundles, func(a, b declcfg.Bundle) int { return strings.Compare(a.Name, b.Name) })
	if err := in.documents(declcfg.DeclarativeConfig{Packages: c.Config.Packages, Channels: slices.Clone(c.Config.Channels)}, w); err != nil {
		return err
	}
	var text []byte
	for _, b := range bundles {
		span, stored := c.texts[b.Name]
		if !stored {
			if err := in.bundle(b, w); err != nil {
				return err
			}
			continue
		}
		var err error
		if text, err = c.store.Load(text[:0], span); err != nil {
			return err
		}
		if _, err := io.Copy(w, bytes.NewReader(text)); err != nil {
			return err
		}
	}
	return in.documents(declcfg.DeclarativeConfig{Others: c.Config.Others, Deprecations: c.Config.Deprecations}, w)
}
