package fbc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/fbc/document"
	"github.com/berth-csi/berth/findings"
)

// Folders and annotations of the registry+v1 bundle format. File names have no meaning in it: what a
// file is for shows in its content.
const (
	manifestsDir = "manifests"
	metadataDir  = "metadata"

	annotationMediaType = "operators.operatorframework.io.bundle.mediatype.v1"
	annotationPackage   = "operators.operatorframework.io.bundle.package.v1"

	mediaType = "registry+v1"
)

// BundleFormat is the rule that bundles break of which no catalog can be built.
var BundleFormat = findings.Rule{ID: "bundle-folder", Severity: findings.Error,
	What: "A bundle is of the registry+v1 format.",
	Why:  "The catalog would install less than what the bundle holds, or nothing."}

// folder is a bundle as it stands in a folder, or in an image.
type folder struct {
	*registry.Bundle
	source
	// csv holds the ClusterServiceVersion, annotations names the package and its channels.
	csv, annotations document.Document
}

// readBundle reads a bundle. OLM's own tools skip a file that they cannot read, and take the first of
// two ClusterServiceVersions or of several documents in a file. This fails instead, because the
// catalog would install less than what the bundle holds.
func readBundle(from source) (*folder, error) {
	bundle := &folder{source: from}
	objects, err := bundle.readManifests()
	if err != nil {
		return nil, err
	}
	metadata, err := bundle.readMetadata()
	if err != nil {
		return nil, err
	}
	bundle.Bundle = registry.NewBundle("", &metadata.Annotations, objects...)
	csv, err := bundle.ClusterServiceVersion()
	if err != nil {
		return nil, bundle.csvFault(err)
	}
	bundle.Name, bundle.BundleImage = csv.GetName(), from.image
	for _, d := range metadata.Dependencies {
		bundle.Dependencies = append(bundle.Dependencies, &d)
	}
	if bundle.Properties, err = bundle.properties(metadata.Properties, csv.GetAnnotations()[registry.PropertyKey]); err != nil {
		return nil, err
	}
	if err := bundle.AllProvidedAPIsInBundle(); err != nil {
		return nil, bundle.csvFault(fmt.Errorf("every API that spec.customresourcedefinitions.owned lists needs its "+
			"CustomResourceDefinition in %s: %w", filepath.Join(from.name(), manifestsDir), err))
	}
	return bundle, nil
}

// csvFault is an error about the bundle's ClusterServiceVersion.
func (f *folder) csvFault(err error) error {
	return fmt.Errorf("%s: %w", f.csv.File, err)
}

// readManifests returns the objects of the bundle, in the order of their files' names.
func (f *folder) readManifests() ([]*unstructured.Unstructured, error) {
	documents, err := f.readDocuments(manifestsDir)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	var faults []error
	for _, d := range documents {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(d.Content); err != nil {
			faults = append(faults, d.Fault(BundleFormat, "expected a Kubernetes object: %v", err))
			continue
		}
		objects = append(objects, object)
		if object.GetKind() != v1alpha1.ClusterServiceVersionKind {
			continue
		}
		if f.csv.File != "" {
			faults = append(faults, d.Fault(BundleFormat, "a second ClusterServiceVersion, beside that of %s; a bundle holds exactly one", f.csv.File))
		}
		f.csv = d
	}
	if len(faults) == 0 && f.csv.File == "" {
		faults = append(faults, f.notABundle(fmt.Sprintf("none of the %d files in its folder %s holds a ClusterServiceVersion",
			len(documents), manifestsDir)))
	}
	return objects, errors.Join(faults...)
}

// metadata is what the files of a bundle's metadata folder say.
type metadata struct {
	Annotations  registry.Annotations
	Dependencies []registry.Dependency
	Properties   []registry.Property
}

// readMetadata reads the metadata folder. Of each part, the first file that has it counts.
func (f *folder) readMetadata() (*metadata, error) {
	documents, err := f.readDocuments(metadataDir)
	if err != nil {
		return nil, err
	}
	found := &metadata{}
	for _, d := range documents {
		var part struct {
			Annotations  map[string]string     `json:"annotations"`
			Dependencies []registry.Dependency `json:"dependencies"`
			Properties   []registry.Property   `json:"properties"`
		}
		if err := d.Decode(&part); err != nil {
			return nil, err
		}
		if a := part.Annotations; a[annotationPackage] != "" && f.annotations.File == "" {
			f.annotations = d
			if a[annotationMediaType] != mediaType {
				return nil, BundleFormat.Finding(d.File, "annotation %s is %q; expected %q, the only format of bundles that a catalog is built from",
					annotationMediaType, a[annotationMediaType], mediaType)
			}
			found.Annotations = registry.Annotations{
				PackageName: a[annotationPackage], Channels: a[ChannelsAnnotation], DefaultChannelName: a[DefaultChannelAnnotation]}
		}
		if len(found.Dependencies) == 0 {
			found.Dependencies = part.Dependencies
		}
		if len(found.Properties) == 0 {
			found.Properties = part.Properties
		}
	}
	if f.annotations.File == "" {
		return nil, f.notABundle(fmt.Sprintf("no file in its folder %s has the annotation %s", metadataDir, annotationPackage))
	}
	return found, nil
}

// properties puts together what the metadata, the package's name and version, and the
// ClusterServiceVersion's annotation say that the bundle offers. Of several packages the last counts.
func (f *folder) properties(stated []registry.Property, annotation string) ([]registry.Property, error) {
	version, err := f.Version()
	if err != nil {
		return nil, f.csvFault(err)
	}
	release, err := f.Release()
	if err != nil {
		return nil, f.csvFault(err)
	}
	itself, err := json.Marshal(registry.PackageProperty{PackageName: f.Package, Version: version, Release: release})
	if err != nil {
		return nil, err
	}
	all := append(stated, registry.Property{Type: registry.PackageType, Value: itself})
	if annotation != "" {
		var annotated []registry.Property
		if err := json.Unmarshal([]byte(annotation), &annotated); err != nil {
			return nil, f.csvFault(fmt.Errorf("annotation %s: expected a JSON array of properties: %w", registry.PropertyKey, err))
		}
		all = append(all, annotated...)
	}
	return all, nil
}

// readDocuments reads the files of one folder of the bundle, but for hidden ones, in the order of
// their names. A file must hold one document.
func (f *folder) readDocuments(part string) ([]document.Document, error) {
	files, err := f.read(part)
	if err != nil {
		return nil, err
	}
	var all []document.Document
	var faults []error
	for _, file := range slices.Sorted(maps.Keys(files)) {
		documents, malformed := document.Parse(filepath.Join(f.name(), part, file), files[file])
		for _, fault := range malformed {
			faults = append(faults, fault)
		}
		if len(documents) > 1 {
			faults = append(faults, documents[1].Fault(BundleFormat, "a second document begins here; OLM reads only the first one of a bundle's file, "+
				"so give each of the %d a file of its own", len(documents)))
		}
		all = append(all, documents...)
	}
	return all, errors.Join(faults...)
}
