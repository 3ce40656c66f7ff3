package node

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// payload is the content of a volume that the node writes: files, by their paths in the volume.
type payload map[string]payloadFile

type payloadFile struct {
	data []byte
	mode fs.FileMode
}

// The names with which a volume's content is replaced atomically. Programs that watch their certificates or configuration look for them.
const dataLink, newDataLink, dataPrefix = "..data", "..data_tmp", "..content-"

// write makes the folder show exactly this content. Readers see the old files or the new ones and never a mixture: the
// files are in their own folder behind one link.
func (p payload) write(folder string) error {
	previous, err := os.Readlink(filepath.Join(folder, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if previous != "" && p.equals(filepath.Join(folder, previous)) {
		return nil
	}
	content, err := os.MkdirTemp(folder, dataPrefix)
	if err != nil {
		return err
	}
	if err := p.writeFiles(content); err != nil {
		return err
	}
	link := filepath.Join(folder, newDataLink)
	if err := errors.Join(
		os.Symlink(filepath.Base(content), link),
		os.Rename(link, filepath.Join(folder, dataLink)),
	); err != nil {
		return err
	}
	if err := p.linkNames(folder); err != nil {
		return err
	}
	if previous == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(folder, previous))
}

func (p payload) writeFiles(content string) error {
	if err := os.Chmod(content, 0o755); err != nil {
		return err
	}
	for name, file := range p {
		path := filepath.Join(content, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, file.data, file.mode); err != nil {
			return err
		}
		if err := os.Chmod(path, file.mode); err != nil { // The umask applies to WriteFile's mode.
			return err
		}
	}
	return nil
}

// linkNames makes exactly the top-level names of the content visible in the folder.
func (p payload) linkNames(folder string) error {
	wanted := map[string]bool{}
	for name := range p {
		top, _, _ := strings.Cut(name, "/")
		wanted[top] = true
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if wanted[name] || strings.HasPrefix(name, "..") {
			delete(wanted, name)
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	for name := range wanted {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// equals reports whether the folder has exactly this content.
func (p payload) equals(content string) bool {
	files := 0
	err := filepath.WalkDir(content, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		name, err := filepath.Rel(content, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if file, wanted := p[name]; err == nil && (!wanted || !bytes.Equal(data, file.data)) {
			err = errors.New("the file has changed")
		}
		return err
	})
	return err == nil && files == len(p)
}
