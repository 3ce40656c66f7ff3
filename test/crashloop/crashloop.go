// Package crashloop has an operator that OLM installs die at each of its writes, before it and after it, and
// start again at once. The operator is the real program, in a container of a node of the local cluster. It
// speaks with the API server through another program of the container, which ends it with SIGKILL.
//
// kubelet would start the container anew each time, and soon wait for minutes between two times. Here the
// container goes on, and with it the pod, which holds the operator's lock, as in a cluster.
package crashloop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-csi/berth/test/cluster/tools"
	"github.com/berth-csi/berth/test/fault"
)

// A Mode says whether an operator is killed.
type Mode string

const (
	// Recorded operators run on, and their writes are recorded.
	Recorded Mode = "recorded"
	// Killed operators are killed at each of their writes.
	Killed Mode = "killed"
)

// injectors have the operator run in its mode.
var injectors = map[Mode]func(leftOut ...fault.Target) *fault.Injector{Recorded: fault.Record, Killed: fault.KillAtEach}

// questions are requests that the API calls creations, and that leave nothing in the cluster: whose token it
// is that somebody who wants to read metrics has, and what they may do.
var questions = []fault.Target{{Resource: "tokenreviews"}, {Resource: "subjectaccessreviews"}}

// prefix begins the name by which the running program knows that it is the operator's image. The mode follows it.
const prefix = "crashloop-"

// Image builds an operator, from a package of the project such as "./cmd/berth-operator", and returns the path
// of a program that is to be that of its image. The program is the running one, by another name; it has to call
// Init.
func Image(t testing.TB, operator string, mode Mode) string {
	t.Helper()
	dir := folder(t)
	if err := tools.Build(t.Context(), dir, nil, operator); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, filepath.Base(operator)), filepath.Join(dir, operatorName)); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, prefix+string(mode))
	if err := os.Symlink(self, image); err != nil {
		t.Fatal(err)
	}
	return image
}

// folder makes a folder that a container sees, as it does not see the machine's /tmp, until the test ends. It
// removes those of processes that were killed.
func folder(t testing.TB) string {
	t.Helper()
	cache, err := tools.CacheFolder("crashloop")
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range left {
		owner, _, _ := strings.Cut(filepath.Base(dir), "-")
		if _, err := os.Stat("/proc/" + owner); errors.Is(err, fs.ErrNotExist) {
			os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp(cache, fmt.Sprintf("%d-", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// operatorName is that of the operator's program, beside the image.
const operatorName = "operator"

// recordPattern is of the files beside the image that tell what has happened, one for each process of the
// container: kubelet may start it anew, too, when an operator that always dies does not answer its probes.
const recordPattern = "record-*.json"

// A Record is what has happened to an operator so far.
type Record struct {
	// Lives is how often it was started.
	Lives int
	// Writes are what it sent, in all its lives.
	Writes []fault.Write
	// Idle is for how long it has asked for nothing.
	Idle time.Duration
}

// Read returns the record of the operator that an image has run. It is some tenths of a second old.
func Read(image string) (Record, error) {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(image), recordPattern))
	if err != nil {
		return Record{}, err
	}
	slices.Sort(paths) // by time
	var whole Record
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return Record{}, err
		}
		var one Record
		if err := json.Unmarshal(content, &one); err != nil {
			return Record{}, fmt.Errorf("%s: %w", path, err)
		}
		whole = Record{Lives: whole.Lives + one.Lives, Writes: append(whole.Writes, one.Writes...), Idle: one.Idle}
	}
	return whole, nil
}
