package objects

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
)

// ManagedByLabel marks the objects that the operator created or adopted. Its value is the operator's name.
const ManagedByLabel = drivers.ManagedByLabel

// Ownership tells which objects belong to a driver's operator.
type Ownership struct {
	operator string
	history  drivers.History
}

// OwnershipOf returns the ownership of a driver's operator.
func OwnershipOf(driver drivers.Driver) Ownership {
	return Ownership{operator: driver.Operator.Name, history: driver.History}
}

// Managed reports whether this operator created or adopted an object.
func (o Ownership) Managed(object metav1.Object) bool {
	return object.GetLabels()[ManagedByLabel] == o.operator
}

// Owned reports whether this operator or an earlier operator of the driver created an object. All other objects are
// foreign.
func (o Ownership) Owned(object metav1.Object) bool {
	return o.Managed(object) || o.history.Marks(object)
}
