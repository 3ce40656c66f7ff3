package render

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
)

// Split is like Write, and writes a file for each package, as "opm migrate" does: DIR/PACKAGE/catalog.json, or .yaml, and
// DIR/catalog.json for documents without a package. The folder must be absent or empty, and is complete or unchanged afterwards.
func Split(ctx context.Context, dir string, o Options, sources []string) (found []*findings.Finding, err error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("folder %s is not empty; expected an empty one, or none", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r, err := read(ctx, o, sources)
	if err != nil {
		return r.found, errors.Join(err, r.close())
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.found, r.split(dir)
}

// split writes the files by way of a staging folder.
func (r *renderer) split(dir string) (err error) {
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(parent, ".staging-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	if err := os.Chmod(staging, 0o755); err != nil {
		return err
	}
	r.sort()
	for rest := r.parts; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].pkg == rest[0].pkg {
			n++
		}
		if err := r.writePackage(staging, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(staging, dir)
}

// writePackage writes the file of the parts of a package.
func (r *renderer) writePackage(dir string, parts []part) (err error) {
	if pkg := parts[0].pkg; pkg != "" {
		if !fbc.IsServable(pkg) { // it could lead out of the folder
			return fmt.Errorf("package %q has a name that no folder can have; expected letters, digits, dots and dashes", pkg)
		}
		dir = filepath.Join(dir, pkg)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(filepath.Join(dir, "catalog."+r.options.Output), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriter(file)
	if err := r.write(out, parts); err != nil {
		return err
	}
	return out.Flush()
}
