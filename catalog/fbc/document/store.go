package document

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// blockSize is the least number of bytes written at once.
const blockSize = 1 << 20

// Store keeps documents, or text made from them, independently of the files that they come from. It keeps them in an
// unlinked file, which disappears with the process. It is safe for concurrent use.
type Store struct {
	file *os.File

	mu      sync.Mutex
	written int64  // offset of the block in the file
	block   []byte // not written yet
	parts   map[string]*parts
}

// parts are the documents of a file in the store. There may be very many.
type parts struct {
	all    []part
	sorted bool
}

// part is the position of a document in the store, and the key to find it: its offset in the catalog's file.
type part struct {
	from, offset int64
	length       int
}

// find returns the part that was added last for the document at an offset. The caller holds the lock of the store.
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

// NewStore returns an empty store with its file in the first of the folders that it can write to, or in the folder for temporary
// files if none is given.
func NewStore(folders ...string) (*Store, error) {
	file, err := createIn(folders)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("hide %s: %w", file.Name(), err)
	}
	s := &Store{file: file, parts: map[string]*parts{}}
	s.empty()
	return s, nil
}

// empty begins a block. It reuses the memory of the last block, unless a large document has made that larger.
func (s *Store) empty() {
	const usual = blockSize + blockSize/8
	if s.block = s.block[:0]; cap(s.block) != usual {
		s.block = make([]byte, 0, usual)
	}
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

// Keep stores content for the document at a span, and replaces earlier content for that span.
func (s *Store) Keep(span Span, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.parts[span.File]
	if of == nil {
		of = &parts{}
		s.parts[span.File] = of
	}
	before := len(s.block)
	s.block = append(s.block, content...)
	at := part{span.Offset, s.written + int64(before), len(content)}
	if len(s.block) >= blockSize {
		if _, err := s.file.WriteAt(s.block, s.written); err != nil {
			s.block = s.block[:before]
			return err
		}
		s.written += int64(len(s.block))
		s.empty()
	}
	of.all, of.sorted = append(of.all, at), false
	return nil
}

// ErrNotKept says that a store does not have a document.
var ErrNotKept = errors.New("nothing is stored")

// Load appends the content stored for the document at a span to a buffer.
func (s *Store) Load(buffer []byte, span Span) ([]byte, error) {
	length := len(buffer)
	buffer, offset, err := s.reserve(buffer, span)
	if err != nil || offset < 0 {
		return buffer, err
	}
	_, err = s.file.ReadAt(buffer[length:], offset)
	return buffer, err
}

// reserve appends the content for the document at a span to a buffer if the content is not written yet, and returns a negative offset.
// Otherwise, it appends room for the content, and returns the content's offset in the file.
func (s *Store) reserve(buffer []byte, span Span) (_ []byte, offset int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, found := part{}, false
	if of := s.parts[span.File]; of != nil {
		p, found = of.find(span.Offset)
	}
	if !found {
		return nil, 0, fmt.Errorf("%w for the document at %s:%d", ErrNotKept, span.File, span.Line)
	}
	if begin := p.offset - s.written; begin >= 0 {
		return append(buffer, s.block[begin:][:p.length]...), -1, nil
	}
	return slices.Grow(buffer, p.length)[:len(buffer)+p.length], p.offset, nil
}

// Size returns the number of bytes stored.
func (s *Store) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written + int64(len(s.block))
}

// Close deletes the store.
func (s *Store) Close() error { return s.file.Close() }
