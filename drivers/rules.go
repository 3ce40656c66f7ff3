package drivers

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers/permissions"
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

// OperatorPolicyRules returns what OperatorRules come to in RBAC. It fails as that does.
func (d Driver) OperatorPolicyRules() (Rules, error) {
	rules, err := d.OperatorRules()
	if err != nil {
		return Rules{}, err
	}
	own, everywhere := permissions.PolicyRules(rules)
	return Rules{Permissions: own, ClusterPermissions: everywhere}, nil
}

// OperatorRules returns what the driver's operator needs: what every operator needs, Operator.Rules, and
// what it takes to manage each of the driver's assets.
// It fails if an asset is of a kind whose API resource is not known here.
func (d Driver) OperatorRules() ([]permissions.Rule, error) {
	manifests, err := d.unrendered()
	if err != nil {
		return nil, err
	}
	rules, err := d.commonRules()
	if err != nil {
		return nil, err
	}
	for i := range rules {
		rules[i].From = "drivers/rules.go"
	}
	for _, rule := range d.Operator.Rules {
		rule.From = path.Join("drivers", d.Name, "driver.go")
		rules = append(rules, rule)
	}
	for _, m := range manifests {
		toManage, err := d.rulesToManage(m)
		if err != nil {
			return nil, fmt.Errorf("asset %s of driver %s: %w", m.File, d.Name, err)
		}
		rules = append(rules, toManage...)
	}
	return rules, nil
}

// unrendered returns the driver's assets with all placeholders still in place whose values depend on the
// cluster.
func (d Driver) unrendered() ([]Manifest, error) {
	return d.Manifests(Values{Namespace: cmp.Or(d.Namespace, namespacePlaceholder), Image: func(env string) string { return "${" + env + "}" }})
}

