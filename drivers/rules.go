package drivers

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rules is what the operator of a driver may do. Rules are merged, sorted and free of repetition.
//
// The Operator Lifecycle Manager makes a Role of Permissions, and also a ClusterRole where the
// operator serves all namespaces. So whatever can be limited to names is, in both.
type Rules struct {
	// Permissions hold in the namespace that the operator runs in. They are about the operator itself:
	// its driver may be in another namespace.
	Permissions []rbacv1.PolicyRule
	// ClusterPermissions hold in the whole cluster. What they allow is left out of Permissions.
	ClusterPermissions []rbacv1.PolicyRule
}

// OperatorRules returns what the driver's operator needs: what every operator needs, what it takes to
// manage each of the driver's assets, and Operator.Rules.
// It fails if an asset is of a kind whose API resource is not known here.
func (d Driver) OperatorRules() (Rules, error) {
	manifests, err := d.unrendered()
	if err != nil {
		return Rules{}, err
	}
	namespaced, cluster := d.commonRules()
	cluster = append(cluster, d.Operator.Rules...)
	for _, m := range manifests {
		rules, err := rulesToManage(m.Object)
		if err != nil {
			return Rules{}, fmt.Errorf("asset %s of driver %s: %w", m.File, d.Name, err)
		}
		// The driver need not be in the operator's namespace: it stays where an earlier operator put it.
		cluster = append(cluster, rules...)
	}
	allowed := permissionsOf(cluster)
	return Rules{
		Permissions:        permissionsOf(namespaced).without(allowed).rules(),
		ClusterPermissions: allowed.rules(),
	}, nil
}

// unrendered returns the driver's assets with all placeholders still in place.
func (d Driver) unrendered() ([]Manifest, error) {
	return d.Manifests(Values{Namespace: namespacePlaceholder, Image: func(env string) string { return "${" + env + "}" }})
}

// commonRules are the rules that the operator of any driver needs.
func (d Driver) commonRules() (namespaced, cluster []rbacv1.PolicyRule) {
	read := []string{"get", "list", "watch"}
	namespaced = []rbacv1.PolicyRule{
		// The leader-for-life lock. Its holder is a pod, which whoever waits removes once it is evicted
		// or its node is lost.
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{d.Operator.Lock}, Verbs: []string{"get", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "delete"}},
		// Events are about the operator's own Deployment, found by way of pod and ReplicaSet.
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{d.Operator.Name}, Verbs: []string{"get"}},
	}
	// Credentials and the trusted CA bundle: pods roll when they change. Lists and watches ask for each
	// by name.
	for _, secret := range d.Secrets {
		cluster = append(cluster, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: read})
	}
	if d.TrustedCABundle != "" {
		cluster = append(cluster, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{d.TrustedCABundle}, Verbs: read})
	}
	cluster = append(cluster, []rbacv1.PolicyRule{
		// Whether an earlier operator is still active where the driver is: who holds its lock there.
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{d.Operator.Lock}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		// What the driver is asked to be, and what the operator reports. An operator sees no other
		// driver's object: its lists and watches ask for this one by name.
		{APIGroups: []string{"operator.openshift.io"}, Resources: []string{"clustercsidrivers"}, ResourceNames: []string{d.CSIName}, Verbs: append([]string{"update", "patch"}, read...)},
		{APIGroups: []string{"operator.openshift.io"}, Resources: []string{"clustercsidrivers/status"}, ResourceNames: []string{d.CSIName}, Verbs: []string{"get", "update", "patch"}},
		// The cluster's configuration that drivers follow.
		{APIGroups: []string{"config.openshift.io"}, Resources: []string{"apiservers", "infrastructures", "proxies"}, Verbs: read},
		{APIGroups: []string{"operator.openshift.io"}, Resources: []string{"cloudcredentials"}, Verbs: read},
		// Who still uses a volume of the driver: it is not removed before.
		{APIGroups: []string{""}, Resources: []string{"pods", "persistentvolumes", "persistentvolumeclaims"}, Verbs: []string{"list", "watch"}},
		// Whether the node of the lock's holder is lost.
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		// Who asks for the operator's metrics, and whether they may have them.
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}, Verbs: read},
	}...)
	return namespaced, cluster
}

// resources are the API resources of the kinds that assets may be of.
var resources = map[schema.GroupKind]string{
	{Kind: "ConfigMap"}:                 "configmaps",
	{Kind: "Service"}:                   "services",
	{Kind: "ServiceAccount"}:            "serviceaccounts",
	{Group: "apps", Kind: "DaemonSet"}:  "daemonsets",
	{Group: "apps", Kind: "Deployment"}: "deployments",
	{Group: "cloudcredential.openshift.io", Kind: "CredentialsRequest"}:  "credentialsrequests",
	{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}:             "prometheusrules",
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}:             "servicemonitors",
	{Group: "policy", Kind: "PodDisruptionBudget"}:                       "poddisruptionbudgets",
	{Group: rbacv1.GroupName, Kind: "ClusterRole"}:                       "clusterroles",
	{Group: rbacv1.GroupName, Kind: "ClusterRoleBinding"}:                "clusterrolebindings",
	{Group: rbacv1.GroupName, Kind: "Role"}:                              "roles",
	{Group: rbacv1.GroupName, Kind: "RoleBinding"}:                       "rolebindings",
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: "securitycontextconstraints",
	{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotClass"}:      "volumesnapshotclasses",
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                         "csidrivers",
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                      "storageclasses",
}

// rulesToManage returns what it takes to create, follow, change and delete one object.
func rulesToManage(object *unstructured.Unstructured) ([]rbacv1.PolicyRule, error) {
	kind := object.GroupVersionKind().GroupKind()
	if kind.Kind == "CustomResourceDefinition" {
		return nil, nil // installed with the operator, not by it
	}
	resource, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("%s %s: the API resource of kind %s is not known: add it to the table of resources in package drivers",
			kind.Kind, object.GetName(), kind)
	}
	rules := []rbacv1.PolicyRule{
		// These cannot be limited to a name: when an object is created, or a list asked for, there is none yet.
		{APIGroups: []string{kind.Group}, Resources: []string{resource}, Verbs: []string{"list", "watch", "create"}},
		{APIGroups: []string{kind.Group}, Resources: []string{resource}, ResourceNames: []string{object.GetName()}, Verbs: []string{"get", "update", "patch", "delete"}},
	}
	if slices.Contains([]string{"Role", "ClusterRole"}, kind.Kind) {
		// Nobody may grant what they do not have themselves.
		var role rbacv1.ClusterRole // a Role has its rules in the same place
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, err
		}
		rules = append(rules, role.Rules...)
	}
	return rules, nil
}
