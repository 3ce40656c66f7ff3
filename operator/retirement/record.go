package retirement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers"
)

// RecordAnnotation on a ClusterCSIDriver lists the objects that the operators of the driver have created, so that an
// operator of another version knows of those that it does not have itself. Only administrators can write it. The operator
// deletes nothing because of it.
const RecordAnnotation = "berth.dev/driver-objects"

// separator is between the objects of a record.
const separator = ","

// Record returns the objects to record: the driver's own, and unknown ones of earlier records.
func Record(own []drivers.Manifest, unknown []string) string {
	return strings.Join(sets.List(sets.New(slices.Concat(references(own), unknown)...)), separator)
}

// Unknown returns the recorded objects that are neither the driver's own nor retired: another version of the operator
// created them, or has not retired them.
func Unknown(record string, own, retired []drivers.Manifest) []string {
	recorded := sets.New(strings.Split(record, separator)...)
	return sets.List(recorded.Delete("").Delete(references(slices.Concat(own, retired))...))
}

// references identify objects as oc does: by kind, group and name. No driver has two objects of the same kind and name in
// different namespaces.
func references(objects []drivers.Manifest) []string {
	var references []string
	for _, m := range objects {
		references = append(references, fmt.Sprintf("%s/%s", m.Object.GroupVersionKind().GroupKind(), m.Object.GetName()))
	}
	return references
}

// Describe says what is to be done about unknown objects of a driver in a namespace; "" if there are none. customResource
// is the name of its ClusterCSIDriver.
func Describe(unknown []string, customResource, namespace string) string {
	if len(unknown) == 0 {
		return ""
	}
	return fmt.Sprintf("other versions of the operator created these objects, which this version does not know, so it neither updates nor removes them: %s. "+
		"Install such a version again, or delete those that exist and are not needed: oc -n %s delete %s. Then record that: oc annotate clustercsidriver %s %s-",
		strings.Join(unknown, ", "), cmp.Or(namespace, "<namespace>"), strings.Join(unknown, " "), customResource, RecordAnnotation)
}
