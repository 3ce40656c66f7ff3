package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// What a layer says of the layers below it: a file of this prefix stands for one that is gone, and one of
// this name for everything in its folder
// (https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// contentError is about what an image holds, as opposed to how it is reached.
type contentError struct{ message string }

func (e *contentError) Error() string { return e.message }

// readFiles returns the files in folders of an image.
func readFiles(image v1.Image, size int64, folders []string) (map[string][]byte, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	budget := &io.LimitedReader{N: size}
	for _, layer := range layers {
		above, err := readLayer(layer, budget, folders)
		if budget.N == 0 {
			return nil, &contentError{fmt.Sprintf("its files take more than %d bytes; expected a smaller image", size)}
		}
		if err != nil {
			return nil, err
		}
		above.cover(files)
	}
	return files, nil
}

// layer is what one layer does to the files below it.
type layer struct {
	files map[string][]byte
	// gone are the files that are removed, and the folders of which the files are.
	gone []string
}

// cover applies the layer to the files of those below it.
func (l *layer) cover(files map[string][]byte) {
	remove := func(covers func(name string) bool) {
		maps.DeleteFunc(files, func(name string, _ []byte) bool { return covers(name) })
	}
	for _, name := range l.gone {
		remove(func(below string) bool { return isWithin(below, name) })
	}
	for name, content := range l.files {
		remove(func(below string) bool { return isWithin(below, name) || isWithin(name, below) })
		files[name] = content
	}
}

// isWithin tells whether a path is that of something, or of what is below it.
func isWithin(name, of string) bool {
	return of == "." || name == of || strings.HasPrefix(name, of+"/")
}

// readLayer reads the files in folders of one layer, through the budget: what may still be read.
func readLayer(from v1.Layer, budget *io.LimitedReader, folders []string) (l *layer, err error) {
	stream, err := from.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	budget.R = stream
	l = &layer{files: map[string][]byte{}}
	for archive := tar.NewReader(budget); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, budget) // the digest is checked where the layer ends
			return l, err
		}
		if err != nil {
			return nil, err
		}
		if err := l.read(header, archive, folders); err != nil {
			return nil, err
		}
	}
}

// read reads one entry of the layer's archive.
func (l *layer) read(header *tar.Header, content io.Reader, folders []string) error {
	if slices.Contains(strings.Split(header.Name, "/"), "..") {
		return &contentError{fmt.Sprintf("its file %q leads out of its folder", header.Name)}
	}
	name := path.Clean("/" + header.Name)[1:]
	folder, base := path.Dir(name), path.Base(name)
	if base == opaque {
		l.gone = append(l.gone, folder)
		return nil
	}
	if removed, is := strings.CutPrefix(base, whiteout); is {
		l.gone = append(l.gone, path.Join(folder, removed))
		return nil
	}
	if !slices.ContainsFunc(folders, func(folder string) bool { return isWithin(name, folder) }) {
		return nil
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg:
		data, err := io.ReadAll(content)
		l.files[name] = data
		return err
	}
	return &contentError{fmt.Sprintf("%s is a link or something else that is not a file; expected files and folders only", name)}
}
