package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joelanford/ignore"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// Load reads the catalog in a folder: every file at any depth, but for those that an .indexignore
// file excludes. It fails if that is not a valid catalog, with all the faults that it finds, joined;
// those that stand at a place in a file are of type *Finding.
func Load(ctx context.Context, dir string) (*declcfg.DeclarativeConfig, error) {
	files, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	blobs, faults, err := readFiles(ctx, dir, files)
	if err != nil {
		return nil, err
	}
	faults = append(faults, checkPackages(dir, blobs, faults)...)
	if len(faults) > 0 {
		return nil, join(faults)
	}
	config := merge(blobs)
	if len(config.Packages) == 0 {
		return nil, emptyError(dir)
	}
	return config, nil
}

// join makes one error of findings, in the order of files and lines.
func join(faults []*Finding) error {
	slices.SortStableFunc(faults, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	var all []error
	for _, fault := range faults {
		all = append(all, fault)
	}
	return errors.Join(all...)
}

func emptyError(dir string) error {
	return fmt.Errorf("catalog folder %s holds no package; expected YAML or JSON files with %s, %s and %s documents, "+
		"such as %s", dir, declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle,
		filepath.Join(dir, "PACKAGE", fileName))
}

// ignoreFile names the files that exclude others from a catalog, with patterns like those of git.
const ignoreFile = ".indexignore"

// listFiles returns the paths below dir of the files that belong to the catalog, in order.
func listFiles(dir string) ([]string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("catalog folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; expected the folder of a catalog", dir)
	}
	root := os.DirFS(dir)
	ignored, err := ignore.NewMatcher(root, ignoreFile)
	if err != nil {
		return nil, fmt.Errorf("catalog folder %s: %w", dir, err)
	}
	var files []string
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != ignoreFile && !ignored.Match(path, false) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("catalog folder %s: %w", dir, err)
	}
	return files, nil
}

// checkPackages judges the upgrade graphs, each package for itself. It leaves out a package where a
// document beside the package's own is faulty already: what is missing for that reason would only
// be reported again, as something else.
func checkPackages(dir string, blobs []blob, faults []*Finding) []*Finding {
	faulty := map[string]bool{}
	for _, fault := range faults {
		faulty[area(dir, fault.File)] = true
	}
	packages := map[string][]blob{}
	unfit := map[string]bool{}
	for _, b := range blobs {
		name := b.inPackage()
		packages[name] = append(packages[name], b)
		unfit[name] = unfit[name] || faulty[area(dir, b.document.file)]
	}
	delete(packages, "") // documents of no package have no part in a graph

	var found []*Finding
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if repeated := checkRepeats(packages[name]); len(repeated) > 0 {
			found = append(found, repeated...)
		} else if !unfit[name] {
			found = append(found, checkGraph(packages[name])...)
		}
	}
	return found
}

// area is the folder right below dir that holds file, or dir itself: catalogs keep a folder for each
// package.
func area(dir, file string) string {
	below, err := filepath.Rel(dir, file)
	if first, _, nested := strings.Cut(filepath.ToSlash(below), "/"); err == nil && nested {
		return first
	}
	return "."
}

// checkRepeats finds what is declared more than once in a package.
func checkRepeats(blobs []blob) []*Finding {
	type id struct{ schema, name string }
	first := map[id]document{}
	var found []*Finding
	for _, b := range blobs {
		key := id{b.Schema, b.Name}
		if before, repeated := first[key]; repeated && b.isKnown() {
			found = append(found, b.document.fault("%s of package %q is declared a second time; the first time was at %s:%d",
				b.title(), b.inPackage(), before.file, before.line))
			continue
		}
		first[key] = b.document
	}
	return found
}

// checkGraph lets operator-registry judge the documents of one package, and places what it says at
// the package's declaration.
func checkGraph(blobs []blob) []*Finding {
	_, err := declcfg.ConvertToModel(*merge(blobs))
	if err == nil {
		return nil
	}
	declaration := max(0, slices.IndexFunc(blobs, func(b blob) bool { return b.Schema == declcfg.SchemaPackage }))
	return []*Finding{blobs[declaration].document.fault("%v", err)}
}

// merge puts blobs together as one catalog.
func merge(blobs []blob) *declcfg.DeclarativeConfig {
	all := &declcfg.DeclarativeConfig{}
	for _, b := range blobs {
		all.Merge(b.config)
	}
	return all
}
