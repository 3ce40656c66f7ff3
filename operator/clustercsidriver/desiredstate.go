package clustercsidriver

import (
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// DesiredState holds the requests of a ClusterCSIDriver. It is comparable. A new UID is a new desired state, because
// the new object asks for a new driver.
type DesiredState struct {
	UID  types.UID
	Mode Mode
}

// Mode says how the operator treats the driver's objects.
type Mode string

const (
	// Absent: there is no ClusterCSIDriver, and the operator touches nothing of the driver.
	Absent Mode = "Absent"
	// Managed: the operator keeps the driver's objects as the driver's definition says.
	Managed Mode = "Managed"
	// Unmanaged: the operator leaves the objects as they are, because the ClusterCSIDriver says so or has an unknown
	// managementState.
	Unmanaged Mode = "Unmanaged"
	// Removed: the operator removes the objects, in order.
	Removed Mode = "Removed"
	// Orphaned: the ClusterCSIDriver is being deleted while it is unmanaged, or its driver is permanent. The operator
	// removes its finalizer and leaves the driver's objects as they are.
	Orphaned Mode = "Orphaned"
	// Kept: the ClusterCSIDriver asks to remove a permanent driver. The operator treats the driver as Managed, and
	// reports that.
	Kept Mode = "Kept"
)

// Installs reports whether the operator keeps the driver's objects as the driver's definition says.
func (m Mode) Installs() bool { return m == Managed || m == Kept }

// desiredState returns the state that a ClusterCSIDriver asks for. object is nil if there is none. An unknown managementState counts as
// Unmanaged. A permanent driver is never removed.
func desiredState(object *unstructured.Unstructured, permanent bool) DesiredState {
	if object == nil {
		return DesiredState{Mode: Absent}
	}
	state, _, err := unstructured.NestedString(object.Object, "spec", "managementState")
	if err != nil {
		state = ""
	}
	desired := DesiredState{UID: object.GetUID(), Mode: Unmanaged}
	deleted := object.GetDeletionTimestamp() != nil
	switch operatorv1.ManagementState(state) {
	case operatorv1.Managed:
		desired.Mode = Managed
		if deleted {
			desired.Mode = Removed
		}
	case operatorv1.Removed:
		desired.Mode = Removed
	default:
		if deleted {
			desired.Mode = Orphaned
		}
	}
	switch {
	case permanent && deleted:
		desired.Mode = Orphaned
	case permanent && desired.Mode == Removed:
		desired.Mode = Kept
	}
	return desired
}
