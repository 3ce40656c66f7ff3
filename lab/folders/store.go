package folders

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

// Store keeps volumes and snapshots in a folder, each in the subfolder KIND/ID with a record and the content.
// Incomplete ones are in a separate folder.
type Store struct {
	folder string
	// changing is held while something is created or changed. A mutex is enough: the sidecars elect a leader, so only one process does
	// that.
	changing *sync.Mutex
}

// The kinds of records.
const (
	Volumes    = "volumes"
	Snapshots  = "snapshots"
	incomplete = "incomplete"
)

// Kinds are the folders of a store. An empty store has only empty folders.
var Kinds = []string{Volumes, Snapshots, incomplete}

// Names in the folder of a volume or a snapshot.
const (
	recordFile    = "record.json"
	contentFolder = "content"
)

// Record describes a volume or a snapshot.
type Record struct {
	// Name is the name in the request that created it.
	Name string `json:"name"`
	// Bytes is how large a volume should be, and how large a snapshot's volume was.
	Bytes int64 `json:"bytes"`
	// Source is the ID of a volume's origin, or of a snapshot's volume.
	Source  string    `json:"source,omitempty"`
	Created time.Time `json:"created"`
	// Parameters are the parameters of the request that created it.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Node is the ID of the node that a volume is attached to.
	Node string `json:"node,omitempty"`
}

// OpenStore opens the store in a folder, which must exist: if it were created where nothing is mounted, a node would keep volumes of its
// own.
func OpenStore(folder string) (Store, error) {
	for _, kind := range Kinds {
		if err := os.Mkdir(filepath.Join(folder, kind), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return Store{}, err
		}
	}
	return Store{folder: folder, changing: &sync.Mutex{}}, nil
}

// Folder returns the folder of the store.
func (s Store) Folder() string { return s.folder }

// Names returns the IDs of everything of a kind.
func (s Store) Names(kind string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.folder, kind))
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// idOf derives an ID from the name in a request. The same name gives the same ID, so that a repeated request finds what
// the first one created.
func idOf(name string) string {
	hash := sha256.Sum256([]byte(name))
	return hex.EncodeToString(hash[:16])
}

var validID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// path returns the folder of a volume or a snapshot. IDs come from PersistentVolumes, which anybody may have written:
// the error is fs.ErrNotExist for an ID that is not valid.
func (s Store) path(kind, id string) (string, error) {
	if !validID.MatchString(id) {
		return "", fmt.Errorf("%q is no ID of this driver: %w", id, fs.ErrNotExist)
	}
	return filepath.Join(s.folder, kind, id), nil
}

// content returns the folder with the content of a volume or a snapshot.
func (s Store) content(kind, id string) (string, error) {
	folder, err := s.path(kind, id)
	return filepath.Join(folder, contentFolder), err
}

// Get returns a record. The error is fs.ErrNotExist if it does not exist.
func (s Store) Get(kind, id string) (Record, error) {
	folder, err := s.path(kind, id)
	if err != nil {
		return Record{}, err
	}
	text, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err != nil {
		return Record{}, err
	}
	var r Record
	return r, json.Unmarshal(text, &r)
}

// create creates a volume or a snapshot with a copy of the content of the folder "from", or without content if from is "". It returns the
// ID and the Record. If the name exists already, it returns what is there. The folder appears when it is complete.
func (s Store) create(kind string, r Record, from string) (string, Record, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	id := idOf(r.Name)
	if existing, err := s.Get(kind, id); !errors.Is(err, fs.ErrNotExist) {
		return id, existing, err
	}
	partial := filepath.Join(s.folder, incomplete, kind+"-"+id)
	if err := os.RemoveAll(partial); err != nil { // of a process that was killed
		return "", Record{}, err
	}
	if err := os.Mkdir(partial, 0o700); err != nil {
		return "", Record{}, err
	}
	content := filepath.Join(partial, contentFolder)
	if from == "" {
		if err := errors.Join(os.Mkdir(content, 0o700), os.Chmod(content, 0o777)); err != nil { // for pods of any user
			return "", Record{}, err
		}
	} else if err := copyFolder(from, content); err != nil {
		return "", Record{}, err
	}
	if err := writeRecord(partial, r); err != nil {
		return "", Record{}, err
	}
	return id, r, os.Rename(partial, filepath.Join(s.folder, kind, id))
}

// change changes the record of a volume, and returns it.
func (s Store) change(id string, change func(*Record) error) (Record, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	folder, err := s.path(Volumes, id)
	if err != nil {
		return Record{}, err
	}
	r, err := s.Get(Volumes, id)
	if err != nil {
		return Record{}, err
	}
	if err := change(&r); err != nil {
		return Record{}, err
	}
	return r, writeRecord(folder, r)
}

// remove removes a volume or a snapshot, if it is there.
func (s Store) remove(kind, id string) error {
	folder, err := s.path(kind, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.RemoveAll(folder)
}

// writeRecord replaces the record in a folder as a whole.
func writeRecord(folder string, r Record) error {
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
