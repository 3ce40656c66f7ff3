package oci

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Attach attaches a document to an image in its registry, as a referrer of OCI 1.1, and returns the document's digest.
// Attaching the same document again changes nothing. For a registry that cannot list referrers, a tag lists them.
func Attach(ctx context.Context, pullSpec, mediaType string, document []byte) (digest string, err error) {
	ref, err := name.NewDigest(pullSpec)
	if err != nil {
		return "", fmt.Errorf("image %q: want a pull spec by digest: %w", pullSpec, err)
	}
	subject, err := remote.Head(ref, remoteOptions(ctx)...)
	if err != nil {
		return "", fmt.Errorf("attaching to %s: %w%s", ref, err, remedy(ref.Context(), err))
	}
	artefact, err := artefactOf(v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}, mediaType, document)
	if err != nil {
		return "", err
	}
	hash, err := artefact.Digest()
	if err != nil {
		return "", err
	}
	if err := remote.Write(ref.Context().Digest(hash.String()), artefact, remoteOptions(ctx)...); err != nil {
		return "", fmt.Errorf("attaching to %s: %w%s", ref, err, pushRemedy(ref.Context(), err))
	}
	return hash.String(), nil
}

// artefactOf returns the manifest of a document. Its configuration has the document's media type: this is how a
// manifest without the field artifactType states its type.
func artefactOf(subject v1.Descriptor, mediaType string, document []byte) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.MediaType(mediaType))
	artefact, err := mutate.Append(base, mutate.Addendum{Layer: static.NewLayer(document, types.MediaType(mediaType))})
	if err != nil {
		return nil, err
	}
	return mutate.Subject(artefact, subject).(v1.Image), nil
}
