package fbc

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
)

// Read reads the catalog in a folder: the files at any depth, except those that an .indexignore file excludes. Faults in
// single documents are returned as findings, in the order of files and lines, and the catalog consists of the other
// documents. Read does not check whether documents fit together; package catalog/rules does.
//
// It fails if the folder cannot be read, changes while it is being read, or holds neither a package nor a fault.
func Read(ctx context.Context, dir string) (*Catalog, []*findings.Finding, error) {
	return ReadAndKeep(ctx, dir, func(document.Document) error { return nil })
}

// ReadAndKeep is like Read, but also passes each document to keep, before it decodes the document. It calls keep concurrently and in any
// order. A document is valid until keep returns. If keep fails, so does ReadAndKeep.
func ReadAndKeep(ctx context.Context, dir string, keep func(document.Document) error) (*Catalog, []*findings.Finding, error) {
	files, err := document.List(dir)
	if err != nil {
		return nil, nil, err
	}
	entries, err := readFiles(ctx, files, keep)
	if err != nil {
		return nil, nil, err
	}
	if err := checkUnchanged(dir, files); err != nil {
		return nil, nil, err
	}
	c, faults := assemble(dir, entries)
	c.Files = files
	if len(faults) == 0 && !slices.ContainsFunc(c.Packages, func(p *Package) bool { return p.Declared }) {
		info, err := os.Stat(dir)
		return nil, nil, EmptyError{dir, err == nil && info.Mode().IsRegular()}
	}
	return c, faults, nil
}

// checkUnchanged fails if files have changed since they were listed.
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
	return fmt.Errorf("catalog folder %s changed while it was being read (%s); try again when nothing writes to it", dir, changed)
}

// readFiles decodes all documents of files concurrently, and returns their entries in the order of files and lines.
func readFiles(ctx context.Context, files document.Files, keep func(document.Document) error) ([]entry, error) {
	r := reader{batches: make(chan *batch)}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.split(ctx, files) })
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			sc := scanner{keep: keep}
			for batch := range r.batches {
				if err := r.decode(&sc, batch); err != nil {
					return err
				}
				r.free.Put(batch)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	r.trim(maxFaults)
	for _, file := range slices.Sorted(maps.Keys(r.trimmed)) {
		of := r.trimmed[file]
		r.faults = append(r.faults, entry{number: of.number, fault: Schema.Finding(file,
			"from here on, faults in this file are not reported, %d in all; expected at most %d in a catalog: correct the reported ones first", of.faults, maxFaults).At(of.line, 0)})
	}
	r.entries = append(r.entries, r.faults...)
	slices.SortStableFunc(r.entries, func(a, b entry) int { return a.number - b.number })
	return r.entries, nil
}

// reader decodes documents concurrently.
type reader struct {
	batches chan *batch
	free    sync.Pool // of *batch
	mu      sync.Mutex
	entries []entry
	faults  []entry            // the first ones, and perhaps others that are trimmed later
	trimmed map[string]trimmed // by file
}

// maxFaults is the maximum number of documents whose faults are reported. A document with a fault can be as short as two bytes, and its
// finding takes hundreds: without a maximum, a catalog full of faults could exhaust the memory.
const maxFaults = 10_000

// trimmed holds the number of a file's faults that are not reported, and the position and the line of the first of them.
type trimmed struct{ faults, number, line int }

// batchSize is the minimum number of bytes in a batch, except in the last one. Sections are sent in batches because sending a single
// section takes about as long as decoding it.
const batchSize = 256 << 10

// batch holds sections, and their text.
type batch struct {
	text     []byte
	sections []numbered
}

// numbered is a section and its position among all sections and faults.
type numbered struct {
	document.Section
	number int
}

func (b *batch) add(s document.Section, number int) {
	b.text = append(b.text, s.Source...)
	b.sections = append(b.sections, numbered{s, number})
}

// split cuts files into sections.
func (r *reader) split(ctx context.Context, files document.Files) error {
	defer close(r.batches)
	number, path, next := 0, "", r.emptyBatch()
	send := func() bool {
		select {
		case r.batches <- next:
			next = r.emptyBatch()
			return true
		case <-ctx.Done():
			return false
		}
	}
	splitter := document.Splitter{
		Yield: func(s document.Section) bool {
			number++
			next.add(s, number)
			return len(next.text) < batchSize || send()
		},
		Fault: func(fault *findings.Finding) {
			number++
			r.add(number, entry{span: document.Span{File: path}, fault: fault})
		},
	}
	for _, file := range files {
		path = file.Path
		err := splitFile(&splitter, path)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("catalog file: %w", err)
		}
	}
	if !send() {
		return ctx.Err()
	}
	return nil
}

func (r *reader) emptyBatch() *batch {
	b, _ := r.free.Get().(*batch)
	if b == nil {
		b = &batch{}
	}
	b.text, b.sections = b.text[:0], b.sections[:0]
	return b
}

func (r *reader) decode(sc *scanner, b *batch) error {
	text := b.text
	for _, section := range b.sections {
		section.Source, text = text[:section.Length], text[section.Length:]
		entries, err := sc.decode(section.Section)
		if err != nil {
			return err
		}
		r.add(section.number, entries...)
	}
	return nil
}

func splitFile(splitter *document.Splitter, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return splitter.Split(path, file)
}

func (r *reader) add(number int, entries ...entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		e.number = number
		if e.fault == nil {
			r.entries = append(r.entries, e)
		} else if r.faults = append(r.faults, e); len(r.faults) >= 2*maxFaults {
			r.trim(maxFaults)
		}
	}
}

// trim keeps only the first faults, as many as most says, and counts the others by file.
func (r *reader) trim(most int) {
	slices.SortStableFunc(r.faults, func(a, b entry) int { return a.number - b.number })
	if len(r.faults) <= most {
		return
	}
	if r.trimmed == nil {
		r.trimmed = map[string]trimmed{}
	}
	for _, e := range r.faults[most:] {
		of, known := r.trimmed[e.fault.File]
		if !known || e.number < of.number {
			of.number, of.line = e.number, e.fault.Line
		}
		of.faults++
		r.trimmed[e.fault.File] = of
	}
	clear(r.faults[most:])
	r.faults = r.faults[:most]
}

// area returns the folder directly below dir that contains a file at any depth, or "." if the file is in dir itself. A faulty document that
// may belong to any package makes all packages of its area incomplete: catalogs usually have a folder for each package.
func area(dir, file string) string {
	below, err := filepath.Rel(dir, file)
	if first, _, nested := strings.Cut(filepath.ToSlash(below), "/"); err == nil && nested {
		return first
	}
	return "."
}
