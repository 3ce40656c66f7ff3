package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Files are the files of a layer, each with its slash-separated path from the image's root. Folders are implied.
type Files map[string]File

// File is a file of a layer: its content, or the path of a file with the content.
type File struct {
	Data       []byte
	Source     string
	Executable bool
	// Link is the target of a symbolic link.
	Link string
	// SharedFolder says that it is a folder where everybody may write, like /tmp.
	SharedFolder bool
}

// Layer returns a layer with the files, which does not depend on when or where it was built.
func (f Files) Layer() (v1.Layer, error) { return f.layer(gzip.BestSpeed) }

// SmallLayer returns the same layer with the best compression, which is slower and worth it for programs.
func (f Files) SmallLayer() (v1.Layer, error) { return f.layer(gzip.BestCompression) }

func (f Files) layer(compression int) (v1.Layer, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(f.open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(compression), tarball.WithCompressedCaching)
}

// check fails for a path that is not below the image's root.
func (f Files) check() error {
	for name := range f {
		if name != path.Clean(name) || path.IsAbs(name) || strings.HasPrefix(name, "..") || name == "." {
			return fmt.Errorf("file %q: want a path below the image's root", name)
		}
	}
	return nil
}

// open returns a stream of the archive.
func (f Files) open() (io.ReadCloser, error) {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(f.write(writer)) }()
	return reader, nil
}

func (f Files) write(out io.Writer) error {
	archive := tar.NewWriter(out)
	for _, name := range f.names() {
		if err := f.add(archive, name); err != nil {
			return fmt.Errorf("file %q: %w", name, err)
		}
	}
	return archive.Close()
}

// names returns the paths of all folders, which end with a slash, and files, each folder before its content.
func (f Files) names() []string {
	names := map[string]bool{}
	for name := range f {
		names[name] = true
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			names[folder+"/"] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (f Files) add(archive *tar.Writer, name string) (err error) {
	file, isFile := f[name]
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Format: tar.FormatPAX}
	if !isFile {
		header.Typeflag, header.Mode = tar.TypeDir, 0o755
		return archive.WriteHeader(header)
	}
	switch {
	case file.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, file.Link, 0o777
		return archive.WriteHeader(header)
	case file.SharedFolder:
		header.Name, header.Typeflag, header.Mode = name+"/", tar.TypeDir, 0o1777
		return archive.WriteHeader(header)
	case file.Executable:
		header.Mode = 0o755
	}
	content, size, err := file.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	header.Size = size
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

func (f File) open() (content io.ReadCloser, size int64, err error) {
	if f.Source == "" {
		return io.NopCloser(bytes.NewReader(f.Data)), int64(len(f.Data)), nil
	}
	file, err := os.Open(f.Source)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}
