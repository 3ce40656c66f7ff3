package testbed

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/nfs"
)

// Mount targets have addresses of this range: AddFileSystems uses the first three, and EC2 assigns others.
var mountTargets = netip.MustParsePrefix("10.0.80.0/24")

// maxMountTargets is how many mount targets nodes can reach.
const maxMountTargets = 9

// FileSystems are the file systems of a region of EFS. Nodes can mount them, including file systems created later, for
// example by an administrator.
type FileSystems struct {
	// NFS serves them.
	NFS *nfs.Server

	cloud *aws.Cloud
	root  string // has a folder for each of them
}

// AddFileSystems adds file systems with IDs, which may be of other accounts, and a mount target for each in the zone of the
// nodes. It serves these and all other file systems of the region, each from a folder of this machine.
func AddFileSystems(t testing.TB, a *AWS, all ...efs.FileSystem) *FileSystems {
	t.Helper()
	require.LessOrEqual(t, len(all), 3, "file systems; EC2 assigns the addresses after the third")
	s := &FileSystems{cloud: a.Cloud, root: t.TempDir()}
	s.NFS = nfs.Start(t, s.export)
	zone, address := a.Zones()[0], mountTargets.Addr()
	for _, fs := range all {
		address = address.Next()
		a.EFS.AddFileSystem(fs)
		_, err := a.EFS.AddMountTarget(efs.MountTarget{FileSystemID: fs.ID, Zone: zone.Name, ZoneID: zone.ID, IP: address.String()})
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(s.Folder(fs.ID), 0o755))
	}
	return s
}

// Serve adds the addresses and the names of mount targets to a testbed's cloud.
func (s *FileSystems) Serve(cloud *Cloud) {
	cloud.NFS, cloud.Resolve = s.NFS, s.resolve
	for address, i := mountTargets.Addr().Next(), 0; i < maxMountTargets; address, i = address.Next(), i+1 {
		cloud.Servers[address.String()+":2049"] = s.NFS.Address()
	}
}

// resolve returns the address of a file system's mount target. All nodes are in one zone.
func (s *FileSystems) resolve(host string) (address netip.Addr, known bool) {
	id, found := strings.CutSuffix(host, ".efs."+s.cloud.Region()+".amazonaws.com")
	if !found {
		return netip.Addr{}, false
	}
	for _, target := range s.cloud.EFS.MountTargets() {
		if target.FileSystemID == id {
			address, err := netip.ParseAddr(target.IP)
			return address, err == nil
		}
	}
	return netip.Addr{}, false
}

// Folder returns the folder with the files of a file system. It exists once AddFileSystems has added the file system, or a node has mounted
// it.
func (s *FileSystems) Folder(id string) string { return filepath.Join(s.root, id) }

// export returns the folder of a request. Without TLS, no certificate names the file system, so the host must be the file system's.
func (s *FileSystems) export(r nfs.Request) (string, error) {
	id := r.FileSystem
	if id == "" {
		id, _, _ = strings.Cut(r.Host, ".")
	}
	if !slices.ContainsFunc(s.cloud.EFS.FileSystems(), func(fs efs.FileSystem) bool { return fs.ID == id }) || !strings.HasPrefix(r.Host, id+".") {
		return "", syscall.EACCES
	}
	folder := s.Folder(id)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if r.AccessPoint != "" {
		points := s.cloud.EFS.AccessPoints()
		at := slices.IndexFunc(points, func(p efs.AccessPoint) bool { return p.ID == r.AccessPoint && p.FileSystemID == id })
		if at < 0 {
			return "", syscall.EACCES
		}
		var err error
		if folder, err = enter(folder, points[at].RootDirectory); err != nil {
			return "", err
		}
	}
	folder = filepath.Join(folder, path.Clean("/"+r.Path))
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return "", syscall.ENOENT
	}
	return folder, nil
}

// enter returns the root directory of an access point. Like EFS, it makes the directory at the first mount, if the
// access point names its owner.
func enter(folder string, root efs.RootDirectory) (string, error) {
	folder = filepath.Join(folder, path.Clean("/"+root.Path))
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return folder, err
	}
	if root.CreationInfo == nil {
		return "", syscall.EACCES
	}
	mode, err := strconv.ParseUint(root.CreationInfo.Permissions, 8, 32)
	if err != nil {
		return "", err
	}
	return folder, errors.Join(
		os.MkdirAll(folder, 0o755),
		os.Chmod(folder, os.FileMode(mode)),
		os.Chown(folder, int(*root.CreationInfo.OwnerUID), int(*root.CreationInfo.OwnerGID)),
	)
}
