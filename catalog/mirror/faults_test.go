package mirror_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
)

// locked wraps a registry so that it requires a login, and counts requests with another registry's credentials.
func locked(strangers *atomic.Int32) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, given := r.BasicAuth()
			if given && (user != registry.User || password != registry.Password) {
				strangers.Add(1)
			}
			if user != registry.User || password != registry.Password {
				w.Header().Set("WWW-Authenticate", `Basic realm="sea"`)
				http.Error(w, `{"errors": [{"code": "UNAUTHORIZED"}]}`, http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

// login logs in to registries, as a user each.
func login(t *testing.T, users map[string]string) {
	t.Helper()
	var entries []string
	for address, user := range users {
		entries = append(entries, `"`+address+`": {"auth": "`+base64.StdEncoding.EncodeToString([]byte(user))+`"}`)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths": {`+strings.Join(entries, ", ")+`}}`), 0o600))
	t.Setenv("DOCKER_CONFIG", dir)
}

// answering wraps a registry, and answers some requests instead of it.
func answering(some func(*http.Request) bool, answer http.HandlerFunc) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if some(r) {
				answer(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

// TestFaults: errors name the fault and the remedy, the destination gets no catalog, and after the remedy the same
// command succeeds.
func TestFaults(t *testing.T) {
	var broken atomic.Bool
	inRequests := func(of string, answer http.HandlerFunc) func(http.Handler) http.Handler {
		return answering(func(r *http.Request) bool {
			return broken.Load() && strings.Contains(r.URL.Path, of) && r.Method == http.MethodGet
		}, answer)
	}
	for _, tc := range []struct {
		name   string
		source func(http.Handler) http.Handler
		target func(http.Handler) http.Handler
		want   string
	}{
		{"an image that is gone", inRequests("/tide-bundle/manifests/", http.NotFound), nil,
			`(?s)bundle tide.v1.0.0: image .*tide-bundle@sha256:.* has no such image\nbundle tide.v1.1.0: .*bundle tide.v2.0.0: .*`},
		{"no login to the source", inRequests("/v2/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), nil,
			"(?s)bundle tide.*: image .* 401 Unauthorized.*; check the name, and log in with `docker login .*\nregistry 127.0.0.1:\\d+ failed for 3 images, so \\d other images from it were not tried"},
		{"no login to the destination", nil, answering(func(*http.Request) bool { return broken.Load() }, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}), "checking the destination for image 127.0.0.1:\\d+/[^ ]+: .*403 Forbidden.*; log in with `docker login .*` as somebody who may push there"},
		{"a blob with other content", inRequests("/blobs/", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("something else")) }), nil,
			`(?s)bundle tide.v1.0.0: copying image .*: blob sha256:.*: its blob sha256:.* does not have the \d+ bytes that its manifest says; expected the same size`},
		{"a manifest with other content", inRequests("/manifests/sha256:", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("{}")) }), nil,
			`(?s)bundle tide.*: image .*: manifest digest: .* does not match requested digest: .*`},
		{"a destination without room", nil, answering(func(r *http.Request) bool { return broken.Load() && r.Method == http.MethodPatch }, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"errors": [{"code": "DENIED", "message": "quota exceeded"}]}`, http.StatusInsufficientStorage)
		}), `writing the catalog's record in the destination: .*DENIED: quota exceeded.*`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			broken.Store(false)
			s := newSea(t, tc.source)
			to := registry.Start(t, tc.target) + "/mirror"
			broken.Store(true)
			_, _, _, err := run(t, t.Context(), s.dir, to)
			if err == nil || !regexp.MustCompile("^("+tc.want+")$").MatchString(err.Error()) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			broken.Store(false)
			assert.Empty(t, digestIn(t, to+"/sea:latest"), "there is a catalog, whose images are not there")
			if _, _, _, err := run(t, t.Context(), s.dir, to); err != nil {
				t.Errorf("once it is right: %v", err)
			}
		})
	}
}

