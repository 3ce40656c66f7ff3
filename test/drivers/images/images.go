// Package images packs the programs of package programs into images, as archives that a node's container runtime
// imports. A sidecar's image has its program and nothing else. A driver's image has it on a small Debian with the
// programs that drivers run: mount, mkfs, blkid, and Python for mount.efs. The images of OLM's pods have the programs
// that OLM runs in them.
package images

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/programs"
)

// content is the content of an image.
type content struct {
	// program is the name of the image's program in package programs.
	program string
	// entrypoint is the program's path in the image.
	entrypoint string
	// debian says that the image has the Debian of debian.go, and shell that it has at least a shell.
	debian, shell bool
	// nfs says that the image has the stand-ins for mount.nfs and mount.nfs4.
	nfs bool
	// efsUtils says that the image has efs-utils, which mounts EFS file systems, with a stand-in for efs-proxy.
	efsUtils bool
	// beside are the paths of further programs of package programs in the image, by their names.
	beside map[string]string
	// diskID says that the image has the stand-ins for the GCP PD driver's programs that identify disks.
	diskID bool
}

// RegistrarWithShell is the repository of an image of the node driver registrar that has a shell.
const RegistrarWithShell = "quay.io/openshift/origin-csi-node-driver-registrar-with-shell"

// Repositories of the images that OLM runs in its pods.
const (
	OLMUtilities = "quay.io/operator-framework/olm"
	OPM          = "quay.io/operator-framework/opm"
)

// contents are the images that the definitions name, and upstream's where that is another version, by repository.
var contents = map[string]content{
	"quay.io/openshift/origin-csi-external-provisioner":  sidecar("csi-provisioner"),
	"quay.io/openshift/origin-csi-external-attacher":     sidecar("csi-attacher"),
	"quay.io/openshift/origin-csi-external-resizer":      sidecar("csi-resizer"),
	"quay.io/openshift/origin-csi-external-snapshotter":  sidecar("csi-snapshotter"),
	"quay.io/openshift/origin-csi-snapshot-controller":   sidecar("snapshot-controller"),
	"quay.io/openshift/origin-csi-node-driver-registrar": sidecar("csi-node-driver-registrar"),
	"quay.io/openshift/origin-csi-livenessprobe":         sidecar("livenessprobe"),
	"quay.io/openshift/origin-kube-rbac-proxy":           sidecar("kube-rbac-proxy"),

	"quay.io/openshift/origin-aws-ebs-csi-driver":          {program: "aws-ebs-csi-driver", entrypoint: "/usr/bin/aws-ebs-csi-driver", debian: true},
	"quay.io/openshift/origin-csi-driver-manila":           {program: "manila-csi-plugin", entrypoint: "/usr/bin/manila-csi-plugin", debian: true},
	"quay.io/openshift/origin-csi-driver-nfs":              {program: "nfsplugin", entrypoint: "/usr/bin/nfsplugin"},
	"quay.io/openshift/origin-openstack-cinder-csi-driver": {program: "cinder-csi-plugin", entrypoint: "/usr/bin/cinder-csi-plugin", debian: true},
	"quay.io/openshift/origin-gcp-pd-csi-driver":           {program: "gce-pd-csi-driver", entrypoint: "/usr/bin/gce-pd-csi-driver", debian: true, diskID: true},

	"quay.io/openshift/origin-azure-disk-csi-driver":                     standIn("azurediskplugin"),
	"quay.io/openshift/origin-azure-file-csi-driver":                     standIn("azurefileplugin"),
	"quay.io/openshift/origin-cluster-cloud-controller-manager-operator": {program: "standin", entrypoint: "/azure-config-credentials-injector"},
	"quay.io/openshift/origin-vsphere-csi-driver":                        standIn("vsphere-csi"),
	"quay.io/openshift/origin-vsphere-csi-driver-syncer":                 standIn("vsphere-syncer"),

	// In OpenShift, this image has a shell, which pods of OpenShift 4.5 run when they end.
	RegistrarWithShell: {program: "csi-node-driver-registrar", entrypoint: "/usr/bin/csi-node-driver-registrar", shell: true},

	// The images that OLM uses to unpack bundles and catalogs, and to serve catalogs.
	OLMUtilities: {program: "cpb", entrypoint: "/usr/bin/cpb", debian: true, beside: map[string]string{"copy-content": "/usr/bin/copy-content"}},
	OPM:          {program: "opm", entrypoint: "/bin/opm", beside: map[string]string{"grpc_health_probe": "/bin/grpc_health_probe"}},

	"quay.io/berth-csi/sample-csi-driver": {program: "sample", entrypoint: "/usr/bin/sample"},

	// OpenShift 4.21's release, and a newer one.
	"quay.io/openshift/origin-aws-efs-csi-driver":             efs("v2.1.11"),
	"public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver": efs("v3.4.1"),
}

func sidecar(program string) content {
	return content{program: program, entrypoint: "/usr/bin/" + program}
}

// standIn returns the image of a driver that cannot be built. Its stand-in does not run other programs.
func standIn(program string) content {
	return content{program: "standin", entrypoint: "/bin/" + program}
}

// efsDriver begins the names of the EFS driver's programs, which end with their versions.
const efsDriver = "aws-efs-csi-driver-"

func efs(version string) content {
	return content{program: efsDriver + version, entrypoint: "/usr/bin/aws-efs-csi-driver", shell: true}
}

