// Package predecessor finds the operators of a driver that the Operator Lifecycle Manager (OLM) runs, and that the cluster
// storage operator succeeds.
//
// Any user may subscribe to a package in a namespace of their own, so a Subscription proves nothing. If OLM has really
// installed an operator, the operator has its permissions from a ClusterRoleBinding, which only administrators and OLM
// can write. OLM also gives permissions to operators that it then refuses to run, because the OperatorGroup of their
// namespace is not for all namespaces. Only administrators write OperatorGroups.
package predecessor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// Operator is an operator of a driver that OLM has given permissions.
type Operator struct {
	// Namespace and Account are its service account. Its Deployment has the same name as the account.
	Namespace, Account string
	// Kind and Name identify the object for which OLM installed it: a ClusterServiceVersion, or a ClusterExtension.
	Kind, Name string
	// Binding is the name of a ClusterRoleBinding that proves that OLM installed the operator.
	Binding string
}

func (o Operator) String() string {
	if o.Kind == Extension {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// The kinds of objects that OLM installs operators for.
const (
	Version   = "ClusterServiceVersion"
	Extension = "ClusterExtension"
)

// An owner is a kind of object that OLM installs operators for, and the labels with which OLM names such an object.
type owner struct{ kind, kindLabel, nameLabel string }

var (
	ofVersion   = owner{Version, "olm.owner.kind", "olm.owner"}
	ofExtension = owner{Extension, "olm.operatorframework.io/owner-kind", "olm.operatorframework.io/owner-name"}
	owners      = []owner{ofVersion, ofExtension}
)

// EndingAnnotation is an annotation of OLM v0's OperatorCondition for an operator. Its value is the UID of the ClusterServiceVersion that
// berth move deletes without the objects that the version owns. The operator then adds no owner to objects of its bundle, so that they
// stay when the version is deleted. The annotation has no other effect: anybody who writes in the operator's namespace can set it.
const EndingAnnotation = "berth.dev/ending-version"

// LabelsOf returns the labels of all objects that OLM v1 has installed for a ClusterExtension. Anybody can set such
// labels on an object in their own namespace.
func LabelsOf(extension string) map[string]string {
	return map[string]string{ofExtension.kindLabel: Extension, ofExtension.nameLabel: extension}
}

// IsInstalled reports whether an object has the labels of an object that OLM v1 installed.
func IsInstalled(labels map[string]string) bool { return labels[ofExtension.kindLabel] == Extension }

// Observe returns the operators of a driver that OLM runs, sorted. It lists OperatorGroups only if OLM has given permissions to such an
// operator.
func Observe(ctx context.Context, reader client.Reader, d drivers.Driver, bindings []*rbacv1.ClusterRoleBinding) ([]Operator, error) {
	if len(find(d, bindings, nil)) == 0 {
		return nil, nil
	}
	groups, err := ReadGroups(ctx, reader)
	if err != nil {
		return nil, err
	}
	return find(d, bindings, groups), nil
}

// ReadGroups returns, for each namespace with OperatorGroups, whether one of these is for all namespaces.
func ReadGroups(ctx context.Context, reader client.Reader) (map[string]bool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1", Kind: "OperatorGroupList"})
	if err := reader.List(ctx, list); err != nil && !meta.IsNoMatchError(err) { // OLM may be absent
		return nil, fmt.Errorf("listing OperatorGroups: %w", err)
	}
	groups := map[string]bool{}
	for _, group := range list.Items {
		groups[group.GetNamespace()] = groups[group.GetNamespace()] || isForAll(&group)
	}
	return groups, nil
}

// isForAll reports whether an OperatorGroup is for all namespaces. No predecessor supports other OperatorGroups.
func isForAll(group *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"targetNamespaces"}, {"selector", "matchLabels"}, {"selector", "matchExpressions"}} {
		value, _, _ := unstructured.NestedFieldNoCopy(group.Object, append([]string{"spec"}, path...)...)
		switch value := value.(type) {
		case []any:
			if len(value) > 0 {
				return false
			}
		case map[string]any:
			if len(value) > 0 {
				return false
			}
		}
	}
	return true
}

// find returns the operators of a driver to which OLM has given permissions, sorted. It leaves out namespaces whose OperatorGroups are not
// for all namespaces. It keeps namespaces without an OperatorGroup: if the OperatorGroup was deleted, the operator keeps running.
func find(d drivers.Driver, bindings []*rbacv1.ClusterRoleBinding, groups map[string]bool) []Operator {
	var found []Operator
	for _, binding := range bindings {
		for _, owner := range owners {
			if binding.Labels[owner.kindLabel] != owner.kind {
				continue
			}
			for _, subject := range binding.Subjects {
				if forAll, has := groups[subject.Namespace]; has && !forAll && owner.kind == Version {
					continue
				}
				if subject.Kind == rbacv1.ServiceAccountKind && IsOperator(d, subject.Name) {
					found = append(found, Operator{Namespace: subject.Namespace, Account: subject.Name, Kind: owner.kind, Name: binding.Labels[owner.nameLabel], Binding: binding.Name})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Binding, b.Binding))
	})
	return slices.CompactFunc(found, func(a, b Operator) bool {
		return a.Namespace == b.Namespace && a.Account == b.Account && a.Kind == b.Kind && a.Name == b.Name
	})
}

// IsOperator reports whether a predecessor's Deployment and service account have this name.
func IsOperator(d drivers.Driver, name string) bool {
	return slices.ContainsFunc(d.Predecessors(), func(p drivers.Predecessor) bool { return p.Operator == name })
}

// Condition returns the type of a driver's condition Available, in the status of Storage.
func Condition(d drivers.Driver) string { return d.ConditionPrefix + "CSIDriverOperatorAvailable" }

// Succeeded reports whether the cluster storage operator has ever given permissions to its own operator of the driver. That is its first
// write for a driver.
func Succeeded(d drivers.Driver, bindings []*rbacv1.ClusterRoleBinding) bool {
	return slices.ContainsFunc(bindings, func(b *rbacv1.ClusterRoleBinding) bool { return b.Name == d.SuccessorBinding() })
}
