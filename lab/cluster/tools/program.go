package tools

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Program is a program that is built separately, on demand.
type Program struct {
	// Name is the name of its file.
	Name string
	// Package is its main package, such as "example.com/driver/cmd/driver".
	Package string
	// Folder has the go.mod that pins it, such as "lab/modules/drivers", relative to the module root.
	Folder string
	// Aligned says that a program with replaced modules is built with the modules of lab/modules/tools where it wants earlier versions of them, so that
	// compiled packages are shared.
	Aligned bool
	// Replaced maps the paths of modules that Folder pins, and that no module proxy serves, to folders of this machine
	// with their source. They go into a copy of go.mod, and the go command adds verified checksums to the copy of go.sum.
	Replaced map[string]string
	// Tests says that the program is the package's test binary, whose name ends with ".test".
	Tests bool
	// Flags are the flags of go build.
	Flags []string
}

// Ensure returns the path of the program, and builds it first if the cache does not have it, as the function Ensure
// does.
func (p Program) Ensure(ctx context.Context, report func(Progress)) (string, error) {
	recipe, err := p.recipe()
	if err != nil {
		return "", err
	}
	dir, err := recipe.ensureInCache(ctx, report)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.Name, err)
	}
	return dir.Path(p.Name), nil
}

func (p Program) recipe() (recipe, error) {
	r, err := readRecipe(p.Folder, []program{{p.Name, p.Package}}, p.Flags...)
	r.tests = p.Tests
	if err != nil || len(p.Replaced) == 0 {
		return r, err
	}
	root, err := Root()
	if err != nil {
		return r, err
	}
	r.replaced, r.incomplete, r.aligned, r.flags = p.Replaced, true, p.Aligned, append([]string{"-mod=mod"}, r.flags...)
	for _, module := range slices.Sorted(maps.Keys(p.Replaced)) {
		if err := r.addFiles(p.Replaced[module]); err != nil {
			return r, fmt.Errorf("read the source of module %s: %w", module, err)
		}
	}
	return r, r.addAligned(root)
}

// addFiles makes the files of a folder with source code part of the recipe. Like the go command, it leaves out folders
// whose names begin with a dot, such as .git.
func (r *recipe) addFiles(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != folder && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		r.pins = append(r.pins, []byte(name), content)
		return err
	})
}

// addAligned makes the modules that the recipe is aligned with part of it.
func (r *recipe) addAligned(root string) error {
	if !r.aligned {
		return nil
	}
	shared, err := os.ReadFile(filepath.Join(root, pinsFolder, "go.mod"))
	r.pins = append(r.pins, shared)
	return err
}
