package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// WriteLayout writes an image to a folder as an OCI layout, from which other tools can copy it to a registry, and
// returns its digest. The folder must be absent, empty or a layout. It is replaced.
func WriteLayout(dir string, index v1.ImageIndex) (digest string, err error) {
	if err := mayReplace(dir); err != nil {
		return "", err
	}
	hash, err := index.Digest()
	if err != nil {
		return "", err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("image layout %s: %w", dir, err)
	}
	scratch, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-") // a rename works only within one file system
	if err != nil {
		return "", fmt.Errorf("image layout %s: %w", dir, err)
	}
	defer os.RemoveAll(scratch)
	fresh := filepath.Join(scratch, "layout")
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index})
	if _, err := layout.Write(fresh, outer); err != nil {
		return "", fmt.Errorf("image layout %s: %w", dir, err)
	}
	if err := Replace(dir, fresh, filepath.Join(scratch, "former")); err != nil {
		return "", fmt.Errorf("image layout %s: %w", dir, err)
	}
	return hash.String(), nil
}

// Replace moves a folder, which may be absent, to former, and fresh to its place. All are in one file system. If it fails, the folder is
// where it was.
func Replace(dir, fresh, former string) error {
	if err := os.Rename(dir, former); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Rename(fresh, dir)
	if err == nil {
		return nil
	}
	if again := os.Rename(former, dir); again != nil && !errors.Is(again, fs.ErrNotExist) {
		return errors.Join(err, again)
	}
	return err
}

// mayReplace fails if a folder contains anything but a layout.
func mayReplace(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("image layout %s: %w", dir, err)
	}
	for _, entry := range entries {
		switch entry.Name() {
		case "oci-layout", "index.json", "blobs":
		default:
			return fmt.Errorf("will not replace %s: it holds %s, which is not part of an image layout; choose another folder", dir, entry.Name())
		}
	}
	return nil
}

// Push pushes an image to a registry under a reference such as quay.io/example/bundle:v1.0.0 and returns its digest.
// It uses the credentials of container tools, and plain HTTP for registries on loopback.
func Push(ctx context.Context, reference string, index v1.ImageIndex) (digest string, err error) {
	ref, err := name.ParseReference(reference, name.WithDefaultRegistry("")) // else, a reference without a registry would be Docker Hub's
	if err != nil {
		return "", fmt.Errorf("image %q: want a reference such as quay.io/example/bundle:v1.0.0: %w", reference, err)
	}
	if ref.Context().RegistryStr() == "" {
		return "", fmt.Errorf("image %q has no registry: want a reference such as quay.io/example/bundle:v1.0.0", reference)
	}
	if err := remote.WriteIndex(ref, index, remoteOptions(ctx)...); err != nil {
		return "", fmt.Errorf("pushing to %s: %w%s", ref, err, pushRemedy(ref.Context(), err))
	}
	hash, err := index.Digest()
	return hash.String(), err
}

// pushRemedy says what to do about a failed push, if the error shows that.
func pushRemedy(to name.Repository, err error) string {
	refused := (*transport.Error)(nil)
	switch {
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Sprintf("; log in with `docker login %s` as somebody who may push there", to.RegistryStr())
	case errors.As(err, &refused):
		return ""
	case isDistrust(err):
		return trust(to)
	}
	return fmt.Sprintf("; check that %s can be reached from here, and repeat the command: it pushes only missing content", to.RegistryStr())
}

// MayPush fails unless the credentials of container tools allow a push to a repository such as quay.io/example/image. It
// leaves nothing there.
func MayPush(repository string) error {
	repo, err := name.NewRepository(repository)
	if err != nil {
		return fmt.Errorf("image repository %q: want one such as quay.io/example/image: %w", repository, err)
	}
	if err := remote.CheckPushPermission(repo.Tag("latest"), authn.DefaultKeychain, toWrite); err != nil {
		return fmt.Errorf("cannot push to %s: %w%s", repo, err, pushRemedy(repo, err))
	}
	return nil
}