// TestRegistryDown: a registry that cannot be reached is named, whichever it is.
func TestRegistryDown(t *testing.T) {
	s := newSea(t, nil)
	if _, _, _, err := run(t, t.Context(), s.dir, registry.Nobody()+"/mirror"); err == nil || !strings.Contains(err.Error(), "connection refused; check that 127.0.0.1:") {
		t.Errorf("no destination: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "catalog.yaml"))
	require.NoError(t, err)
	nobody := registry.Nobody()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "catalog.yaml"), []byte(strings.ReplaceAll(string(text), s.address, nobody)), 0o644))
	if _, _, _, err := run(t, t.Context(), s.dir, registry.Start(t, nil)+"/mirror"); err == nil || !strings.Contains(err.Error(), "connection refused; check that "+nobody+" can be reached") {
		t.Errorf("no source: %v", err)
	}
}

// TestHalfPushedIndex: an index that lists an image which its registry does not have is named, with the image.
func TestHalfPushedIndex(t *testing.T) {
	s := newSea(t, nil)
	ref, err := name.NewDigest(s.images[4])
	require.NoError(t, err)
	index, err := remote.Index(ref)
	require.NoError(t, err)
	list, err := index.IndexManifest()
	require.NoError(t, err)
	child := list.Manifests[2].Digest.String()
	require.NoError(t, remote.Delete(ref.Context().Digest(child)))
	_, _, _, err = run(t, t.Context(), s.dir, registry.Start(t, nil))
	want := "bundle tide.v2.0.0: image " + s.images[4] + ": it lists " + child + ", which its registry does not have: it was pushed incompletely, or deleted in part; push it again"
	assert.EqualError(t, err, want)
}

// TestCredentials: each registry gets only its own login, wherever another one redirects to.
func TestCredentials(t *testing.T) {
	var strangers, redirected, leaked atomic.Int32
	elsewhere := registry.Start(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			redirected.Add(1)
			if r.Header.Get("Authorization") != "" {
				leaked.Add(1)
			}
			http.NotFound(w, r)
		})
	})
	login(t, nil)
	var redirect atomic.Bool
	guard := locked(&strangers)
	s := newSea(t, func(h http.Handler) http.Handler {
		protected := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if redirect.Load() && strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, "http://"+elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
				return
			}
			h.ServeHTTP(w, r)
		}))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !redirect.Load() {
				h.ServeHTTP(w, r) // while the sea is made
				return
			}
			protected.ServeHTTP(w, r)
		})
	})
	redirect.Store(true)
	to := registry.Start(t, locked(&strangers))
	login(t, map[string]string{s.address: registry.User + ":" + registry.Password, to: registry.User + ":" + registry.Password, elsewhere: "other:secret"})
	if _, _, _, err := run(t, t.Context(), s.dir, to); err == nil {
		t.Error("blobs come from where there are none")
	}
	if strangers.Load() > 0 || leaked.Load() > 0 || redirected.Load() == 0 {
		t.Errorf("%d logins of others, %d sent on by %d redirects", strangers.Load(), leaked.Load(), redirected.Load())
	}
}

