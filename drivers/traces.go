package drivers

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Trace is a cluster-scoped object in which an operator names the service accounts of its driver, and thus the
// driver's namespace. Only administrators, and operators that they installed, can write one. So it proves where a
// driver is, unlike anything in a namespace.
type Trace struct {
	// Kind and Name identify the object.
	Kind schema.GroupVersionKind
	Name string
	// Accounts are the driver's service accounts that the object may name.
	Accounts []string
	// Foreign says that the objects of the trace's driver have other names than ours, so that the driver cannot be adopted. Such a trace
	// does not show where our driver is, but that another driver exists. The operator then installs nothing.
	Foreign bool
	// Owner describes, for administrators, the operator to which the driver belongs while the object exists; "" if it
	// belongs to ours.
	Owner string
}

// ClusterStorageNamespace is where the cluster storage operator runs drivers and their operators. Users cannot create
// namespaces whose names begin with "openshift-".
const ClusterStorageNamespace = "openshift-cluster-csi-drivers"

// clusterStorageOperator describes that operator for administrators.
const clusterStorageOperator = "the cluster storage operator"

// SuccessorBinding returns the name of the ClusterRoleBinding of the driver's operator: the first object that the cluster storage
// operator creates for a driver.
func (d Driver) SuccessorBinding() string { return d.Operator.Name + "-clusterrolebinding" }

// clusterStorageTrace returns the trace that a driver has if the cluster storage operator owns the driver.
func clusterStorageTrace(d Driver) Trace {
	return Trace{Kind: ClusterRoleBindingKind, Name: d.SuccessorBinding(), Accounts: []string{d.Operator.Name}, Owner: clusterStorageOperator}
}

const accountPrefix = "system:serviceaccount:"

var (
	// ClusterRoleBindingKind and SecurityContextConstraintsKind are the kinds that name service accounts.
	ClusterRoleBindingKind         = rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding")
	SecurityContextConstraintsKind = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}
)

// Account is a service account that an object names.
type Account struct{ Namespace, Name string }

// AccountsIn returns the service accounts that a binding or SecurityContextConstraints names.
func AccountsIn(object *unstructured.Unstructured) []Account {
	var accounts []Account
	users, _, _ := unstructured.NestedStringSlice(object.Object, "users")
	for _, user := range users {
		namespace, name, found := strings.Cut(strings.TrimPrefix(user, accountPrefix), ":")
		if found && strings.HasPrefix(user, accountPrefix) {
			accounts = append(accounts, Account{namespace, name})
		}
	}
	subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
	for _, subject := range subjects {
		if s, ok := subject.(map[string]any); ok && s["kind"] == rbacv1.ServiceAccountKind {
			namespace, _ := s["namespace"].(string)
			name, _ := s["name"].(string)
			accounts = append(accounts, Account{namespace, name})
		}
	}
	return accounts
}

// Traces returns the objects that may show where the driver is: the assets that name its service accounts, and
// objects of earlier operators with other names.
func (d Driver) Traces() ([]Trace, error) {
	manifests, err := d.Manifests(Values{Namespace: NamespacePlaceholder, Image: func(env string) string { return env }})
	if err != nil {
		return nil, err
	}
	var traces []Trace
	for _, kind := range []schema.GroupVersionKind{SecurityContextConstraintsKind, ClusterRoleBindingKind} {
		for _, m := range OfKind(manifests, kind.Kind) {
			trace := Trace{Kind: kind, Name: m.Object.GetName()}
			for _, account := range AccountsIn(m.Object) {
				if account.Namespace == NamespacePlaceholder {
					trace.Accounts = append(trace.Accounts, account.Name)
				}
			}
			if len(trace.Accounts) > 0 {
				traces = append(traces, trace)
			}
		}
	}
	if d.ClusterStorage != nil {
		traces = append(traces, clusterStorageTrace(d))
	}
	return slices.Concat(traces, d.History.Traces), nil
}
