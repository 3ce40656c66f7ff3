// Package cache keeps the files of bundles' images on disk, so that each image is pulled once: images by digest never change. Files are
// named by keys, which are digests, too: those that package image gives images. Nothing
// in the cache is trusted more than an image is, and losing any of it costs only time.
package cache

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-csi/berth/registryv1"
)

// Limit is the size in bytes that a cache shrinks to when it is closed. The bundles of the largest public catalog take about as much.
const Limit = 1 << 30

// Names of files in the folder.
const (
	// ended is the end of the name of an image's files. The name says the format, so that other versions of it may be beside each other.
	ended = ".v1.tar"
	// unfinished begins the names of files that are being written.
	unfinished = ".unfinished-"
)

// abandoned is how old an unfinished file is that nobody writes any more. Writing one takes no minute.
const abandoned = time.Hour

// Cache is a folder of files of bundles' images. It is an image.Keeper, and safe for concurrent use, by several processes, too.
type Cache struct {
	dir   string
	limit int64

	mu    sync.Mutex
	root  *os.Root // nil until something is looked for or kept
	fault error    // the first one, other than that a file is missing
}

// Dir is the folder of the cache for a user, below the one that the environment variable XDG_CACHE_HOME names or the system has for
// that.
func Dir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("a folder for the cache of bundles: %w", err)
	}
	return filepath.Join(base, "berth", "bundles"), nil
}

// New returns the cache in a folder, which is created when there is something to keep. The limit is in bytes.
func New(dir string, limit int64) *Cache { return &Cache{dir: dir, limit: limit} }

// open opens the folder once.
func (c *Cache) open() (_ *os.Root, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root == nil {
		c.root, err = os.OpenRoot(c.dir)
	}
	return c.root, err
}

// digests are those that name files.
var digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// fileOf returns the name of the file of an image, or "" for a digest that names none.
func fileOf(digest string) string {
	if !digests.MatchString(digest) {
		return ""
	}
	return strings.Replace(digest, ":", "-", 1) + ended
}

// Load returns the files of the image with a digest. A file of the cache that is not as it was written counts as absent, and is
// deleted.
func (c *Cache) Load(digest string) (files map[string][]byte, kept bool) {
	file := fileOf(digest)
	if file == "" {
		return nil, false
	}
	root, err := c.open()
	if err != nil {
		c.note(err)
		return nil, false
	}
	content, err := read(root, file)
	if err == nil {
		files, err = unpack(content)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.note(root.Remove(file))
		}
		return nil, false
	}
	now := time.Now()
	_ = root.Chtimes(file, now, now) // a file that seems to be unused is only deleted earlier
	return files, true
}

// read reads a file that is not longer than those that Keep writes.
func read(root *os.Root, name string) (content []byte, err error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > longest {
		return nil, fmt.Errorf("%s is not what Keep writes", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, longest))
}

// Keep writes the files of the image with a digest. What keeps it from doing so is the error of Close.
func (c *Cache) Keep(digest string, files map[string][]byte) {
	file := fileOf(digest)
	if file == "" {
		return
	}
	err := os.MkdirAll(c.dir, 0o700)
	if err != nil {
		c.note(err)
		return
	}
	root, err := c.open()
	if err != nil {
		c.note(err)
		return
	}
	content, err := pack(files)
	if err == nil && int64(len(content)) <= longest {
		err = write(root, file, content)
	}
	c.note(err)
}

// write writes a file so that readers see all of it or nothing.
func write(root *os.Root, name string, content []byte) (err error) {
	// A name of its own: another process may be writing the same.
	staged := fmt.Sprintf("%s%d-%s", unfinished, os.Getpid(), name)
	defer func() {
		if err != nil {
			_ = root.Remove(staged)
		}
	}()
	if err := root.WriteFile(staged, content, 0o600); err != nil {
		return err
	}
	return root.Rename(staged, name)
}

// note notes a fault of the cache, which keeps nobody from using it.
func (c *Cache) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil && !errors.Is(err, fs.ErrNotExist) { // another process has deleted it
		c.fault = err
	}
}

// Close deletes what was not used for the longest time until the cache is below its limit. Its error is about the cache alone.
func (c *Cache) Close() error {
	if c.root != nil {
		c.note(c.shrink())
		c.note(c.root.Close())
	}
	if c.fault != nil {
		return fmt.Errorf("the cache of bundles in %s: %w", c.dir, c.fault)
	}
	return nil
}

func (c *Cache) shrink() error {
	entries, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return err
	}
	var kept []fs.FileInfo
	var size int64
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil: // another process has deleted it
		case strings.HasPrefix(info.Name(), unfinished):
			if time.Since(info.ModTime()) > abandoned {
				c.note(c.root.Remove(info.Name()))
			}
		case strings.HasSuffix(info.Name(), ended):
			kept, size = append(kept, info), size+info.Size()
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, info := range kept {
		if size <= c.limit {
			break
		}
		c.note(c.root.Remove(info.Name()))
		size -= info.Size()
	}
	return nil
}

// longest is the maximum size of a file of the cache, in bytes: what is read of an image, and what the format adds to that.
var longest = registryv1.ImageLimits.Size + 1<<20

// sum is the length of the checksum, in hexadecimal digits, with which the content of a file begins.
const sum = 2 * sha256.Size

func sumOf(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

// pack returns the content of a cache's file: a checksum, and an archive of the files.
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
	return append([]byte(sumOf(archive.Bytes())), archive.Bytes()...), nil
}

// unpack returns the files in the content of a cache's file.
func unpack(content []byte) (map[string][]byte, error) {
	if len(content) < sum || string(content[:sum]) != sumOf(content[sum:]) {
		return nil, errors.New("the checksum differs")
	}
	files, left := map[string][]byte{}, int64(len(content)) // an archive may say that a file is sparse, and long
	for r := tar.NewReader(bytes.NewReader(content[sum:])); ; {
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
