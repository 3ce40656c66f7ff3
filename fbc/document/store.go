package document

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// blockSize is the least number of bytes written at once, because writers of one file wait for each other.
const blockSize = 1 << 20

// Store keeps documents, or text made from them, independently of the files that they come from. It keeps them in an
// unlinked file, which disappears with the process.
//
// Keep is safe for concurrent use. Load is, too, once all calls of Keep have returned.
type Store struct {
	file *os.File
	free sync.Pool // of *[]byte, for blocks

	mu      sync.Mutex
	written int64   // offset of the block in the file
	block   *[]byte // not written yet
	parts   map[string]*parts
}

// parts are the documents of a file in the store. There may be very many.
type parts struct {
	all    []part
	sorted bool
}

// part is the position of a document in the store, and the offset in its file, by which it is found.
type part struct {
	from, offset int64
	length       int
}

// find returns the last part that comes from an offset. The caller holds the lock of the store.
func (p *parts) find(from int64) (part, bool) {
	byOffset := func(a part, from int64) int { return cmp.Compare(a.from, from) }
	if !p.sorted {
		slices.SortStableFunc(p.all, func(a, b part) int { return byOffset(a, b.from) })
		p.sorted = true
	}
	after, _ := slices.BinarySearchFunc(p.all, from+1, byOffset)
	if after == 0 || p.all[after-1].from != from {
		return part{}, false
	}
	return p.all[after-1], true
}

// NewStore returns an empty store, with its file in the first of some folders where it can be created. Without any, that is the folder of
// temporary files.
func NewStore(folders ...string) (*Store, error) {
	file, err := createIn(folders)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("hide %s: %w", file.Name(), err)
	}
	s := &Store{file: file, parts: map[string]*parts{}}
	s.free.New = func() any {
		block := make([]byte, 0, blockSize+blockSize/8)
		return &block
	}
	s.block = s.emptyBlock()
	return s, nil
}

func createIn(folders []string) (file *os.File, err error) {
	if len(folders) == 0 {
		folders = []string{""}
	}
	for _, folder := range folders {
		var failed error
		if file, failed = os.CreateTemp(folder, "berth-catalog-"); failed == nil {
			return file, nil
		}
		err = errors.Join(err, failed)
	}
	return nil, err
}

func (s *Store) emptyBlock() *[]byte {
	block := s.free.Get().(*[]byte)
	*block = (*block)[:0]
	return block
}

// Keep stores content for the document at a span.
func (s *Store) Keep(span Span, content []byte) error {
	full, offset := s.add(span, content)
	if full == nil {
		return nil
	}
	defer s.free.Put(full)
	_, err := s.file.WriteAt(*full, offset)
	return err
}

// add appends content to the block. If that fills the block, it is returned with the offset to write it at.
func (s *Store) add(span Span, content []byte) (full *[]byte, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.parts[span.File]
	if of == nil {
		of = &parts{}
		s.parts[span.File] = of
	}
	of.all, of.sorted = append(of.all, part{span.Offset, s.written + int64(len(*s.block)), len(content)}), false
	*s.block = append(*s.block, content...)
	if len(*s.block) < blockSize {
		return nil, 0
	}
	full, offset = s.block, s.written
	s.block, s.written = s.emptyBlock(), offset+int64(len(*full))
	return full, offset
}

// ErrNotKept says that a store does not have a document.
var ErrNotKept = errors.New("nothing is stored")

// Load appends the content stored for the document at a span to a buffer.
func (s *Store) Load(buffer []byte, span Span) ([]byte, error) {
	p, found := s.find(span)
	if !found {
		return nil, fmt.Errorf("%w for the document at %s:%d", ErrNotKept, span.File, span.Line)
	}
	if begin := p.offset - s.written; begin >= 0 {
		return append(buffer, (*s.block)[begin:][:p.length]...), nil
	}
	length := len(buffer)
	buffer = slices.Grow(buffer, p.length)[:length+p.length]
	if _, err := s.file.ReadAt(buffer[length:], p.offset); err != nil {
		return nil, err
	}
	return buffer, nil
}

func (s *Store) find(span Span) (part, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.parts[span.File]; of != nil {
		return of.find(span.Offset)
	}
	return part{}, false
}

// Size is the number of bytes stored.
func (s *Store) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written + int64(len(*s.block))
}

// Close deletes what is stored.
func (s *Store) Close() error { return s.file.Close() }
