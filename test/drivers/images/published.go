package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/programs"
)

// PublishedVariable names a file that maps images of the definitions to published images by digest, which are used instead of ours:
//
//	quay.io/openshift/origin-csi-livenessprobe:4.21: registry.example.com/livenessprobe@sha256:…
const PublishedVariable = "IMAGES"

// published returns the published images that the user has named, by the repositories of the definitions' images.
func published() (map[string]name.Digest, error) {
	file, err := programs.Place(PublishedVariable)
	if file == "" || err != nil {
		return nil, err
	}
	source, err := boundedyaml.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PublishedVariable, err)
	}
	var named map[string]string
	if err := boundedyaml.UnmarshalStrict(source, &named); err != nil {
		return nil, fmt.Errorf("%s=%s: want a map from images of the definitions to published images by digest: %w", PublishedVariable, file, err)
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("%s=%s names no image", PublishedVariable, file)
	}
	found := map[string]name.Digest{}
	var errs []error
	for _, ours := range slices.Sorted(maps.Keys(named)) {
		repository := ours
		if tag, err := name.NewTag(ours, name.StrictValidation); err == nil {
			repository = strings.TrimSuffix(ours, ":"+tag.TagStr())
		}
		digest, err := name.NewDigest(named[ours])
		switch {
		case err != nil:
			err = fmt.Errorf("%s: %s names no digest, and a tag may be another image tomorrow; want REPOSITORY@sha256:…: %w", ours, named[ours], err)
		case contents[repository].program == "":
			err = fmt.Errorf("%s: no definition names this image; want one of %s", ours, strings.Join(Repositories(), ", "))
		case found[repository] != name.Digest{}:
			err = fmt.Errorf("%s: %s is there twice", ours, repository)
		}
		errs = append(errs, err)
		found[repository] = digest
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%s=%s: %w", PublishedVariable, file, err)
	}
	return found, nil
}

// archiveOfPublished returns the path of an archive of a published image, with a tag of ours, and pulls it first if the
// cache does not have it. Stand-ins for programs that test machines cannot run are a layer on it.
func (c content) archiveOfPublished(ctx context.Context, report func(tools.Progress), tag name.Tag, from name.Digest) (string, error) {
	files, err := c.standInFiles(ctx, alternativePaths)
	if err != nil {
		return "", err
	}
	key, err := c.key(tag, from.Name(), files)
	if err != nil {
		return "", err
	}
	folder, err := tools.Once(ctx, "images", key, report, func(folder string) error {
		if report != nil {
			report(tools.Progress{Phase: "pulling images", Detail: from.Name()})
		}
		image, err := pull(ctx, from)
		if err != nil {
			return err
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		if image, err = appendFiles(folder, image, files); err != nil {
			return err
		}
		return tarball.WriteToFile(filepath.Join(folder, archiveName), tag, image)
	})
	return filepath.Join(folder, archiveName), err
}

// pull returns a published image for this machine. Its content is compared with the digest.
func pull(ctx context.Context, from name.Digest) (v1.Image, error) {
	image, err := remote.Image(from, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return nil, fmt.Errorf("pull the image %s that %s names: %w", from, PublishedVariable, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("pull the image %s that %s names: %w", from, PublishedVariable, err)
	}
	if config.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("the image %s that %s names is for %s, want %s", from, PublishedVariable, config.Architecture, runtime.GOARCH)
	}
	return image, nil
}

// appendFiles returns an image with files in a layer of their own. Their folders are not in it: in another image, one of them may be
// a link, which a folder would replace.
func appendFiles(scratch string, image v1.Image, files []file) (v1.Image, error) {
	if len(files) == 0 {
		return image, nil
	}
	own := filepath.Join(scratch, "files.tar")
	if err := writeTar(own, nil, files); err != nil {
		return nil, err
	}
	defer os.Remove(own)
	content, err := os.ReadFile(own)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithCompressionLevel(0))
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

// alternativePaths returns the paths where published images may have the program at a path of ours.
func alternativePaths(target string) []string {
	folders := []string{"/sbin", "/usr/bin", "/usr/sbin"}
	if !slices.Contains(folders, path.Dir(target)) {
		return []string{target}
	}
	var all []string
	for _, folder := range folders {
		all = append(all, path.Join(folder, path.Base(target)))
	}
	return all
}

// WhichRuns returns which program runs in the image of a reference or a repository. For an image that the user has named, the version
// is the published image.
func WhichRuns(reference string) (programs.Ran, error) {
	repository, c, err := find(reference)
	if err != nil {
		return programs.Ran{}, err
	}
	named, err := published()
	if err != nil {
		return programs.Ran{}, err
	}
	if digest, ok := named[repository]; ok {
		return programs.Ran{Real: true, Given: true, Version: "image " + short(digest)}, nil
	}
	return programs.WhichRuns(c.program)
}

// WhichIsPacked returns the program in the image of a reference or a repository if the user names none.
func WhichIsPacked(reference string) (programs.Ran, error) {
	_, c, err := find(reference)
	if err != nil {
		return programs.Ran{}, err
	}
	return programs.WhichIsBuilt(c.program)
}

// short returns a digest with the beginning of its checksum.
func short(digest name.Digest) string {
	return digest.Context().Name() + "@" + digest.DigestStr()[:len("sha256:")+12]
}