// commonRules are what the operator of any driver needs.
func (d Driver) commonRules() ([]permissions.Rule, error) {
	const (
		lock        = "To be the only operator of the driver that is active"
		asked       = "To do what the driver's ClusterCSIDriver asks for, and report on it"
		located     = "To find the driver where an earlier operator has put it"
		clusterWide = "To follow the cluster's configuration"
		credentials = "To restart the driver's pods when their credentials change"
		inUse       = "To remove the driver only when nobody uses its volumes"
		told        = "To tell in events what it does"
		offered     = "To make a StorageClass of each kind of storage that the backend offers"
		metrics     = "To show its metrics to those who may read them"
	)
	traces, err := d.Traces()
	if err != nil {
		return nil, err
	}
	rules := []permissions.Rule{
		// The leader-for-life lock is a ConfigMap that a pod owns.
		{For: lock, Own: true, Resources: []string{"configmaps"}, Names: []string{d.Operator.Lock}, Verbs: []string{"get", "create", "patch", "delete"}},
		{For: lock, Own: true, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{For: lock, Resources: []string{"nodes"}, Verbs: []string{"get"}},

		{For: asked, Group: "operator.openshift.io", Resources: []string{"clustercsidrivers"}, Names: []string{d.CSIName},
			Verbs: append([]string{"patch"}, permissions.Follow...), Unexercised: permissions.ListedFirst},
		{For: asked, Group: "operator.openshift.io", Resources: []string{"clustercsidrivers/status"}, Names: []string{d.CSIName},
			Verbs: []string{"patch"}},

		// The driver may be in any namespace that administrators chose, and so is an earlier operator's lock. A
		// namespace is known by its UID, which is looked at before each write.
		{For: located, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{For: located, Resources: []string{"configmaps"}, Names: []string{d.Operator.Lock}, Verbs: []string{"get"}},

		{For: clusterWide, Group: "config.openshift.io", Resources: []string{"apiservers", "infrastructures", "proxies"},
			Verbs: permissions.Follow, Unexercised: permissions.ListedFirst},
		{For: clusterWide, Group: "operator.openshift.io", Resources: []string{"cloudcredentials"}, Verbs: permissions.Follow, Unexercised: permissions.ListedFirst},

		{For: inUse, Resources: []string{"pods", "persistentvolumes"}, Verbs: []string{"list"}},

		// Its events are about its own Deployment, found by way of pod and ReplicaSet.
		{For: told, Own: true, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{For: told, Own: true, Group: "apps", Resources: []string{"replicasets"}, Verbs: []string{"get"}},

		{For: metrics, Group: "authentication.k8s.io", Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{For: metrics, Group: "authorization.k8s.io", Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	for _, trace := range traces {
		kind, ok := kinds[trace.Kind.GroupKind()]
		if !ok {
			return nil, fmt.Errorf("trace %s %s of driver %s: the API resource of its kind is not known: add it to the table of kinds in package drivers",
				trace.Kind.Kind, trace.Name, d.Name)
		}
		rules = append(rules, permissions.Rule{For: located, Group: trace.Kind.Group, Resources: []string{kind.resource},
			Names: []string{trace.Name}, Verbs: []string{"get"}})
	}
	if d.Backend != nil {
		// Their names come from the backend.
		rules = append(rules, permissions.Rule{For: offered, Group: "storage.k8s.io", Resources: []string{"storageclasses"},
			Verbs: append([]string{"get", "create", "patch", "delete"}, permissions.Follow...)})
	}
	if len(d.Secrets) > 0 {
		rules = append(rules, permissions.Rule{For: credentials, Resources: []string{"secrets"}, Names: d.Secrets,
			Verbs: permissions.Follow, Unexercised: permissions.ListedFirst})
	}
	return rules, nil
}

// kinds are the kinds that assets may be of, with their API resources.
var kinds = map[schema.GroupKind]struct {
	resource string
	// recreated objects have fields that can only be changed by making the object anew, and that the driver does not
	// work without if they are wrong. It is tried out first, under another name, whether that can be done.
	recreated bool
	// updated objects are looked after by library-go, which replaces them rather than apply them, once they exist.
	updated bool
	// kept objects outlive the driver, because volumes may refer to them: nobody may delete them.
	kept bool
	// unexercised says of a verb why no end-to-end run can use it.
	unexercised map[string]string
}{
	{Kind: "ConfigMap"}: {resource: "configmaps"},
	{Kind: "Namespace"}: {resource: "namespaces", kept: true, unexercised: map[string]string{
		"create": "the end-to-end run begins with an earlier operator, which is there"}},
	{Kind: "Secret"}:                    {resource: "secrets", kept: true},
	{Kind: "Service"}:                   {resource: "services"},
	{Kind: "ServiceAccount"}:            {resource: "serviceaccounts"},
	{Group: "apps", Kind: "DaemonSet"}:  {resource: "daemonsets", updated: true},
	{Group: "apps", Kind: "Deployment"}: {resource: "deployments", updated: true},
	{Group: "cloudcredential.openshift.io", Kind: "CredentialsRequest"}:  {resource: "credentialsrequests"},
	{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}:             {resource: "prometheusrules"},
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}:             {resource: "servicemonitors"},
	{Group: "policy", Kind: "PodDisruptionBudget"}:                       {resource: "poddisruptionbudgets"},
	{Group: rbacv1.GroupName, Kind: "ClusterRole"}:                       {resource: "clusterroles"},
	{Group: rbacv1.GroupName, Kind: "Role"}:                              {resource: "roles"},
	{Group: rbacv1.GroupName, Kind: "ClusterRoleBinding"}:                {resource: "clusterrolebindings", recreated: true},
	{Group: rbacv1.GroupName, Kind: "RoleBinding"}:                       {resource: "rolebindings", recreated: true},
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                         {resource: "csidrivers", recreated: true},
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: {resource: "securitycontextconstraints"},
	{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotClass"}:      {resource: "volumesnapshotclasses"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                      {resource: "storageclasses"},
}

// Kept tells whether an object outlives the driver that it is a part of.
func (m Manifest) Kept() bool { return kinds[m.Object.GroupVersionKind().GroupKind()].kept }

// Recreated tells whether an object is deleted and recreated where it cannot be changed to what is wanted: without
// attachRequired and volumeLifecycleModes of a CSIDriver or the roleRef of a binding as they should be, the driver
// does not work.
func (m Manifest) Recreated() bool { return kinds[m.Object.GroupVersionKind().GroupKind()].recreated }

// TrialName is the name under which it is tried out, in a dry run, whether an object can be made.
func TrialName(name string) string { return name + "-trial" }

// rulesToManage returns what it takes to create, follow, change and delete the object of an asset. Lists and
// watches ask for it by name, and an object is created by server-side apply, which has its name in the request;
// RBAC takes both as requests for the object of that name.
func (d Driver) rulesToManage(m Manifest) ([]permissions.Rule, error) {
	object := m.Object
	group := object.GroupVersionKind().GroupKind()
	if group.Kind == "CustomResourceDefinition" {
		return nil, nil // installed with the operator, not by it
	}
	kind, ok := kinds[group]
	if !ok {
		return nil, fmt.Errorf("%s %s: the API resource of kind %s is not known: add it to the table of kinds in package drivers",
			group.Kind, object.GetName(), group)
	}
	rule := permissions.Rule{
		For: "To install the driver, keep it as it should be, and remove it", From: "drivers/rules.go",
		Group: group.Group, Resources: []string{kind.resource},
	}
	named, trial := rule, rule
	named.Names = []string{object.GetName()}
	named.Verbs = []string{"get", "list", "watch"}
	named.Unexercised = maps.Clone(permissions.ListedFirst)
	maps.Copy(named.Unexercised, kind.unexercised)
	if !kind.kept {
		named.Verbs = append(named.Verbs, "delete")
	}
	named.Verbs = append(named.Verbs, "patch", "create")
	if kind.updated {
		named.Verbs = append(named.Verbs, "update")
	}
	rules := []permissions.Rule{named}
	if kind.recreated {
		trial.Names, trial.Verbs = []string{TrialName(object.GetName())}, []string{"patch", "create"}
		rules = append(rules, trial)
	}
	if slices.Contains([]string{"Role", "ClusterRole"}, group.Kind) {
		// Nobody may give what they do not have themselves.
		var role rbacv1.ClusterRole // a Role has its rules in the same place
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, err
		}
		reason := fmt.Sprintf("To give it to the driver's pods and others, in %s %s", group.Kind, object.GetName())
		delegated, err := permissions.Delegate(reason, path.Join("drivers", d.Name, "assets", m.File), role.Rules)
		if err != nil {
			return nil, err
		}
		rules = append(rules, delegated...)
	}
	return rules, nil
}
