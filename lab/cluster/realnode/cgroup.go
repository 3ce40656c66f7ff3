package realnode

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
)

// controlGroups are the control groups of a node, one in each hierarchy, below its supervisor's.
type controlGroups struct {
	hierarchies []machine.Hierarchy
	name        string
}

// createControlGroups creates the control groups of the node in a folder, and records them there first.
func createControlGroups(dir string) (controlGroups, error) {
	hierarchies, err := machine.Hierarchies()
	if err != nil {
		return controlGroups{}, err
	}
	groups := controlGroups{hierarchies: hierarchies, name: fmt.Sprintf("berth-node-%.6x", sha256.Sum256([]byte(dir)))}
	var folders []string
	for _, h := range hierarchies {
		folders = append(folders, filepath.Join(h.Own, groups.name))
	}
	if err := writeRecord(dir, cgroupsFile, folders); err != nil {
		return controlGroups{}, err
	}
	for i, folder := range folders {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return controlGroups{}, err
		}
		// A new cpuset has neither processors nor memory, and accepts no process.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			values, err := os.ReadFile(filepath.Join(hierarchies[i].Own, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return controlGroups{}, err
			}
			if err := os.WriteFile(filepath.Join(folder, name), values, 0o644); err != nil {
				return controlGroups{}, err
			}
		}
	}
	return groups, nil
}

// enter moves this process into the node's groups, and leave back.
func (g controlGroups) enter() error { return g.move(g.name) }
func (g controlGroups) leave() error { return g.move(".") }

func (g controlGroups) move(to string) error {
	for _, h := range g.hierarchies {
		if err := os.WriteFile(filepath.Join(h.Own, to, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// cgroupLimit is the time limit for the kernel to forget the processes of a control group.
const cgroupLimit = 10 * time.Second

// removeControlGroups removes the control groups of a node whose processes have ended, and their children.
func removeControlGroups(dir string) error {
	var folders []string
	if err := readRecord(dir, cgroupsFile, &folders); err != nil {
		return err
	}
	var last error
	// A group is busy for a moment after its last process has ended.
	wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, cgroupLimit, true, func(context.Context) (bool, error) {
		last = nil
		for _, folder := range folders {
			last = errors.Join(last, removeTree(folder))
		}
		return last == nil, nil
	})
	return last
}

// removeTree removes a control group and its children. Their files cannot be removed, and go with the folder.
func removeTree(folder string) error {
	var all []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return err
	})
	for _, folder := range slices.Backward(all) {
		err = errors.Join(err, os.Remove(folder))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
