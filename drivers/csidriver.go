package drivers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedByLabel marks the objects that an operator created or adopted. Its value is the operator's name.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// managedAnnotation marks a CSIDriver that an operator of OpenShift manages. See
// https://github.com/openshift/cluster-storage-operator.
const managedAnnotation = "csi.openshift.io/managed"

// IsOwn reports whether the driver's operator, or one of OpenShift's operators, created a CSIDriver with the driver's
// name. Otherwise an administrator did.
func (d Driver) IsOwn(csiDriver metav1.Object) bool {
	if csiDriver.GetAnnotations()[managedAnnotation] == "true" || csiDriver.GetLabels()[ManagedByLabel] == d.Operator.Name || d.History.Marks(csiDriver) {
		return true
	}
	_, marked := csiDriver.GetAnnotations()[d.History.CSIDriverAnnotation]
	return marked && d.History.CSIDriverAnnotation != ""
}
