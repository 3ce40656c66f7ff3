package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/drivers/sample"
	"github.com/berth-csi/berth/lab/programs"
)

var all = flag.Bool("all-images", false, "pack every image, which takes several minutes and needs Debian packages, and not only a small one")

// small are an image of each kind of program: one of lab/modules/drivers, which demonstrations need, too, one of this
// project, and two that are in the place of others, under their names and under one of their own.
var small = []string{"quay.io/openshift/origin-csi-external-provisioner", "quay.io/openshift/origin-csi-livenessprobe", "quay.io/berth-csi/sample-csi-driver",
	"quay.io/openshift/origin-vsphere-csi-driver"}

// TestDefinitionsHaveImages: there is an image for each that a definition names.
func TestDefinitionsHaveImages(t *testing.T) {
	for _, d := range append(registry.All(), sample.Driver) {
		for _, image := range d.Images {
			tag, err := name.NewTag(image.Default)
			require.NoError(t, err)
			_, ok := contents[tag.Repository.Name()]
			assert.Truef(t, ok, "%s: %s: package images has no %s", d.Name, image.Env, tag.Repository.Name())
		}
	}
}

// TestEveryProgramIsPacked: each program is in an image, and no image has another one.
func TestEveryProgramIsPacked(t *testing.T) {
	var packed []string
	for _, c := range contents {
		packed = append(packed, c.program)
		packed = slices.AppendSeq(packed, maps.Keys(c.beside))
	}
	slices.Sort(packed)
	packed = slices.Compact(packed)
	assert.Equal(t, programs.Names(), packed, "the programs that images have")
}

// answers are arguments that make programs answer at once, and a text in the answer. VERSION stands for the program's
// version.
var answers = map[string]struct{ args, want string }{
	"csi-provisioner":            {"--version", "VERSION"},
	"csi-attacher":               {"--version", "VERSION"},
	"csi-resizer":                {"--version", "VERSION"},
	"csi-snapshotter":            {"--version", "VERSION"},
	"snapshot-controller":        {"--version", "VERSION"},
	"csi-node-driver-registrar":  {"--help", "-kubelet-registration-path"},
	"livenessprobe":              {"--help", "-csi-address"},
	"kube-rbac-proxy":            {"--version", "VERSION"},
	"aws-ebs-csi-driver":         {"--version", `"driverVersion": "VERSION"`},
	"manila-csi-plugin":          {"--version", "VERSION"},
	"cinder-csi-plugin":          {"--version", "VERSION"},
	"gce-pd-csi-driver":          {"--help", "-compute-endpoint"},
	"cpb":                        {"--help", "cpb [output directory]"},
	"opm":                        {"--help", "serve declarative configs"},
	"sample":                     {"--help", "-kubelet-path"},
	"standin":                    {"--help", "Usage of "},
	"nfsplugin":                  {"--help", "-mount-permissions"},
	"aws-efs-csi-driver-v2.1.11": {"--version", `"driverVersion": "VERSION"`},
	"aws-efs-csi-driver-v3.4.1":  {"--version", `"driverVersion": "VERSION"`},
}

// helpers are the programs of Debian that drivers run, and texts in their answers.
var helpers = map[string]string{
	"mount --version":    "mount from util-linux",
	"umount --version":   "umount from util-linux",
	"blkid --version":    "blkid from util-linux",
	"mkfs.ext4 -V":       "mke2fs ",
	"fsck.ext4 -V":       "e2fsck ",
	"resize2fs -h":       "resize2fs ",
	"mkfs.xfs -V":        "mkfs.xfs version",
	"xfs_growfs -V":      "xfs_growfs version",
	"openssl version":    "OpenSSL ",
	"python3 --version":  "Python 3",
	"which mount":        "/",
	"lsblk --version":    "lsblk from util-linux",
	"blockdev --version": "blockdev from util-linux",
}

// efsHelpers are the helpers of efs-utils.
var efsHelpers = map[string]string{
	"/sbin/mount.efs --version":           "/sbin/mount.efs Version: 3.2.0",
	"amazon-efs-mount-watchdog --version": "/usr/bin/amazon-efs-mount-watchdog Version: 3.2.0",
	"efs-proxy":                           "<PROXY_CONFIG_PATH>",
}

// nfsHelpers are the stand-ins for nfs-utils' programs.
var nfsHelpers = map[string]string{
	"/sbin/mount.nfs":  "usage: mount.nfs remotetarget dir",
	"/sbin/mount.nfs4": "usage: mount.nfs4 remotetarget dir",
}

