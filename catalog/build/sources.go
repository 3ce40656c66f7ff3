package build

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Stdin is the name of a template that is read from standard input.
const Stdin = "-"

// extensions are the extensions of the templates in a folder.
var extensions = []string{".yaml", ".yml", ".json"}

// sourceFile is a file that may be a template.
type sourceFile struct {
	path    string
	content []byte
}

// readSources reads templates: files, the files directly in a folder, and standard input.
func readSources(sources []string, stdin io.Reader) (files []sourceFile, err error) {
	for _, source := range sources {
		paths := []string{source}
		if info, err := os.Stat(source); source != Stdin && err == nil && info.IsDir() {
			if paths, err = inFolder(source); err != nil {
				return nil, err
			}
		}
		for _, path := range paths {
			f := sourceFile{path: path}
			if path == Stdin {
				f.content, err = boundedyaml.Read("standard input", stdin)
			} else {
				f.content, err = boundedyaml.ReadFile(path)
			}
			if err != nil {
				return nil, fmt.Errorf("template: %w", err)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// HasTemplates reports whether a folder has files that may be templates.
func HasTemplates(dir string) bool {
	paths, err := inFolder(dir)
	return err == nil && len(paths) > 0
}

// inFolder returns the files directly in a folder of templates.
func inFolder(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of templates: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && slices.Contains(extensions, filepath.Ext(entry.Name())) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has neither templates nor a bundle; expected files that end with %s, or the folders manifests and metadata", dir, strings.Join(extensions, ", "))
	}
	return paths, nil
}
