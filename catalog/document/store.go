package document

import (
	"fmt"
	"os"
	"sync"
)

// Store keeps documents, or what was made of them, whatever becomes of the files that they come from.
// It keeps them on disk, in a file that nobody else sees and that goes with the process.
type Store struct {
	file *os.File

	mu    sync.Mutex
	size  int64
	parts map[place]part
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
	return &Store{file: file, parts: map[place]part{}}, nil
}

// Keep stores what is to be kept of the document at a span. It may be called for several at a time.
func (s *Store) Keep(span Span, content []byte) error {
	s.mu.Lock()
	offset := s.size
	s.size += int64(len(content))
	s.parts[place{span.File, span.Offset}] = part{offset, len(content)}
	s.mu.Unlock()
	_, err := s.file.WriteAt(content, offset)
	return err
}

// Load returns what was kept of the document at a span.
func (s *Store) Load(span Span) ([]byte, error) {
	s.mu.Lock()
	p, found := s.parts[place{span.File, span.Offset}]
	s.mu.Unlock()
	if !found {
		return nil, fmt.Errorf("nothing is kept of the document at %s:%d", span.File, span.Line)
	}
	content := make([]byte, p.length)
	if _, err := s.file.ReadAt(content, p.offset); err != nil {
		return nil, err
	}
	return content, nil
}

// Size is how much is stored, in bytes.
func (s *Store) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Close gives up what is stored.
func (s *Store) Close() error { return s.file.Close() }
