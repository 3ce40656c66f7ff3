// Package store keeps contents in files of a folder, by name. Each has a checksum, is written as a whole or not at all, and those that
// were not used for the longest time are deleted when the folder is too large. Losing any of it costs only time.
package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// unfinished begins the names of files that are being written.
const unfinished = ".unfinished-"

// abandoned is how old an unfinished file is that nobody writes any more. Writing one takes no minute.
const abandoned = time.Hour

// Store is a folder of files. It is safe for concurrent use, by several processes, too.
type Store struct {
	// What names in errors what is kept.
	What string
	// Dir is the folder. It is created when there is something to keep.
	Dir string
	// Ended is the end of the names of all files. It says the format, so that other versions of it may be beside each other.
	Ended string
	// Limit is the size in bytes that the folder shrinks to when the store is closed, and Longest that of a content.
	Limit, Longest int64

	mu    sync.Mutex
	root  *os.Root // nil until something is looked for or kept
	fault error    // the first one, other than that a file is missing
}

// open opens the folder once.
func (s *Store) open() (_ *os.Root, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		s.root, err = os.OpenRoot(s.Dir)
	}
	return s.root, err
}

// Load returns the content that is kept by a name, which must be one of a file. A file that is not as it was written counts as absent, and
// is deleted.
func (s *Store) Load(name string) (content []byte, kept bool) {
	root, err := s.open()
	if err != nil {
		s.note(err)
		return nil, false
	}
	content, err = s.read(root, name+s.Ended)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Drop(name)
		}
		return nil, false
	}
	now := time.Now()
	_ = root.Chtimes(name+s.Ended, now, now) // a file that seems to be unused is only deleted earlier
	return content, true
}

// Drop deletes what is kept by a name.
func (s *Store) Drop(name string) {
	if root, err := s.open(); err == nil {
		s.note(root.Remove(name + s.Ended))
	}
}

// read reads a file that is not longer than those that Keep writes.
func (s *Store) read(root *os.Root, name string) (content []byte, err error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > s.Longest+sumLength {
		return nil, fmt.Errorf("%s is not what Keep writes", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content, err = io.ReadAll(io.LimitReader(file, s.Longest+sumLength))
	if err != nil {
		return nil, err
	}
	if len(content) < sumLength || string(content[:sumLength]) != sumOf(content[sumLength:]) {
		return nil, errors.New("the checksum differs")
	}
	return content[sumLength:], nil
}

// Keep keeps a content by a name, which must be one of a file. What keeps it from doing so is the error of Close.
func (s *Store) Keep(name string, content []byte) {
	err := os.MkdirAll(s.Dir, 0o700)
	if err != nil {
		s.note(err)
		return
	}
	root, err := s.open()
	if err != nil {
		s.note(err)
		return
	}
	if int64(len(content)) <= s.Longest {
		s.note(write(root, name+s.Ended, append([]byte(sumOf(content)), content...)))
	}
}

// write writes a file so that readers see all of it or nothing.
func write(root *os.Root, name string, content []byte) (err error) {
	// A name of its own: another process may be writing the same.
	staged := fmt.Sprintf("%s%d-%s", unfinished, os.Getpid(), name)
	defer func() {
		if err != nil {
			_ = root.Remove(staged)
		}
	}()
	if err := root.WriteFile(staged, content, 0o600); err != nil {
		return err
	}
	return root.Rename(staged, name)
}

// note notes a fault of the store, which keeps nobody from using it.
func (s *Store) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil && !errors.Is(err, fs.ErrNotExist) { // another process has deleted it
		s.fault = err
	}
}

// Close deletes what was not used for the longest time until the folder is below its limit. Its error is about the store alone.
func (s *Store) Close() error {
	if s.root != nil {
		s.note(s.shrink())
		s.note(s.root.Close())
	}
	if s.fault != nil {
		return fmt.Errorf("the cache of %s in %s: %w", s.What, s.Dir, s.fault)
	}
	return nil
}

func (s *Store) shrink() error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	var kept []fs.FileInfo
	var size int64
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil: // another process has deleted it
		case strings.HasPrefix(info.Name(), unfinished):
			if time.Since(info.ModTime()) > abandoned {
				s.note(s.root.Remove(info.Name()))
			}
		case strings.HasSuffix(info.Name(), s.Ended):
			kept, size = append(kept, info), size+info.Size()
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, info := range kept {
		if size <= s.Limit {
			break
		}
		s.note(s.root.Remove(info.Name()))
		size -= info.Size()
	}
	return nil
}

// sumLength is the length of the checksum, in hexadecimal digits, with which a file begins.
const sumLength = 2 * sha256.Size

func sumOf(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}
