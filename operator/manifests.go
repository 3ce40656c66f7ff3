package operator

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/drivernamespace"
	"github.com/berth-csi/berth/operator/objects"
)

// An operand holds the driver's objects, rendered once for a cycle.
type operand struct {
	manifests []drivers.Manifest
	retired   []drivers.Manifest // objects that other versions of the driver have
	// err says why the driver cannot be installed. If only images are missing, manifests is set all the same, because removing the driver
	// does not depend on its images.
	err error
}

// monitoringLabel, set to "true" on a namespace, makes the cluster's own monitoring collect metrics there.
const monitoringLabel = "openshift.io/cluster-monitoring"

// render renders the driver's objects for a namespace, with the images that getenv returns, and labels them as this
// operator's. It leaves out Namespaces that the driver is not in. The cluster's own monitoring is only for parts of the platform, so it
// collects metrics in the driver's namespace only if the driver is permanent.
func render(driver drivers.Driver, getenv func(string) string, namespace string, permanent bool) *operand {
	var missing []string
	image := func(env string) string {
		pullSpec := getenv(env)
		if pullSpec == "" {
			missing = append(missing, env)
			return env
		}
		return pullSpec
	}
	manifests, err := driver.Operand(drivers.Values{Namespace: namespace, Image: image})
	if err != nil {
		return &operand{err: err}
	}
	retired, err := driver.RetiredObjects(namespace)
	if err != nil {
		return &operand{err: err}
	}
	manifests = slices.DeleteFunc(manifests, func(m drivers.Manifest) bool {
		return m.Object.GetKind() == "Namespace" && m.Object.GetName() != namespace
	})
	for i := range manifests {
		if err := addLabel(&manifests[i], objects.ManagedByLabel, driver.Operator.Name); err != nil {
			return &operand{err: err}
		}
		if permanent && manifests[i].Object.GetKind() == "Namespace" {
			if err := addLabel(&manifests[i], monitoringLabel, "true"); err != nil {
				return &operand{err: err}
			}
		}
	}
	o := &operand{manifests: manifests, retired: retired}
	if len(missing) > 0 {
		o.err = &drivers.MissingImagesError{Env: missing}
	}
	return o
}

// recordNamespace labels the driver's Namespace object with its UID. That proves to later operators that the driver's
// operator created the namespace.
func (o *operand) recordNamespace(namespace drivernamespace.Namespace) error {
	if namespace.UID == "" {
		return nil
	}
	for i, m := range o.manifests {
		if m.Object.GetKind() == "Namespace" {
			if err := addLabel(&o.manifests[i], placement.ProofLabel, string(namespace.UID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// record returns the annotation that records the driver's objects on its ClusterCSIDriver.
func (o *operand) record(current map[string]string) map[string]string {
	unknown := controllers.UnknownObjects(current[controllers.ObjectsRecordAnnotation], o.manifests, o.retired)
	return map[string]string{controllers.ObjectsRecordAnnotation: controllers.RecordObjects(o.manifests, unknown)}
}

func addLabel(m *drivers.Manifest, key, value string) (err error) {
	m.Object.SetLabels(labels.Merge(m.Object.GetLabels(), labels.Set{key: value}))
	m.YAML, err = boundedyaml.Marshal(m.Object.Object)
	return err
}
