// Package build builds the catalog of a package from its bundles: from their folders alone, or from a template, a short file that people
// write. A template lists the bundles, as folders or images, and says which of them each channel offers. Defaults come from the bundles,
// so most of a template can be left out. For opm's templates, opm's own library makes the documents, so they are the same as opm's own.
// This package only reads the bundles for them.
//
// Every rule of package rules is applied to the built catalog, so that OLM can work with it. All findings are reported at once, at
// the lines of the template or the bundles that cause them. The same input always gives the same catalog.
//
// The catalogs that Berth ships are in the folders certified and community beside this package, and their templates in
// the folder templates.
package build

//go:generate go run ../../cmd/berth catalog build ../templates/certified/aws-ebs-csi-driver-operator.yaml ../templates/certified/aws-efs-operator.yaml ../templates/certified/manila-csi-driver-operator.yaml --output-dir ../certified
//go:generate go run ../../cmd/berth catalog build ../templates/community/aws-ebs-csi-driver-operator.yaml ../templates/community/aws-efs-operator.yaml ../templates/community/manila-csi-driver-operator.yaml --output-dir ../community

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Schema is the schema of a template.
const Schema = "berth.template"

// template is a template as people write it. It refers to a bundle by name or by version.
type template struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	// DefaultChannel is optional if there is one channel.
	DefaultChannel string `json:"defaultChannel"`
	// Description and Icon default to those of the default channel's head. Icon is the name of a file.
	Description  string        `json:"description"`
	Icon         string        `json:"icon"`
	Bundles      []bundle      `json:"bundles"`
	Channels     []channel     `json:"channels"`
	Deprecations []deprecation `json:"deprecations"`
}

// bundle says where a bundle comes from. Exactly one field is set.
type bundle struct {
	Folder string `json:"folder"` // relative to the template, or absolute
	Image  string `json:"image"`
}

type channel struct {
	Name string `json:"name"`
	// SkipRange is the default for entries.
	SkipRange *string `json:"skipRange"`
	// Entries default to all bundles.
	Entries []entry `json:"entries"`
}

// entry is a bundle in a channel, by name or by version. An empty Replaces, Skips or SkipRange overrides the default with
// none.
type entry struct {
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Replaces  *string   `json:"replaces"`
	Skips     *[]string `json:"skips"`
	SkipRange *string   `json:"skipRange"`
}

// deprecation deprecates a package, a channel or a bundle. Exactly one of the three is set.
type deprecation struct {
	Package string `json:"package"`
	Channel string `json:"channel"`
	Bundle  string `json:"bundle"`
	Message string `json:"message"`
}

// The rules for templates, in addition to those for catalogs.
var (
	ruleTemplate = findings.Rule{ID: "template", Severity: findings.Error,
		What: "A template describes its package completely, and does not contradict itself or its bundles.",
		Why:  "No catalog can be built from it."}
	ruleBundle = findings.Rule{ID: "template-bundle", Severity: findings.Error,
		What: "Every bundle that a template lists can be read.",
		Why:  "The catalog would lack the bundle."}
)

// Built holds the catalogs that were built from templates or from bundles.
type Built struct {
	// Catalogs are the catalogs, in the order of the versions of OpenShift and the templates. There are none if a finding is an error.
	Catalogs []*Catalog
	Found    []*findings.Finding
	// Advice says how to build a catalog from these bundles after all, or is nil.
	Advice error

	store *document.Store
	json  bool
}

// Close deletes the temporary files of the catalogs. They cannot be written afterwards.
func (b *Built) Close() error {
	if b.store == nil { // nothing of a catalog from folders is stored
		return nil
	}
	return b.store.Close()
}

// builder builds the catalogs that a template describes.
type builder interface {
	// packages returns the known packages of the template, each with its path in the template.
	packages() map[string][]any
	references() []reference
	// take takes the bundles from the set.
	take(*bundleSet)
	// catalogs builds the catalogs of a target, and returns their faults.
	catalogs(context.Context, target) ([]*Catalog, []*findings.Finding)
	// findings returns the faults of the template itself and of its bundles. The caller may add to them.
	findings() *[]*findings.Finding
	// file returns the path of the template's file.
	file() string
	faultAt(path []any, format string, args ...any) *findings.Finding
}

