package mirror_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/registry"
)

// voyage is the program berth with two registries that have TLS and logins: one with a sea, and one to mirror it to.
type voyage struct {
	*sea
	from, to *registry.Secure
	program  string
	env      []string
	dir      string // in which the program runs
}

func newVoyage(t *testing.T) *voyage {
	t.Helper()
	programs, err := tools.Programs(t.Context(), "./cmd/berth")
	check(t, err)
	v := &voyage{from: registry.StartSecure(t), to: registry.StartSecure(t), program: programs.Path("berth"), dir: t.TempDir()}
	v.env = registry.Env(t, v.from, v.to)
	v.sea = fill(t, &sea{address: v.from.Address, open: v.from.Open, dir: t.TempDir()})
	return v
}

// mirror returns the command that mirrors from a place to another one.
func (v *voyage) mirror(t *testing.T, from, to string, options ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), v.program, append([]string{"catalog", "mirror", from, to, "--name", "sea", "--jobs", "1"}, options...)...)
	cmd.Dir, cmd.Env = v.dir, append(os.Environ(), append(v.env, "TMPDIR="+t.TempDir())...) // a killed program leaves files there
	return cmd
}

// missing runs a command that must succeed, and returns how many bytes the destination lacked before.
func missing(t *testing.T, cmd *exec.Cmd) int64 {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Args, cmd.Stderr = append(cmd.Args, "-o", "json"), &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s\n%s", cmd, &stderr)
	var d mirror.Document
	check(t, json.Unmarshal(out, &d))
	return d.Missing
}

// failing runs a command that must fail, and returns its output.
func failing(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("%s: %v, want exit code 2\n%s", cmd, err, out)
	}
	return string(out)
}

// mustBeWhole fails unless each image that the destination has is complete, and the catalog comes after all of them.
func (v *voyage) mustBeWhole(t *testing.T, hasCatalog bool) {
	t.Helper()
	for _, original := range v.images[:6] {
		here := v.to.Open + "/mirror/" + placeOf(original)
		if !hasCatalog && digestIn(t, here) == "" {
			continue
		}
		assert.NoError(t, oci.CheckComplete(t.Context(), here))
	}
	if got := digestIn(t, v.to.Open+"/mirror/sea:latest"); (got != "") != hasCatalog {
		t.Errorf("the destination has the catalog %q; want one: %v", got, hasCatalog)
	}
	_, err := os.Stat(filepath.Join(v.dir, "mirror"))
	assert.Equalf(t, hasCatalog, err == nil, "objects for clusters: %v", err)
}

// interruption blocks a request to a registry until the client is gone.
type interruption struct {
	mu      sync.Mutex
	left    int // requests until then
	reached chan struct{}
	served  map[string]int // blobs that were read, by their paths
}

// before is a guard that blocks after some requests of a kind.
func (i *interruption) before(method, path string) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i.blocks(r.Method == method && strings.Contains(r.URL.Path, path)) {
				<-r.Context().Done()
				return
			}
			h.ServeHTTP(w, r)
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				i.mu.Lock()
				defer i.mu.Unlock()
				i.served[r.URL.Path]++
			}
		})
	}
}

func (i *interruption) blocks(counts bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !counts {
		return false
	}
	if i.left--; i.left == 0 {
		close(i.reached)
	}
	return i.left == 0
}

func (i *interruption) reads() map[string]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.served)
}

// TestKilled kills the program in the middle. Copied images are complete then, and the same command copies the rest.
func TestKilled(t *testing.T) {
	const carried = "oci:carried"
	for _, way := range []struct {
		name         string
		method, path string // of the requests during which the program is killed
		from, to     func(*voyage) string
		guarded      func(*voyage) *registry.Secure
	}{
		{"while it reads from a registry", http.MethodGet, "/blobs/", (*voyage).catalog, (*voyage).destination, func(v *voyage) *registry.Secure { return v.from }},
		{"while it writes to a registry", http.MethodPost, "/blobs/", (*voyage).catalog, (*voyage).destination, func(v *voyage) *registry.Secure { return v.to }},
		{"while it writes to a folder", http.MethodGet, "/blobs/", (*voyage).catalog, func(*voyage) string { return carried }, func(v *voyage) *registry.Secure { return v.from }},
		{"while it reads from a folder", http.MethodPost, "/blobs/", func(*voyage) string { return carried }, (*voyage).destination, func(v *voyage) *registry.Secure { return v.to }},
	} {
		t.Run(way.name, func(t *testing.T) {
			v := newVoyage(t)
			from, to := way.from(v), way.to(v)
			if from == carried {
				missing(t, v.mirror(t, v.catalog(), carried))
			}
			total := missing(t, v.mirror(t, from, to, "--dry-run"))

			i := &interruption{left: 9, reached: make(chan struct{}), served: map[string]int{}}
			way.guarded(v).Guard(i.before(way.method, way.path))
			killed := v.mirror(t, from, to)
			ended := make(chan error, 1)
			check(t, killed.Start())
			go func() { ended <- killed.Wait() }()
			select {
			case <-i.reached:
			case err := <-ended:
				t.Fatalf("it ended before it could be killed: %v", err)
			}
			check(t, killed.Process.Kill())
			require.Error(t, <-ended, "it was killed, and succeeded")
			v.mustBeWhole(t, false)
			if to == carried {
				_, err := source.Open(t.Context(), "oci:"+filepath.Join(v.dir, "carried"))
				assert.ErrorContains(t, err, "index.json", "an unfinished folder is a source")
			}

			if rest := missing(t, v.mirror(t, from, to)); rest == 0 || rest >= total {
				t.Errorf("the second run copied %d bytes of %d, want a part of them", rest, total)
			}
			for path, times := range i.reads() {
				assert.LessOrEqualf(t, times, 1, "how often %s was read", path)
			}
			if to == carried {
				if left, err := filepath.Glob(filepath.Join(v.dir, "carried/blobs/sha256/.unfinished-*")); err != nil || len(left) > 0 {
					t.Errorf("%v are left, %v", left, err)
				}
				missing(t, v.mirror(t, carried, v.destination()))
				list := exec.CommandContext(t.Context(), v.program, "catalog", "list", "packages", carried) // as other commands read a catalog
				list.Dir = v.dir
				if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), "tide") {
					t.Errorf("%s: %v\n%s", list, err, out)
				}
			}
			v.mustBeWhole(t, true)
			if again := missing(t, v.mirror(t, from, to)); again != 0 {
				t.Errorf("the third run copied %d bytes", again)
			}
		})
	}
}

func (v *voyage) catalog() string     { return v.sea.dir }
func (v *voyage) destination() string { return v.to.Address + "/mirror" }
