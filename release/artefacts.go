package main

// The artefacts of a release. Its bundles are listed in the templates of the catalogs.

// project is the location of Berth's own images in the definitions. A release pins these to its pushed images.
const project = "quay.io/berth-csi"

// program is a program that is compiled for each architecture.
type program struct {
	name    string
	pkg     string
	module  string // folder with the go.mod that pins it; "" for the project's own
	tags    string
	ldflags string // in addition to every program's; VERSION is replaced
}

const stamp = "-X github.com/berth-csi/berth/cmd/internal/version/stamp.version=VERSION"

// The tag grpcnotrace leaves out gRPC's traces. With them, the linker keeps every method of every type, and a program is a third larger.
var (
	operator = program{name: "berth-operator", pkg: "./cmd/berth-operator", tags: "grpcnotrace", ldflags: stamp}
	berth    = program{name: "berth", pkg: "./cmd/berth", tags: "grpcnotrace", ldflags: stamp}
	opm      = program{name: "opm", pkg: "./cmd/opm", tags: "grpcnotrace", ldflags: stamp}
	kubectl  = program{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl", module: "lab/modules/tools"}
)

// programImage is an image with a program.
type programImage struct {
	name    string
	program program
	// entrypoint says that containers run the program; otherwise their command decides.
	entrypoint bool
	// user runs the program, unless the cluster chooses another one, as OpenShift does. It may write nothing.
	user string
	// onBase says that the image is built on the base that must-gather needs. Otherwise, the image has only the files listed here.
	onBase bool
	// path is the path of the program in the image, unless it is /usr/bin/NAME.
	path string
	// links are further names of files in the image, by their paths.
	links map[string]string
	// temporary says that the image has a /tmp where everybody may write.
	temporary bool
	// scripts are files of the repository, by their paths in the image.
	scripts map[string]string
}

// nobodyUser is a user, and a group, that owns no file.
const nobodyUser = "65532:65532"

var programImages = []programImage{
	{name: "berth-operator", program: operator, entrypoint: true, user: nobodyUser},
	{name: "berth", program: berth, entrypoint: true, user: nobodyUser},
	// The base of catalog images, instead of opm's own image: Dockerfiles and OLM name /bin/opm, and OLM probes with
	// grpc_health_probe on the PATH.
	{name: "berth-opm", program: opm, entrypoint: true, user: nobodyUser, path: "bin/opm", links: map[string]string{"bin/grpc_health_probe": "opm"}, temporary: true},
	// `oc adm must-gather` runs /bin/bash in this image, and copies files from it with rsync or tar. So the image needs a
	// shell, and so does the script.
	{name: "berth-must-gather", program: kubectl, onBase: true, scripts: map[string]string{"usr/bin/gather": "deploy/must-gather/gather"}},
}

// mustGatherBase is the default base of must-gather's image. It exists for all architectures, and pulling it needs no login.
const mustGatherBase = "registry.access.redhat.com/ubi9/ubi:latest"

// catalogImage is an image of a catalog: a folder with a template for each package.
type catalogImage struct{ name, templates string }

var catalogImages = []catalogImage{
	{name: "berth-catalog-okd", templates: "catalog/templates/community"},
	{name: "berth-catalog-openshift", templates: "catalog/templates/certified"},
}
