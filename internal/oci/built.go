package oci

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// builtImage is an image that is not yet in a registry or a folder.
type builtImage struct {
	root      v1.Hash
	manifests map[v1.Hash]builtManifest
	blobs     map[v1.Hash]v1.Layer
}

type builtManifest struct {
	v1.Descriptor
	text []byte
}

// Built returns a source that has one image under any name.
func Built(index v1.ImageIndex) (Source, error) {
	b := &builtImage{manifests: map[v1.Hash]builtManifest{}, blobs: map[v1.Hash]v1.Layer{}}
	listed, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range listed.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		if err := b.add(image); err != nil {
			return nil, err
		}
	}
	if b.root, err = index.Digest(); err != nil {
		return nil, err
	}
	return b, b.keep(index)
}

func (b *builtImage) add(image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	config, err := partial.ConfigLayer(image)
	if err != nil {
		return err
	}
	for _, layer := range append(layers, config) {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		b.blobs[digest] = layer
	}
	return b.keep(image)
}

// keep keeps the manifest of an image or an index.
func (b *builtImage) keep(of interface {
	partial.WithRawManifest
	partial.Describable
}) error {
	text, err := of.RawManifest()
	if err != nil {
		return err
	}
	d, err := partial.Descriptor(of)
	if err != nil {
		return err
	}
	b.manifests[d.Digest] = builtManifest{*d, text}
	return nil
}

func (b *builtImage) manifest(_ context.Context, ref name.Reference) (v1.Descriptor, []byte, error) {
	digest := b.root
	if by, is := ref.(name.Digest); is {
		digest, _ = v1.NewHash(by.DigestStr()) // valid, because the reference is
	} else if isAttachedTag(ref.Identifier()) {
		return v1.Descriptor{}, nil, fmt.Errorf("nothing is attached: %w", fs.ErrNotExist)
	}
	found, has := b.manifests[digest]
	if !has {
		return v1.Descriptor{}, nil, fmt.Errorf("there is no manifest %s: %w", digest, fs.ErrNotExist)
	}
	return found.Descriptor, found.text, nil
}

func (b *builtImage) open(_ context.Context, _ name.Repository, blob v1.Descriptor) (io.ReadCloser, error) {
	layer := b.blobs[blob.Digest]
	if layer == nil {
		return nil, fmt.Errorf("there is no blob %s: %w", blob.Digest, fs.ErrNotExist)
	}
	return layer.Compressed()
}

func (b *builtImage) referrers(context.Context, name.Digest) ([]v1.Descriptor, error) {
	return nil, nil
}
