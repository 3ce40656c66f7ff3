package accounts

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

const roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: sample-resizer-role
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch]
  - apiGroups: [storage.k8s.io]
    resources: [storageclasses]
    verbs: [list]
  - apiGroups: [""]
    resources: [persistentvolumeclaims/status]
    verbs: [patch]
  - apiGroups: [""]
    resources: [events]
    verbs: [create, patch, update]
`

const binding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: sample-resizer-binding
subjects:
  - kind: ServiceAccount
    name: controller
    namespace: ${NAMESPACE}
  - kind: ServiceAccount
    name: prometheus
    namespace: elsewhere
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: sample-resizer-role
`

const secretsRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: sample-secrets
  namespace: ${NAMESPACE}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames: [one, other]
    verbs: [get]
`

const secretsBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: sample-secrets
  namespace: ${NAMESPACE}
subjects:
  - kind: ServiceAccount
    name: controller
    namespace: ${NAMESPACE}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: sample-secrets
`

// TestCompare: a permission is used by a request of the right program, in the right namespace, that was not refused.
func TestCompare(t *testing.T) {
	driver := drivers.Driver{Name: "sample", Assets: fstest.MapFS{}}
	assets := driver.Assets.(fstest.MapFS)
	for name, content := range map[string]string{"role.yaml": roles, "binding.yaml": binding, "secrets_role.yaml": secretsRole, "secrets_binding.yaml": secretsBinding} {
		assets[name] = &fstest.MapFile{Data: []byte(content)}
	}
	request := func(account, agent, verb, group, resource, subresource, namespace, name string, code int32) cluster.AuditEvent {
		return cluster.AuditEvent{User: "system:serviceaccount:home:" + account, Agent: agent + "/v1 (linux)", Verb: verb, Group: group,
			Resource: resource, Subresource: subresource, Namespace: namespace, Name: name, Code: code}
	}
	for _, test := range []struct {
		name            string
		requests        []cluster.AuditEvent
		refused, unused []string
	}{
		{"nothing is requested", nil, nil, []string{
			"sample-resizer-role: patch persistentvolumeclaims/status", "sample-resizer-role: read pods",
			"sample-resizer-role: read storageclasses.storage.k8s.io", "sample-resizer-role: record events", "sample-resizer-role: update events",
			"sample-secrets: read secrets one", "sample-secrets: read secrets other"}},
		{"all is used", []cluster.AuditEvent{
			request("controller", "csi-resizer", "create", "", "events", "", "user", "", 201),
			request("controller", "csi-resizer", "update", "", "events", "", "user", "event", 200),
			request("controller", "csi-resizer", "watch", "", "pods", "", "", "", 200),
			request("controller", "csi-resizer", "list", "storage.k8s.io", "storageclasses", "", "", "", 200),
			request("controller", "csi-resizer", "patch", "", "persistentvolumeclaims", "status", "user", "claim", 409),
			request("controller", "driver", "get", "", "secrets", "", "home", "one", 200),
			request("controller", "csi-provisioner", "get", "", "secrets", "", "home", "other", 404),
		}, nil, nil},
		{"others use it", []cluster.AuditEvent{
			request("controller", "csi-resizer", "patch", "", "events", "", "user", "event", 200),
			request("controller", "csi-provisioner", "list", "", "pods", "", "", "", 200),
			request("prometheus", "csi-resizer", "list", "", "pods", "", "", "", 200),
			request("controller", "csi-resizer", "patch", "", "persistentvolumeclaims", "", "user", "claim", 200),
			request("controller", "csi-resizer", "list", "storage.k8s.io", "storageclasses", "", "", "", 200),
			request("controller", "driver", "get", "", "secrets", "", "user", "one", 200),
			request("controller", "driver", "get", "", "secrets", "", "home", "third", 200),
		}, nil, []string{"sample-resizer-role: patch persistentvolumeclaims/status", "sample-resizer-role: read pods", "sample-resizer-role: update events", "sample-secrets: read secrets one", "sample-secrets: read secrets other"}},
		{"it is refused", []cluster.AuditEvent{
			request("controller", "csi-resizer", "create", "", "events", "", "user", "", 201),
			request("controller", "csi-resizer", "update", "", "events", "", "user", "event", 200),
			request("controller", "csi-resizer", "watch", "", "pods", "", "", "", 200),
			request("controller", "csi-resizer", "get", "storage.k8s.io", "storageclasses", "", "", "", 403),
			request("controller", "csi-resizer", "list", "storage.k8s.io", "storageclasses", "", "", "", 403),
			request("controller", "csi-resizer", "patch", "", "persistentvolumeclaims", "status", "user", "claim", 200),
			request("controller", "driver", "get", "", "secrets", "", "home", "one", 200),
			request("controller", "driver", "get", "", "secrets", "", "home", "other", 200),
		}, []string{"csi-resizer: read storageclasses.storage.k8s.io"}, []string{"sample-resizer-role: read storageclasses.storage.k8s.io"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Compare(driver, "home", test.requests)
			require.NoError(t, err)
			if !slices.Equal(got.Refused, test.refused) || !slices.Equal(got.Unused, test.unused) {
				t.Errorf("refused %q and unused %q, want %q and %q", got.Refused, got.Unused, test.refused, test.unused)
			}
		})
	}
}
