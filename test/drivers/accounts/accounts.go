// Package accounts compares the permissions of a driver's own service accounts with the API requests of the driver and
// its sidecars.
package accounts

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// Result is a run's findings about the permissions of a driver's accounts.
type Result struct {
	// Refused are the requests that the API server refused, such as "csi-snapshotter: read volumesnapshots.snapshot.storage.k8s.io".
	Refused []string
	// Unused are the permissions that the run did not need, such as
	// "ebs-external-resizer-role: read storageclasses.storage.k8s.io".
	Unused []string
}

// sidecars maps the names of sidecars, as the names of roles contain them, to the user agents of their programs. The sidecars of a
// Deployment share an account; a role for one of them is not used by the others. Other roles are for all programs.
var sidecars = map[string]string{
	"provisioner": "csi-provisioner",
	"attacher":    "csi-attacher",
	"resizer":     "csi-resizer",
	"snapshotter": "csi-snapshotter",
}

// permission is a verb on a resource that a role gives to accounts. The verbs get, list and watch are one, "read": who
// may list all objects learns no more by getting one, and which of the verbs a program uses changes with the version of
// its client library. To create and to patch events is one, "record": an event is patched if it repeats.
type permission struct {
	role, agent           string // agent is empty for all programs
	namespace             string // empty for all
	verb, resource, named string
}

func (p permission) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", p.role, p.verb, p.resource, p.named))
}

// Compare compares the roles in a driver's definition with the requests of its accounts.
func Compare(driver drivers.Driver, namespace string, requests []cluster.AuditEvent) (Result, error) {
	granted, err := permissions(driver, namespace)
	if err != nil {
		return Result{}, err
	}
	unused, refused := map[string]bool{}, map[string]bool{}
	for _, of := range granted {
		for _, p := range of {
			unused[p.String()] = true
		}
	}
	for _, request := range requests {
		of, ours := granted[request.User]
		if !ours {
			continue
		}
		agent, _, _ := strings.Cut(request.Agent, "/")
		resource := resource(request.Group, cmp.Or(request.Resource, request.URI), request.Subresource)
		verb := verb(request.Verb, resource)
		if request.Code == http.StatusForbidden {
			refused[fmt.Sprintf("%s: %s %s", agent, verb, resource)] = true
			continue
		}
		for _, p := range of {
			if p.verb == verb && p.resource == resource && (p.agent == "" || p.agent == agent) &&
				(p.namespace == "" || p.namespace == request.Namespace) && (p.named == "" || p.named == request.Name) {
				delete(unused, p.String())
			}
		}
	}
	return Result{Refused: slices.Sorted(maps.Keys(refused)), Unused: slices.Sorted(maps.Keys(unused))}, nil
}

func verb(verb, resource string) string {
	switch {
	case verb == "get" || verb == "list" || verb == "watch":
		return "read"
	case resource == "events" && (verb == "create" || verb == "patch"):
		return "record"
	}
	return verb
}

func resource(group, name, subresource string) string {
	if group != "" {
		name += "." + group
	}
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}

// permissions returns the permissions of the driver's accounts, by their user names.
func permissions(driver drivers.Driver, namespace string) (map[string][]permission, error) {
	manifests, err := driver.Operand(drivers.Values{Namespace: namespace, Image: func(env string) string { return env }})
	if err != nil {
		return nil, err
	}
	granted := map[string][]permission{}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		for _, m := range drivers.OfKind(manifests, kind) {
			var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &binding); err != nil {
				return nil, fmt.Errorf("%s: %w", m.File, err)
			}
			var role rbacv1.Role
			for _, found := range drivers.Named(manifests, binding.RoleRef.Kind, binding.RoleRef.Name) {
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object.Object, &role); err != nil {
					return nil, fmt.Errorf("%s: %w", found.File, err)
				}
			}
			for _, subject := range binding.Subjects {
				if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == namespace {
					user := "system:serviceaccount:" + namespace + ":" + subject.Name
					granted[user] = append(granted[user], permissionsOf(role, binding.Namespace)...)
				}
			}
		}
	}
	return granted, nil
}

// permissionsOf returns the permissions that a role gives in a namespace, or in all.
func permissionsOf(role rbacv1.Role, namespace string) []permission {
	agent := ""
	for name, program := range sidecars {
		if strings.Contains(role.Name, name) {
			agent = program
		}
	}
	var all []permission
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, full := range rule.Resources {
				name, subresource, _ := strings.Cut(full, "/")
				resource := resource(group, name, subresource)
				for _, v := range rule.Verbs {
					for _, named := range names {
						all = append(all, permission{role: role.Name, agent: agent, namespace: namespace, verb: verb(v, resource), resource: resource, named: named})
					}
				}
			}
		}
	}
	return all
}
