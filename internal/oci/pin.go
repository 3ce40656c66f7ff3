package oci

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Pin returns the pull spec by digest of the image that a reference names in its registry now. It returns a reference by
// digest unchanged, without a request. Pin logs in like Push.
func Pin(ctx context.Context, reference string) (pullSpec string, err error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("image %q: want a reference such as quay.io/example/image:v1.0.0: %w", reference, err)
	}
	if _, pinned := ref.(name.Digest); pinned {
		return reference, nil
	}
	// Get the content, so that the library verifies the digest: a header alone proves nothing.
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(newGuard(ref.Context().Registry)))
	if err != nil {
		return "", fmt.Errorf("cannot find the digest of image %s: %w%s", reference, err, remedy(ref.Context(), err))
	}
	return repository(ref) + "@" + found.Digest.String(), nil
}
