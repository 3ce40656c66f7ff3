package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/berth-csi/berth/image"
)

// Prefixes of places, as other tools have them.
const (
	inFolder   = "oci:"
	inRegistry = "docker://"
)

// limits are those of a catalog's image. The largest catalogs take a few hundred MiB, and their images come with programs.
var limits = image.Limits{Time: 30 * time.Minute, Size: 16 << 30}

// configsFolder is the folder of the catalog in its image.
const configsFolder = "configs"

// Source is where a catalog and its images come from.
type Source struct {
	// Dir is the folder of the catalog, and Name its name: that of the mirror it comes from, or of the folder or image.
	Dir, Name string
	// Images is where its images are read from.
	Images image.Source

	close []func() error
}

// OpenSource opens a source: the folder of a catalog, the image of one in a registry, or oci: and a folder that was
// mirrored to. Images of the first two are in the registries that they name.
func OpenSource(ctx context.Context, text string) (_ *Source, err error) {
	s := &Source{Images: image.Registries(ctx)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	reference := strings.TrimPrefix(text, inRegistry)
	if dir, is := strings.CutPrefix(text, inFolder); is {
		folder, err := image.OpenFolder(dir)
		if err != nil {
			return s, err
		}
		s.Images, s.close = folder, append(s.close, folder.Close)
		if s.Name, reference = folder.Catalog(); reference == "" {
			return s, fmt.Errorf("image folder %s has no catalog; expected a folder that `berth catalog mirror CATALOG %s%s` has finished", dir, inFolder, dir)
		}
	} else if info, err := os.Stat(text); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(text, "oci-layout")); err == nil {
			return s, fmt.Errorf("%s is a folder of images, not of a catalog; if it was mirrored to, write %s%s", text, inFolder, text)
		}
		s.Dir, s.Name = text, filepath.Base(filepath.Clean(text))
		return s, nil
	} else if parsed, err := name.ParseReference(reference); err == nil {
		s.Name = path.Base(parsed.Context().RepositoryStr())
	}
	pulled, err := image.PullFrom(ctx, s.Images, reference, limits, configsFolder)
	if err != nil {
		return s, err
	}
	if len(pulled.Files) == 0 {
		return s, fmt.Errorf("image %s has no catalog: it has no files in /%s", reference, configsFolder)
	}
	if s.Dir, err = os.MkdirTemp("", "berth-catalog-"); err != nil {
		return s, err
	}
	s.close = append(s.close, func() error { return os.RemoveAll(s.Dir) })
	return s, unpack(s.Dir, pulled.Files)
}

// unpack writes the files of an image below a folder, and never elsewhere.
func unpack(dir string, files map[string][]byte) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for file, content := range files {
		below, is := strings.CutPrefix(file, configsFolder+"/")
		if !is {
			return fmt.Errorf("%q is not a folder with a catalog", file)
		}
		if err := root.MkdirAll(path.Dir(below), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := root.WriteFile(below, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Close deletes what the source has in temporary files.
func (s *Source) Close() error {
	var faults []error
	for _, each := range s.close {
		faults = append(faults, each())
	}
	return errors.Join(faults...)
}

// IsFolder reports whether a place is a folder of images.
func IsFolder(place string) bool { return strings.HasPrefix(place, inFolder) }

// OpenDestination opens a destination for the catalog of a name: a path of a registry, or oci: and a folder, which may
// hold only the mirror of that catalog.
func OpenDestination(text, catalog string) (image.Destination, error) {
	dir, is := strings.CutPrefix(text, inFolder)
	if !is {
		return image.Below(strings.TrimPrefix(text, inRegistry))
	}
	folder, err := image.NewFolder(dir)
	if err != nil {
		return nil, err
	}
	if other, _ := folder.Catalog(); other != "" && other != catalog {
		return nil, errors.Join(fmt.Errorf("image folder %s holds the catalog %q, which would be lost; choose another folder, or --name %s to replace it", dir, other, other), folder.Close())
	}
	return folder, nil
}
