package fbc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/berth-csi/berth/yaml"
)

// BundleFolders are the folders that a bundle consists of, in a folder or in an image.
var BundleFolders = []string{manifestsDir, metadataDir}

// source is where the files of a bundle are: in a folder, or in an image of which they were read.
type source struct {
	dir   string
	image string
	files map[string][]byte // of the image, by their paths in it
}

// name is what findings call the place.
func (s source) name() string { return s.dir + s.image }

// read returns the files right in a part of the bundle, by their names, but for hidden ones.
func (s source) read(part string) (map[string][]byte, error) {
	if s.image != "" {
		return s.readImage(part)
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, part))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.notABundle("it has no folder " + part)
	}
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", s.dir, err)
	}
	files := map[string][]byte{}
	var faults []error
	for _, entry := range entries {
		if entry.IsDir() || isHidden(entry.Name()) {
			continue
		}
		data, err := yaml.ReadFileIn(s.dir, filepath.Join(part, entry.Name()))
		if err != nil {
			faults = append(faults, fmt.Errorf("bundle folder %s: %w", s.dir, err))
			continue
		}
		files[entry.Name()] = data
	}
	return files, errors.Join(faults...)
}

func (s source) readImage(part string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for file, data := range s.files {
		if folder, name := path.Split(file); folder == part+"/" && !isHidden(name) {
			files[name] = data
		}
	}
	if len(files) == 0 {
		return nil, s.notABundle("it has no file in a folder " + part)
	}
	return files, nil
}

func isHidden(name string) bool { return strings.HasPrefix(name, ".") }

func (s source) notABundle(found string) error {
	kind := "folder"
	if s.image != "" {
		kind = "image"
	}
	return fmt.Errorf("%s is not a bundle %s: %s; expected a folder %s with one ClusterServiceVersion and what it needs, "+
		"and a folder %s with an annotations file", s.name(), kind, found, manifestsDir, metadataDir)
}
