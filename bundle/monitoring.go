package bundle

import (
	"fmt"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/registryv1"
	"github.com/berth-csi/berth/yaml"
)

// monitoringFiles returns the objects that let the cluster's monitoring scrape the operator. OLM creates them in the
// operator's namespace and removes them with the operator.
func monitoringFiles(d drivers.Driver, csv string) ([]registryv1.File, error) {
	monitoring, err := d.OperatorMonitoring()
	if err != nil {
		return nil, err
	}
	var files []registryv1.File
	for _, m := range monitoring {
		if err := drivers.CheckRendered(m.YAML); err != nil {
			return nil, fmt.Errorf("asset %s: %w", m.File, err)
		}
		own(m.Object, csv)
		data, err := yaml.Marshal(m.Object.Object)
		if err != nil {
			return nil, err
		}
		name := m.Object.GetName() + "." + strings.ToLower(m.Object.GetKind()) + ".yaml"
		files = append(files, registryv1.File{Path: registryv1.ManifestsDir + "/" + name, Data: data})
	}
	return files, nil
}

// own adds the ClusterServiceVersion as the owner of an object to which OLM, unlike to all others, does not add it, so that
// the object is removed with the operator. OLM fills in the UID of an owner that is a ClusterServiceVersion.
func own(object *unstructured.Unstructured, csv string) {
	if kind := object.GetKind(); kind == "Role" || kind == "RoleBinding" {
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind, Name: csv,
		}})
	}
}
