package testbed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-csi/berth/test/aws"
	"github.com/berth-csi/berth/test/aws/efs"
	"github.com/berth-csi/berth/test/drivers/nfs"
)

// mountTarget is the address of the mount target of a file system, with its number.
const mountTarget = "10.0.80.%d"

// FileSystems are file systems of EFS with a mount target in the zone of the nodes.
type FileSystems struct {
	// NFS serves them.
	NFS *nfs.Server

	cloud   *aws.Cloud
	folders map[string]string // by ID
	targets map[string]string // IP addresses, by ID
}

// AddFileSystems adds file systems with IDs, which may be of other accounts. Each has a folder of this machine.
func AddFileSystems(t testing.TB, a *AWS, all ...efs.FileSystem) *FileSystems {
	t.Helper()
	s := &FileSystems{cloud: a.Cloud, folders: map[string]string{}, targets: map[string]string{}}
	s.NFS = nfs.Start(t, s.export)
	zone := a.Zones()[0]
	for i, fs := range all {
		id := fs.ID
		a.EFS.AddFileSystem(fs)
		s.folders[id], s.targets[id] = t.TempDir(), fmt.Sprintf(mountTarget, i+1)
		if _, err := a.EFS.AddMountTarget(efs.MountTarget{FileSystemID: id, Zone: zone.Name, ZoneID: zone.ID, IP: s.targets[id]}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Serve adds the mount targets and their names to what a testbed finds.
func (s *FileSystems) Serve(cloud *Cloud) {
	cloud.NFS, cloud.Names = s.NFS, map[string]string{}
	for id, address := range s.targets {
		cloud.Servers[address+":2049"] = s.NFS.Address()
		cloud.Names[id+".efs."+s.cloud.Region()+".amazonaws.com"] = address
	}
}

// Folder returns the folder with the files of a file system.
func (s *FileSystems) Folder(id string) string { return s.folders[id] }

// export returns the folder of a request. A file system without access point has to be named by its host: only TLS has
// a certificate.
func (s *FileSystems) export(r nfs.Request) (string, error) {
	id := r.FileSystem
	if id == "" {
		id, _, _ = strings.Cut(r.Host, ".")
	}
	folder, ok := s.folders[id]
	if !ok || !strings.HasPrefix(r.Host, id+".") {
		return "", syscall.EACCES
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

// enter returns the root directory of an access point. As EFS does, it makes the directory when it is first mounted, if
// the access point says with which owner.
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
