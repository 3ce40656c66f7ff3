package document

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/joelanford/ignore"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// IgnoreFile is the name of files that exclude other files from a catalog, with patterns as in .gitignore.
const IgnoreFile = ".indexignore"

// Files are the files of a catalog folder.
type Files []File

// File is one file of a catalog folder.
type File struct {
	// Path begins with the folder as the caller named it.
	Path string
	// Size and Modified usually change when the content does.
	Size     int64
	Modified int64 // in nanoseconds since 1970
}

// List returns the files at any depth below dir that belong to the catalog, in order. A catalog may also be a single file. List
// follows symbolic links within dir, because mounted ConfigMaps use them.
func List(dir string) (Files, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("catalog folder: %w", err)
	}
	if !info.IsDir() {
		return listFile(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("catalog folder: %w", err)
	}
	defer root.Close()
	ignored, err := ignore.NewMatcher(&boundedIgnoring{root.FS(), root, maxIgnoring}, IgnoreFile)
	if err != nil {
		return nil, fmt.Errorf("catalog folder %s: %w", dir, err)
	}
	var files Files
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == IgnoreFile || ignored.Match(path, false) {
			return err
		}
		info, err := boundedyaml.StatIn(root, path)
		if err != nil {
			return err
		}
		files = append(files, File{filepath.Join(dir, path), info.Size(), info.ModTime().UnixNano()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("catalog folder %s: %w", dir, err)
	}
	return files, nil
}

// maxIgnoring is the maximum size of all ignore files of a catalog together, in bytes. Each file of the catalog is compared with each of
// their patterns.
const maxIgnoring = 16 << 10

// boundedIgnoring is a catalog's folder. It opens only ignore files that are regular files, up to a total size.
type boundedIgnoring struct {
	fs.FS
	root *os.Root
	left int64
}

func (b *boundedIgnoring) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(b.FS, name) }
func (b *boundedIgnoring) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(b.FS, name) }

// Open opens an ignore file. The library opens no other files.
func (b *boundedIgnoring) Open(name string) (fs.File, error) {
	info, err := boundedyaml.StatIn(b.root, name)
	if err != nil {
		return nil, err
	}
	if b.left -= info.Size(); b.left < 0 {
		return nil, fmt.Errorf("%s: the files %s of a catalog have more than %d bytes together; expected fewer patterns", name, IgnoreFile, maxIgnoring)
	}
	return b.FS.Open(name)
}

func listFile(path string) (Files, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("catalog file: %w", err)
	}
	defer root.Close()
	info, err := boundedyaml.StatIn(root, filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("catalog file: %w", err)
	}
	return Files{{path, info.Size(), info.ModTime().UnixNano()}}, nil
}
