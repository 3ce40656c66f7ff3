package registryv1

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Write replaces the content of dir with the bundle. The new folder is complete before it replaces the old one, so that a
// failure leaves the old one unchanged.
//
// Write refuses to replace a folder that is not a bundle of the same package, or that holds anything else.
func (b *Bundle) Write(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	replace, err := b.mayReplace(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	// Next to dir, because a rename works only within one file system.
	scratch, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	defer os.RemoveAll(scratch)

	fresh, stale := filepath.Join(scratch, "fresh"), filepath.Join(scratch, "stale")
	if err := b.writeFiles(fresh); err != nil {
		return err
	}
	if replace {
		if err := os.Rename(dir, stale); err != nil {
			return fmt.Errorf("cannot replace the bundle folder: %w", err)
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		err = fmt.Errorf("cannot put the new bundle folder in place: %w", err)
		if replace {
			err = errors.Join(err, os.Rename(stale, dir))
		}
		return err
	}
	return nil
}

func (b *Bundle) writeFiles(dir string) error {
	for _, f := range b.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing the bundle: %w", err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return fmt.Errorf("writing the bundle: %w", err)
		}
	}
	return nil
}

// mayReplace reports whether there is a folder to replace. It fails if that would delete anything that is not part of a
// bundle of the package.
func (b *Bundle) mayReplace(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	if len(entries) == 0 {
		return true, nil
	}
	refuse := func(found string) error {
		return fmt.Errorf("will not replace %s: %s; expected nothing there, an empty folder or a bundle of package %s: "+
			"choose another folder or remove this one", dir, found, b.Package)
	}
	for _, entry := range entries {
		if !slices.Contains([]string{ManifestsDir, MetadataDir, DockerfilePath}, entry.Name()) {
			return false, refuse("it holds " + entry.Name() + ", which is not part of a bundle")
		}
	}
	// Broken manifests are no reason to refuse: writing the bundle again repairs them.
	left := maxFolder
	metadata, _, err := readFiles(dir, MetadataDir, &left)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	old := reader{source: source{name: dir, kind: "folder"}, contents: &Contents{Bundle: &Bundle{Files: metadata}}}
	if err := old.metadata(); err != nil {
		return false, refuse(err.Error())
	}
	if name := old.contents.Metadata.Annotations[PackageAnnotation]; name != b.Package {
		return false, refuse("it is a bundle of package " + name)
	}
	return true, nil
}
