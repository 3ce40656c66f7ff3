package registryv1

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/fbc/document"
	"github.com/berth-csi/berth/findings"
)

// Format is the rule that all bundles are read by.
var Format = findings.Rule{ID: "bundle-folder", Severity: findings.Error,
	What: "A bundle is of the registry+v1 format.",
	Why:  "A cluster would get less than what the bundle holds, or nothing."}

// Rules are all rules of this package, those for single documents included.
var Rules = append([]findings.Rule{Format}, document.Rules...)

// Contents are the files of a bundle, decoded.
type Contents struct {
	*Bundle
	// CSV is the document of the ClusterServiceVersion.
	CSV document.Document
	// Objects are all manifests, the ClusterServiceVersion included, in the order of their files' names.
	Objects  []Object
	Metadata Metadata
}

// Object is one object of a bundle.
type Object struct {
	*unstructured.Unstructured
	File string // its path in the bundle
}

// Metadata is what the files of the metadata folder say. The document is the one that names the package.
type Metadata struct {
	document.Document
	Annotations  map[string]string
	Dependencies []registry.Dependency
	Properties   []registry.Property
}

// Faults takes apart an error of Load or LoadImage: into findings about files, and errors about all else.
func Faults(err error) (found []*findings.Finding, others []error) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, err := range joined.Unwrap() {
			moreFound, moreOthers := Faults(err)
			found, others = append(found, moreFound...), append(others, moreOthers...)
		}
	} else if finding, is := err.(*findings.Finding); is {
		found = append(found, finding)
	} else if err != nil {
		others = append(others, err)
	}
	return found, others
}

// parse decodes the files of a bundle, and fills in its name and that of its package.
func (s source) parse(b *Bundle) (*Contents, error) {
	c := &Contents{Bundle: b}
	manifestsFault := s.parseManifests(c)
	var metadataFault error
	c.Metadata, metadataFault = s.parseMetadata(b)
	if err := errors.Join(manifestsFault, metadataFault); err != nil {
		return nil, err
	}
	b.Package = c.Metadata.Annotations[PackageAnnotation]
	return c, nil
}

// parseManifests decodes the manifests.
func (s source) parseManifests(c *Contents) error {
	var faults []error
	var others []string
	for _, f := range c.in(ManifestsDir) {
		d, err := s.document(f)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		object := Object{Unstructured: &unstructured.Unstructured{}, File: f.Path}
		if err := object.UnmarshalJSON(d.Content); err != nil {
			faults = append(faults, d.Fault(Format, "expected a Kubernetes object: %v", err))
			continue
		}
		c.Objects = append(c.Objects, object)
		switch {
		case object.GetKind() != v1alpha1.ClusterServiceVersionKind:
			others = append(others, fmt.Sprintf("%s (%s)", f.Path, object.GetKind()))
		case c.CSV.File != "":
			faults = append(faults, d.Fault(Format, "a second ClusterServiceVersion, beside that of %s; a bundle holds exactly one", c.CSV.File))
		default:
			c.CSV, c.Name = d, object.GetName()
		}
	}
	if len(faults) > 0 || c.CSV.File != "" {
		return errors.Join(faults...)
	}
	if len(others) == 0 {
		return s.notABundle("its folder " + ManifestsDir + " is empty")
	}
	return s.notABundle("it has no ClusterServiceVersion, only " + strings.Join(others, ", "))
}

// parseMetadata decodes the files of the metadata folder. Of each part, the first file that has it counts.
func (s source) parseMetadata(b *Bundle) (m Metadata, err error) {
	var faults []error
	for _, f := range b.in(MetadataDir) {
		d, err := s.document(f)
		var part struct {
			Annotations  map[string]string     `json:"annotations"`
			Dependencies []registry.Dependency `json:"dependencies"`
			Properties   []registry.Property   `json:"properties"`
		}
		if err == nil {
			err = d.Decode(&part)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if part.Annotations[PackageAnnotation] != "" && m.File == "" {
			m.Document, m.Annotations = d, part.Annotations
		}
		if len(m.Dependencies) == 0 {
			m.Dependencies = part.Dependencies
		}
		if len(m.Properties) == 0 {
			m.Properties = part.Properties
		}
	}
	if len(faults) > 0 {
		return m, errors.Join(faults...)
	}
	if m.File == "" {
		return m, s.notABundle(fmt.Sprintf("no file in its folder %s has the annotation %s", MetadataDir, PackageAnnotation))
	}
	return m, nil
}

// document decodes a file, which must hold one document.
func (s source) document(f File) (document.Document, error) {
	path := filepath.Join(s.name, filepath.FromSlash(f.Path))
	documents, malformed := document.Parse(path, f.Data)
	var faults []error
	for _, fault := range malformed {
		faults = append(faults, fault)
	}
	switch {
	case len(faults) > 0:
		return document.Document{}, errors.Join(faults...)
	case len(documents) == 0 || bytes.Equal(documents[0].Content, []byte("null")):
		return document.Document{}, Format.Finding(path, "the file holds no document; remove it").At(1, 0)
	case len(documents) > 1:
		return document.Document{}, documents[1].Fault(Format, "a second document begins here; OLM reads only the first one of a bundle's file, "+
			"so give each of the %d a file of its own", len(documents))
	}
	return documents[0], nil
}