// real returns the image with the programs that the real program runs. Our replacement may need fewer.
func (c content) real() content {
	switch {
	case strings.HasPrefix(c.program, efsDriver):
		c.debian, c.nfs, c.efsUtils = true, true, true
	case c.program == "nfsplugin":
		c.debian, c.nfs = true, true
	}
	return c
}

// Repositories returns the repositories of all images, sorted.
func Repositories() []string { return slices.Sorted(maps.Keys(contents)) }

// Archive returns the path of an archive of an image, in the format of "docker save", with a reference such as
// "quay.io/openshift/origin-csi-livenessprobe:4.21". The reference's repository selects the image; its tag may be any.
// If the user's cache does not have it, its parts are built first. report, which may be nil, is called with the
// progress.
//
// If the user has named a published image for it (PublishedVariable), that is pulled instead. If the user has given its
// program (programs.GivenVariable), the image contains that.
func Archive(ctx context.Context, report func(tools.Progress), reference string) (string, error) {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("pack the image %q: want a reference such as quay.io/openshift/origin-csi-livenessprobe:4.21: %w", reference, err)
	}
	repository, c, err := find(reference)
	if err != nil {
		return "", fmt.Errorf("pack the image %s: %w", reference, err)
	}
	named, err := published()
	if err != nil {
		return "", err
	}
	var archive string
	if digest, ok := named[repository]; ok {
		archive, err = c.real().archiveOfPublished(ctx, report, tag, digest)
	} else {
		archive, err = c.archive(ctx, report, tag)
	}
	if err != nil {
		return "", fmt.Errorf("pack the image %s: %w", reference, err)
	}
	return archive, nil
}

// find returns the image of a reference or a repository.
func find(reference string) (repository string, c content, err error) {
	repository = reference
	if tag, err := name.NewTag(reference, name.StrictValidation); err == nil {
		repository = strings.TrimSuffix(reference, ":"+tag.TagStr())
	}
	c, ok := contents[repository]
	if !ok {
		return "", content{}, fmt.Errorf("there is no image %s, only %s; package images has the table", repository, strings.Join(Repositories(), ", "))
	}
	return repository, c, nil
}

// file is a file of an image.
type file struct {
	target string // path in the image
	source string // path here; "" for an empty folder
	mode   int64
	link   string // the target of a link
}

func (f file) isFolder() bool { return f.source == "" && f.link == "" }

// files returns all files of an image that are not in its base.
func (c content) files(ctx context.Context, report func(tools.Progress)) ([]file, error) {
	program, err := programs.Path(ctx, report, c.program)
	if err != nil {
		return nil, err
	}
	if static, err := programs.IsStatic(program); err != nil || !static && !c.debian {
		return nil, cmp.Or(err, fmt.Errorf("%s needs shared libraries, and its image has nothing else; want a program that was built with CGO_ENABLED=0", program))
	}
	files := []file{{target: c.entrypoint, source: program, mode: 0o755}}
	if path.Base(c.entrypoint) != c.program { // the name of its file tells a program of ours which one to be
		files[0].target = path.Join(path.Dir(c.entrypoint), c.program)
		files = append(files, file{target: c.entrypoint, link: c.program})
	}
	for _, name := range slices.Sorted(maps.Keys(c.beside)) {
		other, err := programs.Path(ctx, report, name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{target: c.beside[name], source: other, mode: 0o755})
	}
	if c.efsUtils {
		mount, err := efsUtils()
		if err != nil {
			return nil, err
		}
		files = append(files, mount...)
	}
	standIns, err := c.standInFiles(ctx, func(target string) []string { return []string{target} })
	return append(files, standIns...), err
}

// standInFiles returns the stand-ins for programs that test machines cannot run, each at the paths that at returns for its own.
func (c content) standInFiles(ctx context.Context, at func(target string) []string) (files []file, err error) {
	standIns := c.standIns()
	for _, pkg := range slices.Sorted(maps.Keys(standIns)) {
		own, err := tools.ProgramsForImages(ctx, pkg)
		if err != nil {
			return nil, err
		}
		for _, target := range standIns[pkg] {
			for _, path := range at(target) {
				files = append(files, file{target: path, source: own.Path(filepath.Base(pkg)), mode: 0o755})
			}
		}
	}
	return files, nil
}

// standIns returns the paths of stand-ins for programs that test machines cannot run, by the stand-ins' packages.
func (c content) standIns() map[string][]string {
	found := map[string][]string{}
	add := func(has bool, pkg string, targets ...string) {
		if has {
			found[pkg] = append(found[pkg], targets...)
		}
	}
	const nfsClient = "./lab/nfs/nfsclient"
	add(c.nfs, nfsClient, "/usr/sbin/mount.nfs", "/usr/sbin/mount.nfs4")
	add(c.efsUtils, nfsClient, "/usr/bin/efs-proxy")
	add(c.diskID, "./lab/gcp/diskid", "/usr/lib/udev_containerized/scsi_id", "/usr/lib/udev_containerized/google_nvme_id")
	return found
}

// folders returns the folders of files, parents first.
func folders(files []file) []string {
	found := map[string]bool{}
	for _, f := range files {
		if f.isFolder() {
			found[f.target] = true
		}
		for folder := path.Dir(f.target); folder != "/"; folder = path.Dir(folder) {
			found[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
