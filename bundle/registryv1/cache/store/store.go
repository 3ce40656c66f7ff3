// Package store keeps contents in files of a folder, by name. Each has a checksum and is written atomically. The least recently used
// ones are deleted when the folder is too large. Losing any of them costs only time.
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

// unfinished is the prefix of files that are being written.
const unfinished = ".unfinished-"

// abandoned is the age after which nobody writes an unfinished file any more. Writing one takes less than a minute.
const abandoned = time.Hour

// Store is a folder of files. It is safe for concurrent use, also by several processes.
type Store struct {
	// What describes the contents in errors.
	What string
	// Dir is the folder. The first Keep creates it.
	Dir string
	// Suffix is the suffix of all files. It names the version of the format, so that several versions can share a folder.
	Suffix string
	// Limit is the size in bytes to which Close shrinks the folder, and Longest the maximum size of the content of one file.
	Limit, Longest int64

	mu    sync.Mutex
	root  *os.Root // nil until the first Load or Keep
	fault error    // the first error, except for missing files
}

// open opens the folder once.
func (s *Store) open() (*os.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		return s.root, nil
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	if err := checkOwn(root); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s.root = root
	return root, nil
}

// Load returns the content with a name, which must be valid for a file. A damaged file counts as absent, and is deleted.
func (s *Store) Load(name string) (content []byte, kept bool) {
	root, err := s.open()
	if err != nil {
		s.note(err)
		return nil, false
	}
	content, err = s.read(root, name+s.Suffix)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Drop(name)
		}
		return nil, false
	}
	now := time.Now()
	_ = root.Chtimes(name+s.Suffix, now, now) // without it, the file is only deleted earlier
	return content, true
}

// Drop deletes the content with a name.
func (s *Store) Drop(name string) {
	if root, err := s.open(); err == nil {
		s.note(root.Remove(name + s.Suffix))
	}
}

// read reads a file. It fails for one that is longer than Keep writes.
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

// Keep keeps content under a name, which must be valid for a file. Close returns its error.
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
		s.note(write(root, name+s.Suffix, append([]byte(sumOf(content)), content...)))
	}
}

// write writes a file so that readers see all of it or nothing.
func write(root *os.Root, name string, content []byte) (err error) {
	// A name of its own: another process may be writing the same content.
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

// note records an error of the store for Close.
func (s *Store) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil && !errors.Is(err, fs.ErrNotExist) { // another process has deleted it
		s.fault = err
	}
}

// Close deletes the least recently used files until the folder is below its limit. Its error is about the store alone.
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
		case strings.HasSuffix(info.Name(), s.Suffix):
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

// sumLength is the length of the checksum at the beginning of a file, in hexadecimal digits.
const sumLength = 2 * sha256.Size

func sumOf(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}
