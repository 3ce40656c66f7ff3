package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

func remoteOptions(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(toWrite)}
}

// Find returns the digest of a reference in its registry, or "" if the registry does not have it.
func Find(ctx context.Context, reference string) (digest string, err error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", reference, err)
	}
	found, err := remote.Get(ref, remoteOptions(ctx)...)
	if refused := (*transport.Error)(nil); errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot find image %s: %w%s", reference, err, remedy(ref.Context(), err))
	}
	return found.Digest.String(), nil
}

// Tag points a tag to a pull spec by digest, unless it already does.
func Tag(ctx context.Context, pullSpec, tag string) error {
	ref, err := name.NewDigest(pullSpec)
	if err != nil {
		return fmt.Errorf("image %q: want a pull spec by digest: %w", pullSpec, err)
	}
	to := ref.Context().Tag(tag)
	if now, err := Find(ctx, to.Name()); err != nil || now == ref.DigestStr() {
		return err
	}
	found, err := remote.Get(ref, remoteOptions(ctx)...)
	if err == nil {
		err = remote.Tag(to, found, remoteOptions(ctx)...)
	}
	if err != nil {
		return fmt.Errorf("setting tag %s: %w%s", to, err, pushRemedy(ref.Context(), err))
	}
	return nil
}

// CheckComplete fails unless a registry has all parts of an image for all platforms: each manifest, with the right digest, and each layer.
func CheckComplete(ctx context.Context, pullSpec string) error {
	ref, err := name.NewDigest(pullSpec)
	if err != nil {
		return fmt.Errorf("image %q: want a pull spec by digest: %w", pullSpec, err)
	}
	index, err := remote.Index(ref, remoteOptions(ctx)...)
	if err != nil {
		return incomplete(ref, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return incomplete(ref, err)
	}
	for _, platform := range manifest.Manifests {
		if err := checkPlatform(ctx, ref.Context(), platform); err != nil {
			return incomplete(ref, fmt.Errorf("image %s for %s: %w", platform.Digest, platform.Platform, err))
		}
	}
	return nil
}

func checkPlatform(ctx context.Context, repo name.Repository, platform v1.Descriptor) error {
	img, err := remote.Image(repo.Digest(platform.Digest.String()), remoteOptions(ctx)...)
	if err != nil {
		return err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	for _, blob := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		layer, err := remote.Layer(repo.Digest(blob.Digest.String()), remoteOptions(ctx)...)
		if err != nil {
			return err
		}
		size, err := layer.Size() // a HEAD request
		if err != nil {
			return fmt.Errorf("blob %s: %w", blob.Digest, err)
		}
		if size != blob.Size {
			return fmt.Errorf("blob %s has %d bytes, and its manifest says %d", blob.Digest, size, blob.Size)
		}
	}
	return nil
}

func incomplete(ref name.Digest, err error) error {
	return fmt.Errorf("the registry does not have all of %s: %w%s", ref, err, pushRemedy(ref.Context(), err))
}

// Digests returns the digest of an image in a registry, and of all images that its list names, whether they are there or not.
func Digests(ctx context.Context, reference string) (all []string, err error) {
	ref, err := parseName(reference)
	if err != nil {
		return nil, err
	}
	seen := map[v1.Hash]bool{} // lists may have the same list many times, in lists that they have many times
	var add func(ref name.Reference, depth int) error
	add = func(ref name.Reference, depth int) error {
		found, err := remote.Get(ref, remoteOptions(ctx)...)
		if depth > 0 && isAbsent(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("image %s: %w%s", ref, err, remedy(ref.Context(), err))
		}
		all = append(all, found.Digest.String())
		if !found.MediaType.IsIndex() {
			return nil
		}
		index, err := found.ImageIndex()
		if err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		list, err := index.IndexManifest()
		if err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		if len(list.Manifests) > maxManifests || depth > maxNesting {
			return contentErrorf("image %s lists %d images, in lists %d below each other; expected at most %d and %d", ref, len(list.Manifests), depth, maxManifests, maxNesting)
		}
		for _, child := range list.Manifests {
			if seen[child.Digest] {
				continue
			}
			seen[child.Digest] = true
			all = append(all, child.Digest.String())
			if !child.MediaType.IsIndex() {
				continue
			}
			if err := add(ref.Context().Digest(child.Digest.String()), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return all, add(ref, 0)
}

// CheckName fails unless a text is the full name of an image, with a path that no registry or proxy reads as another one.
func CheckName(reference string) error {
	_, err := parseName(reference)
	return err
}

// Delete deletes the manifest with a pull spec's digest from its registry. It does not fail if the manifest is gone.
func Delete(ctx context.Context, pullSpec string) error {
	if err := CheckName(pullSpec); err != nil {
		return err
	}
	ref, err := name.NewDigest(pullSpec)
	if err != nil {
		return fmt.Errorf("%q: want an image by digest: %w", pullSpec, err)
	}
	err = remote.Delete(ref, remoteOptions(ctx)...)
	if isAbsent(err) {
		return nil
	}
	if refused := (*transport.Error)(nil); errors.As(err, &refused) && refused.StatusCode == http.StatusMethodNotAllowed {
		return fmt.Errorf("deleting %s: its registry does not allow deletion: enable it there: %w", pullSpec, err)
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w%s", pullSpec, err, pushRemedy(ref.Context(), err))
	}
	return nil
}