// TestHostileFolders: a folder that was tampered with in transit is refused.
func TestHostileFolders(t *testing.T) {
	s := newSea(t, nil)
	carried := filepath.Join(t.TempDir(), "carried")
	if _, _, _, err := run(t, t.Context(), s.dir, "oci:"+carried); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   string
	}{
		{"no folder", func(t *testing.T, dir string) { check(t, os.RemoveAll(dir)) }, "image folder: .*no such file or directory"},
		{"unfinished", func(t *testing.T, dir string) { check(t, os.Remove(dir+"/index.json")) }, "image folder .*index.json: no such file or directory"},
		{"no list", func(t *testing.T, dir string) { check(t, os.WriteFile(dir+"/index.json", []byte("[]"), 0o600)) }, "image folder .*: index.json is not a list of images: .*"},
		{"a list elsewhere", func(t *testing.T, dir string) {
			check(t, os.Rename(dir+"/index.json", dir+"/../index.json"))
			check(t, os.Symlink("../index.json", dir+"/index.json"))
		}, "image folder .*: index.json is not a file; expected one"},
		{"another image under the name", func(t *testing.T, dir string) {
			replace(t, dir+"/index.json", "tide-bundle@sha256:", "../tide@sha256:")
		}, `image folder .*: index.json: image ".*": its path has the part "[.][.]"; expected .*`},
		{"another digest", func(t *testing.T, dir string) {
			replace(t, dir+"/index.json", `"digest": "sha256:`+s.images[0][strings.Index(s.images[0], "sha256:")+7:], `"digest": "sha256:`+strings.Repeat("0", 64))
		}, `image folder .*: index.json has sha256:0+ under the name .*; expected the same digest`},
		{"another manifest", func(t *testing.T, dir string) {
			check(t, os.WriteFile(dir+"/blobs/sha256/"+s.images[0][strings.Index(s.images[0], "sha256:")+7:], []byte("{}"), 0o600))
		}, `image folder .*: its file blobs/sha256/.* has content with the digest .*; expected the same: carry the folder again`},
		{"other blobs", func(t *testing.T, dir string) {
			files, err := filepath.Glob(dir + "/blobs/sha256/*")
			check(t, err)
			for _, file := range files {
				if text, err := os.ReadFile(file); err != nil {
					t.Fatal(err)
				} else if strings.Contains(string(text), `"rootfs"`) && !strings.Contains(string(text), source.ConfigsLabel) { // a configuration of another image than the catalog's
					check(t, os.WriteFile(file, append(text[:len(text)-1], ' '), 0o600))
				}
			}
		}, `(?s)bundle tide.v1.0.0: copying image .*: blob sha256:.*: its blob sha256:.* has content with the digest .*; expected the same`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "carried")
			check(t, os.CopyFS(dir, os.DirFS(carried)))
			tc.change(t, dir)
			_, _, _, err := run(t, t.Context(), "oci:"+dir, registry.Start(t, nil))
			if err == nil || !regexp.MustCompile("^("+tc.want+")$").MatchString(err.Error()) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

func replace(t *testing.T, file, what, by string) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	require.Contains(t, string(text), what, file)
	check(t, os.WriteFile(file, []byte(strings.Replace(string(text), what, by, 1)), 0o600))
}

// TestRefused: a catalog that cannot be mirrored is refused before anything is copied.
func TestRefused(t *testing.T) {
	s := newSea(t, nil)
	other := filepath.Join(t.TempDir(), "carried")
	if _, _, _, err := run(t, t.Context(), s.dir, "oci:"+other); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(other, "index.json"), `"mirror.berth-csi.github.io/catalog": "sea"`, `"mirror.berth-csi.github.io/catalog": "moon"`)
	mine := t.TempDir()
	check(t, os.WriteFile(filepath.Join(mine, "notes.txt"), nil, 0o600))
	for to, want := range map[string]string{
		"oci:" + other:    `holds the catalog "moon", which would be lost; choose another folder, or --name moon to replace it`,
		"oci:" + mine:     "will not replace .*: it holds notes.txt, which is not part of an image layout",
		"registry":        `destination "registry": want a path of a registry, such as registry.example.com/mirror`,
		"docker://a.b/A":  `destination "a.b/A": want a path of a registry`,
		"https://a.b/c/d": `destination "https://a.b/c/d": want a path of a registry`,
	} {
		if _, _, _, err := run(t, t.Context(), s.dir, to); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("to %s: %v, want %s", to, err, want)
		}
	}
	assert.ErrorContains(t, mirror.MayWrite(mine), "it holds notes.txt, which `berth catalog mirror` did not write", "the folder of resources")
	for hostile, want := range map[string]string{
		"../../etc/passwd":                      `image of bundle "tide.v1.0.0" is "../../etc/passwd"; expected a pull spec`,
		s.address + "/example/../../etc:v1":     "expected a pull spec",
		s.address + "/example/tide-bundle:gone": "has no such image",
	} {
		dir := t.TempDir()
		check(t, os.CopyFS(dir, os.DirFS(s.dir)))
		replace(t, filepath.Join(dir, "catalog.yaml"), "image: "+s.images[0], "image: "+hostile)
		if _, _, _, err := run(t, t.Context(), dir, registry.Start(t, nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s as an image: %v, want %s", hostile, err, want)
		}
	}
}

