// Package bundle turns the definition of a driver into what the Operator Lifecycle Manager installs
// its operator from: a bundle in the registry+v1 format, which is a folder with one
// ClusterServiceVersion, the CustomResourceDefinitions it owns, and metadata. It also loads such folders,
// whoever made them.
//
// The generated bundles live beside this package's code, one folder for each package and version.
package bundle

import (
	"path"
	"strings"

	"github.com/berth-csi/berth/yaml"
)

// Where things stand in a bundle folder. The format fixes none of the file names, only the folders
// that the bundle's annotations name; these are the names that every tool uses.
const (
	ManifestsDir    = "manifests"
	MetadataDir     = "metadata"
	AnnotationsPath = MetadataDir + "/annotations.yaml"
	DockerfilePath  = "bundle.Dockerfile"
	PropertiesPath  = MetadataDir + "/properties.yaml"
)

// MaxOpenShiftProperty is the type of the property that says which OpenShift is the last that the operator is good for.
const MaxOpenShiftProperty = "olm.maxOpenShiftVersion"

// Bundle is one version of one package, in memory.
type Bundle struct {
	// Package is the name of the package that the bundle is a version of.
	Package string
	// Name is the name of the bundle's ClusterServiceVersion, such as "aws-efs-operator.v1.0.0".
	Name string
	// Files are the bundle's files, sorted by path.
	Files []File
}

// File is one file of a bundle.
type File struct {
	// Path is slash-separated and relative to the bundle's folder.
	Path string
	Data []byte
}

// Version returns the version in the bundle's name, such as "1.0.0".
func (b *Bundle) Version() string { return strings.TrimPrefix(b.Name, b.Package+".v") }

// File returns the content of a file of the bundle, or nil if it has none of that path.
func (b *Bundle) File(path string) []byte {
	for _, f := range b.Files {
		if f.Path == path {
			return f.Data
		}
	}
	return nil
}

// manifests returns the files that hold the objects to install.
func (b *Bundle) manifests() []File {
	var found []File
	for _, f := range b.Files {
		if path.Dir(f.Path) == ManifestsDir {
			found = append(found, f)
		}
	}
	return found
}

// Annotations returns what the bundle's metadata says of it.
func (b *Bundle) Annotations() map[string]string {
	var file struct{ Annotations map[string]string }
	if err := yaml.Unmarshal(b.File(AnnotationsPath), &file); err != nil {
		return nil // who has read the package's name from it knows better
	}
	return file.Annotations
}
