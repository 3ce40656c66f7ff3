// Package tools builds the programs of a local cluster - etcd, the Kubernetes control plane, the Operator Lifecycle Manager - from the
// modules that lab/modules/tools pins. For tests it also builds opm, promtool (lab/modules/promtool), the container runtime of real nodes
// (lab/modules/node) and etcd's programs for backups (lab/modules/etcd). Type Program builds any other program, such as a CSI driver.
//
// It builds them once, into a folder in the user's cache with a name that is a hash of all of their inputs. A warm
// start only has to find that folder.
package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Folders with a go.mod that pins tools, relative to the module root.
const (
	pinsFolder     = "lab/modules/tools"
	promtoolFolder = "lab/modules/promtool"
	nodeFolder     = "lab/modules/node"
	etcdFolder     = "lab/modules/etcd"
	e2eFolder      = "lab/modules/e2e"
)

// goExitGrace is the time for an interrupted go command to clean up.
const goExitGrace = 5 * time.Second

// program is a tool: its name and its main package.
type program struct{ name, pkg string }

// The tools of a cluster: programs of Kubernetes, in the pinned version or another one, and programs that are always in the pinned version.
// lab/modules/tools also pins programs that only some clusters need.
var (
	kubernetesPrograms = []program{
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	}
	pinnedPrograms = []program{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"olm", "github.com/operator-framework/operator-lifecycle-manager/cmd/olm"},
		{"catalog", "github.com/operator-framework/operator-lifecycle-manager/cmd/catalog"},
	}
	clusterPrograms = slices.Concat(pinnedPrograms[:1], kubernetesPrograms, pinnedPrograms[1:])
)

// noC are build tags for opm and OLM: pure-Go JSON in SQLite, OpenPGP and storage backends, so that they need no C.
const noC = "json1,containers_image_openpgp,exclude_graphdriver_btrfs"

// Dir is a folder with built programs.
type Dir string

// Path returns the path of a program, such as "kube-apiserver".
func (d Dir) Path(program string) string { return filepath.Join(string(d), program) }

// Ensure returns the folder with all tools. If the cache does not have them, it builds them first, which takes
// minutes. If several processes need them at the same time, one builds them and the others wait. report, which may be
// nil, is called with the progress.
//
// If the build fails or ctx ends, nothing of it stays except in the go command's own cache.
//
// The tools are of the version of Kubernetes that KubernetesVariable names, if it is set.
func Ensure(ctx context.Context, report func(Progress)) (Dir, error) {
	version, pinned, err := Kubernetes()
	if err != nil {
		return "", err
	}
	if !pinned {
		return ensureOf(ctx, version, report)
	}
	recipe, err := clusterRecipe()
	if err != nil {
		return "", err
	}
	return recipe.ensureInCache(ctx, report)
}

// OPM returns the path of opm, which Berth is compared with. If the cache does not have it, it is built first, as in
// Ensure.
func OPM(ctx context.Context, report func(Progress)) (string, error) {
	return Program{
		Name: "opm", Package: "github.com/operator-framework/operator-registry/cmd/opm", Folder: pinsFolder,
		Flags: []string{"-tags", noC, "-ldflags", "-s -w"},
	}.Ensure(ctx, report)
}

// Promtool returns the path of promtool, which checks and tests alerting rules. If the cache does not have it, it is
// built first, as in Ensure.
func Promtool(ctx context.Context, report func(Progress)) (string, error) {
	return Program{
		Name: "promtool", Package: "github.com/prometheus/prometheus/cmd/promtool", Folder: promtoolFolder,
		// Checking and testing rules needs no service discovery. Without it, promtool has a fifth of the packages.
		Flags: []string{"-tags", "remove_all_sd", "-ldflags", "-s -w"},
	}.Ensure(ctx, report)
}

// Kubelet returns the path of the kubelet of real nodes. If the cache does not have it, it is built first, as in Ensure.
func Kubelet(ctx context.Context, report func(Progress)) (string, error) {
	recipe, err := kubernetesRecipe([]program{{"kubelet", "k8s.io/kubernetes/cmd/kubelet"}})
	if err != nil {
		return "", err
	}
	dir, err := recipe.ensureInCache(ctx, report)
	return dir.Path("kubelet"), err
}