// TestBesideOthers writes the objects for clusters to a folder in which other catalogs have theirs, as with a configuration.
func TestBesideOthers(t *testing.T) {
	s, all := newSea(t, nil), filepath.Join(t.TempDir(), "mirror")
	m, err := mirror.New(t.Context(), s.dir, mirror.Options{Name: "sea", Tag: "latest", Jobs: 3, Time: time.Minute, Text: s.dir, Origin: "a folder"})
	check(t, err)
	t.Cleanup(func() { _ = m.Close() })
	destination, err := mirror.OpenDestination(registry.Start(t, nil)+"/mirror", "sea")
	check(t, err)
	t.Cleanup(func() { _ = destination.Close() })
	check(t, m.Inspect(t.Context(), oci.Registries(t.Context()), destination))
	write := func(dir string) error {
		_, err := m.Write(dir, mirror.Document{})
		return err
	}
	check(t, write(filepath.Join(all, "tides")))
	own := filepath.Join(all, "tides", "catalog", "catalog.yaml")
	check(t, os.MkdirAll(filepath.Dir(own), 0o755))
	check(t, os.WriteFile(own, []byte("of tides"), 0o600))
	for range 2 {
		check(t, write(all))
	}
	if kept, err := os.ReadFile(own); err != nil || string(kept) != "of tides" {
		t.Errorf("the catalog of the other mirror is %q, %v", kept, err)
	}
	assert.FileExists(t, filepath.Join(all, "tides", "imagedigestmirrorset.yaml"))
	assert.FileExists(t, filepath.Join(all, "imagedigestmirrorset.yaml"))

	check(t, os.RemoveAll(filepath.Join(all, "catalog")))
	check(t, write(filepath.Join(all, "catalog")))
	assert.ErrorContains(t, write(all), "it holds catalog, which has the objects of another catalog; choose another folder with --resources")
	check(t, os.RemoveAll(filepath.Join(all, "catalog")))
	check(t, os.WriteFile(filepath.Join(all, "tides", "notes.txt"), nil, 0o600))
	assert.ErrorContains(t, write(all), "it holds tides, which `berth catalog mirror` did not write")
}

// TestDiskFull mirrors to a folder whose disk is too small at first.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	s := newSea(t, nil)
	disk := t.TempDir()
	check(t, syscall.Mount("small", disk, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { check(t, syscall.Unmount(disk, 0)) })
	to := "oci:" + filepath.Join(disk, "carried")
	_, copied, _, err := run(t, t.Context(), s.dir, to)
	assert.ErrorContains(t, err, "no space left on device; make room in "+disk+"/carried and repeat the command: it copies only missing content", "on a full disk")
	if left, err := filepath.Glob(filepath.Join(disk, "carried/blobs/sha256/.unfinished-*")); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	_, err = source.Open(t.Context(), to)
	assert.Error(t, err, "the folder is not finished, and is a source")
	check(t, syscall.Mount("small", disk, "tmpfs", syscall.MS_REMOUNT, "size=16m"))
	d, rest, _, err := run(t, t.Context(), s.dir, to)
	if err != nil || copied == 0 || rest+copied != d.Size {
		t.Errorf("with room: %d and %d of %d bytes were copied: %v", copied, rest, d.Size, err)
	}
}
