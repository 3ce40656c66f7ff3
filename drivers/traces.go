package drivers

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Trace is a cluster-scoped object in which an operator names the service accounts of its driver, and so the
// namespace that the driver is in. Nobody but administrators, and operators that they have installed, can write
// one: unlike anything in a namespace, it proves where a driver is.
type Trace struct {
	// Kind and Name are the object's.
	Kind schema.GroupVersionKind
	Name string
	// Accounts are the names of the driver's service accounts that the object may name.
	Accounts []string
	// Foreign says that this driver's objects have other names than ours, so that it cannot be taken over in
	// place. It tells that there is another driver, and not where ours is.
	Foreign bool
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

// Traces returns the objects that may tell where the driver is: those of its own assets that name its service
// accounts, and those that earlier operators made under other names.
func (d Driver) Traces() ([]Trace, error) {
	manifests, err := d.Manifests(Values{Namespace: namespacePlaceholder, Image: func(env string) string { return env }})
	if err != nil {
		return nil, err
	}
	var traces []Trace
	for _, kind := range []schema.GroupVersionKind{SecurityContextConstraintsKind, ClusterRoleBindingKind} {
		for _, m := range OfKind(manifests, kind.Kind) {
			trace := Trace{Kind: kind, Name: m.Object.GetName()}
			for _, account := range AccountsIn(m.Object) {
				if account.Namespace == namespacePlaceholder {
					trace.Accounts = append(trace.Accounts, account.Name)
				}
			}
			if len(trace.Accounts) > 0 {
				traces = append(traces, trace)
			}
		}
	}
	return slices.Concat(traces, d.History.Traces), nil
}
