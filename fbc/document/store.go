package document

import (
	"fmt"
	"os"
	"slices"
	"sync"
)

// blockSize is how many bytes of documents are written at once, or more: writers of one file wait for
// each other.
const blockSize = 1 << 20

// Store keeps documents, or what was made of them, whatever becomes of the files that they come from.
// It keeps them on disk, in a file that nobody else sees and that goes with the process.
//
// Keep may be called for several at a time. Once all those calls have returned, so may Load.
type Store struct {
	file *os.File
	free sync.Pool // of *[]byte, for blocks

	mu      sync.Mutex
	written int64   // where in the file the block begins
	block   *[]byte // what is not written yet
	parts   map[place]part
}

// place is where a document comes from.
type place struct {
	file   string
	offset int64
}

// part is where the store has it.
type part struct {
	offset int64
	length int
}

// NewStore returns an empty store.
func NewStore() (*Store, error) {
	file, err := os.CreateTemp("", "berth-catalog-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("hide %s: %w", file.Name(), err)
	}
	s := &Store{file: file, parts: map[place]part{}}
	s.free.New = func() any { return new([]byte) }
	s.block = s.emptyBlock()
	return s, nil
}

func (s *Store) emptyBlock() *[]byte {
	block := s.free.Get().(*[]byte)
	*block = (*block)[:0]
	return block
}

// Keep stores what is to be kept of the document at a span.
func (s *Store) Keep(span Span, content []byte) error {
	full, offset := s.add(span, content)
	if full == nil {
		return nil
	}
	defer s.free.Put(full)
	_, err := s.file.WriteAt(*full, offset)
	return err
}

// add puts content into the block. If that is full then, it is returned, and where to write it.
func (s *Store) add(span Span, content []byte) (full *[]byte, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[place{span.File, span.Offset}] = part{s.written + int64(len(*s.block)), len(content)}
	*s.block = append(*s.block, content...)
	if len(*s.block) < blockSize {
		return nil, 0
	}
	full, offset = s.block, s.written
	s.block, s.written = s.emptyBlock(), offset+int64(len(*full))
	return full, offset
}

// Load appends what was kept of the document at a span to a buffer.
func (s *Store) Load(buffer []byte, span Span) ([]byte, error) {
	p, found := s.parts[place{span.File, span.Offset}]
	if !found {
		return nil, fmt.Errorf("nothing is kept of the document at %s:%d", span.File, span.Line)
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

// Size is how much is stored, in bytes.
func (s *Store) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written + int64(len(*s.block))
}

// Close gives up what is stored.
func (s *Store) Close() error { return s.file.Close() }
