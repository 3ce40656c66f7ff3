// Package crashloop kills an operator that OLM has installed, before and after each of the operator's writes, and restarts it at once. The
// operator is the real program, in a container on a node of the local cluster. Its requests to the API server pass through another program
// in the container, which kills it with SIGKILL.
//
// kubelet would restart the container each time, and soon back off for minutes. Here the container keeps running, and
// so does the pod, which holds the operator's lock, as in a cluster.
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

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/fault"
)

// A Mode says whether an operator is killed.
type Mode string

const (
	// Recorded operators keep running, and their writes are recorded.
	Recorded Mode = "recorded"
	// Killed operators are killed at each of their writes.
	Killed Mode = "killed"
)

// injectors are the injectors of the modes.
var injectors = map[Mode]func(leftOut ...fault.Target) *fault.Injector{Recorded: fault.Record, Killed: fault.KillAtEach}

// reviews are requests that are creations in the API but store nothing: TokenReviews and SubjectAccessReviews for
// clients that read metrics.
var reviews = []fault.Target{{Resource: "tokenreviews"}, {Resource: "subjectaccessreviews"}}

// prefix begins the name of the image, and the mode follows: by this name, the running program knows that it is the operator's image.
const prefix = "crashloop-"

// Image builds an operator, from a package of the project such as "./cmd/berth-operator", and returns the path of a program that serves as
// its image. The image is a link to the running program, which must call Init.
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

// folder creates a folder that containers can see, unlike the machine's /tmp, until the test ends. It removes the
// folders of killed processes.
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

// operatorName is the name of the operator's program, next to the image.
const operatorName = "operator"

// recordPattern matches the records next to the image, one for each process of the container: kubelet may also
// restart it, when an operator in a crash loop does not answer its probes.
const recordPattern = "record-*.json"

// A Record describes an operator's activity so far.
type Record struct {
	// Lives is how often the operator was started.
	Lives int
	// Writes are the operator's writes in all its lives.
	Writes []fault.Write
	// Idle is for how long the operator has had no request in flight.
	Idle time.Duration
}

// Read returns the record of the operator of an image. It is some tenths of a second old.
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