// diskIDHelpers are the stand-ins for the programs that identify disks.
var diskIDHelpers = map[string]string{
	"/lib/udev_containerized/scsi_id --page=0x83 --whitelisted --device=/dev/sda": "scsi_id: ",
	"/lib/udev_containerized/google_nvme_id -d/dev/nvme0n1":                       "is no NVMe disk",
}

// TestImages: the program of an image starts in it, with nothing else from this machine, and so do the programs that
// it runs. Without -all-images, four are packed.
func TestImages(t *testing.T) {
	repositories := small
	if *all {
		repositories = Repositories()
	}
	for _, repository := range repositories {
		t.Run(filepath.Base(repository), func(t *testing.T) {
			c := contents[repository]
			root, config := unpacked(t, repository+":test")
			answer, ok := answers[c.program]
			require.Truef(t, ok, "no arguments are known for %s", c.program)
			version, err := programs.Version(c.program)
			require.NoError(t, err)
			out := runIn(t, root, config, append(config.Entrypoint, answer.args)...)
			assert.Containsf(t, out, strings.ReplaceAll(answer.want, "VERSION", version), "%s %s prints", c.program, answer.args)
			for _, commands := range c.helpers() {
				for command, want := range commands {
					assert.Containsf(t, runIn(t, root, config, strings.Fields(command)...), want, "%s prints", command)
				}
			}
		})
	}
}

func (c content) helpers() []map[string]string {
	var all []map[string]string
	if c.debian {
		all = append(all, helpers)
	}
	if c.shell {
		all = append(all, map[string]string{"sh -c pwd": "/"})
	}
	if c.nfs {
		all = append(all, nfsHelpers)
	}
	if c.efsUtils {
		all = append(all, efsHelpers)
	}
	if c.diskID {
		all = append(all, diskIDHelpers)
	}
	return all
}

func TestUnknownImage(t *testing.T) {
	for _, reference := range []string{"quay.io/openshift/origin-csi-liveness:4.21", "livenessprobe", "quay.io/openshift/origin-csi-livenessprobe@sha256:" + strings.Repeat("0", 64)} {
		_, err := Archive(t.Context(), nil, reference)
		assert.ErrorContainsf(t, err, reference, "pack %s", reference)
	}
}

// unpacked packs an image and returns a folder with the files of its archive, and how to start it.
func unpacked(t *testing.T, reference string) (root string, config v1.Config) {
	t.Helper()
	archive, err := Archive(t.Context(), nil, reference)
	require.NoError(t, err)
	again, err := Archive(t.Context(), nil, reference)
	require.NoError(t, err)
	assert.Equal(t, archive, again, "packed again")
	tag, err := name.NewTag(reference)
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(archive, &tag) // fails without an image of this reference
	require.NoError(t, err)
	file, err := image.ConfigFile()
	require.NoError(t, err)
	root = t.TempDir()
	content := mutate.Extract(image)
	defer content.Close()
	extract(t, root, content)
	return root, file.Config
}

// extract unpacks an archive, without devices and owners.
func extract(t *testing.T, root string, archive io.Reader) {
	t.Helper()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(root, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, path)
		case tar.TypeLink:
			err = os.Link(filepath.Join(root, header.Linkname), path)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(reader); err == nil {
				err = os.WriteFile(path, content, os.FileMode(header.Mode).Perm())
			}
		}
		require.NoError(t, err)
	}
}

// runIn runs a command of an image and returns its output. The exit code of a request for help may be any; if the
// program cannot be started, the test fails.
func runIn(t *testing.T, root string, config v1.Config, command ...string) string {
	t.Helper()
	path := command[0]
	if !filepath.IsAbs(path) {
		path = ""
		for _, folder := range filepath.SplitList(strings.TrimPrefix(config.Env[0], "PATH=")) {
			if _, err := os.Stat(filepath.Join(root, folder, command[0])); err == nil {
				path = filepath.Join(folder, command[0])
				break
			}
		}
		require.NotEmptyf(t, path, "the image has no %s", command[0])
	}
	cmd := exec.CommandContext(t.Context(), path, command[1:]...)
	cmd.Env, cmd.Dir = config.Env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:      root,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, // no network, and no root needed
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0) {
		t.Fatalf("%s in the image: %v\n%s", strings.Join(command, " "), err, out.String())
	}
	return out.String()
}
