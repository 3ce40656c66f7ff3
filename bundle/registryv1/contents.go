package registryv1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Format is the rule that all bundles are read by.
var Format = findings.Rule{ID: "bundle-folder", Severity: findings.Error,
	What: "A bundle is in the registry+v1 format.",
	Why:  "A cluster would get only a part of the bundle, or nothing."}

// Rules are all rules of this package, including those for single documents.
var Rules = append([]findings.Rule{Format}, document.Rules...)

// Contents are the files of a bundle, decoded.
type Contents struct {
	*Bundle
	// CSV is the document of the ClusterServiceVersion.
	CSV document.Document
	// Objects are all manifests, the ClusterServiceVersion included, in the order of their files' names.
	Objects  []Object
	Metadata Metadata
	// Found holds faults of a bundle that OLM's tools read: warnings about parts that they leave out, and errors about parts that OLM
	// itself will refuse.
	Found []*findings.Finding
}

// Object is one object of a bundle.
type Object struct {
	*unstructured.Unstructured
	File     string // its path in the bundle
	Document document.Document
}

// Metadata is the content of the metadata folder. The embedded document is the document with the annotations.
type Metadata struct {
	document.Document
	// Annotations are the annotations as text. Scalars that are not strings, such as true and 4.2, are converted as opm does.
	Annotations  map[string]string
	Dependencies []registry.Dependency
	Properties   []registry.Property
	// DependenciesIn and PropertiesIn are the documents that list them.
	DependenciesIn, PropertiesIn document.Document
}

// Faults splits an error of Load or LoadImage into findings about files and other errors.
func Faults(err error) (found []*findings.Finding, others []error) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, err := range joined.Unwrap() {
			moreFound, moreOthers := Faults(err)
			found, others = append(found, moreFound...), append(others, moreOthers...)
		}
	} else if finding, is := err.(*findings.Finding); is {
		found = append(found, finding)
	} else if fault, is := err.(*contentFault); is {
		found = append(found, Format.Finding(fault.file, "%v", fault.error))
	} else if err != nil {
		others = append(others, err)
	}
	return found, others
}

// Blame returns an error about the bundle together with the bundle's findings, which come first and may explain the error.
func (c *Contents) Blame(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(append(asErrors(c.Found), err)...)
}

// asErrors turns findings into errors: the reasons why files are not a bundle.
func asErrors(found []*findings.Finding) (all []error) {
	for _, f := range found {
		f.Severity = findings.Error
		all = append(all, f)
	}
	return all
}

// parse decodes the files of a bundle, and fills in its name and its package's name. It reads the same files as OLM's tools. Files that
// OLM's tools leave out become warnings or, if the rest is not a bundle, the reasons for the error.
func (s source) parse(b *Bundle, found []*findings.Finding) (*Contents, error) {
	r := reader{source: s, contents: &Contents{Bundle: b, Found: found}}
	fault := errors.Join(r.manifests(), r.metadata())
	if err := errors.Join(errors.Join(r.refused...), fault); err != nil {
		return nil, err
	}
	b.Package = r.contents.Metadata.Annotations[PackageAnnotation]
	return r.contents, nil
}

// reader reads the files of one bundle.
type reader struct {
	source
	contents *Contents
	// refused are errors about files that could exhaust memory. A bundle with one of them is not read.
	refused []error
	// places counts the places in all files at which a value may begin.
	places int
}

// maxPlaces is the number of places at which values may begin in the files of a bundle together. A value takes some hundred bytes of memory,
// and two bytes of a file. Large bundles have some hundred thousand.
const maxPlaces = 2 << 20

// missing returns the error for a folder without a required document: the findings about its files or, if there are none, found.
func (r *reader) missing(folder, found string) error {
	var causes []*findings.Finding
	for _, f := range r.contents.Found {
		if filepath.Dir(f.File) == filepath.Join(r.name, folder) {
			causes = append(causes, f)
		}
	}
	if len(causes) > 0 {
		return errors.Join(asErrors(causes)...)
	}
	return &contentFault{filepath.Join(r.name, folder), r.notABundle(found)}
}

// warn reports a part that OLM's tools skip.
func (r *reader) warn(f *findings.Finding) {
	f.Severity = findings.Warning
	r.contents.Found = append(r.contents.Found, f)
}

