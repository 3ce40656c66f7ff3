// Package drivers defines what an optional CSI driver is.
//
// A driver is defined once, in its folder below this one. The operator, the bundle and migrations all read that
// definition. No code outside of a driver's folder may refer to a driver by name; package registry lists all drivers.
package drivers

import (
	"io/fs"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
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
	// ConditionPrefix, such as "AWSEFS", begins the type of each condition that a single controller writes.
	ConditionPrefix string

	// Package describes the driver in the Operator Lifecycle Manager and in a console. It is empty if the driver is in
	// no catalog, because clusters get it only with their platform: see ClusterStorage.
	Package Package
	// Operator says how the driver's operator runs in a cluster.
	Operator Operator

	// Namespace is the driver's fixed namespace, if the driver needs one: because volumes refer to Secrets there, or because earlier
	// operators always used it. Other drivers run in the namespace of their operator.
	Namespace string
	// Backend is the driver's storage service, if that service may have no storage to offer. The driver is installed only once the
	// service offers storage.
	Backend *Backend
	// Configuration is the driver's configuration, if the operator has to write it to a file.
	Configuration *Configuration
	// CloudAccess holds what the driver's own controllers need to call the cloud; nil if they do not call it.
	CloudAccess *CloudAccess
	// ClassRisk returns a sentence about the risk of a StorageClass of the driver, "" if there is none. It is nil if no
	// class is a risk.
	ClassRisk func(*storagev1.StorageClass) string

	// InTree is the in-tree volume source whose volumes the driver serves; empty if there is none.
	InTree InTree

	// Assets holds the objects of the driver, one YAML document per file, at any depth. Code identifies an object by
	// its kind, never by its file name. A CredentialsRequest is in a folder named after the user of the credentials: a
	// component of the driver, or "tags" for CloudAccess. Manifests replaces some placeholders in assets, and
	// library-go's CSI controllers replace the others. Objects are applied in the order of their paths: a role must
	// precede its bindings, or the API server rejects these.
	Assets fs.FS
	// Retired are objects that other versions of the driver have and this version does not.
	Retired []Retired
	// Images are the container images that the assets' image placeholders stand for.
	Images []Image
	// Settings adapt the driver's containers to the cluster's configuration.
	Settings []Setting
	// ConfigFields are the fields of the ClusterCSIDriver's spec.driverConfig that the driver honors. A condition names any other fields
	// that are set.
	ConfigFields ConfigFields
	// ClassParameters returns additional parameters for each StorageClass among the assets, from the cluster's
	// configuration. It may be nil.
	ClassParameters func(Cluster) map[string]string
	// SnapshotParameters returns additional parameters for each VolumeSnapshotClass. It may be nil.
	SnapshotParameters func(Cluster) map[string]string
	// Secrets are Secrets in the driver's namespace. A change of one must roll the pods that mount it.
	Secrets []string
	// CredentialKeys are the alternative sets of keys that the driver reads from a CredentialsRequest's Secret. The
	// Secret needs all keys of one set. CredentialKeys is empty if any Secret is acceptable.
	CredentialKeys [][]string
	// TrustedCABundle is the ConfigMap that the cluster network operator fills with the trusted CA
	// bundle. Pods roll when it changes.
	TrustedCABundle string
	// CloudConfig says which parts of the cloud's configuration the driver's pods need; nil if none.
	CloudConfig *CloudConfig
	// ClusterStorage says where the cluster storage operator runs the driver's operator; nil if it never does.
	ClusterStorage *ClusterStorage
	// Certification describes the driver for the tests of Kubernetes and OpenShift.
	Certification Certification
	// History describes the objects that earlier operators of the driver left in clusters.
	History History
}

// History identifies the objects that earlier operators of a driver created.
type History struct {
	// Labels mark the objects that an earlier operator made.
	Labels map[string]string
	// CSIDriverAnnotation is the key of an annotation that marks the CSIDriver of an earlier operator, with any value; "" for none.
	CSIDriverAnnotation string
	// Finalizers are the finalizers that earlier operators added to the ClusterCSIDriver. Nobody else will ever remove them.
	Finalizers []string
	// Traces are objects in which earlier operators named the service accounts of their drivers, in addition to the
	// driver's own assets.
	Traces []Trace
	// Foreign holds sentences for a condition: what an administrator can do if a trace shows another operator's driver.
	Foreign string
	// Predecessors are the operators that OLM may run where the cluster storage operator takes over.
	Predecessors []Predecessor
	// Keys are keys that earlier operators wrote into Secrets that the driver still has.
	Keys []RetiredKeys
}

// Marks reports whether an object has the labels that earlier operators set.
func (h History) Marks(object metav1.Object) bool {
	return len(h.Labels) > 0 && labels.SelectorFromSet(h.Labels).Matches(labels.Set(object.GetLabels()))
}

// Image is one container image of a driver.
type Image struct {
	// Env is the operator's environment variable that carries the pull spec; the placeholder
	// "${Env}" in an asset stands for its value.
	Env string
	// Default is the pull spec in bundles, unless a release pins another one.
	Default string
}

// HasImage reports whether the driver's pods run an image, such as a sidecar's, whatever its pull spec.
func (d Driver) HasImage(image Image) bool {
	return slices.ContainsFunc(d.Images, func(i Image) bool { return i.Env == image.Env })
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
	// Alerts are Prometheus alerting rules, as a YAML list, in addition to every operator's alerts.
	Alerts string
	// Rules are permissions in addition to the common ones and the ones to manage the assets. OperatorRules sets their From.
	Rules []permissions.Rule
}

// Package describes a driver's operator in the Operator Lifecycle Manager and in a console.
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
	// Replaces names the ClusterServiceVersion that the first version of this package replaces.
	Replaces string
	// UpdatesFrom is the oldest version from which OLM can update directly to any version of this package, no matter which version it
	// replaces; "" for none.
	UpdatesFrom string
	// MinKubeVersion is the oldest Kubernetes that the operator runs on.
	MinKubeVersion string
}

// HasPackage reports whether the driver's operator can be installed with the Operator Lifecycle Manager.
func (d Driver) HasPackage() bool { return d.Package.Name != "" }

// Folder returns a folder that a driver's definition embeds. A wrong name is a programming error, so it panics.
func Folder(files fs.FS, name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return sub
}