// Templates builds the catalogs of the packages that templates describe, and returns all findings. A source is a template file, a folder
// of template files, or Stdin. It fails if a template file cannot be read. The caller has to close the result.
func Templates(ctx context.Context, sources []string, o Options) (_ *Built, err error) {
	files, err := readSources(sources, o.Stdin)
	if err != nil {
		return nil, err
	}
	var builders []builder
	var references []reference
	for _, f := range files {
		b := builderOf(f, o)
		builders, references = append(builders, b), append(references, b.references()...)
	}
	shelf, err := newBundleSet(ctx, o)
	if err != nil {
		return nil, err
	}
	built := &Built{store: shelf.store, json: o.JSON}
	defer func() {
		if err != nil {
			err = errors.Join(err, built.Close())
		}
	}()
	if err := shelf.fill(ctx, references); err != nil {
		return nil, err
	}
	for _, b := range builders {
		b.take(shelf)
	}
	rejectSecond(builders)
	built.build(ctx, builders, o.targets())
	return built, ctx.Err()
}

// rejectSecond reports packages that have several templates.
func rejectSecond(builders []builder) {
	first := map[string]builder{}
	for _, b := range builders {
		packages := b.packages()
		for _, name := range slices.Sorted(maps.Keys(packages)) {
			if other := first[name]; other != nil {
				found := b.findings()
				*found = append(*found, b.faultAt(packages[name], "package %s has a template already, %s; expected one for each package", name, other.file()))
			} else {
				first[name] = b
			}
		}
	}
}

// build builds the catalogs of all targets from the templates in which no error was found.
func (b *Built) build(ctx context.Context, builders []builder, targets []target) {
	for _, each := range builders {
		b.Found = append(b.Found, *each.findings()...)
	}
	var ofTargets targetFindings
	for _, t := range targets {
		for _, each := range builders {
			if findings.Count(*each.findings(), findings.Error) > 0 {
				continue
			}
			catalogs, found := each.catalogs(ctx, t)
			for _, c := range catalogs {
				c.Folder, c.store, c.json = t.folder(), b.store, b.json
			}
			b.Catalogs = append(b.Catalogs, catalogs...)
			ofTargets.add(t, found)
		}
	}
	b.Found = append(b.Found, ofTargets.merged(targets)...)
	findings.Sort(b.Found)
	if findings.Count(b.Found, findings.Error) > 0 {
		b.Catalogs = nil
	}
}

// targetFindings merges the findings about the catalogs of several targets.
type targetFindings struct {
	all []*findings.Finding // each once
	of  map[string][]target
}

func (t *targetFindings) add(of target, found []*findings.Finding) {
	if t.of == nil {
		t.of = map[string][]target{}
	}
	for _, f := range found {
		text := f.String()
		if t.of[text] == nil {
			t.all = append(t.all, f)
		}
		t.of[text] = append(t.of[text], of)
	}
}

// merged returns the findings. A finding that is not about all targets names its targets.
func (t *targetFindings) merged(targets []target) []*findings.Finding {
	for _, f := range t.all {
		about := t.of[f.String()]
		if len(about) == len(targets) {
			continue
		}
		var versions []string
		for _, of := range about {
			versions = append(versions, of.version.String())
		}
		f.Message += "; only in the catalogs for OpenShift " + strings.Join(versions, ", ")
	}
	return t.all
}

// builderOf reads a template.
func builderOf(f sourceFile, o Options) builder {
	documents, malformed := document.Parse(f.path, f.content)
	d := &draft{found: malformed, against: o.Against, byVersion: len(o.Versions) > 0}
	switch {
	case len(malformed) > 0:
		return d
	case len(documents) == 0:
		d.found = append(d.found, ruleTemplate.Finding(f.path, "the file is empty; expected a template, a document of schema %s", Schema).At(1, 0))
		return d
	}
	if documents[0].Deep {
		d.found = append(d.found, documents[0].FaultAt(document.Expansion, nil, "the template nests more than %d levels deep; expected fewer", rawjson.MaxDepth))
		return d
	}
	schema := opmSchema(documents[0])
	if o.Schema != "" && schema != o.Schema {
		d.document = locate(documents[0])
		d.fault(at("schema"), "the schema is not %s; expected a template of that kind", o.Schema)
		return d
	}
	if schema != "" {
		return newOPMTemplate(documents, schema, o)
	}
	d.decode(documents)
	return d
}

// draft is the catalog of a package while it is built from its template.
type draft struct {
	template
	document located
	decoded  bool
	// byVersion says that there is a catalog for each version of OpenShift that the user named.
	byVersion bool
	found     []*findings.Finding
	against   *fbc.Catalog
	rendered  []*render.Bundle // in the order of the template
	config    *declcfg.DeclarativeConfig
	// entryPaths are the paths in the template of the entries of each channel, by name.
	entryPaths []map[string][]any
}

