package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/loop"
)

// TestNothingIsLeftOfRealNodes: no matter which process is killed, no process, control group, loop device or file of a
// real node stays, and its mounts never appear on the machine.
func TestNothingIsLeftOfRealNodes(t *testing.T) {
	NeedRealNodes(t)
	t.Parallel()
	for _, test := range []struct {
		name string
		kill func(t *testing.T, s *starter, dir string)
		// folderStays is set if the cluster's folder stays for the next keeper, as after any killed keeper.
		folderStays bool
	}{
		{"the program ends", func(t *testing.T, s *starter, _ string) { s.Process.Signal(syscall.SIGINT) }, false},
		{"the program is killed", func(t *testing.T, s *starter, _ string) { s.Process.Kill() }, false},
		{"the keeper is killed", func(t *testing.T, _ *starter, dir string) { killNamed(t, dir, "(cluster keeper)") }, true},
		{"the supervisor is killed, then the keeper ends", func(t *testing.T, s *starter, dir string) {
			killNamed(t, dir, "(supervisor of node")
			s.Process.Kill()
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			s := startStarter(t, "waits with a real node", "TMPDIR="+temp)
			folder := realNodeFolder(s.printed, RealNode(0))
			root, err := (&Cluster{state: state{Dir: s.printed}}).NodeRoot(RealNode(0))
			require.NoErrorf(t, err, "the program printed %q", s.printed)
			loops := []string{attachLoop(t, filepath.Join(root, "/var/lib/kubelet/disk")), attachLoop(t, filepath.Join(root, "/tmp/disk"))}
			groups := groupsOf(t, folder)
			left := func() error { return remains(t, temp, folder, groups, loops) }
			for _, expected := range []string{"processes", "control group", "loop device"} {
				require.ErrorContains(t, left(), expected, "while the node runs, found")
			}
			if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), temp) {
				t.Errorf("a mount of the node is the machine's, too (%v):\n%s", err, mounts)
			}
			test.kill(t, s, s.printed)
			Eventually(t, waitLimit, "all of the node to go", func(context.Context) error { return left() })
			if test.folderStays {
				assert.NoError(t, sweep(s.printed))
			}
		})
	}
}

// killNamed kills the process of a cluster whose name begins like this.
func killNamed(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		arguments, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		environment, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if strings.Contains(string(arguments), "\x00"+name) && strings.Contains(string(environment), filepath.Dir(dir)) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	t.Fatalf("found no process %q of the cluster in %s", name, dir)
}

// remains returns an error that lists everything left of a node.
func remains(t *testing.T, temp, folder string, groups, loops []string) error {
	var errs []error
	if processes := processesOf(t, temp); len(processes) > 0 {
		errs = append(errs, fmt.Errorf("processes %v", processes))
	}
	for _, group := range groups {
		if _, err := os.Stat(group); err == nil {
			errs = append(errs, fmt.Errorf("control group %s", group))
		}
	}
	for _, loop := range loops {
		file, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(loop), "loop/backing_file"))
		if err == nil && strings.Contains(string(file), "disk") {
			errs = append(errs, fmt.Errorf("loop device %s of %s", loop, file))
		}
	}
	if _, err := os.Stat(folder); err == nil {
		errs = append(errs, fmt.Errorf("folder %s", folder))
	}
	return errors.Join(errs...)
}

// groupsOf returns the control groups of a node. Its record of them goes with it.
func groupsOf(t *testing.T, folder string) (groups []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "cgroups.json"))
	require.NoError(t, err)
	if err := json.Unmarshal(content, &groups); err != nil || len(groups) == 0 {
		t.Fatalf("control groups of the node: %q, %v", groups, err)
	}
	return groups
}

// attachLoop attaches a loop device to a new file, and returns its path.
func attachLoop(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(1<<20))
	device, err := loop.Attach(file, "", 0)
	require.NoError(t, err)
	defer device.Close()
	return device.Name()
}
