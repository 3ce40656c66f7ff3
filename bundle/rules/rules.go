// Package rules checks bundles against the requirements of the API server, the Operator Lifecycle Manager and consoles, and with
// the validators of the Operator Framework.
//
// A fault is an error if OLM, its tools or the API server refuse it, and otherwise a warning, so that no published bundle that
// installs is refused.
//
// It is a separate package because it imports much of an API server.
package rules

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/encoding"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validationerrors "github.com/operator-framework/api/pkg/validation/errors"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
)

// validators are the validators of the Operator Framework, each as a rule, with its name in operator-sdk if operator-sdk has it. Not
// included: PackageManifest is for the older format, OperatorHub and CommunityOperator are deprecated in favour of others, and
// MultipleArchitectures needs a container tool to pull each image.
var validators = []struct {
	rule      findings.Rule
	validator interfaces.Validator
	// refused are parts of messages about faults that OLM or its tools refuse. The validator's other errors become warnings.
	refused []string
	// gates run the validator, and refuse its errors.
	gates []findings.Gate
}{
	{rule("clusterserviceversion", findings.Error, "The ClusterServiceVersion has what OLM needs, and its examples are of its own APIs."), validation.ClusterServiceVersionValidator,
		[]string{"metadata.name ", "install modes not found", "none of InstallModeTypes", "only AllNamespaces", "MinKubeVersion has an invalid"}, everyHub},
	{definitionRule, validation.CustomResourceDefinitionValidator, []string{""}, everyHub},
	{rule("bundle", findings.Error, "Owned APIs have definitions, images are pull specs, and the bundle is not too large."), validation.BundleValidator,
		[]string{"duplicate CRD", "owned CRD", "compressed size", "bundle name"}, everyHub},
	{rule("operatorhubv2", findings.Warning, "OperatorHub can show the package: with provider, maintainers, links, version and icon."), validation.OperatorHubV2Validator, nil, everyHub},
	{rule("standardcapabilities", findings.Warning, "The annotation capabilities is one of the five levels."), validation.StandardCapabilitiesValidator, nil, everyHub},
	{rule("standardcategories", findings.Warning, "The annotation categories lists only categories that OperatorHub knows."), validation.StandardCategoriesValidator, nil, everyHub},
	{rule("alpha-deprecated-apis", findings.Error, "No manifest uses an API that Kubernetes has removed."), validation.AlphaDeprecatedAPIsValidator, []string{""}, everyHub},
	{rule("good-practices", findings.Warning, "Containers request resources, channels and names follow the conventions, and APIs are described."), validation.GoodPracticesValidator, nil, ownHubs},
	{rule("object", findings.Warning, "Objects besides the ClusterServiceVersion do not get in the way of managing the cluster."), validation.ObjectValidator, nil, nil},
	{rule("operatorgroup", findings.Warning, "Annotations of OperatorGroups are spelled correctly."), validation.OperatorGroupValidator, nil, nil},
}

// definitionRule is also the rule for definitions that are checked as the API server checks them.
var definitionRule = rule("customresourcedefinition", findings.Error, "The API server accepts each CustomResourceDefinition.")

func rule(id string, severity findings.Verdict, what string) findings.Rule {
	return findings.Rule{ID: id, Severity: severity, What: what}
}

// Rules returns all rules of Check: the rules for reading bundles, the Operator Framework's validators, whose findings may also be
// warnings, and the rules of the API server, OLM and gates.
func Rules() []findings.Rule {
	all := slices.Clone(registryv1.Rules)
	for _, v := range validators {
		v.rule.Gates = v.gates
		all = append(all, v.rule)
	}
	for _, c := range ownChecks {
		all = append(all, c.rule)
	}
	for _, c := range gateChecks {
		c.rule.ByGates = true
		all = append(all, c.rule)
	}
	return all
}

// Options say which checks a bundle gets.
type Options struct {
	// Profile names the gates that it has to pass besides OLM and an API server.
	Profile gates.Profile
	// InCatalogs says that catalogs in the same repository offer it, so that pipelines ignore its annotations for catalogs.
	InCatalogs bool
}

// Check checks a bundle folder and returns the findings in the order of files and lines. It fails if the folder cannot be read as a bundle,
// and the reason is not in its files.
func Check(dir string, o Options) ([]*findings.Finding, error) {
	b, err := registryv1.Load(dir)
	return check(dir, b, err, o)
}

// CheckImage checks the bundle in an image, from the files in the registryv1.Folders of the image. Findings name files by the
// reference and their path in the image.
func CheckImage(reference string, files map[string][]byte, o Options) ([]*findings.Finding, error) {
	b, err := registryv1.LoadImage(reference, files)
	return check(reference, b, err, o)
}

