// Package programs builds the sidecars and CSI drivers that tests run, and the programs in OLM's pods: real releases,
// from the modules that lab/modules/drivers and lab/modules/olm pin. Each is built once into the user's cache, and only
// if something needs it. This project has packages for programs that no module proxy serves, and for the sample driver.
package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Folders of the programs' go.mod files, relative to the module root.
const (
	pinned = "lab/modules/drivers"
	ofOLM  = "lab/modules/olm"
)

// origin is where a program comes from.
type origin struct {
	// module has the program. It is empty for this project.
	module string
	// pins is the folder that pins the module, by default lab/modules/drivers.
	pins string
	// pkg is the main package, relative to the module; it may be the module's root.
	pkg string
	// version is the variable that the linker sets to the program's version. If it is empty, the program has no version.
	version string
	// release is the version of the real program that one of ours replaces. A pinned module's version is in go.mod.
	release string
	// tags are the tags of go build.
	tags string
}

// origins are the programs by name. A driver's file has the name of its image's program, see package images.
var origins = map[string]origin{
	"csi-provisioner":     {module: "github.com/kubernetes-csi/external-provisioner/v6", pkg: "cmd/csi-provisioner", version: "main.version"},
	"csi-attacher":        {module: "github.com/kubernetes-csi/external-attacher/v4", pkg: "cmd/csi-attacher", version: "main.version"},
	"csi-resizer":         {module: "github.com/kubernetes-csi/external-resizer/v2", pkg: "cmd/csi-resizer", version: "main.version"},
	"csi-snapshotter":     {module: "github.com/kubernetes-csi/external-snapshotter/v8", pkg: "cmd/csi-snapshotter", version: "main.version"},
	"snapshot-controller": {module: "github.com/kubernetes-csi/external-snapshotter/v8", pkg: "cmd/snapshot-controller", version: "main.version"},
	"kube-rbac-proxy":     {module: "github.com/brancz/kube-rbac-proxy", pkg: "cmd/kube-rbac-proxy", version: "k8s.io/component-base/version.gitVersion"},
	"aws-ebs-csi-driver":  {module: "github.com/kubernetes-sigs/aws-ebs-csi-driver", pkg: "cmd", version: "github.com/kubernetes-sigs/aws-ebs-csi-driver/pkg/driver.driverVersion"},
	"manila-csi-plugin":   {module: "k8s.io/cloud-provider-openstack", pkg: "cmd/manila-csi-plugin", version: "k8s.io/cloud-provider-openstack/pkg/version.Version"},
	"cinder-csi-plugin":   {module: "k8s.io/cloud-provider-openstack", pkg: "cmd/cinder-csi-plugin", version: "k8s.io/cloud-provider-openstack/pkg/version.Version"},
	"gce-pd-csi-driver":   {module: "sigs.k8s.io/gcp-compute-persistent-disk-csi-driver", pkg: "cmd/gce-pd-csi-driver", version: "main.version"},

	"aws-efs-csi-driver-v3.4.1":  inPlace("v3.4.1"),
	"aws-efs-csi-driver-v2.1.11": inPlace("v2.1.11"),
	"csi-node-driver-registrar":  inPlace(""),
	"livenessprobe":              inPlace(""),
	"nfsplugin":                  inPlace(""),

	"opm":               {pins: ofOLM, module: "github.com/operator-framework/operator-registry", pkg: "cmd/opm", tags: "json1,containers_image_openpgp,exclude_graphdriver_btrfs"},
	"grpc_health_probe": {pins: ofOLM, module: "github.com/grpc-ecosystem/grpc-health-probe", version: "main.versionTag"},
	"copy-content":      {pins: ofOLM, module: "github.com/operator-framework/operator-lifecycle-manager", pkg: "cmd/copy-content"},
	"cpb":               {pins: ofOLM, module: "github.com/operator-framework/operator-lifecycle-manager", pkg: "util/cpb"},

	"sample":  {pkg: "lab/sample"},
	"standin": {pkg: "lab/standin"},
}

// standIn is the package of the program that replaces real programs. The name of its file says which real program it replaces.
const standIn = "lab/standin"

// inPlace returns the origin of our program that replaces this version of a real one.
func inPlace(version string) origin { return origin{pkg: standIn, release: version} }

// folder returns the folder with the pins of the program's module.
func (o origin) folder() string { return cmp.Or(o.pins, pinned) }

// Names returns the names of all programs, sorted.
func Names() []string { return slices.Sorted(maps.Keys(origins)) }

// Version returns a program's version, such as "v6.3.0", or "" if its source has no version.
func Version(name string) (string, error) {
	from, ok := origins[name]
	if !ok {
		return "", unknown(name)
	}
	if from.module == "" {
		return from.release, nil
	}
	pins, err := tools.PinsOf(from.folder())
	if err != nil {
		return "", err
	}
	return pins.Version(from.module)
}

// Path returns the path of a program: the one that the user has given by PROGRAMS, or one that is built first if the cache does not
// have it. report, which may be nil, is called with the progress.
func Path(ctx context.Context, report func(tools.Progress), name string) (string, error) {
	from, ok := origins[name]
	if !ok {
		return "", unknown(name)
	}
	if given, err := Given(name); given != "" || err != nil {
		return given, err
	}
	if from.module == "" {
		own, err := tools.ProgramsForImages(ctx, "./"+from.pkg)
		if err != nil {
			return "", err
		}
		return named(own.Path(path.Base(from.pkg)), name)
	}
	program := tools.Program{Name: name, Folder: from.folder(), Package: path.Join(from.module, from.pkg)}
	version, err := Version(name)
	if err != nil {
		return "", err
	}
	link := "-s -w"
	if version != "" && from.version != "" {
		link += " -X " + from.version + "=" + version
	}
	program.Flags = []string{"-ldflags", link}
	if from.tags != "" {
		program.Flags = append(program.Flags, "-tags", from.tags)
	}
	return program.Ensure(ctx, report)
}

// named returns a path that ends with a name and leads to a program: a link beside the program, unless the program has that name.
func named(program, name string) (string, error) {
	path := filepath.Join(filepath.Dir(program), name)
	if path == program {
		return path, nil
	}
	if err := os.Symlink(filepath.Base(program), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, nil
}

// For returns the path of a program for a test.
func For(t testing.TB, name string) string {
	t.Helper()
	path, err := Path(t.Context(), nil, name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func unknown(name string) error {
	return fmt.Errorf("there is no program %q, want one of %s", name, strings.Join(Names(), ", "))
}
