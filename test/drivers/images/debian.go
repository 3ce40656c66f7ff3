package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// suite is the release of Debian in images of drivers.
const suite = "bookworm"

// packages are the packages with the programs that drivers run: mount and umount; blkid and lsblk; mkfs, fsck and
// resize2fs for ext4; mkfs.xfs and xfs_growfs; Python and openssl for mount.efs, which creates a certificate for each
// mount.
var packages = []string{"mount", "util-linux", "e2fsprogs", "xfsprogs", "python3", "openssl"}

// Options of mmdebstrap: only essential packages and these, without documentation; optionally with apt.
var (
	options = append([]string{"--variant=essential", "--include=" + strings.Join(packages, ",")}, lean...)
	withApt = append([]string{"--variant=apt"}, lean...)
	// Only one package, without its dependencies. Its program has the names of all commands that it knows.
	busyBox = append([]string{"--variant=extract", "--include=busybox-static", "--extract-hook=chroot \"$1\" /bin/busybox --install -s /bin"}, lean...)

	lean = []string{
		"--dpkgopt=force-unsafe-io", // no fsync: the archive is discarded if the machine fails
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/info/*",
	}
)

// installing is the progress of debian.
var installing = tools.Progress{Phase: "installing Debian packages", Detail: strings.Join(packages, ", ")}

// debian returns the path of a tar archive with a small Debian, which is made once from the packages that the machine's apt gets. Only
// another list of packages changes it, not later versions of them.
func debian(ctx context.Context, report func(tools.Progress)) (string, error) {
	return archiveOf(ctx, report, options)
}

// DebianWithApt returns the path of a tar archive with a Debian for building images: it has a package manager, and uses
// this machine's package sources.
func DebianWithApt(ctx context.Context) (string, error) { return archiveOf(ctx, nil, withApt) }

// DebianImage returns an image with only DebianWithApt.
func DebianImage(ctx context.Context) (v1.Image, error) {
	archive, err := DebianWithApt(ctx)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(archive)
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(empty.Image, layer)
}

// archiveOf returns the archive that mmdebstrap makes with some options.
func archiveOf(ctx context.Context, report func(tools.Progress), options []string) (string, error) {
	mmdebstrap, err := exec.LookPath("mmdebstrap")
	key := fmt.Sprintf("debian-%x", sha256.Sum256([]byte(suite+" "+strings.Join(options, " "))))[:len("debian-")+16]
	folder, onceErr := tools.Once(ctx, "images", key, report, func(folder string) error {
		if err != nil {
			return fmt.Errorf("images of drivers need mmdebstrap, which 'apt-get install mmdebstrap' installs: %w", err)
		}
		if report != nil {
			report(installing)
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		return bootstrap(ctx, mmdebstrap, options, filepath.Join(folder, "root.tar"))
	})
	if onceErr != nil {
		return "", onceErr
	}
	return filepath.Join(folder, "root.tar"), nil
}

// bootstrap makes the archive from the machine's own package sources.
func bootstrap(ctx context.Context, mmdebstrap string, options []string, archive string) error {
	args := append(options[:len(options):len(options)], suite, archive)
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		args = append(args, found...)
	}
	cmd := exec.CommandContext(ctx, mmdebstrap, args...)
	// It removes its folder when it is interrupted.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(complaints.String()), "\n")
		return errors.Join(fmt.Errorf("mmdebstrap: %w", err), errors.New(strings.Join(lines[max(0, len(lines)-20):], "\n")))
	}
	return nil
}