// manifests decodes the manifests.
func (r *reader) manifests() error {
	c := r.contents
	var others []string
	for _, f := range c.in(ManifestsDir) {
		d, read := r.first(f)
		if !read {
			continue
		}
		object := Object{Unstructured: &unstructured.Unstructured{}, File: f.Path, Document: d}
		if err := object.UnmarshalJSON(d.Content); err != nil {
			r.warn(d.Fault(Format, "expected a Kubernetes object, with apiVersion and kind: OLM leaves the file out: %v", err))
			continue
		}
		isCSV := object.GetKind() == v1alpha1.ClusterServiceVersionKind
		if isCSV && c.CSV.File != "" {
			r.warn(d.Fault(Format, "a second ClusterServiceVersion, besides the one in %s; a bundle holds exactly one, and OLM's tools leave this one out", c.CSV.File))
			continue
		}
		c.Objects = append(c.Objects, object)
		if isCSV {
			c.CSV, c.Name = d, object.GetName()
		} else {
			others = append(others, fmt.Sprintf("%s (%s)", f.Path, object.GetKind()))
		}
	}
	switch {
	case c.CSV.File != "" || len(r.refused) > 0:
		return nil
	case len(others) > 0:
		return r.missing(ManifestsDir, "it has no ClusterServiceVersion, only "+strings.Join(others, ", "))
	}
	return r.missing(ManifestsDir, "its folder "+ManifestsDir+" is empty")
}

// metadata decodes the files of the metadata folder. The first file with a part counts for that part. If one part is malformed, the
// other parts of its file are still read.
func (r *reader) metadata() error {
	m := &r.contents.Metadata
	for _, f := range r.contents.in(MetadataDir) {
		d, read := r.first(f)
		if !read {
			continue
		}
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(d.Content, &parts); err != nil {
			r.warn(d.Fault(Format, "OLM reads nothing from this file; expected an object with annotations, dependencies or properties: remove the file, or move it out of %s", MetadataDir))
			continue
		}
		if annotations, is := r.annotations(d, parts["annotations"]); is && m.File == "" {
			m.Document, m.Annotations = d, annotations
		}
		if len(m.Dependencies) == 0 {
			var part struct {
				Dependencies []registry.Dependency `json:"dependencies"`
			}
			if r.decode(d, &part, "dependencies") {
				for i := range part.Dependencies {
					part.Dependencies[i].Value = asOpm(d, part.Dependencies[i].Value)
				}
				m.Dependencies, m.DependenciesIn = part.Dependencies, d
			}
		}
		if len(m.Properties) == 0 {
			var part struct {
				Properties []registry.Property `json:"properties"`
			}
			if r.decode(d, &part, "properties") {
				for i := range part.Properties {
					part.Properties[i].Value = asOpm(d, part.Properties[i].Value)
				}
				m.Properties, m.PropertiesIn = part.Properties, d
			}
		}
	}
	if m.File == "" && len(r.refused) == 0 {
		return r.missing(MetadataDir, fmt.Sprintf("no file in its folder %s has the annotation %s", MetadataDir, PackageAnnotation))
	}
	return nil
}

// asOpm returns a value of a document as opm passes it on. With YAML, opm sorts the keys of objects and escapes characters of HTML. JSON stays
// as it is.
func asOpm(d document.Document, value json.RawMessage) json.RawMessage {
	if len(value) == 0 || bytes.HasPrefix(bytes.TrimSpace(d.Source), []byte("{")) {
		return value
	}
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	if decoder.Decode(&decoded) != nil {
		return value
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		return value
	}
	return text
}

// decode decodes one part of a document, and warns if OLM's tools cannot.
func (r *reader) decode(d document.Document, into any, part string) bool {
	err := d.Decode(into)
	if err == nil {
		return true
	}
	found, others := Faults(err)
	for _, f := range found {
		f.Message += "; OLM's tools read no " + part + " from this file"
		r.warn(f)
	}
	for _, other := range others {
		r.warn(d.FaultAt(document.Field, []any{part}, "%v; OLM's tools read no %s from this file", other, part))
	}
	return false
}

