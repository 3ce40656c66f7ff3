package catalog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/catalog/document"
	"github.com/berth-csi/berth/findings"
)

// Read reads the catalog in a folder: every file at any depth, but for those that an .indexignore
// file excludes. What is wrong with single documents is returned as findings, in the order of files
// and lines, and the catalog is then what the others say. Whether those fit together it does not
// judge.
//
// It fails if the folder cannot be read, holds no package, or changes meanwhile.
func Read(ctx context.Context, dir string) (*Catalog, []*findings.Finding, error) {
	files, err := document.List(dir)
	if err != nil {
		return nil, nil, err
	}
	entries, err := readFiles(ctx, files)
	if err != nil {
		return nil, nil, err
	}
	if err := checkUnchanged(dir, files); err != nil {
		return nil, nil, err
	}
	c, faults := assemble(dir, entries)
	if len(faults) == 0 && !slices.ContainsFunc(c.Packages, func(p *Package) bool { return p.Declared }) {
		return nil, nil, emptyError(dir)
	}
	return c, faults, nil
}

// checkUnchanged makes sure that files are still as they were listed.
func checkUnchanged(dir string, before document.Files) error {
	now, err := document.List(dir)
	if err != nil {
		return err
	}
	if slices.Equal(before, now) {
		return nil
	}
	changed := dir
	for _, file := range before {
		if !slices.Contains(now, file) {
			changed = file.Path
			break
		}
	}
	return fmt.Errorf("catalog folder %s changed while it was being read (%s); try again when nobody writes to it", dir, changed)
}

// readFiles decodes all documents of files, several at a time, and returns what they hold in the
// order of files and lines.
func readFiles(ctx context.Context, files document.Files) ([]entry, error) {
	r := reader{sections: make(chan numbered)}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.split(ctx, files) })
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for section := range r.sections {
				r.add(section.number, decode(section.Section)...)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.entries, func(a, b entry) int { return a.number - b.number })
	return r.entries, nil
}

// reader decodes documents.
type reader struct {
	sections chan numbered
	mu       sync.Mutex
	entries  []entry
}

// numbered is a section of one of the files, and how many sections and faults come before it.
type numbered struct {
	document.Section
	number int
}

// split cuts files into sections.
func (r *reader) split(ctx context.Context, files document.Files) error {
	defer close(r.sections)
	number := 0
	for _, file := range files {
		err := splitFile(file.Path, func(s document.Section) bool {
			number++
			select {
			case r.sections <- numbered{s, number}:
				return true
			case <-ctx.Done():
				return false
			}
		}, func(fault *findings.Finding) {
			number++
			r.add(number, entry{span: document.Span{File: file.Path}, fault: fault})
		})
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("catalog file: %w", err)
		}
	}
	return nil
}

func splitFile(path string, yield func(document.Section) bool, fault func(*findings.Finding)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return document.Split(path, file, yield, fault)
}

func (r *reader) add(number int, entries ...entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		e.number = number
		r.entries = append(r.entries, e)
	}
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
