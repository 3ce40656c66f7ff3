package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// store keeps volumes and snapshots in a folder: those of a kind are in a folder of its name, each in one that its ID
// names, with a record and the content. What is incomplete is in a folder of its own.
type store struct {
	folder string
	// creating is held by the process that creates something. Its sidecars elect a leader, so there is one process.
	creating *sync.Mutex
}

// The kinds of what is kept.
const (
	volumes    = "volumes"
	snapshots  = "snapshots"
	incomplete = "incomplete"
)

// Names in the folder of a volume or a snapshot.
const (
	recordFile    = "record.json"
	contentFolder = "content"
)

// record describes a volume or a snapshot.
type record struct {
	// Name is what the request that created it called it.
	Name string `json:"name"`
	// Bytes is how large a volume should be, and how large a snapshot's volume was.
	Bytes int64 `json:"bytes"`
	// Source is the ID of the snapshot that a volume was restored from, or of the volume that a snapshot is of.
	Source  string    `json:"source,omitempty"`
	Created time.Time `json:"created"`
}

// openStore opens the store in a folder, which must exist: where nothing is mounted, a node would keep volumes of its
// own.
func openStore(folder string) (store, error) {
	for _, kind := range []string{volumes, snapshots, incomplete} {
		if err := os.Mkdir(filepath.Join(folder, kind), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return store{}, err
		}
	}
	return store{folder: folder, creating: &sync.Mutex{}}, nil
}

// idOf returns the ID of what a request calls by a name. The same name gives the same ID, so that a repeated request
// finds what the first one created.
func idOf(name string) string {
	hash := sha256.Sum256([]byte(name))
	return hex.EncodeToString(hash[:16])
}

var validID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// path returns the folder of a volume or a snapshot. IDs come from PersistentVolumes, which anybody may have written:
// fs.ErrNotExist is the error for one that is none of the store's.
func (s store) path(kind, id string) (string, error) {
	if !validID.MatchString(id) {
		return "", fmt.Errorf("%q is no ID of this driver: %w", id, fs.ErrNotExist)
	}
	return filepath.Join(s.folder, kind, id), nil
}

// content returns the folder with the content of a volume or a snapshot.
func (s store) content(kind, id string) (string, error) {
	folder, err := s.path(kind, id)
	return filepath.Join(folder, contentFolder), err
}

// get returns a record. The error is fs.ErrNotExist if there is none.
func (s store) get(kind, id string) (record, error) {
	folder, err := s.path(kind, id)
	if err != nil {
		return record{}, err
	}
	text, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err != nil {
		return record{}, err
	}
	var r record
	return r, json.Unmarshal(text, &r)
}

// create creates a volume or a snapshot and returns its ID and its record, or those of the one that has the name
// already. Its content is that of the folder from, or empty if from is "". It appears when it is complete.
func (s store) create(kind string, r record, from string) (string, record, error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	id := idOf(r.Name)
	if existing, err := s.get(kind, id); !errors.Is(err, fs.ErrNotExist) {
		return id, existing, err
	}
	partial := filepath.Join(s.folder, incomplete, kind+"-"+id)
	if err := os.RemoveAll(partial); err != nil { // of a process that was killed
		return "", record{}, err
	}
	if err := os.Mkdir(partial, 0o700); err != nil {
		return "", record{}, err
	}
	content := filepath.Join(partial, contentFolder)
	if from == "" {
		if err := errors.Join(os.Mkdir(content, 0o700), os.Chmod(content, 0o777)); err != nil { // whoever the pod runs as
			return "", record{}, err
		}
	} else if err := copyFolder(from, content); err != nil {
		return "", record{}, err
	}
	if err := writeRecord(partial, r); err != nil {
		return "", record{}, err
	}
	return id, r, os.Rename(partial, filepath.Join(s.folder, kind, id))
}

// resize changes the size of a volume.
func (s store) resize(id string, r record, bytes int64) error {
	folder, err := s.path(volumes, id)
	if err != nil {
		return err
	}
	r.Bytes = bytes
	return writeRecord(folder, r)
}

// remove removes a volume or a snapshot, if it is there.
func (s store) remove(kind, id string) error {
	folder, err := s.path(kind, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.RemoveAll(folder)
}

// writeRecord replaces the record in a folder as a whole.
func writeRecord(folder string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	next := filepath.Join(folder, recordFile+".next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(folder, recordFile))
}
