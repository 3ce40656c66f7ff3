package mirror_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
)

// TestProgramFaults: errors of a registry with TLS and a login name the fault and the remedy. No half-written file is left, and
// after the remedy the same command succeeds.
func TestProgramFaults(t *testing.T) {
	v := newVoyage(t)
	blobs := func(method string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, "/blobs/") }
	}
	for _, tc := range []struct {
		name  string
		wrong func(*voyage)
		want  string
	}{
		{"no login to the source", func(v *voyage) { v.env = registry.Env(t, v.to) },
			"image " + v.from.Address + "/example/.*: .*UNAUTHORIZED.*; check the name, and log in with `docker login " + v.from.Address + "`"},
		{"no login to the destination", func(v *voyage) { v.env = registry.Env(t, v.from) },
			"checking the destination for image .*401 Unauthorized.*; log in with `docker login " + v.to.Address + "` as somebody who may push there"},
		{"a destination that is down", func(v *voyage) { v.to = &registry.Secure{Address: registry.Nobody()} }, "connection refused; check that 127.0.0.1:.* can be reached"},
		{"a blob with another digest", func(v *voyage) {
			v.from.Guard(answering(blobs(http.MethodGet), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "flotsam") }))
		}, "copying image " + v.from.Address + "/example/.*: blob sha256:.*: its blob sha256:.* expected the same"},
		{"nobody may push", func(v *voyage) {
			v.to.Guard(answering(blobs(http.MethodPost), func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
			}))
		}, "copying image .*401 Unauthorized.*log in with `docker login " + v.to.Address + "` as somebody who may push there"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			broken := *v
			defer v.from.Guard(nil)
			defer v.to.Guard(nil)
			tc.wrong(&broken)
			said := failing(t, broken.mirror(t, v.catalog(), broken.destination()))
			assert.Regexp(t, tc.want, said)
			v.mustBeWhole(t, false)
		})
	}
	missing(t, v.mirror(t, v.catalog(), v.destination()))
	v.mustBeWhole(t, true)
}

// TestNoRoomForObjects: if the disk is full when the objects for clusters are written, the earlier objects stay unchanged.
func TestNoRoomForObjects(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	v := newVoyage(t)
	disk := t.TempDir()
	check(t, syscall.Mount("small", disk, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { check(t, syscall.Unmount(disk, 0)) })
	objects, ballast := filepath.Join(disk, "mirror"), filepath.Join(disk, "ballast")
	again := func() *exec.Cmd { return v.mirror(t, v.catalog(), v.destination(), "--resources", objects) }
	missing(t, again())
	before := contents(t, disk)
	file, err := os.Create(ballast)
	check(t, err)
	_, err = io.Copy(file, zeros{})
	require.ErrorIs(t, err, syscall.ENOSPC, "the disk does not get full")
	check(t, file.Close())
	said := failing(t, again())
	if want := "the images and the catalog are copied, but the objects for clusters are not written to " + objects; !strings.Contains(said, want) || !strings.Contains(said, "no space left on device") {
		t.Errorf("it says\n%s\nwant %s, and why", said, want)
	}
	check(t, os.Remove(ballast))
	assert.Empty(t, cmp.Diff(before, contents(t, disk)), "on a full disk (-before +after)")
	missing(t, again())
}

// contents returns the content of all files in a folder, by their paths.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	}))
	return found
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// hostile is a text with control characters for terminals.
const hostile = "\x1b]0;mine\a\x1b[2J\u202e\u009b\r\nberth: all is well"

// TestHostileWords: texts from a catalog, a registry, a carried folder or a command line reach a terminal as visible text, in one
// line.
func TestHostileWords(t *testing.T) {
	v := newVoyage(t)
	quoted := fmt.Sprintf("%q", hostile)
	saying := func(status int, contentType, body string) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentType)
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			})
		}
	}
	catalogWith := func(t *testing.T, what, by string) string {
		dir := t.TempDir()
		check(t, os.CopyFS(dir, os.DirFS(v.catalog())))
		replace(t, filepath.Join(dir, "catalog.yaml"), what, by)
		return dir
	}
	for _, tc := range []struct {
		name  string
		guard func(http.Handler) http.Handler
		from  func(t *testing.T) string
		args  []string
	}{
		{name: "a registry's error", guard: saying(http.StatusForbidden, "application/json", `{"errors": [{"code": "DENIED", "message": `+jsonOf(hostile)+`, "detail": `+jsonOf(hostile)+`}]}`)},
		{name: "a registry's code", guard: saying(http.StatusForbidden, "application/json", `{"errors": [{"code": `+jsonOf(hostile)+`}]}`)},
		{name: "a registry's page", guard: saying(http.StatusConflict, "text/html", hostile)},
		{name: "the package", from: func(t *testing.T) string { return catalogWith(t, "package: tide", "package: "+quoted) }},
		{name: "the channel", from: func(t *testing.T) string { return catalogWith(t, "name: stable", "name: "+quoted) }},
		{name: "the bundle", from: func(t *testing.T) string { return catalogWith(t, "name: tide.v1.0.0}", "name: "+quoted+"}") }},
		{name: "an image", from: func(t *testing.T) string { return catalogWith(t, "image: "+v.images[0], "image: "+quoted) }},
		{name: "a version", from: func(t *testing.T) string { return catalogWith(t, "version: 1.0.0", "version: "+quoted) }},
		{name: "an image of a carried folder", from: func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "carried")
			missing(t, v.mirror(t, v.catalog(), "oci:"+dir))
			replace(t, filepath.Join(dir, "index.json"), "/example/tide-bundle@", "/"+strings.Trim(jsonOf(hostile), `"`)+"@")
			return "oci:" + dir
		}},
		{name: "the catalog of a carried folder", from: func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "carried")
			missing(t, v.mirror(t, v.catalog(), "oci:"+dir))
			replace(t, filepath.Join(dir, "index.json"), `"mirror.berth-csi.github.io/catalog": "sea"`, `"mirror.berth-csi.github.io/catalog": `+jsonOf(hostile))
			return "oci:" + dir
		}, args: []string{"--name="}},
		{name: "a selection", args: []string{"--package", hostile}},
		{name: "a range", args: []string{"--package", "tide@" + hostile}},
		{name: "a default channel", args: []string{"--default-channel", "tide=" + hostile}},
		{name: "a name", args: []string{"--name", hostile}},
		{name: "a folder", args: []string{"--resources", "/dev/null/" + hostile}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from := v.catalog()
			if tc.from != nil {
				from = tc.from(t)
			}
			if tc.guard != nil {
				v.from.Guard(tc.guard)
				defer v.from.Guard(nil)
			}
			said := failing(t, v.mirror(t, from, v.destination(), tc.args...))
			if i := strings.IndexFunc(said, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q is not escaped in %q", said[i], said)
			}
			assert.NotContains(t, said, "\nberth: all is well", "it forges a line")
			if !strings.Contains(said, `\x1b`) && !strings.Contains(said, `\u001b`) {
				t.Errorf("it does not show what it was told:\n%s", said)
			}
		})
	}
}

func jsonOf(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}
