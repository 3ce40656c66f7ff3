package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReplacedModule: a program is built with the source of a module that no proxy serves, from a folder that the pins
// do not name, and again only if a file of it has changed. The pins stay as they are.
func TestReplacedModule(t *testing.T) {
	root, pinned, source, cache := t.TempDir(), "hack/greeter", t.TempDir(), t.TempDir()
	write := func(folder, name, content string) {
		t.Helper()
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	const pins = "module example.com/greeter\ngo 1.26.0\nrequire example.invalid/words v0.14.0\n"
	write(root, "go.mod", "module example.com/project\n")
	write(root, pinsFolder+"/go.mod", "module example.com/tools\n")
	write(root, pinned+"/go.mod", pins)
	write(root, pinned+"/go.sum", "")
	write(root, pinned+"/greeter/main.go", "package main\nimport \"example.invalid/words\"\nfunc main() { print(words.Greeting) }\n")
	write(source, "go.mod", "module example.invalid/words\n")
	write(source, "words.go", "package words\nconst Greeting = \"hello\"\n")
	t.Chdir(root)
	build := func() (dir Dir, prints string) {
		t.Helper()
		recipe, err := Program{Name: "greeter", Package: "./greeter", Folder: pinned, Replaced: map[string]string{"example.invalid/words": source}}.recipe()
		require.NoError(t, err)
		dir, err = recipe.ensure(t.Context(), cache, func(Progress) {})
		require.NoError(t, err)
		out, err := exec.Command(dir.Path("greeter")).CombinedOutput()
		require.NoError(t, err)
		return dir, string(out)
	}
	first, prints := build()
	assert.EqualValues(t, "hello", prints, "the program prints")
	write(source, ".git/index", "changed by git")
	again, _ := build()
	assert.Equal(t, first, again, "built again in")
	write(source, "words.go", "package words\nconst Greeting = \"goodbye\"\n")
	if changed, prints := build(); changed == first || prints != "goodbye" {
		t.Errorf("after a change of the source the program in %s prints %q", changed, prints)
	}
	if content, err := os.ReadFile(filepath.Join(root, pinned, "go.mod")); err != nil || string(content) != pins {
		t.Errorf("the build has changed go.mod: %q, %v", content, err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"+partialSuffix))
	require.NoError(t, err)
	assert.Empty(t, left, "left in the cache")
}
