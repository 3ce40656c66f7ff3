package build

import (
	"io"
	"slices"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/internal/openshift"
)

// Options are what users choose about catalogs that are built from templates.
type Options struct {
	// Format is the format of bundles from images. The default is that of the program that a template is of: Described for those of
	// Berth, and Whole for those of opm. If there are Versions, each has its own.
	Format render.Format
	// Versions are those versions of OpenShift that get a catalog each, with the bundles that openshift.VersionsAnnotation allows. Without any,
	// there is one catalog with all bundles.
	Versions []openshift.Version
	// StrandNobody adds, to the skips of a head that an opm template makes, the entries from which no update leads to it.
	StrandNobody bool
	// Against is a catalog that the new ones replace, or nil.
	Against *fbc.Catalog
	// Schema is the schema that templates must have, or "" for any.
	Schema string
	// JSON has catalogs written as JSON, instead of YAML.
	JSON bool
	// Stdin is standard input, for the template of that name.
	Stdin io.Reader
	// Keeper keeps what is pulled.
	Keeper oci.Keeper
	// Progress is called, concurrently, when a bundle was read.
	Progress func(read, all int)
}

// target is one of the catalogs that are built from the same templates.
type target struct {
	version *openshift.Version // nil if it is the only one
	format  render.Format
}

// folder is the folder of the target below the one of all.
func (t target) folder() string {
	if t.version == nil {
		return ""
	}
	return t.version.Folder()
}

// targets are the catalogs that are built.
func (o Options) targets() (all []target) {
	for _, v := range o.Versions {
		all = append(all, target{&v, formatFor(v)})
	}
	if len(all) == 0 {
		all = []target{{format: o.Format}}
	}
	return all
}

// formatOf is the format of a target for templates with a default.
func (t target) formatOf(byDefault render.Format) render.Format {
	if t.format == "" {
		return byDefault
	}
	return t.format
}

// formats are all formats that opm's templates are built in.
func (o Options) formats() (all []render.Format) {
	for _, t := range o.targets() {
		if f := t.formatOf(render.Whole); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}
