// Package build builds the catalog of a package from its bundles: from their folders alone, or from a template, a short
// file that people write. A template lists the bundles, as folders or images, and says which of them each channel
// offers. What it does not say follows from the bundles, so most of it can be left out.
//
// Every rule of package rules is applied to what was built, so that OLM can work with it. All findings are reported at
// once, at the lines of the template or of the bundles that cause them. The same input always gives the same catalog.
//
// The catalogs that Berth ships are in the folders certified and community beside this package, and their templates in
// the folder templates.
package build

//go:generate go run ../../cmd/berth catalog build ../templates/certified/aws-ebs-csi-driver-operator.yaml ../templates/certified/aws-efs-operator.yaml ../templates/certified/manila-csi-driver-operator.yaml --output ../certified
//go:generate go run ../../cmd/berth catalog build ../templates/community/aws-ebs-csi-driver-operator.yaml ../templates/community/aws-efs-operator.yaml ../templates/community/manila-csi-driver-operator.yaml --output ../community

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/fbc/document"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/yaml"
)

// Schema is the schema of a template.
const Schema = "berth.template"

// template is a template as people write it. It refers to a bundle by name or by version.
type template struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	// DefaultChannel is optional if there is one channel.
	DefaultChannel string `json:"defaultChannel"`
	// Description and Icon, the name of a file, default to those of the default channel's head.
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

// Templates builds the catalogs of the packages that templates describe, and returns all findings. There are no catalogs if
// one of the findings is an error. Templates fails if a template file cannot be read.
func Templates(ctx context.Context, files []string) ([]*declcfg.DeclarativeConfig, []*findings.Finding, error) {
	var configs []*declcfg.DeclarativeConfig
	var found []*findings.Finding
	of := map[string]string{}
	for _, file := range files {
		d, err := draftOf(ctx, file)
		if err != nil {
			return nil, nil, err
		}
		if first := of[d.Package]; first != "" {
			d.fault(at("package"), "package %s has a template already, %s; expected one for each package", d.Package, first)
		} else if d.Package != "" {
			of[d.Package] = file
		}
		configs, found = append(configs, d.config), append(found, d.found...)
	}
	findings.Sort(found)
	if findings.Count(found, findings.Error) > 0 {
		configs = nil
	}
	return configs, found, nil
}

// draft is the catalog of a package while it is built from its template.
type draft struct {
	template
	document document.Document
	found    []*findings.Finding
	rendered []*render.Bundle // in the order of the template
	config   *declcfg.DeclarativeConfig
	// entryPaths are the paths in the template of the entries of each channel.
	entryPaths [][][]any
}

// draftOf builds the catalog of one package. Each step runs only if those before it found no error, but the bundles are
// always read.
func draftOf(ctx context.Context, file string) (*draft, error) {
	content, err := yaml.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	d := &draft{}
	if !d.decode(file, content) {
		return d, nil
	}
	d.checkForm()
	d.readBundles(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.makeCatalog()
	return d, nil
}

// makeCatalog builds the catalog from the template and its bundles.
func (d *draft) makeCatalog() {
	for _, step := range []func(){d.checkBundles, d.assemble, d.check, d.introduce} {
		if findings.Count(d.found, findings.Error) > 0 {
			return
		}
		step()
	}
}

// at is a path of keys and indices.
func at(path ...any) []any { return path }

func (d *draft) fault(path []any, format string, args ...any) {
	d.found = append(d.found, d.document.FaultAt(ruleTemplate, path, format, args...))
}

// decode decodes the template. It returns false if the template cannot be used.
func (d *draft) decode(file string, content []byte) bool {
	documents, malformed := document.Parse(file, content)
	d.found = malformed
	if len(malformed) > 0 {
		return false
	}
	if len(documents) == 0 {
		d.found = append(d.found, ruleTemplate.Finding(file, "the file is empty; expected a template, a document of schema %s", Schema).At(1, 0))
		return false
	}
	d.document = documents[0]
	var says struct {
		Schema any `json:"schema"`
	}
	if err := json.Unmarshal(d.document.Content, &says); err != nil || says.Schema != Schema {
		d.fault(at("schema"), "this is not a template: its schema is %s; expected %s%s", orNone(says.Schema), Schema, hint(says.Schema))
		return false
	}
	if len(documents) > 1 {
		d.found = append(d.found, documents[1].Fault(ruleTemplate, "a second document begins here; expected one document per file, the template of one package"))
	}
	decoded, found := d.document.DecodeStrictly(&d.template)
	d.found = append(d.found, found...)
	return decoded
}

func orNone(schema any) string {
	if schema == nil {
		return "missing"
	}
	return fmt.Sprintf("%q", fmt.Sprint(schema))
}

// hint explains schemas that people confuse with a template's.
func hint(schema any) string {
	switch name, _ := schema.(string); {
	case strings.HasPrefix(name, "olm.composite") || name == "olm.template.composite":
		return "; a composite template only names other templates, in strategy.template.config.input of its components: build those"
	case strings.HasPrefix(name, "olm.template.") || name == "olm.semver":
		return "; `opm alpha render-template` renders this one"
	case strings.HasPrefix(name, "olm."):
		return "; this document already belongs to a catalog"
	}
	return ""
}

// path returns the path of a file that the template names.
func (d *draft) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(d.document.File), name)
}
