// Package image builds OCI images that contain files and labels and no program, such as images of bundles and
// catalogs. It needs neither a container engine nor root. The same content has the same digest on every machine, as
// long as Go's compression does not change.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// architectures are those of OpenShift. The files suit all of them, so an index has an image for each, with the same
// layer.
var architectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// Content is the content of an image.
type Content struct {
	// Files are the image's files, each with its slash-separated path from the image's root. Folders are implied.
	Files map[string][]byte
	// Labels are the image's labels.
	Labels map[string]string
}

// Index returns the image for all architectures.
func (c Content) Index() (v1.ImageIndex, error) {
	archive, err := c.tar()
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		image, err := c.image(layer, architecture)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	}
	return index, nil
}

// image returns the image for one architecture.
func (c Content) image(layer v1.Layer, architecture string) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Config.Labels = c.Labels
	return mutate.ConfigFile(image, config)
}

// tar returns the files as an archive that does not depend on when or where it was built.
func (c Content) tar() ([]byte, error) {
	folders := map[string]bool{}
	names := map[string]bool{}
	for name := range c.Files {
		if name != path.Clean(name) || path.IsAbs(name) || strings.HasPrefix(name, "..") || name == "." {
			return nil, fmt.Errorf("file %q: want a path below the image's root", name)
		}
		names[name] = true
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			folders[folder+"/"], names[folder+"/"] = true, true
		}
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(c.Files[name])), Format: tar.FormatPAX}
		if folders[name] {
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("file %q: %w", name, err)
		}
		if _, err := writer.Write(c.Files[name]); err != nil {
			return nil, fmt.Errorf("file %q: %w", name, err)
		}
	}
	err := writer.Close()
	return archive.Bytes(), err
}
