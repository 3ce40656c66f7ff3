package tools

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A warm start runs no other program, so it works without a go command.
func TestEnsureWarm(t *testing.T) {
	built, err := Ensure(t.Context(), nil)
	require.NoError(t, err)
	t.Setenv("PATH", t.TempDir())
	warm, err := Ensure(t.Context(), func(p Progress) { t.Errorf("a warm start reports %+v", p) })
	require.NoError(t, err)
	require.Equal(t, built, warm, "warm start")
	version, err := exec.Command(built.Path("kubectl"), "version", "--client").CombinedOutput()
	require.NoError(t, err)
	pins, err := ToolPins()
	require.NoError(t, err)
	if pinned, err := pins.Version("k8s.io/kubernetes"); err != nil || !strings.Contains(string(version), pinned) {
		t.Errorf("kubectl says %q, want the pinned version %s (%v)", version, pinned, err)
	}
}

// smallRecipe takes seconds and no module: it builds gofmt, under the name formatter.
func smallRecipe(t *testing.T, programs ...program) recipe {
	t.Helper()
	folder := t.TempDir()
	pins := []byte("module example.com/pins\n")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), pins, 0o644))
	if len(programs) == 0 {
		programs = []program{{"formatter", "cmd/gofmt"}}
	}
	return recipe{programs: programs, folder: folder, pins: [][]byte{pins}}
}

func TestEnsureBuildsOnce(t *testing.T) {
	recipe, cache := smallRecipe(t), t.TempDir()
	var builds sync.Map
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			dir, err := recipe.ensure(context.Background(), cache, func(p Progress) {
				if p.Phase == "compiling" {
					builds.Store(i, true)
				}
			})
			if err != nil {
				t.Error(err)
			} else if err := exec.Command(dir.Path("formatter"), "-h").Run(); err != nil {
				t.Errorf("run the built tool: %v", err)
			}
		})
	}
	all.Wait()
	count := 0
	builds.Range(func(any, any) bool { count++; return true })
	assert.Equal(t, 1, count, "it is built once")
}

func TestEnsureRebuildsWhatIsMissing(t *testing.T) {
	recipe, cache := smallRecipe(t), t.TempDir()
	first, err := recipe.ensure(t.Context(), cache, func(Progress) {})
	require.NoError(t, err)
	require.NoError(t, os.Remove(first.Path("formatter")))
	second, err := recipe.ensure(t.Context(), cache, func(Progress) {})
	if err != nil || second != first || !isFile(second.Path("formatter")) {
		t.Errorf("ensure after the program was removed: %q, %v; want it in %q again", second, err, first)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	// The remains of an earlier build that was killed.
	require.NoError(t, os.Mkdir(filepath.Join(cache, "0123"+partialSuffix), 0o755))
	_, err := smallRecipe(t, program{"nothing", "cmd/no-such-thing"}).ensure(t.Context(), cache, func(Progress) {})
	assert.ErrorContains(t, err, "cmd/no-such-thing", "build what does not exist")
	onlyLockIn(t, cache)
}

func TestInterruptedBuildLeavesNothing(t *testing.T) {
	for _, phase := range []string{"downloading modules", "compiling"} {
		cache := t.TempDir()
		ctx, interrupt := context.WithCancelCause(t.Context())
		interruption := errors.New("interrupted")
		recipe := smallRecipe(t)
		_, err := recipe.ensure(ctx, cache, func(p Progress) {
			if p.Phase == phase {
				// As if some tools were already built.
				assert.NoError(t, os.Mkdir(filepath.Join(cache, recipe.key()+partialSuffix), 0o755))
				interrupt(interruption)
			}
		})
		assert.ErrorIsf(t, err, interruption, "interrupted while %s", phase)
		onlyLockIn(t, cache)
	}
}

// The name of the folder depends on every input.
func TestKey(t *testing.T) {
	base := recipe{programs: []program{{"a", "b"}}, flags: []string{"-f"}, pins: [][]byte{[]byte("m"), []byte("s")}}
	keys := map[string]string{base.key(): "the recipe itself"}
	for name, change := range map[string]recipe{
		"another program": {programs: []program{{"a", "c"}}, flags: base.flags, pins: base.pins},
		"another flag":    {programs: base.programs, flags: []string{"-g"}, pins: base.pins},
		"another go.mod":  {programs: base.programs, flags: base.flags, pins: [][]byte{[]byte("n"), []byte("s")}},
		"another go.sum":  {programs: base.programs, flags: base.flags, pins: [][]byte{[]byte("m"), []byte("t")}},
		"a moved byte":    {programs: base.programs, flags: base.flags, pins: [][]byte{[]byte("ms"), []byte("")}},
	} {
		same, seen := keys[change.key()]
		assert.Falsef(t, seen, "%s has the key of %s", name, same)
		keys[change.key()] = name
	}
	moved := base
	moved.folder = "/elsewhere"
	assert.Equal(t, base.key(), moved.key(), "the same pins in another folder have another key")
}

// TestCacheFolder: without a folder to write to, the error says how to name another one.
func TestCacheFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	for _, home := range []string{"/proc", ""} { // nobody can create a folder there, not even root
		t.Setenv("HOME", home)
		if folder, err := CacheFolder("tools"); err == nil || !strings.Contains(err.Error(), "set XDG_CACHE_HOME to a folder that you may write to") || strings.Contains(err.Error(), "\n") {
			t.Errorf("with HOME %q: got %q, %v", home, folder, err)
		}
	}
}

func TestRootIsFoundFromBelow(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	assert.Truef(t, isFile(filepath.Join(root, "lab", "cluster", "tools", "tools_test.go")), "the root is said to be %s, which is not above this file", root)
	t.Chdir(t.TempDir())
	found, err := Root()
	assert.ErrorContainsf(t, err, "clone", "outside of a clone: got %q", found)
}

func TestLineWriter(t *testing.T) {
	var lines []string
	var all strings.Builder
	w := &lineWriter{line: func(line string) { lines = append(lines, line) }, also: &all}
	for _, part := range []string{"one\ntw", "o\n", "\nrest"} {
		w.Write([]byte(part))
	}
	assert.Empty(t, cmp.Diff([]string{"one", "two", ""}, lines))
	assert.Equal(t, "one\ntwo\n\nrest", all.String(), "passed on")
}

func onlyLockIn(t *testing.T, cache string) {
	t.Helper()
	entries, err := os.ReadDir(cache)
	require.NoError(t, err)
	for _, entry := range entries {
		assert.Equal(t, "lock", entry.Name(), "it is left in the cache")
	}
}
