// Package registryv1 reads and writes bundles in the registry+v1 format. A bundle is one version of an operator: a folder
// or an image with one ClusterServiceVersion, the objects that OLM installs along with it, and metadata.
//
// Bundles are generated, checked and put into catalogs by way of this package, so that all of Berth agrees on what a bundle is.
// The reader reads the same parts as OLM's own tools: they skip unreadable files, and take the first of two
// ClusterServiceVersions or of several documents in a file, so that a cluster gets only a part of the bundle. The reader warns
// of each of these.
package registryv1

import (
	"path"
	"strings"
	"time"

	"github.com/berth-csi/berth/internal/oci"
)

// The files of a bundle folder. The format fixes the folders. File names have no meaning in it, so readers look at the content;
// the names here are the ones that all tools write.
const (
	ManifestsDir    = "manifests"
	MetadataDir     = "metadata"
	AnnotationsPath = MetadataDir + "/annotations.yaml"
	PropertiesPath  = MetadataDir + "/properties.yaml"
	DockerfilePath  = "bundle.Dockerfile"
)

// Folders are the folders of a bundle, in a folder or in an image.
var Folders = []string{ManifestsDir, MetadataDir}

// ImageLimits are the limits for pulling a bundle's image. OLM accepts no bundle above 4 MiB from a catalog, and etcd no object
// above 1.5 MiB, so an image beyond these limits is not a bundle.
var ImageLimits = oci.Limits{Time: time.Minute, Size: 64 << 20}

// AnnotationPrefix is the prefix of the format's annotations. A bundle's image has them as labels.
const AnnotationPrefix = "operators.operatorframework.io.bundle."

// The annotations of the format.
const (
	MediaTypeAnnotation      = AnnotationPrefix + "mediatype.v1"
	ManifestsAnnotation      = AnnotationPrefix + "manifests.v1"
	MetadataAnnotation       = AnnotationPrefix + "metadata.v1"
	PackageAnnotation        = AnnotationPrefix + "package.v1"
	ChannelsAnnotation       = AnnotationPrefix + "channels.v1"
	DefaultChannelAnnotation = AnnotationPrefix + "channel.default.v1"
)

// MediaType is the media type of a bundle in this format.
const MediaType = "registry+v1"

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

// File returns the content of the file with this path, or nil.
func (b *Bundle) File(path string) []byte {
	for _, f := range b.Files {
		if f.Path == path {
			return f.Data
		}
	}
	return nil
}

// in returns the files of one folder of the bundle.
func (b *Bundle) in(folder string) []File {
	var found []File
	for _, f := range b.Files {
		if path.Dir(f.Path) == folder {
			found = append(found, f)
		}
	}
	return found
}

// Image returns the content of the bundle's image: the manifests, the metadata and, as labels, the annotations.
func (c *Contents) Image() oci.Content {
	content := oci.Content{Files: map[string][]byte{}, Labels: c.Metadata.Annotations}
	for _, folder := range Folders {
		for _, f := range c.in(folder) {
			content.Files[f.Path] = f.Data
		}
	}
	return content
}
