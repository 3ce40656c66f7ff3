// Package cache keeps the files of bundles' images on disk, so that each image is pulled once: images by digest never change. Package
// oci computes an image's key, a hash of its repository and digest, in the form of a digest. Files in the cache are trusted no more than
// images, and losing them costs only time.
package cache

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/registryv1/cache/store"
)

// Limit is the size in bytes to which Close shrinks a cache. The bundles of the largest public catalog take about as much.
const Limit = 1 << 30

// Cache is a folder of files of bundles' images. It is an oci.Keeper, and safe for concurrent use, also by several processes.
type Cache struct{ store store.Store }

// Dir returns the cache's folder for the user, below XDG_CACHE_HOME or the system's default.
func Dir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("a folder for the cache of bundles: %w", err)
	}
	return filepath.Join(base, "berth", "bundles"), nil
}

// New returns the cache in a folder, which is created when there is something to keep. The limit is in bytes. A file in the cache is at
// most as long as all files that are read from one image, plus the overhead of the archive.
func New(dir string, limit int64) *Cache {
	return &Cache{store.Store{What: "bundles", Dir: dir, Suffix: ".v1.tar", Limit: limit, Longest: registryv1.ImageLimits.Size + 1<<20}}
}

// digests matches valid digests: only these can name files.
var digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// nameOf returns the name of an image in the store, or "" for an invalid digest.
func nameOf(digest string) string {
	if !digests.MatchString(digest) {
		return ""
	}
	return strings.Replace(digest, ":", "-", 1)
}

// Load returns the files of the image with a digest. A damaged file counts as absent, and is deleted.
func (c *Cache) Load(digest string) (files map[string][]byte, kept bool) {
	name := nameOf(digest)
	if name == "" {
		return nil, false
	}
	content, kept := c.store.Load(name)
	if !kept {
		return nil, false
	}
	files, err := unpack(content)
	if err != nil {
		c.store.Drop(name)
		return nil, false
	}
	return files, true
}

// Keep writes the files of the image with a digest. Close returns its error.
func (c *Cache) Keep(digest string, files map[string][]byte) {
	name := nameOf(digest)
	if name == "" {
		return
	}
	if content, err := pack(files); err == nil { // fails only for files that no image has
		c.store.Keep(name, content)
	}
}

// Close deletes the least recently used files until the cache is below its limit. An error does not affect the files that Load returned.
func (c *Cache) Close() error { return c.store.Close() }

// pack returns an archive of files.
func pack(files map[string][]byte) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(files[name])), Mode: 0o644}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// unpack returns the files of an archive.
func unpack(content []byte) (map[string][]byte, error) {
	files, left := map[string][]byte{}, int64(len(content)) // a short archive may declare a long, sparse file
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg || path.Clean(header.Name) != header.Name || !slices.Contains(registryv1.Folders, folderOf(header.Name)) {
			return nil, fmt.Errorf("%q is not a file of a bundle", header.Name)
		}
		if left -= header.Size; header.Size < 0 || left < 0 {
			return nil, fmt.Errorf("%q is longer than the archive", header.Name)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}

// folderOf returns the first folder of a path.
func folderOf(name string) string {
	folder, _, _ := strings.Cut(name, "/")
	return folder
}
