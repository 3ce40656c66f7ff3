package registryv1

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Load reads the bundle in a folder, as OLM's tools read it. Symbolic links that lead out of the folder are refused, and so are
// files too large to be part of a bundle. The error holds all reasons why the folder is not a bundle; other faults of files are
// findings.
func Load(dir string) (*Contents, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("bundle folder: %w", err)
	}
	at := source{name: dir, kind: "folder"}
	b := &Bundle{}
	// A bundle needs its Dockerfile only to be built into an image.
	if data, err := boundedyaml.ReadFileIn(dir, DockerfilePath); err == nil {
		b.Files = append(b.Files, File{Path: DockerfilePath, Data: data})
	}
	var found []*findings.Finding
	var faults []error
	left := maxFolder
	for _, folder := range Folders {
		files, below, err := readFiles(dir, folder, &left)
		if errors.Is(err, fs.ErrNotExist) {
			err := at.notABundle("it has no folder " + folder + nestedHint(dir))
			if hasOne := slices.ContainsFunc(Folders, func(folder string) bool { return isDir(filepath.Join(dir, folder)) }); hasOne {
				err = &contentFault{dir, err}
			}
			return nil, err
		}
		for _, name := range below {
			f := Format.Finding(filepath.Join(dir, folder, name), "a folder in %s, which OLM leaves out: move its files to %s itself", folder, folder)
			f.Severity = findings.Warning
			found = append(found, f)
		}
		b.Files, faults = append(b.Files, files...), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return at.parse(b, found)
}

// LoadImage reads the bundle in an image. files are the image's files in Folders, by path.
func LoadImage(reference string, files map[string][]byte) (*Contents, error) {
	at := source{name: reference, kind: "image"}
	b := &Bundle{}
	for file, data := range files {
		if slices.Contains(Folders, path.Dir(file)) && !isHidden(path.Base(file)) {
			b.Files = append(b.Files, File{Path: file, Data: data})
		}
	}
	slices.SortFunc(b.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, folder := range Folders {
		if len(b.in(folder)) == 0 {
			err := at.notABundle("it has no file in a folder " + folder)
			if len(b.Files) > 0 {
				err = &contentFault{reference, err}
			}
			return nil, err
		}
	}
	return at.parse(b, nil)
}

// IsFolder reports whether a folder looks like the folder of a bundle, not of a catalog.
func IsFolder(dir string) bool {
	return !slices.ContainsFunc(Folders, func(folder string) bool { return !isDir(filepath.Join(dir, folder)) })
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// maxFolder is the number of bytes that the files of a bundle's folder may have together. A repository may have very long ones in a few bytes, and
// a catalog with all objects takes up to a hundred times as much memory.
const maxFolder = 32 << 20

// readFiles returns the files directly in one folder of a bundle, and the names of its subfolders, sorted and without hidden ones. It fails if
// they have more bytes than are left.
func readFiles(dir, folder string, left *int) (files []File, below []string, _ error) {
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	var faults []error
	for _, entry := range entries {
		switch {
		case isHidden(entry.Name()):
			continue
		case entry.IsDir():
			below = append(below, entry.Name())
			continue
		}
		data, err := boundedyaml.ReadFileIn(dir, filepath.Join(folder, entry.Name()))
		if err != nil {
			fault := fmt.Errorf("bundle folder %s: %v", dir, err) // %v hides fs.ErrNotExist: the folder exists
			if !errors.As(err, new(*fs.PathError)) {
				fault = &contentFault{filepath.Join(dir, folder, entry.Name()), fault}
			}
			faults = append(faults, fault)
			continue
		}
		if *left -= len(data); *left < 0 {
			return nil, nil, &contentFault{filepath.Join(dir, folder, entry.Name()), fmt.Errorf("bundle folder %s: with this file, its files have more than %d bytes; expected fewer", dir, maxFolder)}
		}
		files = append(files, File{Path: path.Join(folder, entry.Name()), Data: data})
	}
	return files, below, errors.Join(faults...)
}

func isHidden(name string) bool { return strings.HasPrefix(name, ".") }

// source is where a bundle comes from.
type source struct {
	name string // the folder or the reference of the image
	kind string
}

// contentFault says that a folder or an image is not a bundle because of its content. Faults makes it a finding about a file.
type contentFault struct {
	file string
	error
}

func (s source) notABundle(found string) error {
	return fmt.Errorf("%s is not a bundle %s: %s; expected %s/ with exactly one ClusterServiceVersion, and %s/ with a file that has the annotation %s",
		s.name, s.kind, found, ManifestsDir, MetadataDir, PackageAnnotation)
}

// nestedHint names a bundle directly below a folder.
func nestedHint(dir string) string {
	nested, _ := filepath.Glob(filepath.Join(dir, "*", ManifestsDir))
	if len(nested) == 0 {
		return ""
	}
	return ", but there is a bundle in " + filepath.Dir(nested[len(nested)-1])
}