// annotations returns annotations as text, and whether they are the annotations of a bundle.
func (r *reader) annotations(d document.Document, part json.RawMessage) (texts map[string]string, is bool) {
	if part == nil || bytes.Equal(part, []byte("null")) {
		return nil, false
	}
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(part))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		r.warn(d.FaultAt(document.Field, []any{"annotations"}, "field annotations is not an object; OLM's tools read none from this file"))
		return nil, false
	}
	texts = map[string]string{}
	untold := 0
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		text, scalar := scalarText(value)
		counts := key == PackageAnnotation || key == ChannelsAnnotation || key == DefaultChannelAnnotation
		if scalar {
			texts[key] = text
			if _, isText := value.(string); counts && !isText {
				r.warn(d.FaultAt(document.Field, []any{"annotations", key}, "annotation %s is read as %q; put its value in quotes", key, text))
			}
			continue
		}
		if counts {
			r.warn(d.FaultAt(document.Field, []any{"annotations", key}, "annotation %s is no text; OLM's tools read no annotations from this file", key))
			return nil, false
		}
		if untold++; untold <= document.MaxFaults { // each place is looked for in the whole document
			r.warn(d.FaultAt(document.Field, []any{"annotations", key}, "annotation %s is no text; expected a string", key))
		}
	}
	if untold -= document.MaxFaults; untold > 0 {
		r.warn(d.FaultAt(document.Field, []any{"annotations"}, "%d more annotations are no text; expected strings", untold))
	}
	return texts, texts[PackageAnnotation] != "" || texts[ChannelsAnnotation] != "" || texts[DefaultChannelAnnotation] != ""
}

// scalarText converts a decoded scalar to text, as sigs.k8s.io/yaml does, which OLM's tools use.
func scalarText(value any) (text string, scalar bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		if _, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return v.String(), true
		}
		if _, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return v.String(), true
		}
		if number, err := v.Float64(); err == nil {
			return strconv.FormatFloat(number, 'g', -1, 64), true
		}
		return v.String(), true
	}
	return "", false
}

// first returns the first document of a file: OLM's tools read no other.
func (r *reader) first(f File) (_ document.Document, read bool) {
	path := filepath.Join(r.name, filepath.FromSlash(f.Path))
	if r.places += boundedyaml.Places(f.Data); r.places > maxPlaces {
		if len(r.refused) == 0 {
			r.refused = append(r.refused, document.Expansion.Finding(path, "with this file, those of the bundle have more than %d places at which a value may begin; expected fewer", maxPlaces))
		}
		return document.Document{}, false
	}
	documents, malformed := document.Parse(path, f.Data)
	for _, fault := range malformed {
		if fault.Rule == document.Expansion.ID || fault.Rule == document.Size.ID {
			r.refused = append(r.refused, fault)
			return document.Document{}, false
		}
	}
	for _, fault := range malformed {
		if len(documents) == 0 || fault.Line < documents[0].Line {
			fault.Message += "; OLM's tools leave the file out"
			r.warn(fault)
			return document.Document{}, false
		}
		r.warn(fault)
	}
	isEmpty := func(d document.Document) bool { return bytes.Equal(d.Content, []byte("null")) }
	switch {
	case len(documents) == 0, len(documents) == 1 && isEmpty(documents[0]):
		r.warn(Format.Finding(path, "the file holds no document, so OLM leaves it out; remove it").At(1, 0))
		return document.Document{}, false
	case isEmpty(documents[0]):
		lines := separatorsBefore(f.Data, documents[1].Line)
		r.warn(Format.Finding(path, "the first document is empty, and OLM reads only the first: remove %s, so that the object begins the file", lines).At(documents[1].Line-1, 1))
		return document.Document{}, false
	case len(documents) > 1:
		r.warn(documents[1].Fault(Format, "a second document begins here; OLM reads only the first one of a bundle's file, "+
			"so give each of the %d a file of its own", len(documents)))
	}
	return documents[0], true
}

// separatorsBefore names the separators above a line, such as "line 3 (---)".
func separatorsBefore(data []byte, line int) string {
	var numbers []string
	for number, text := range bytes.Split(data, []byte("\n")) {
		if number+1 < line && bytes.HasPrefix(text, []byte("---")) {
			numbers = append(numbers, strconv.Itoa(number+1))
		}
	}
	if len(numbers) == 1 {
		return "line " + numbers[0] + " (---)"
	}
	return "lines " + strings.Join(numbers, ", ") + " (---)"
}