func (d *draft) packages() map[string][]any {
	if d.Package == "" {
		return nil
	}
	return map[string][]any{d.Package: at("package")}
}

func (d *draft) findings() *[]*findings.Finding { return &d.found }

func (d *draft) file() string { return d.document.File }

func (d *draft) faultAt(path []any, format string, args ...any) *findings.Finding {
	return d.document.FaultAt(ruleTemplate, path, format, args...)
}

// makeCatalog builds the catalog with all bundles of the template. Each step runs only if those before it found no error.
func (d *draft) makeCatalog() {
	for _, step := range []func(){d.checkBundles, d.assemble} {
		if findings.Count(d.found, findings.Error) > 0 {
			return
		}
		step()
	}
}

// catalogs returns the catalog of a target.
func (d *draft) catalogs(_ context.Context, t target) ([]*Catalog, []*findings.Finding) {
	config := d.config
	var found []*findings.Finding
	if t.version != nil {
		config = restricted(d.config, func(name string) bool { return d.offers(name, *t.version) })
		if len(config.Channels) == 0 {
			return nil, nil
		}
		found = d.chooseDefault(config)
	}
	found = append(found, d.check(config)...)
	if findings.Count(found, findings.Error) > 0 {
		return nil, found
	}
	if _, err := introduce(config, d.rendered); err != nil {
		return nil, append(found, d.faultAt(at("bundles"), "%v", err))
	}
	for i, b := range config.Bundles {
		whole, err := named(d.rendered, b.Name).In(t.formatOf(render.Described))
		if err != nil {
			return nil, append(found, d.faultAt(at("bundles"), "%v", err))
		}
		config.Bundles[i] = whole
	}
	return []*Catalog{{Config: config}}, found
}

// at returns a path of keys and indices.
func at(path ...any) []any { return path }

func (d *draft) fault(path []any, format string, args ...any) {
	d.found = append(d.found, d.faultAt(path, format, args...))
}

// decode decodes the template, if it can be used.
func (d *draft) decode(documents []document.Document) {
	d.document = locate(documents[0])
	var says struct {
		Schema any `json:"schema"`
	}
	if err := json.Unmarshal(d.document.Content, &says); err != nil || says.Schema != Schema {
		d.fault(at("schema"), "this is not a template: its schema is %s; expected one of %s%s", orNone(says.Schema), strings.Join(schemas(), ", "), hint(d.document.Document, says.Schema))
		return
	}
	d.found = append(d.found, secondDocument(documents)...)
	var found []*findings.Finding
	d.decoded, found = d.document.DecodeStrictly(&d.template)
	d.found = append(d.found, found...)
	if d.decoded {
		d.checkForm()
	}
}

// secondDocument reports a second document in a template's file. opm would ignore it.
func secondDocument(documents []document.Document) []*findings.Finding {
	if len(documents) < 2 {
		return nil
	}
	return []*findings.Finding{documents[1].Fault(ruleTemplate, "a second document begins here; expected one document per file, the template of one package")}
}

func orNone(schema any) string {
	if schema == nil {
		return "missing"
	}
	return fmt.Sprintf("%q", fmt.Sprint(schema))
}

// hint explains schemas that are easily confused with a template's.
func hint(d document.Document, schema any) string {
	switch name, _ := schema.(string); {
	case strings.HasPrefix(name, "olm.composite") || name == "olm.template.composite":
		return compositeHint(d)
	case strings.HasPrefix(name, "olm."):
		return "; this document already belongs to a catalog"
	}
	return ""
}

// compositeHint names the templates that a composite template consists of.
func compositeHint(d document.Document) string {
	const in = "strategy.template.config.input of its components"
	var said struct {
		Components []struct {
			Strategy struct {
				Template struct {
					Config struct {
						Input string `json:"input"`
					} `json:"config"`
				} `json:"template"`
			} `json:"strategy"`
		} `json:"components"`
	}
	var inputs []string
	if json.Unmarshal(d.Content, &said) == nil {
		for _, c := range said.Components {
			if input := c.Strategy.Template.Config.Input; input != "" {
				inputs = append(inputs, escape.Command("%s", filepath.Join(filepath.Dir(d.File), input)))
			}
		}
	}
	const most = 10 // that a message can hold
	hint := "; a composite template only names other templates, in " + in + ": build those"
	if len(inputs) == 0 || len(inputs) > most {
		return hint
	}
	return hint + ": " + strings.Join(inputs, " ")
}

// path returns the path of a file that the template names.
func (d *draft) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(d.document.File), name)
}
