package cache_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/registryv1/cache"
)

// digestOf is the digest of some image.
func digestOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fileOf is the file of an image in a cache's folder.
func fileOf(dir, name string) string {
	return filepath.Join(dir, strings.Replace(digestOf(name), ":", "-", 1)+".v1.tar")
}

var files = map[string][]byte{"manifests/csv.yaml": []byte("kind: ClusterServiceVersion\n"), "metadata/annotations.yaml": nil, "metadata/below/notes": []byte("a")}

func opened(t *testing.T, dir string, limit int64) *cache.Cache {
	t.Helper()
	return cache.New(dir, limit)
}

func closed(t *testing.T, c *cache.Cache) {
	t.Helper()
	assert.NoError(t, c.Close())
}

// TestKeep: a process loads files that an earlier one kept.
func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "berth", "bundles")
	c := opened(t, dir, cache.Limit)
	if _, kept := c.Load(digestOf("a")); kept {
		t.Error("an empty cache has an image")
	}
	c.Keep(digestOf("a"), files)
	closed(t, c)
	c = opened(t, dir, cache.Limit)
	defer closed(t, c)
	got, kept := c.Load(digestOf("a"))
	want := map[string][]byte{}
	for name, data := range files {
		want[name] = append([]byte{}, data...)
	}
	if diff := cmp.Diff(want, got); !kept || diff != "" {
		t.Errorf("kept %v, -want +got:\n%s", kept, diff)
	}
	for _, digest := range []string{"", "sha256:..", "sha512:" + strings.Repeat("a", 64), "../" + digestOf("a")} {
		c.Keep(digest, files)
		if _, kept := c.Load(digest); kept {
			t.Errorf("%q is kept", digest)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v; want one file", entries, err)
	}
}

// signed is the content of a cache's file with a checksum that fits.
func signed(content []byte) []byte {
	sum := sha256.Sum256(content)
	return append([]byte(hex.EncodeToString(sum[:])), content...)
}

// archive returns a tar archive with one entry.
func archive(t *testing.T, header tar.Header, data string) []byte {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	require.NoError(t, w.WriteHeader(&header))
	if _, err := w.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, w.Close())
	return text.Bytes()
}

// TestLoadRefuses: a damaged file counts as absent, and is deleted.
func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	c := opened(t, dir, cache.Limit)
	c.Keep(digestOf("a"), files)
	whole, err := os.ReadFile(fileOf(dir, "a"))
	require.NoError(t, err)
	changed := bytes.Clone(whole)
	changed[len(changed)/2] ^= 1
	for name, content := range map[string][]byte{
		"empty":        nil,
		"short":        whole[:10],
		"truncated":    whole[:len(whole)-512],
		"changed":      changed,
		"no archive":   signed([]byte("text")),
		"other folder": signed(archive(t, tar.Header{Name: "etc/passwd", Size: 1, Mode: 0o644}, "a")),
		"parent":       signed(archive(t, tar.Header{Name: "manifests/../../a", Size: 1, Mode: 0o644}, "a")),
		"link":         signed(archive(t, tar.Header{Name: "manifests/a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")),
	} {
		require.NoError(t, os.WriteFile(fileOf(dir, name), content, 0o600))
		if got, kept := c.Load(digestOf(name)); kept {
			t.Errorf("%s: got %v", name, got)
		}
		if _, err := os.Lstat(fileOf(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is still there: %v", name, err)
		}
	}
	require.NoError(t, os.Symlink(fileOf(dir, "a"), fileOf(dir, "linked")))
	if _, kept := c.Load(digestOf("linked")); kept {
		t.Error("a link is followed")
	}
	require.NoError(t, os.Truncate(fileOf(dir, "a"), 1<<40))
	if _, kept := c.Load(digestOf("a")); kept {
		t.Error("a file of a terabyte is read")
	}
	closed(t, c)
}

// TestLimit: only the least recently used files are deleted.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	c := opened(t, dir, cache.Limit)
	for i, name := range []string{"a", "b", "c"} {
		c.Keep(digestOf(name), files)
		used := time.Now().Add(time.Duration(i-10) * time.Minute)
		require.NoError(t, os.Chtimes(fileOf(dir, name), used, used))
	}
	long := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{".unfinished-1-a", ".unfinished-2-b", "notes"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("a"), 0o600))
	}
	require.NoError(t, os.Chtimes(filepath.Join(dir, ".unfinished-1-a"), long, long))
	if _, kept := c.Load(digestOf("a")); !kept { // so it is used now
		t.Error("a is not kept")
	}
	closed(t, c)
	info, err := os.Stat(fileOf(dir, "a"))
	require.NoError(t, err)
	c = opened(t, dir, 2*info.Size())
	if _, kept := c.Load(digestOf("none")); kept {
		t.Error("none is kept")
	}
	closed(t, c)
	var got []string
	for _, name := range []string{"a", "b", "c"} {
		if _, err := os.Stat(fileOf(dir, name)); err == nil {
			got = append(got, name)
		}
	}
	if want := []string{"a", "c"}; !cmp.Equal(got, want) {
		t.Errorf("%v are left, want %v", got, want)
	}
	for name, left := range map[string]bool{".unfinished-1-a": false, ".unfinished-2-b": true, "notes": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); left != (err == nil) {
			t.Errorf("%s is there: %v, want %v", name, err == nil, left)
		}
	}
}

