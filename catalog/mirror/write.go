package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-csi/berth/catalog/mirror/policy"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// Names in the folder that Write writes.
const (
	catalogFolder = "catalog"
	documentFile  = "mirror.json"
)

// written are all names that Write may write.
var written = []string{catalogFolder, documentFile, policy.Folder, digestMirrorsFile, tagMirrorsFile, catalogSourceFile, clusterCatalogFile}

// MayWrite fails if a folder contains anything that Write did not write.
func MayWrite(dir string) error {
	_, err := ofOthers(dir)
	return err
}

// ofOthers returns the names of the subfolders that Write has written for other mirrors, such as the other catalogs of a configuration.
// It fails if the folder contains anything else that Write did not write.
func ofOthers(dir string) (others []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		below := filepath.Join(dir, entry.Name())
		isOther := entry.IsDir() && isFile(filepath.Join(below, documentFile)) && MayWrite(below) == nil
		switch isOurs := slices.Contains(written, entry.Name()); {
		case isOther && isOurs:
			return nil, fmt.Errorf("will not replace %s: it holds %s, which has the objects of another catalog; choose another folder with --resources", dir, entry.Name())
		case isOther:
			others = append(others, entry.Name())
		case !isOurs:
			return nil, fmt.Errorf("will not replace %s: it holds %s, which `berth catalog mirror` did not write; choose another folder with --resources", dir, entry.Name())
		}
	}
	return others, nil
}

// isFile reports whether there is a regular file at a path.
func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// Write writes the smaller catalog, the objects for clusters, the signatures and a report to a folder. It replaces the whole folder, but
// keeps the subfolders of other mirrors. It returns the names of the files with objects.
func (m *Mirror) Write(dir string, d Document) (files []string, err error) {
	others, err := ofOthers(dir)
	if err != nil {
		return nil, err
	}
	objects, err := m.objects()
	if err != nil {
		return nil, err
	}
	var report bytes.Buffer
	if err := escape.JSON(&report, d); err != nil {
		return nil, err
	}
	objects[documentFile] = report.Bytes()
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	staging, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-") // a rename works only within one file system
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	fresh, former := filepath.Join(staging, "new"), filepath.Join(staging, "former")
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return nil, err
	}
	if m.hasCatalog() {
		if err := os.CopyFS(filepath.Join(fresh, catalogFolder), os.DirFS(m.folder)); err != nil {
			return nil, err
		}
	}
	if m.Policy != nil {
		places, err := m.places()
		if err != nil {
			return nil, err
		}
		if err := m.Policy.Write(fresh, places); err != nil {
			return nil, err
		}
	}
	for file, text := range objects {
		if err := os.WriteFile(filepath.Join(fresh, file), text, 0o644); err != nil {
			return nil, err
		}
		if file != documentFile {
			files = append(files, filepath.Join(dir, file))
		}
	}
	for _, other := range others {
		if err := os.CopyFS(filepath.Join(fresh, other), os.DirFS(filepath.Join(dir, other))); err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	if err := oci.Replace(dir, fresh, former); err != nil {
		return nil, err
	}
	return files, nil
}
