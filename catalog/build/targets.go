package build

import (
	"io"
	"slices"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/internal/openshift"
)

// Options are the options of Templates.
type Options struct {
	// Format is the format of bundles from images. The default is Described for Berth's templates and Whole for opm's, as in opm. Each
	// of Versions has its own format.
	Format render.Format
	// Versions are the versions of OpenShift to build a catalog for, each with the bundles that openshift.VersionsAnnotation allows. By
	// default, one catalog has all bundles.
	Versions []openshift.Version
	// StrandNobody makes the heads from opm's templates skip the entries from which no update leads to them.
	StrandNobody bool
	// Against is a catalog that the new ones replace, or nil.
	Against *fbc.Catalog
	// Schema is the schema that templates must have, or "" for any.
	Schema string
	// JSON writes catalogs as JSON instead of YAML.
	JSON bool
	// Stdin is standard input, from which the source with the name Stdin is read.
	Stdin io.Reader
	// Keeper caches pulled images.
	Keeper oci.Keeper
	// Progress is called, concurrently, after each bundle that was read.
	Progress func(read, all int)
}

// target is one of the catalogs that are built from the same templates.
type target struct {
	version *openshift.Version // nil if it is the only one
	format  render.Format
}

// folder returns the target's folder below the output folder.
func (t target) folder() string {
	if t.version == nil {
		return ""
	}
	return t.version.Folder()
}

// targets returns the catalogs to build from each template.
func (o Options) targets() (all []target) {
	for _, v := range o.Versions {
		all = append(all, target{&v, formatFor(v)})
	}
	if len(all) == 0 {
		all = []target{{format: o.Format}}
	}
	return all
}

// formatOf returns the target's format, or the default of a kind of templates.
func (t target) formatOf(byDefault render.Format) render.Format {
	if t.format == "" {
		return byDefault
	}
	return t.format
}

// formats returns all formats in which bundles of opm's templates are needed.
func (o Options) formats() (all []render.Format) {
	for _, t := range o.targets() {
		if f := t.formatOf(render.Whole); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}
