package oci

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Platform is an image for one architecture.
type Platform struct {
	Architecture string
	// Base is the base image, or nil.
	Base   v1.Image
	Layers []v1.Layer
	Labels map[string]string
	// Entrypoint is the command of the image's containers, and User the user and the group that run it. Empty ones
	// default to the base's.
	Entrypoint []string
	User       string
}

// Image returns the image.
func (p Platform) Image() (v1.Image, error) {
	base := p.Base
	if base == nil {
		base = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	mediaType, err := base.MediaType()
	if err != nil {
		return nil, err
	}
	var layers []mutate.Addendum
	for _, layer := range p.Layers {
		addendum := mutate.Addendum{Layer: layer}
		if mediaType == types.DockerManifestSchema2 { // Docker's manifests have no layers of OCI's type
			addendum.MediaType = types.DockerLayer
		}
		layers = append(layers, addendum)
	}
	image, err := mutate.Append(base, layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", p.Architecture
	config.Config.Labels = p.Labels
	if len(p.Entrypoint) > 0 {
		config.Config.Entrypoint, config.Config.Cmd = p.Entrypoint, nil
	}
	if p.User != "" {
		config.Config.User = p.User
	}
	return mutate.ConfigFile(image, config)
}

// Index returns the index of images for several architectures.
func Index(images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("image of an index: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}}})
	}
	return index, nil
}