func check(name string, b *registryv1.Contents, err error, o Options) ([]*findings.Finding, error) {
	if err != nil {
		found, others := registryv1.Faults(err)
		if len(found) == 0 {
			return nil, errors.Join(others...)
		}
		for _, other := range others {
			found = append(found, registryv1.Format.Finding(name, "%v", other))
		}
		findings.Sort(found)
		return found, nil
	}
	c := &checked{name: name, options: o, bundle: b, found: b.Found, places: map[string]*places{}, refused: map[string]bool{}}
	c.decode()
	for _, own := range ownChecks {
		own.find(c, own.rule)
	}
	for _, asked := range gateChecks {
		if o.Profile.Enforces(asked.rule) {
			asked.find(c, asked.rule)
		}
	}
	c.validate()
	for _, f := range c.found {
		f.In(b.Package)
	}
	return c.ordered(), nil
}

// checked is a bundle during its check, with the findings so far.
type checked struct {
	name    string // of the folder or the image
	options Options
	bundle  *registryv1.Contents
	csv     *v1alpha1.ClusterServiceVersion // nil if it cannot be decoded
	csvFile string
	found   []*findings.Finding
	places  map[string]*places // by file
	// refused are the paths of values that the schema of ClusterServiceVersions refuses.
	refused map[string]bool
}

