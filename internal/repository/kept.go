package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/berth-csi/berth/bundle/registryv1"
	bundlerules "github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/internal/findings"
)

// Store keeps texts by name. It is safe for concurrent use.
type Store interface {
	// Load returns a text, and whether the store has it.
	Load(name string) (content []byte, kept bool)
	Keep(name string, content []byte)
}

// Kept caches results about bundles. A result's name in the store is a digest of everything that determines it: the files, the
// options and the program. A nil Kept caches nothing.
type Kept struct {
	Store Store
	// Program identifies the program: other versions may have other results.
	Program string
}

// facts returns the facts of a bundle's folder.
func (k *Kept) facts(dir string) (f Facts, err error) {
	err = k.through("facts", dir, &f, func() (err error) { f, err = read(dir); return err })
	return f, err
}

// findings returns the findings about a bundle's folder.
func (k *Kept) findings(dir string, o bundlerules.Options) (found []*findings.Finding, err error) {
	check := func() (err error) {
		found, err = bundlerules.Check(dir, o)
		for _, f := range found { // the folder may have another path next time
			f.File = strings.TrimPrefix(f.File, dir)
		}
		return err
	}
	err = k.through(fmt.Sprintf("findings %q %v", o.Profile.Names(), o.InCatalogs), dir, &found, check)
	for _, f := range found {
		f.File = dir + f.File
	}
	return found, err
}

// through fills a value from the cached result for a folder, or else calls do and caches its result, unless it fails.
func (k *Kept) through(what, dir string, value any, do func() error) error {
	if k == nil {
		return do()
	}
	name, err := k.name(what, dir)
	if err != nil { // a rule reports the fault
		return do()
	}
	if content, kept := k.Store.Load(name); kept && json.Unmarshal(content, value) == nil {
		return nil
	}
	if err := do(); err != nil {
		return err
	}
	if content, err := json.Marshal(value); err == nil {
		k.Store.Keep(name, content)
	}
	return nil
}

// maxFileSize is the maximum size of a file in a digest, in bytes. Longer files are not part of a bundle.
const maxFileSize = 64 << 20

// name returns the name of a result for a folder in the store.
func (k *Kept) name(what, dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %s\n", k.Program, what)
	for _, folder := range registryv1.Folders {
		entries, err := fs.ReadDir(root.FS(), folder)
		if err != nil {
			return "", err
		}
		for _, entry := range entries {
			if err := add(sum, root, folder+"/"+entry.Name(), entry); err != nil {
				return "", err
			}
		}
	}
	if info, err := root.Lstat(registryv1.DockerfilePath); err == nil {
		if err := add(sum, root, registryv1.DockerfilePath, fs.FileInfoToDirEntry(info)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// add adds a file, or the name of a folder, to a digest.
func add(sum hash.Hash, root *os.Root, name string, entry fs.DirEntry) error {
	if entry.IsDir() {
		fmt.Fprintf(sum, "%q/\n", name)
		return nil
	}
	if !entry.Type().IsRegular() {
		return fmt.Errorf("%s is not a file", filepath.Join(root.Name(), name))
	}
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() > maxFileSize {
		return fmt.Errorf("%s is too long", filepath.Join(root.Name(), name))
	}
	fmt.Fprintf(sum, "%q %d\n", name, info.Size())
	_, err = io.CopyN(sum, file, info.Size())
	return err
}

// counter counts.
type counter struct{ n atomic.Int64 }

func (c *counter) add() int { return int(c.n.Add(1)) }
