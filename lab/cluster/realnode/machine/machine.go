// Package machine checks whether this machine can run real nodes. It imports almost nothing, so that a demonstration
// can say early what it will not show.
package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CNIFolder has the CNI plugins of Debian's package.
const CNIFolder = "/usr/lib/cni"

// Missing returns an error of one line with the missing requirements of real nodes, and nil if they can run.
func Missing() error {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root (run this as root)")
	} else if lacking := lackingCapabilities(); len(lacking) > 0 {
		missing = append(missing, fmt.Sprintf("the capabilities %s (in a container, run it as a privileged one)", strings.Join(lacking, ", ")))
	}
	if _, err := exec.LookPath("runc"); err != nil {
		missing = append(missing, "runc on the PATH (apt-get install runc)")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		missing = append(missing, "mmdebstrap on the PATH, for images (apt-get install mmdebstrap)")
	}
	for _, plugin := range []string{"ptp", "host-local", "loopback"} {
		if _, err := os.Stat(filepath.Join(CNIFolder, plugin)); err != nil {
			missing = append(missing, filepath.Join(CNIFolder, plugin)+" (apt-get install containernetworking-plugins)")
		}
	}
	if hierarchies, err := Hierarchies(); err != nil {
		missing = append(missing, err.Error())
	} else if len(hierarchies) == 0 {
		missing = append(missing, "control groups of version 1 below /sys/fs/cgroup (version 2 is not supported)")
	}
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "\toverlay\n") {
		missing = append(missing, "the overlay file system (modprobe overlay)")
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("real nodes cannot run here; missing: " + strings.Join(missing, "; "))
}

// capabilities are the capabilities that root needs to make namespaces with mounts, networks and devices. Root has them all, except in a
// container.
var capabilities = []struct {
	name string
	bit  int
}{
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN}, {"CAP_NET_ADMIN", unix.CAP_NET_ADMIN}, {"CAP_MKNOD", unix.CAP_MKNOD}, {"CAP_SYS_CHROOT", unix.CAP_SYS_CHROOT},
}

// lackingCapabilities names the needed capabilities that this process lacks.
func lackingCapabilities() []string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // of 32 capabilities each
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return nil // then the kernel has no capabilities
	}
	var lacking []string
	for _, c := range capabilities {
		if sets[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			lacking = append(lacking, c.name)
		}
	}
	return lacking
}

// CgroupFolder is where all machines mount the hierarchies of control groups.
const CgroupFolder = "/sys/fs/cgroup"

// Hierarchy is a hierarchy of control groups of version 1.
type Hierarchy struct {
	// Controllers are such as "memory" or "name=systemd", which are also the options of its mount.
	Controllers string
	// Own is the folder of the group that this process is in.
	Own string
}

// MountPoint returns the mount point of the hierarchy.
func (h Hierarchy) MountPoint() string {
	return filepath.Join(CgroupFolder, strings.TrimPrefix(h.Controllers, "name="))
}

// Hierarchies returns the hierarchies of version 1 that this machine has mounted.
func Hierarchies() ([]Hierarchy, error) {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var all []Hierarchy
	for line := range strings.Lines(string(content)) {
		// Such as "4:memory:/user.slice". The line of version 2 names no controllers.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || fields[1] == "" {
			continue
		}
		h := Hierarchy{Controllers: fields[1]}
		h.Own = filepath.Join(h.MountPoint(), fields[2])
		if _, err := os.Stat(filepath.Join(h.MountPoint(), "cgroup.procs")); err == nil {
			all = append(all, h)
		}
	}
	return all, nil
}
