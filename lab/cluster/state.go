package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Names in a cluster's folder.
const (
	stateName       = "keeper.json"
	logsFolder      = "logs"
	realNodesFolder = "real-nodes"
	auditLogName    = "audit.log"
	folderPrefix    = "berth-cluster-" // of temporary folders
)

// state is the content of a file in a cluster's folder. The file also marks the folder as one that may be removed.
type state struct {
	Keeper processIdentity `json:"keeper"`
	Dir    string          `json:"dir"`
	Tools  tools.Dir       `json:"tools"`
	Etcd   string          `json:"etcd"` // its URL
	// Ready is set once the cluster is ready.
	Ready bool `json:"ready"`
}

// readState returns the state of the cluster in a folder. The error is fs.ErrNotExist if the folder has no cluster.
func readState(dir string) (state, error) {
	path := filepath.Join(dir, stateName)
	content, err := os.ReadFile(path)
	if err != nil {
		return state{}, err
	}
	var s state
	if err := json.Unmarshal(content, &s); err != nil {
		return state{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// acquireFolder makes dir the folder of this process's cluster, or a temporary folder if dir is empty. It rejects a folder with anything
// but the remains of a dead cluster.
func acquireFolder(dir string) (string, error) {
	if dir == "" {
		made, err := os.MkdirTemp("", folderPrefix)
		if err != nil {
			return "", err
		}
		return made, writeOwner(made)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := sweep(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("the folder %s is not empty and holds no cluster; name another one", dir)
	}
	return dir, writeOwner(dir)
}

// writeOwner marks a folder as owned by this process's cluster. If several processes try at the same time, one
// succeeds.
func writeOwner(dir string) error {
	self, err := selfIdentity()
	if err != nil {
		return err
	}
	fresh, err := writeTemporary(dir, state{Keeper: self, Dir: dir})
	if err != nil {
		return err
	}
	defer os.Remove(fresh)
	return os.Link(fresh, filepath.Join(dir, stateName))
}

// markReady records that the cluster in a folder is ready.
func markReady(job assignment, etcd string) (*state, error) {
	s, err := readState(job.Dir)
	if err != nil {
		return nil, err
	}
	s.Tools, s.Etcd, s.Ready = job.Tools, etcd, true
	fresh, err := writeTemporary(job.Dir, s)
	if err != nil {
		return nil, err
	}
	return &s, os.Rename(fresh, filepath.Join(job.Dir, stateName))
}

func writeTemporary(dir string, s state) (string, error) {
	content, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf(".%s-%d", stateName, s.Keeper.PID))
	return path, os.WriteFile(path, content, 0o644)
}

// sweep removes the remains of a dead cluster from dir. It fails if the cluster is alive.
func sweep(dir string) error {
	s, err := readState(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case s.Keeper.alive():
		return fmt.Errorf("the cluster in %s is already running, as process %d", dir, s.Keeper.PID)
	}
	sweepRealNodes(dir)
	return os.RemoveAll(dir)
}

// sweepDead removes the temporary folders of clusters whose keeper was killed.
func sweepDead() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, dir := range left {
		sweep(dir) // fails for running clusters, as it should
	}
}
