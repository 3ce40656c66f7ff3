package images

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/programs"
)

// searchPath is the PATH of images.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// archive returns the path of the image's archive.
func (c content) archive(ctx context.Context, report func(tools.Progress), tag name.Tag) (string, error) {
	if given, err := programs.Given(c.program); err != nil {
		return "", err
	} else if given != "" {
		c = c.real()
	}
	var files []file
	base := ""
	building, both := errgroup.WithContext(ctx) // packages of Debian are installed while the compiler works
	building.Go(func() (err error) {
		files, err = c.files(both, report)
		if report != nil && c.debian {
			report(installing) // the remaining time, unless it is done
		}
		return err
	})
	if on := c.base(); on != nil {
		building.Go(func() (err error) {
			base, err = on(both, report)
			return err
		})
	}
	if err := building.Wait(); err != nil {
		return "", err
	}
	return c.packOnce(ctx, report, tag, base, files)
}

// base returns the base of the image, nil for an empty one.
func (c content) base() Base {
	switch {
	case c.debian:
		return Debian
	case c.shell:
		return BusyBox
	}
	return nil
}

// packOnce returns the path of the archive, and packs it first if the cache does not have it.
func (c content) packOnce(ctx context.Context, report func(tools.Progress), tag name.Tag, base string, files []file) (string, error) {
	key, err := c.key(tag, base, files)
	if err != nil {
		return "", err
	}
	folder, err := tools.Once(ctx, "images", key, report, func(folder string) error {
		if report != nil {
			report(tools.Progress{Phase: "packing images", Detail: tag.String()})
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		return c.pack(folder, tag, base, files)
	})
	return filepath.Join(folder, archiveName), err
}

const archiveName = "image.tar"

// key names the image's folder in the cache after all that is in the image.
func (c content) key(tag name.Tag, base string, files []file) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, tag, c.entrypoint, runtime.GOARCH, base)
	for _, f := range files {
		if f.isFolder() {
			fmt.Fprintln(hash, f.target)
			continue
		}
		if f.link != "" {
			fmt.Fprintln(hash, f.target, f.link)
			continue
		}
		content, err := os.ReadFile(f.source)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %o %x\n", f.target, f.mode, sha256.Sum256(content))
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// pack writes the archive into a folder.
func (c content) pack(folder string, tag name.Tag, base string, files []file) error {
	own := filepath.Join(folder, "files.tar")
	if err := writeTar(own, folders(files), files); err != nil {
		return err
	}
	defer os.Remove(own)
	image := empty.Image
	for _, archive := range []string{base, own} {
		if archive == "" {
			continue
		}
		// Not compressed: the image stays on this machine.
		layer, err := tarball.LayerFromFile(archive, tarball.WithCompressionLevel(0))
		if err != nil {
			return err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return err
		}
	}
	image, err := c.configure(image)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(folder, archiveName), tag, image)
}

// configure sets the command that the runtime starts.
func (c content) configure(image v1.Image) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = runtime.GOOS, runtime.GOARCH
	if c.entrypoint != "" {
		config.Config.Entrypoint = []string{c.entrypoint}
	}
	config.Config.Env = []string{"PATH=" + searchPath}
	return mutate.ConfigFile(image, config)
}

// writeTar writes folders, parents first, and files to an archive that depends on nothing else.
func writeTar(archive string, folders []string, files []file) error {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer out.Close()
	writer := tar.NewWriter(out)
	for _, folder := range folders {
		if err := writer.WriteHeader(&tar.Header{Name: folder[1:] + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			return err
		}
	}
	for _, f := range files {
		if f.isFolder() {
			continue // written above
		}
		if err := addFile(writer, f); err != nil {
			return fmt.Errorf("%s: %w", f.source, err)
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return out.Close()
}

func addFile(writer *tar.Writer, f file) error {
	if f.link != "" {
		return writer.WriteHeader(&tar.Header{Name: f.target[1:], Typeflag: tar.TypeSymlink, Linkname: f.link, Mode: 0o777})
	}
	in, err := os.Open(f.source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := writer.WriteHeader(&tar.Header{Name: f.target[1:], Typeflag: tar.TypeReg, Mode: f.mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(writer, in)
	return err
}