// Containerd returns the folder with containerd and its shim for runc. If the cache does not have them, they are built
// first, as in Ensure.
func Containerd(ctx context.Context, report func(Progress)) (Dir, error) {
	recipe, err := readRecipe(nodeFolder, []program{
		{"containerd", "github.com/containerd/containerd/v2/cmd/containerd"},
		{"containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
	}, "-tags", "no_btrfs,no_devmapper,no_zfs", "-ldflags", "-s -w")
	if err != nil {
		return "", err
	}
	return recipe.ensureInCache(ctx, report)
}

// Etcd returns the folder with etcdctl, which makes a backup of etcd, and etcdutl, which restores it. If the cache does not
// have them, they are built first, as in Ensure.
func Etcd(ctx context.Context, report func(Progress)) (Dir, error) {
	recipe, err := readRecipe(etcdFolder, []program{
		{"etcdctl", "go.etcd.io/etcd/etcdctl/v3"},
		{"etcdutl", "go.etcd.io/etcd/etcdutl/v3"},
	}, "-ldflags", "-s -w")
	if err != nil {
		return "", err
	}
	return recipe.ensureInCache(ctx, report)
}

// E2E returns the path of e2e.test, the program with Kubernetes' end-to-end tests. If the cache does not have it, it is built first, which
// takes several minutes, as in Ensure.
func E2E(ctx context.Context, report func(Progress)) (string, error) {
	pins, err := PinsOf(e2eFolder)
	if err != nil {
		return "", err
	}
	kubernetes, err := pins.Version("k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	return Program{
		Name: "e2e.test", Package: "k8s.io/kubernetes/test/e2e", Folder: e2eFolder, Tests: true,
		Flags: []string{"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetes},
	}.Ensure(ctx, report)
}

// Ginkgo returns the path of ginkgo, which runs the tests of e2e.test in several processes.
func Ginkgo(ctx context.Context, report func(Progress)) (string, error) {
	return Program{Name: "ginkgo", Package: "github.com/onsi/ginkgo/v2/ginkgo", Folder: e2eFolder, Flags: []string{"-ldflags", "-s -w"}}.Ensure(ctx, report)
}

// Agnhost returns the path of agnhost, the program in the image that most pods of Kubernetes' end-to-end tests use.
func Agnhost(ctx context.Context, report func(Progress)) (string, error) {
	return Program{Name: "agnhost", Package: "k8s.io/kubernetes/test/images/agnhost", Folder: e2eFolder, Flags: []string{"-ldflags", "-s -w"}}.Ensure(ctx, report)
}

// Build compiles packages of the project, such as "./cmd/berth-operator", into dir. Each program is named after its
// package's folder. report, which may be nil, is called with the progress.
func Build(ctx context.Context, dir string, report func(Progress), packages ...string) error {
	if report == nil {
		report = func(Progress) {}
	}
	root, err := Root()
	if err != nil {
		return err
	}
	return compile(ctx, root, dir, goBuild, packages, report)
}

// Programs compiles packages of the project like Build, into its folder bin/test, and returns that folder. The go
// command relinks only programs whose inputs have changed since any process last linked them.
func Programs(ctx context.Context, packages ...string) (Dir, error) {
	return programsIn(ctx, "test", packages)
}

// ProgramsWithTag is like Programs, with a build tag. The programs are in a folder of their own.
func ProgramsWithTag(ctx context.Context, tag string, packages ...string) (Dir, error) {
	return programsIn(ctx, "test-"+tag, append([]string{"-tags", tag}, packages...))
}

// ProgramsForImages is like Programs, but does not record the commit in the programs: else every commit would change the images.
func ProgramsForImages(ctx context.Context, packages ...string) (Dir, error) {
	return programsIn(ctx, "test-images", append([]string{"-buildvcs=false"}, packages...))
}

// programsIn builds the packages in go build's arguments into a folder in bin.
func programsIn(ctx context.Context, folder string, args []string) (Dir, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, dir+".lock", func() {})
	if err != nil {
		return "", err
	}
	defer unlock()
	return Dir(dir), Build(ctx, dir, nil, args...)
}

// CacheFolder creates and returns a folder in the user's cache. An empty kind means the parent folder of all kinds.
func CacheFolder(kind string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder to cache in: %w; set XDG_CACHE_HOME to a folder that you may write to", err)
	}
	folder := filepath.Join(base, "berth", kind)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("create a folder to cache in: %w; set XDG_CACHE_HOME to a folder that you may write to", err)
	}
	return folder, nil
}

// recipe is all inputs of the built tools.
type recipe struct {
	programs   []program
	folder     string            // of the pins
	flags      []string          // of go build
	pins       [][]byte          // content of go.mod and go.sum, and of all other files if the folder has source code
	kubernetes string            // the version whose own go.mod says what is built, if it is not the pinned one
	incomplete bool              // whether the go command completes go.mod and go.sum, in copies of them
	aligned    bool              // whether these copies have the modules of lab/modules/tools
	replaced   map[string]string // folders with the source of modules, by the modules' paths, for the copy of go.mod
	tests      bool              // whether the programs are the packages' test binaries
}

func clusterRecipe() (recipe, error) { return kubernetesRecipe(clusterPrograms) }

// kubernetesRecipe returns the recipe for programs of Kubernetes. In the pinned version, programs
// may include other programs of lab/modules/tools.
func kubernetesRecipe(programs []program) (recipe, error) {
	version, pinned, err := Kubernetes()
	if err != nil {
		return recipe{}, err
	}
	if !pinned {
		return recipeOf(version, programs)
	}
	return readRecipe(pinsFolder, programs,
		"-tags", noC,
		// Without this version the API server reports v0.0.0, and every CSV's minKubeVersion is unsatisfied.
		"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+version)
}

// readRecipe returns the recipe of programs that the go.mod in a folder pins.
func readRecipe(folder string, programs []program, flags ...string) (recipe, error) {
	root, err := Root()
	if err != nil {
		return recipe{}, err
	}
	r := recipe{programs: programs, folder: filepath.Join(root, folder), flags: flags}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(r.folder, name))
		if err != nil {
			return recipe{}, err
		}
		r.pins = append(r.pins, content)
	}
	return r, nil
}

// key names the folder of the built tools. The version of Go is the running program's: asking the go command would cost
// a process at every start and give the same answer.
func (r recipe) key() string {
	hash := sha256.New()
	for _, program := range r.programs {
		fmt.Fprintln(hash, program.name, program.pkg)
	}
	fmt.Fprintln(hash, strings.Join(r.flags, "\n"))
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, content := range r.pins {
		fmt.Fprintf(hash, "%d\n%s", len(content), content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}