// TestConcurrently: several caches use one folder at once, and delete each other's files.
func TestConcurrently(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			c := cache.New(dir, 1)
			for i := range 50 {
				digest := digestOf(fmt.Sprint(i % 5))
				if got, kept := c.Load(digest); kept && len(got) != len(files) {
					t.Errorf("got %v", got)
				}
				c.Keep(digest, files)
			}
			assert.NoError(t, c.Close())
		})
	}
	group.Wait()
}

// TestFaults: Close reports a cache that cannot be written, and nothing else fails.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(fileOf(dir, "a"), "below"), 0o700); err != nil { // where the file has to be
		t.Fatal(err)
	}
	c := opened(t, dir, cache.Limit)
	c.Keep(digestOf("a"), files)
	c.Keep(digestOf("b"), files)
	if _, kept := c.Load(digestOf("b")); !kept {
		t.Error("b is not kept")
	}
	assert.Error(t, c.Close(), "closed without an error")
	if left, err := filepath.Glob(filepath.Join(dir, ".unfinished*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	c = opened(t, fileOf(dir, "b"), cache.Limit)
	if _, kept := c.Load(digestOf("b")); kept {
		t.Error("a file is a cache")
	}
	assert.Error(t, c.Close(), "a cache in a file was closed without an error")
}

// TestUnused: an unused cache leaves no files.
func TestUnused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundles")
	c := opened(t, dir, cache.Limit)
	if _, kept := c.Load(digestOf("a")); kept {
		t.Error("an absent cache has an image")
	}
	closed(t, c)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

// TestOthersFolder: a folder that others may write to is neither read nor written, because they could have put there files of images
// that a digest is supposed to determine.
func TestOthersFolder(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"others may write": func(dir string) error { return os.Chmod(dir, 0o777) },
		"its group may":    func(dir string) error { return os.Chmod(dir, 0o770) },
		"another user's": func(dir string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a folder to another user")
			}
			return os.Chown(dir, 65534, 65534)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bundles")
			c := opened(t, dir, cache.Limit)
			c.Keep(digestOf("a"), files)
			closed(t, c)
			require.NoError(t, change(dir))
			c = opened(t, dir, cache.Limit)
			if got, kept := c.Load(digestOf("a")); kept {
				t.Errorf("got %v", got)
			}
			c.Keep(digestOf("b"), files)
			assert.ErrorContains(t, c.Close(), "XDG_CACHE_HOME", "closed with error")
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("the folder has %v, %v; want only the file of before", entries, err)
			}
		})
	}
}
