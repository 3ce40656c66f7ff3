package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestProgramOfSource: a program is built from a folder whose go.mod is not complete, without a change to that folder,
// and again only if a file there has changed.
func TestProgramOfSource(t *testing.T) {
	folder, cache := t.TempDir(), t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(root, folder)
	if err != nil {
		t.Fatal(err)
	}
	build := func() (dir Dir, prints string) {
		t.Helper()
		recipe, err := Program{Name: "greeter", Package: "./cmd", Folder: relative, Source: true, Flags: []string{"-ldflags", "-X main.version=v1"}}.recipe()
		if err != nil {
			t.Fatal(err)
		}
		if dir, err = recipe.ensure(t.Context(), cache, func(Progress) {}); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(dir.Path("greeter")).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return dir, string(out)
	}

	// The go command adds the requirement that is missing.
	const incomplete = "module example.com/greeter\ngo 1.26.0\nreplace example.com/library => ./library\n"
	write("go.mod", incomplete)
	write("library/go.mod", "module example.com/library\n")
	write("library/library.go", "package library\n")
	write("cmd/main.go", "package main\nimport _ \"example.com/library\"\nvar version string\nfunc main() { print(\"hello \", version) }\n")
	first, prints := build()
	if prints != "hello v1" {
		t.Errorf("the program prints %q", prints)
	}
	if again, _ := build(); again != first {
		t.Errorf("built again in %s, want the program in %s", again, first)
	}
	write("cmd/main.go", "package main\nvar version string\nfunc main() { print(\"goodbye \", version) }\n")
	if changed, prints := build(); changed == first || prints != "goodbye v1" {
		t.Errorf("after a change the program in %s prints %q", changed, prints)
	}
	if content, err := os.ReadFile(filepath.Join(folder, "go.mod")); err != nil || string(content) != incomplete {
		t.Errorf("the build has changed go.mod: %q, %v", content, err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"+partialSuffix))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %q, %v", left, err)
	}
}
