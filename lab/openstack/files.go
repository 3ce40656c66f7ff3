package openstack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// FileServer is the IP address of the server that has all shares. It belongs to nobody; somebody has to serve NFS there.
const FileServer = "192.0.2.10"

// Export returns the folder with the files of an NFS share, by the share's export path. It fails as the server does:
// with ENOENT if the share does not exist, and with EACCES if no active rule gives access to it.
func (c *Cloud) Export(path string) (folder string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	for _, s := range c.shares.shares {
		if s.Protocol != "NFS" || s.ExportPath() != path {
			continue
		}
		if !slices.ContainsFunc(s.Rules, func(r AccessRule) bool { return r.State == "active" }) {
			return "", fmt.Errorf("share %s has no active access rule: %w", s.ID, syscall.EACCES)
		}
		return c.folder(s.ID), nil
	}
	return "", fmt.Errorf("there is no share with the export path %s: %w", path, syscall.ENOENT)
}

// folder returns the folder with the files of a share or a snapshot.
func (c *Cloud) folder(id string) string { return filepath.Join(c.files, id) }

// makeFiles makes the folder of a share or a snapshot, with the files of another one, or empty if of is "".
func (c *Cloud) makeFiles(id, of string) error {
	switch {
	case c.files == "":
		return nil
	case of == "":
		return os.Mkdir(c.folder(id), 0o755)
	}
	// With their owners, if this process may.
	if out, err := exec.Command("cp", "--archive", "--no-target-directory", c.folder(of), c.folder(id)).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s to %s: %w: %s", of, id, err, out)
	}
	return nil
}

// removeFiles removes the folder of a share or a snapshot. Files that are still mounted stay until they are not.
func (c *Cloud) removeFiles(id string) error {
	if c.files == "" {
		return nil
	}
	return os.RemoveAll(c.folder(id))
}
