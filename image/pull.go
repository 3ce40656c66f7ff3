package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Pulled is what was read of an image.
type Pulled struct {
	// Reference is the image's, by digest: that of the image for all architectures where there is one.
	Reference string
	// Files are the files in the folders that were asked for, each with its slash-separated path from the
	// image's root.
	Files map[string][]byte
}

// Limits say what a pull may take. It fails once it would take more.
type Limits struct {
	Time time.Duration
	// Size is that of all layers, uncompressed, in bytes.
	Size int64
}

// Pull reads the files in folders of an image, by a reference such as quay.io/example/bundle:v1.0.0 or
// quay.io/example/bundle@sha256:…, which must name the registry. What is in the folders has to be the same
// for all architectures: one of them is read. Pull logs in as Push does. An error says what to do.
func Pull(ctx context.Context, reference string, limits Limits, folders ...string) (Pulled, error) {
	ref, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return Pulled{}, fmt.Errorf("image %q: want a reference with its registry and a tag or a digest, such as quay.io/example/bundle:v1.0.0: %w", reference, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	pulled, err := pull(ctx, ref, limits.Size, folders)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %s: %w", limits.Time, err)
	}
	if err != nil {
		return Pulled{}, fmt.Errorf("cannot pull image %s: %w%s", reference, err, remedy(ref.Context(), err))
	}
	return pulled, nil
}

func pull(ctx context.Context, ref name.Reference, size int64, folders []string) (Pulled, error) {
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return Pulled{}, err
	}
	image, err := oneImage(found)
	if err != nil {
		return Pulled{}, err
	}
	files, err := readFiles(image, size, folders)
	if err != nil {
		return Pulled{}, err
	}
	return Pulled{Reference: repository(ref) + "@" + found.Digest.String(), Files: files}, nil
}

// oneImage returns the image itself, or the first one of an image for several architectures.
func oneImage(found *remote.Descriptor) (v1.Image, error) {
	if !found.MediaType.IsIndex() {
		return found.Image()
	}
	index, err := found.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		isAttestation := m.Platform != nil && m.Platform.OS == "unknown"
		if m.MediaType.IsImage() && !isAttestation {
			return index.Image(m.Digest)
		}
	}
	return nil, errors.New("it lists no image of any architecture")
}

// repository is the part of a reference before its tag or digest, as it was written.
func repository(ref name.Reference) string {
	text, _, _ := strings.Cut(ref.String(), "@")
	if colon := strings.LastIndex(text, ":"); colon > strings.LastIndex(text, "/") {
		text = text[:colon]
	}
	return text
}

// remedy says what to do about a failed pull, as far as the error tells.
func remedy(from name.Repository, err error) string {
	if refused := (*transport.Error)(nil); errors.As(err, &refused) {
		switch refused.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Sprintf("; check the name, and log in with `docker login %s` if it takes that to pull the image", from.RegistryStr())
		case http.StatusNotFound:
			return fmt.Sprintf("; check the name: %s has no such image", from.RegistryStr())
		}
		return ""
	}
	if unfit := (*contentError)(nil); errors.As(err, &unfit) {
		return ""
	}
	return fmt.Sprintf("; check that %s can be reached from here, if need be by a proxy that HTTPS_PROXY names", from.RegistryStr())
}
