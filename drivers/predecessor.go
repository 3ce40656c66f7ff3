package drivers

import (
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Predecessor is an operator of the driver that the Operator Lifecycle Manager (OLM) runs, and that the cluster storage operator
// succeeds. The fields say how to find that operator, and which objects it leaves behind. It has the same package name as the driver.
type Predecessor struct {
	// Versions are the versions of its ClusterServiceVersions, as a range such as ">=4.3.0-0 <4.6.0-0".
	Versions string
	// Operator is the name of its Deployment and of its service account.
	Operator string
	// CustomResource is the object that configured it, besides the ClusterCSIDriver; nil if there is none.
	CustomResource *CustomResource
	// Namespace is the dedicated namespace that its bundle suggested for its installation; "" if it suggested none.
	Namespace string
	// Leaves are objects that it created, and that nothing needs once its driver has been taken over.
	Leaves []Leftover
}

// A CustomResource is an object that configured an earlier operator.
type CustomResource struct {
	Kind schema.GroupVersionKind
	Name string
	// Definition is the name of its CustomResourceDefinition.
	Definition string
	// Finalizer is the finalizer of the operator. When the object is deleted, the operator removes the driver.
	Finalizer string
}

func (r CustomResource) String() string { return r.Kind.Kind + " " + r.Name }

// OldSettings holds the settings of an earlier operator's custom resource.
type OldSettings struct {
	UID             types.UID
	Deleted         bool // somebody has deleted it, and a finalizer keeps it
	ManagementState operatorv1.ManagementState
	// LogLevel and OperatorLogLevel are empty if the object has none, or an unknown one.
	LogLevel, OperatorLogLevel operatorv1.LogLevel
}

// ReadOldSettings reads an earlier operator's custom resource.
func ReadOldSettings(object *unstructured.Unstructured) OldSettings {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(object.Object, "spec", field)
		return value
	}
	return OldSettings{
		UID: object.GetUID(), Deleted: object.GetDeletionTimestamp() != nil,
		ManagementState: operatorv1.ManagementState(text("managementState")),
		LogLevel:        logLevel(text("logLevel")), OperatorLogLevel: logLevel(text("operatorLogLevel")),
	}
}

func logLevel(text string) operatorv1.LogLevel {
	switch level := operatorv1.LogLevel(text); level {
	case operatorv1.Normal, operatorv1.Debug, operatorv1.Trace, operatorv1.TraceAll:
		return level
	}
	return ""
}

// Unsettled returns, as a clause, why an administrator must first choose the driver's state, or "" if they need not. If the earlier
// operator did not manage the driver, the driver's state is unknown.
func (s OldSettings) Unsettled() string {
	switch {
	case s.Deleted:
		return "it is being deleted: an operator that runs would remove the driver, and the Secrets that its volumes need"
	case s.ManagementState != "" && s.ManagementState != operatorv1.Managed:
		return "its spec.managementState is " + string(s.ManagementState)
	}
	return ""
}

// Predecessors returns the operators of the driver that the cluster storage operator succeeds.
func (d Driver) Predecessors() []Predecessor {
	if d.ClusterStorage == nil {
		return nil
	}
	return d.History.Predecessors
}

// OldCustomResources returns the objects that configured the driver's predecessors.
func (d Driver) OldCustomResources() []CustomResource {
	var found []CustomResource
	for _, p := range d.Predecessors() {
		if p.CustomResource != nil {
			found = append(found, *p.CustomResource)
		}
	}
	return found
}

// VersionOf returns the version in the name of a ClusterServiceVersion, and whether the name belongs to the driver's
// package.
func (d Driver) VersionOf(csv string) (string, bool) {
	return strings.CutPrefix(csv, d.Package.Name+".v")
}
