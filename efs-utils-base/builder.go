// Package base builds the base image of the EFS driver, and the EFS driver's image, with buildah. It needs no container
// engine, and keeps no image: it removes its storage at the end.
package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Version is the version of efs-utils.
const Version = "v3.2.0"

// Builder runs buildah.
type Builder struct {
	buildah string
	folder  string // with the Containerfiles
	scratch string
	log     io.Writer
}

// NewBuilder returns a builder that works in a new folder. folder is the folder efs-utils-base of a clone of this repository. The builder
// logs each step to log.
func NewBuilder(folder string, log io.Writer) (*Builder, error) {
	buildah, err := exec.LookPath("buildah")
	if err != nil {
		return nil, fmt.Errorf("images of the EFS driver are built with buildah, which 'apt-get install buildah' or 'dnf install buildah' installs: %w", err)
	}
	scratch, err := os.MkdirTemp("", "efs-utils-base-")
	return &Builder{buildah, folder, scratch, log}, err
}

// Close removes all images.
func (b *Builder) Close() error {
	// Files of images may belong to users that only buildah can become.
	_, err := b.Run(context.Background(), "rm", "--all")
	_, rmiErr := b.Run(context.Background(), "rmi", "--all", "--force")
	return errors.Join(err, rmiErr, os.RemoveAll(b.scratch))
}

// Run runs a command of buildah with the builder's storage, and returns its output.
func (b *Builder) Run(ctx context.Context, args ...string) (string, error) {
	storage := []string{"--storage-driver", "vfs", "--root", filepath.Join(b.scratch, "images"), "--runroot", filepath.Join(b.scratch, "run")}
	command := exec.CommandContext(ctx, b.buildah, append(storage, args...)...)
	// buildah cleans up when it is interrupted.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	var complaints strings.Builder
	command.Stderr = io.MultiWriter(b.log, &complaints)
	out, err := command.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(complaints.String()), "\n")
		return "", fmt.Errorf("buildah %s: %w:\n%s", args[0], err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return strings.TrimSpace(string(out)), nil
}

// Options are the sources of the image efs-utils-base.
type Options struct {
	// Base is an image of CentOS Stream, RHEL or Debian.
	Base string
	// Rust is an image to compile efs-proxy in. By default that is Base.
	Rust string
	// Source is a folder with the source of efs-utils, and Proxy one with the program efs-proxy. By default, the source is
	// downloaded, and the program is compiled.
	Source, Proxy string
	// FIPS is "required", the default, or "optional": whether the image must have a stunnel with FIPS mode.
	FIPS string
	// ExtraPackages are installed, too.
	ExtraPackages []string
	// Architecture is one of Go's names. Time is the time of all files.
	Architecture string
	Time         time.Time
}

// BuildBase builds the image efs-utils-base under a name.
func (b *Builder) BuildBase(ctx context.Context, name string, o Options) error {
	return b.build(ctx, name, "Containerfile", o,
		map[string]string{"BASE": o.Base, "RUST": o.Rust, "FIPS": o.FIPS, "EXTRA_PACKAGES": strings.Join(o.ExtraPackages, " ")},
		map[string]string{"source": o.Source, "proxy": o.Proxy})
}

// BuildDriver builds the image of a version of the driver on an image efs-utils-base. Folder has the program
// aws-efs-csi-driver and its LICENSE.
func (b *Builder) BuildDriver(ctx context.Context, name, base, folder, version string, o Options) error {
	return b.build(ctx, name, "driver.Containerfile", o,
		map[string]string{"EFS_UTILS_BASE": base, "VERSION": version}, map[string]string{"driver": folder})
}

// build runs a Containerfile. Arguments and folders that are empty keep their defaults.
func (b *Builder) build(ctx context.Context, name, file string, o Options, arguments, folders map[string]string) error {
	args := []string{"build", "--isolation", "chroot", "--file", filepath.Join(b.folder, file), "--tag", name}
	if o.Architecture != "" {
		args = append(args, "--arch", o.Architecture)
	}
	if !o.Time.IsZero() {
		args = append(args, "--timestamp", fmt.Sprint(o.Time.Unix()))
	}
	for argument, value := range arguments {
		if value != "" {
			args = append(args, "--build-arg", argument+"="+value)
		}
	}
	for stage, folder := range folders {
		if folder == "" {
			continue
		}
		absolute, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		args = append(args, "--build-context", stage+"="+absolute)
	}
	_, err := b.Run(ctx, append(args, b.folder)...)
	return err
}

// Load gives the builder an image to build on, and returns its name.
func (b *Builder) Load(ctx context.Context, img v1.Image) (name string, err error) {
	folder, err := os.MkdirTemp(b.scratch, "layout-")
	if err != nil {
		return "", err
	}
	index, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", err
	}
	if err := index.AppendImage(img); err != nil {
		return "", err
	}
	id, err := b.Run(ctx, "pull", "--quiet", "oci:"+folder)
	if err != nil {
		return "", err
	}
	name = "localhost/loaded:" + id[:12]
	_, err = b.Run(ctx, "tag", id, name)
	return name, err
}

// Image returns an image that was built. It can be used until the builder is closed.
func (b *Builder) Image(ctx context.Context, name string) (v1.Image, error) {
	folder, err := os.MkdirTemp(b.scratch, "layout-")
	if err != nil {
		return nil, err
	}
	if _, err := b.Run(ctx, "push", name, "oci:"+folder); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("buildah push %s: got %d images, want one", name, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}
