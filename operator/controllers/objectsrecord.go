package controllers

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/operator/objects"
)

// ObjectsRecordAnnotation on a ClusterCSIDriver lists the objects that the driver's operators have created, so that an
// operator of another version knows the objects that it does not have itself. Only administrators can write it. The
// operator deletes nothing because of it.
const ObjectsRecordAnnotation = "berth.dev/driver-objects"

// recordSeparator separates the objects of a record.
const recordSeparator = ","

// recordable matches a recorded object. Whoever may change a ClusterCSIDriver can also write any other text into the record.
var recordable = regexp.MustCompile(`^([A-Z][A-Za-z]{0,62})(\.[a-z0-9][-a-z0-9.]{0,252})?/[a-z0-9]([-a-z0-9.:]{0,251}[a-z0-9])?$`)

// recordedKinds are the kinds of objects that another version may lack. Namespaces and CustomResourceDefinitions are
// not among them, because deleting one also deletes other people's objects in it.
var recordedKinds = sets.New("ClusterRole", "ClusterRoleBinding", "ConfigMap", "CredentialsRequest", "DaemonSet", "Deployment", "NetworkPolicy", "PodDisruptionBudget",
	"PrometheusRule", "Role", "RoleBinding", "Secret", "SecurityContextConstraints", "Service", "ServiceAccount", "ServiceMonitor", "StorageClass", "VolumeSnapshotClass")

// maxUnknownNamed is how many unknown objects a message names.
const maxUnknownNamed = 20

// RecordObjects returns the objects to record: the driver's own, and unknown ones of earlier records.
func RecordObjects(own []drivers.Manifest, unknown []string) string {
	return strings.Join(sets.List(sets.New(slices.Concat(objectReferences(own), unknown)...)), recordSeparator)
}

// UnknownObjects returns the recorded objects that are neither the driver's own nor retired. Another version of the
// operator created them, or has not retired them. It ignores text that no operator can have recorded.
func UnknownObjects(record string, own, retired []drivers.Manifest) []string {
	recorded := sets.New[string]()
	for reference := range strings.SplitSeq(record, recordSeparator) {
		if match := recordable.FindStringSubmatch(reference); match != nil && recordedKinds.Has(match[1]) {
			recorded.Insert(reference)
		}
	}
	return sets.List(recorded.Delete(objectReferences(slices.Concat(own, retired))...))
}

// objectReferences identify objects as oc does: by kind, group and name. No driver has two objects of the same kind and name in
// different namespaces.
func objectReferences(objects []drivers.Manifest) []string {
	var references []string
	for _, m := range objects {
		references = append(references, fmt.Sprintf("%s/%s", m.Object.GroupVersionKind().GroupKind(), m.Object.GetName()))
	}
	return references
}

// DescribeUnknownObjects says what to do about unknown objects of a driver in a namespace; "" if there are none.
// customResource and operator are the names of its ClusterCSIDriver and its operator. The commands delete only objects
// with the label of this operator, because a record may name anybody's objects.
func DescribeUnknownObjects(unknown []string, customResource, operator, namespace string) string {
	if len(unknown) == 0 {
		return ""
	}
	var named, commands []string
	for _, reference := range unknown[:min(len(unknown), maxUnknownNamed)] {
		kind, name, _ := strings.Cut(reference, "/")
		named = append(named, reference)
		commands = append(commands, escape.Command("oc -n %s delete %s -l %s --field-selector %s",
			cmp.Or(namespace, "NAMESPACE"), kind, objects.ManagedByLabel+"="+operator, "metadata.name="+name))
	}
	more := ""
	if n := len(unknown) - maxUnknownNamed; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("other versions of the operator created these objects, which this version does not know, so it neither updates nor removes them: %s%s. "+
		"Install such a version again, or delete those that exist and are not needed: %s. Then record that: %s",
		strings.Join(named, ", "), more, strings.Join(commands, "; "), escape.Command("oc annotate clustercsidriver %s %s", customResource, ObjectsRecordAnnotation+"-"))
}
