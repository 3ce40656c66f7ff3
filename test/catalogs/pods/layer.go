package pods

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// opmUser is the user of opm's image, who makes the cache while an image is built.
const opmUser = 1001

// ownedLayer returns a layer with a folder of this machine at a path.
func ownedLayer(folder, at string) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(writeOwned(writer, folder, at)) }()
		return reader, nil
	}, tarball.WithMediaType(types.OCILayer))
}

func writeOwned(to io.Writer, folder, at string) error {
	archive := tar.NewWriter(to)
	of := os.DirFS(folder)
	err := fs.WalkDir(of, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path.Join(at, name), Mode: int64(info.Mode().Perm()), Uid: opmUser, Gid: 0, Format: tar.FormatPAX, Typeflag: tar.TypeReg, Size: info.Size()}
		if entry.IsDir() {
			header.Name, header.Typeflag, header.Size = header.Name+"/", tar.TypeDir, 0
			return archive.WriteHeader(header)
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		file, err := of.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(archive, file)
		return errors.Join(err, file.Close())
	})
	return errors.Join(err, archive.Close())
}