// decode decodes the ClusterServiceVersion. A failure is a finding of the API server's rule.
func (c *checked) decode() {
	for _, o := range c.bundle.Objects {
		if o.GetKind() == v1alpha1.ClusterServiceVersionKind {
			c.csvFile = o.File
		}
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	if c.bundle.CSV.Decode(csv) == nil {
		c.csv = csv
	}
}

// documentOf returns the document of a file of the bundle.
func (c *checked) documentOf(file string) document.Document {
	m := c.bundle.Metadata
	for _, d := range []document.Document{m.Document, m.DependenciesIn, m.PropertiesIn} {
		if d.File == filepath.Join(c.name, filepath.FromSlash(file)) {
			return d
		}
	}
	for _, o := range c.bundle.Objects {
		if o.File == file {
			return o.Document
		}
	}
	return document.Document{Span: document.Span{Line: 1}}
}

// placesIn returns the positions in a file. The file is parsed once.
func (c *checked) placesIn(file string) *places {
	if c.places[file] == nil {
		c.places[file] = newPlaces(c.documentOf(file))
	}
	return c.places[file]
}

// find adds a finding about the value at a path of keys and indices in a file.
func (c *checked) find(rule findings.Rule, file string, path []any, format string, args ...any) *findings.Finding {
	f := rule.Finding(filepath.Join(c.name, filepath.FromSlash(file)), format, args...)
	c.found = append(c.found, f.At(c.placesIn(file).at(path)))
	return f
}

// inMetadata returns the path of a metadata document in the bundle.
func (c *checked) inMetadata(d document.Document) string {
	return registryv1.MetadataDir + "/" + filepath.Base(d.File)
}

// validate runs the validators. It skips them if the ClusterServiceVersion cannot be decoded, because they would print errors.
func (c *checked) validate() {
	loaded := c.forValidators()
	if loaded == nil {
		return
	}
	files := filesByObject(c.bundle.Objects)
	for _, v := range validators {
		for _, subject := range loaded.ObjectsToValidate() {
			if _, isChecked := subject.(*apiextensionsv1.CustomResourceDefinition); isChecked && v.rule.ID == definitionRule.ID {
				continue // checked like the API server, with the whole schema
			}
			file := fileOf(subject, files)
			for _, result := range v.validator.Validate(subject) {
				for _, e := range result.Errors {
					if e.Field == "spec.preserveUnknownFields" {
						continue // only definitions of v1beta1 are checked here, where it may be true
					}
					if v.rule.ID == definitionRule.ID && (strings.HasPrefix(e.Field, "metadata.annotations[api-approved") || e.Field == "metadata.namespace") {
						continue // it checks only v1beta1 here, which needs no approval, and the API server clears a namespace
					}
					severity := findings.Warning
					if c.options.Profile.Has(v.gates...) || slices.ContainsFunc(v.refused, func(part string) bool { return strings.Contains(e.Detail, part) }) {
						severity = findings.Error
					}
					c.add(v.rule, severity, file, e)
				}
				for _, e := range result.Warnings {
					c.add(v.rule, findings.Warning, file, e)
				}
			}
		}
	}
}

// longestName is the maximum length of names that validators get. They repeat a name in each error, of which there may be very many. The API
// server takes 253 letters, and a finding says so.
const longestName = 1 << 10

// forValidators returns the bundle in the validators' type, or nil if they could not read it, or would repeat a very long name.
func (c *checked) forValidators() *manifests.Bundle {
	if c.csv == nil || len(c.csv.Name) > longestName {
		return nil
	}
	annotations := c.bundle.Metadata.Annotations
	b := &manifests.Bundle{Name: c.bundle.Name, CSV: c.csv, Package: c.bundle.Package, DefaultChannel: annotations[registryv1.DefaultChannelAnnotation],
		Channels: strings.Split(annotations[registryv1.ChannelsAnnotation], ",")}
	for _, o := range c.bundle.Objects {
		if o.GetKind() == "CustomResourceDefinition" {
			switch o.GetAPIVersion() {
			case apiextensionsv1.SchemeGroupVersion.String():
				definition := &apiextensionsv1.CustomResourceDefinition{}
				if o.Document.Decode(definition) != nil {
					return nil // reported
				}
				b.V1CRDs = append(b.V1CRDs, definition)
			case apiextensionsv1beta1.SchemeGroupVersion.String():
				definition := &apiextensionsv1beta1.CustomResourceDefinition{}
				if o.Document.Decode(definition) != nil {
					return nil // reported
				}
				b.V1beta1CRDs = append(b.V1beta1CRDs, definition)
			}
		}
		b.Objects = append(b.Objects, o.Unstructured)
	}
	var files []registryv1.File
	for _, f := range c.bundle.Files {
		if folder, _, _ := strings.Cut(f.Path, "/"); !slices.Contains(registryv1.Folders, folder) {
			continue
		}
		b.Size += int64(len(f.Data))
		files = append(files, f)
	}
	b.CompressedSize = compressedSize(b.Size, files)
	return b
}

// incompressible is a size in bytes that is far below the limit of a bundle even without compression.
const incompressible = 512 << 10

// compressedSize returns the total size of files after OLM's compression and encoding. Compressing is slow, so files that
// are small in total are not compressed.
func compressedSize(size int64, files []registryv1.File) (sum int64) {
	if size < incompressible {
		return size
	}
	for _, f := range files {
		if compressed, err := encoding.GzipBase64Encode(f.Data); err == nil {
			sum += int64(len(compressed))
		}
	}
	return sum
}

// add adds a finding of a validator.
func (c *checked) add(rule findings.Rule, severity findings.Verdict, file string, e validationerrors.Error) {
	message := inOrder(e.Detail)
	if e.Field != "" && !strings.Contains(message, e.Field) {
		message = e.Field + ": " + message
	}
	// Some validators name the object only as the bad value.
	if subject, ok := e.BadValue.(fmt.Stringer); ok && !strings.Contains(message, subject.String()) {
		message += ": " + subject.String()
	}
	rule.Severity = severity
	f := rule.Finding(filepath.Join(c.name, filepath.FromSlash(file)), "%s", message)
	c.found = append(c.found, f.At(c.placesIn(file).guess(e.Field, fmt.Sprint(e.BadValue), message)))
}

var (
	names     = regexp.MustCompile(`\["[^"]*"(?: "[^"]*")+\]`)
	kinds     = regexp.MustCompile(`(?:\w+: \(\[[^\]]*\]\),){2,}`)
	namesOnce = regexp.MustCompile(`"[^"]*"`)
	kindsOnce = regexp.MustCompile(`\w+: \(\[[^\]]*\]\),`)
)

// inOrder sorts the lists in a validator's message. Some have the order of a map, which differs from run to run: names such as ["a" "b"],
// and removed APIs such as CRD: (["a"]),ClusterRole: (["b"]),. A finding must stay the same to be known in a baseline.
func inOrder(message string) string {
	sorted := func(item *regexp.Regexp, before, between, after string) func(string) string {
		return func(list string) string {
			items := item.FindAllString(list, -1)
			slices.Sort(items)
			return before + strings.Join(items, between) + after
		}
	}
	message = names.ReplaceAllStringFunc(message, sorted(namesOnce, "[", " ", "]"))
	return kinds.ReplaceAllStringFunc(message, sorted(kindsOnce, "", "", ""))
}

// ordered sorts the findings and drops duplicates from different validators.
func (c *checked) ordered() []*findings.Finding {
	type key struct {
		severity      findings.Verdict
		file, message string
	}
	seen := map[key]bool{}
	var kept []*findings.Finding
	for _, f := range c.found {
		k := key{f.Severity, f.File, f.Message}
		if !seen[k] {
			kept = append(kept, f)
		}
		seen[k] = true
	}
	findings.Sort(kept)
	return kept
}

// object is the kind and the name of an object; the name is "" for the first of its kind.
type object struct{ kind, name string }

// filesByObject returns the files of objects.
func filesByObject(objects []registryv1.Object) map[object]string {
	files := map[object]string{}
	for _, o := range objects {
		for _, of := range []object{{o.GetKind(), o.GetName()}, {o.GetKind(), ""}} {
			if files[of] == "" {
				files[of] = o.File
			}
		}
	}
	return files
}

// fileOf returns the file that a validator's subject was read from. Findings about the whole bundle are in the file of its
// ClusterServiceVersion.
func fileOf(subject any, files map[object]string) string {
	of := object{kind: v1alpha1.ClusterServiceVersionKind}
	switch s := subject.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		of = object{s.Kind, s.Name}
	case *apiextensionsv1beta1.CustomResourceDefinition:
		of = object{s.Kind, s.Name}
	case *unstructured.Unstructured:
		of = object{s.GetKind(), s.GetName()}
	}
	return cmp.Or(files[of], files[object{kind: v1alpha1.ClusterServiceVersionKind}])
}
