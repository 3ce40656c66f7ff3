package tools

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Program is a program that is built by itself, when something needs it.
type Program struct {
	// Name is the name of its file.
	Name string
	// Package is its main package, such as "example.com/driver/cmd/driver", or "./cmd" in a folder with source code.
	Package string
	// Folder has the go.mod that pins it, such as "hack/drivers", relative to the module root.
	Folder string
	// Source says that the folder has the source code of the program, and not only pins. It may be read-only and its
	// go.sum incomplete: the go command adds to a copy of that what it has verified.
	Source bool
	// Aligned says that a source is built with the modules of hack/tools where it wants earlier versions of them, so that
	// compiled packages are shared.
	Aligned bool
	// Tests says that the program is that of the package's tests, whose name ends with ".test".
	Tests bool
	// Flags are those of go build.
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
	programs := []program{{p.Name, p.Package}}
	if !p.Source {
		r, err := readRecipe(p.Folder, programs, p.Flags...)
		r.tests = p.Tests
		return r, err
	}
	root, err := Root()
	if err != nil {
		return recipe{}, err
	}
	r := recipe{programs: programs, folder: filepath.Join(root, p.Folder), flags: append([]string{"-mod=mod", "-buildvcs=false"}, p.Flags...), incomplete: true, aligned: p.Aligned}
	err = filepath.WalkDir(r.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.folder, path)
		r.pins = append(r.pins, []byte(name), content)
		return err
	})
	if err == nil && p.Aligned {
		var aligned []byte
		aligned, err = os.ReadFile(filepath.Join(root, pinsFolder, "go.mod"))
		r.pins = append(r.pins, aligned)
	}
	return r, err
}
