// Package drivers is the ground floor of the house: it says what an optional CSI driver is.
//
// A driver is described once, by one folder below this one, and everything else reads that
// description: the operator installs it, the bundle ships it, a migration knows it by it.
// Nothing outside a driver's folder may ask for a driver by name; package registry lists them.
package drivers

import (
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-csi/berth/drivers/permissions"
)

// Driver is the definition of one optional CSI driver.
type Driver struct {
	// Name is the short name used on command lines; it is the name of the driver's folder.
	Name string
	// CSIName names the driver's CSIDriver and ClusterCSIDriver objects, such as "efs.csi.aws.com".
	CSIName string
	// ConditionPrefix starts the type of each condition that one controller writes, such as "AWSEFS".
	ConditionPrefix string

	// Package is what the Operator Lifecycle Manager and a console show.
	Package Package
	// Operator says how the driver's operator runs in a cluster.
	Operator Operator

	// Namespace is where the driver is, for one whose place others know: volumes refer to Secrets there, or
	// earlier operators have always used it. Other drivers are where their operator runs.
	Namespace string
	// Backend, where there is one, may have nothing to offer; then there is no driver.
	Backend *Backend

	// Assets holds the objects the driver consists of, one YAML document a file, at any depth.
	// An object is known by its kind, never by its file name. A CredentialsRequest lies in a folder
	// named after the part of the driver that uses the credentials. Placeholders in assets are those
	// that Manifests fills in, and those that library-go's CSI controllers know. Objects are applied
	// in the order of their paths: a role comes before its bindings, or the API server refuses these.
	Assets fs.FS
	// Images are the container images that the assets' image placeholders stand for.
	Images []Image
	// Settings fit the driver's containers to the cluster's configuration.
	Settings []Setting
	// ClassParameters, if there are any, are parameters that each StorageClass among the assets gets besides
	// its own, because the cluster's configuration asks for them.
	ClassParameters func(Cluster) map[string]string
	// Secrets are Secrets of the operand's namespace whose change must roll the pods that mount them.
	Secrets []string
	// TrustedCABundle is the ConfigMap that the cluster network operator fills with the trusted CA
	// bundle. Pods roll when it changes.
	TrustedCABundle string
	// History is what earlier operators of the driver left in clusters.
	History History
}

// History tells objects of earlier operators of a driver from those of strangers.
type History struct {
	// Labels mark the objects that an earlier operator made.
	Labels map[string]string
	// Finalizers are those that earlier operators put on the ClusterCSIDriver and that nobody else
	// will ever remove.
	Finalizers []string
	// Traces are objects in which earlier operators named the service accounts of their drivers, besides those
	// that are among the driver's own assets.
	Traces []Trace
}

// Marks tells whether an object is one that an earlier operator made or, of an asset, may have made.
func (h History) Marks(object metav1.Object) bool {
	return len(h.Labels) > 0 && labels.SelectorFromSet(h.Labels).Matches(labels.Set(object.GetLabels()))
}

// Image is one container image of a driver.
type Image struct {
	// Env is the operator's environment variable that carries the pull spec; the placeholder
	// "${Env}" in an asset stands for its value.
	Env string
	// Default is the pull spec that a bundle carries where the release does not say otherwise.
	Default string
}

// Operator says how the operator of a driver runs.
type Operator struct {
	// Name names the operator's Deployment and ServiceAccount.
	Name string
	// Lock names the ConfigMap of the leader-for-life lock. Every operator that ever managed this
	// driver must use the same one, so that two are never active together.
	Lock string
	// Image is the operator's own container image.
	Image string
	// Env are the names of optional environment variables that an administrator may set through
	// the Subscription, such as the role to assume with short-lived credentials.
	Env []string
	// Alerts are rules of Prometheus, a YAML list of them, beside those that every operator comes with.
	Alerts string
	// Rules are the permissions the operator needs beyond those of every operator and what it takes to
	// manage the assets. Where each stands, is filled in.
	Rules []permissions.Rule
}

// Package is what the Operator Lifecycle Manager and a console show of a driver's operator.
type Package struct {
	// Name is the name of the package in a catalog.
	Name string
	// DisplayName, Summary (one sentence) and Description (Markdown) are shown in a console.
	DisplayName, Summary, Description string
	// Icon is an SVG image.
	Icon []byte
	// Keywords help searching.
	Keywords []string
	// Examples are example objects, one YAML document a file; the first is the initialization resource.
	Examples fs.FS
	// Channel is the package's default channel.
	Channel string
	// Replaces names the ClusterServiceVersion that the first version of this package updates.
	Replaces string
	// UpdatesFrom is the oldest version that every version of this package updates right away, whichever
	// one it replaces; "" for none.
	UpdatesFrom string
	// MinKubeVersion is the oldest Kubernetes that the operator runs on.
	MinKubeVersion string
}

// Folder returns one of the folders that a driver's definition embeds. Its name is part of the program, so a wrong
// one is a fault of the program, too.
func Folder(files fs.FS, name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return sub
}
