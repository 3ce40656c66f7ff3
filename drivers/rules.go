package drivers

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers/permissions"
)

// Rules are the RBAC rules of a driver's operator, merged, sorted and without duplicates.
//
// OLM creates a Role from Permissions, and also a ClusterRole if the operator watches all namespaces. So both kinds of permissions are
// limited to names wherever possible.
type Rules struct {
	// Permissions apply in the operator's own namespace. They are for the operator itself, because its driver may be in
	// another namespace.
	Permissions []rbacv1.PolicyRule
	// ClusterPermissions apply in the whole cluster. Permissions do not repeat them.
	ClusterPermissions []rbacv1.PolicyRule
}

// OperatorPolicyRules returns OperatorRules as RBAC rules.
func (d Driver) OperatorPolicyRules(operators permissions.Operators) (Rules, error) {
	rules, err := d.OperatorRules(operators)
	if err != nil {
		return Rules{}, err
	}
	own, everywhere := permissions.PolicyRules(rules)
	return Rules{Permissions: own, ClusterPermissions: everywhere}, nil
}

// OperatorRules returns the permissions of the driver's operator, either the removable or the permanent one: the common
// permissions of all operators, Operator.Rules, and the permissions to manage each of the driver's assets and to delete
// each retired object. It fails if an asset's kind is not in the table of kinds, or if RetiredObjects fails.
func (d Driver) OperatorRules(operators permissions.Operators) ([]permissions.Rule, error) {
	rules, err := d.allRules()
	return permissions.RulesOf(rules, operators), err
}

func (d Driver) allRules() ([]permissions.Rule, error) {
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
		rule.From = d.definition()
		rules = append(rules, rule)
	}
	for _, m := range manifests {
		toManage, err := d.rulesToManage(m)
		if err != nil {
			return nil, fmt.Errorf("asset %s of driver %s: %w", m.File, d.Name, err)
		}
		rules = append(rules, toManage...)
	}
	toRetire, err := d.rulesToRetire()
	return append(rules, toRetire...), err
}

// definition returns the path of the file that defines the driver.
func (d Driver) definition() string { return path.Join("drivers", d.Name, "driver.go") }

// unrendered returns the driver's assets, and keeps the placeholders whose values depend on the cluster.
func (d Driver) unrendered() ([]Manifest, error) {
	return d.Manifests(Values{Namespace: cmp.Or(d.Namespace, NamespacePlaceholder), Image: func(env string) string { return "${" + env + "}" }})
}

// commonRules returns the permissions that every operator needs.
func (d Driver) commonRules() ([]permissions.Rule, error) {
	const (
		lock                 = "To be the only active operator of the driver"
		reconcile            = "To reconcile the driver's ClusterCSIDriver and report its status"
		locate               = "To find a driver that an earlier operator installed"
		config               = "To watch the cluster's configuration"
		credentials          = "To restart the driver's pods when their credentials change"
		rollouts             = "To update the driver on nodes that are ready while others are not"
		refusals             = "To report why the API server refuses pods of the driver"
		removal              = "To remove the driver only when its volumes are not in use"
		controllerWork       = "To remove the driver's controller only when it has finished detaching and deleting volumes"
		events               = "To record events"
		backendClasses       = "To create a StorageClass for each kind of storage that the backend offers"
		defaultSnapshotClass = "To make its VolumeSnapshotClass the driver's default only if there is no other one"
		defaultClass         = "To make its StorageClass the default of a cluster only if there is no other one"
		metrics              = "To serve its metrics only to those who may read them"
		cloudConfig          = "To configure the driver for the cloud, and have it trust the cloud's own certificate authority"
		bundled              = "To make sure that objects of its bundle are removed with it, even if OLM creates them without an owner"
	)
	traces, err := d.Traces()
	if err != nil {
		return nil, err
	}
	rolloutNodes := permissions.Rule{For: rollouts, Resources: []string{"nodes"}, Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback}
	if d.CloudAccess != nil && slices.ContainsFunc(d.CloudAccess.Rules, func(r permissions.Rule) bool { return slices.Contains(r.Resources, "nodes") }) {
		rolloutNodes.Unexercised = nil // one of the driver's own controllers lists them
	}
	rules := []permissions.Rule{
		// The leader-for-life lock is a ConfigMap that a pod owns.
		{For: lock, Own: true, Resources: []string{"configmaps"}, Names: []string{d.Operator.Lock}, Verbs: []string{"get", "create", "patch", "delete"}},
		{For: lock, Own: true, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{For: lock, Resources: []string{"nodes"}, Verbs: []string{"get"}},

		{For: reconcile, Group: "operator.openshift.io", Resources: []string{"clustercsidrivers"}, Names: []string{d.CSIName},
			Verbs: append([]string{"patch"}, permissions.ListWatch...), Unexercised: permissions.ListFallback},
		{For: reconcile, Group: "operator.openshift.io", Resources: []string{"clustercsidrivers/status"}, Names: []string{d.CSIName},
			Verbs: []string{"patch"}},

		// The driver may be in any namespace that an administrator chose, and so may an earlier operator's lock. The operator identifies
		// the namespace by its UID, which it reads before each write.
		{For: locate, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{For: locate, Resources: []string{"configmaps"}, Names: []string{d.Operator.Lock}, Verbs: []string{"get"}},

		{For: config, Group: "config.openshift.io", Resources: []string{"apiservers", "infrastructures", "proxies"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},

		// The pods are the driver's own, which may be in any namespace.
		rolloutNodes,
		{For: rollouts, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{For: refusals, Resources: []string{"events"}, Verbs: []string{"list"},
			Unexercised: map[string]string{"list": "only while pods of the driver are missing"}, Incidental: true},

		{For: removal, Only: permissions.Removable, Resources: []string{"pods", "persistentvolumes"}, Verbs: []string{"list"}},
		{For: removal, Only: permissions.Removable, Resources: []string{"nodes"}, Verbs: []string{"get"}},

		// Events refer to the operator's Deployment. The operator finds it through its pod and ReplicaSet.
		{For: events, Own: true, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{For: events, Own: true, Group: "apps", Resources: []string{"replicasets"}, Verbs: []string{"get"}},

		{For: metrics, Group: "authentication.k8s.io", Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{For: metrics, Group: "authorization.k8s.io", Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	toOwn, err := d.rulesToOwn(bundled)
	if err != nil {
		return nil, err
	}
	rules = append(rules, toOwn...)
	for _, trace := range traces {
		kind, ok := kinds[trace.Kind.GroupKind()]
		if !ok {
			return nil, fmt.Errorf("trace %s %s of driver %s: the API resource of its kind is unknown: add it to the table of kinds in package drivers",
				trace.Kind.Kind, trace.Name, d.Name)
		}
		rules = append(rules, permissions.Rule{For: locate, Group: trace.Kind.Group, Resources: []string{kind.resource},
			Names: []string{trace.Name}, Verbs: []string{"get"}})
	}
	if d.Backend != nil {
		// The backend determines the names.
		rules = append(rules, permissions.Rule{For: backendClasses, Group: "storage.k8s.io", Resources: []string{"storageclasses"},
			Verbs: append([]string{"get", "create", "patch", "delete"}, permissions.ListWatch...)})
	}
	if d.ClusterStorage != nil && d.ClusterStorage.DefaultClass != "" {
		rules = append(rules, permissions.Rule{For: defaultClass, Only: permissions.Permanent, Group: "storage.k8s.io",
			Resources: []string{"storageclasses"}, Verbs: []string{"list"}})
	}
	if d.ClusterStorage != nil && d.ClusterStorage.DefaultSnapshotClass != "" {
		rules = append(rules, permissions.Rule{For: defaultSnapshotClass, Only: permissions.Permanent, Group: "snapshot.storage.k8s.io",
			Resources: []string{"volumesnapshotclasses"}, Verbs: []string{"list"}})
	}
	if d.HasImage(AttacherImage) {
		rules = append(rules, permissions.Rule{For: controllerWork, Only: permissions.Removable,
			Group: "storage.k8s.io", Resources: []string{"volumeattachments"}, Verbs: []string{"list"}})
	}
	if d.HasImage(SnapshotterImage) {
		rules = append(rules, permissions.Rule{For: controllerWork, Only: permissions.Removable,
			Group: "snapshot.storage.k8s.io", Resources: []string{"volumesnapshotcontents"}, Verbs: []string{"list"}})
	}
	if d.CloudConfig != nil {
		names := []string{CloudConfigName}
		if d.CloudConfig.Source != "" {
			names = append(names, d.CloudConfig.Source)
		}
		rules = append(rules, permissions.Rule{For: cloudConfig, Resources: []string{"configmaps"}, Names: names,
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback})
	}
	if d.Configuration != nil {
		rules = append(rules, permissions.Rule{For: cloudConfig, Resources: []string{"configmaps"}, Names: []string{CloudConfigName},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback})
	}
	if d.CloudAccess != nil {
		rules = append(rules, d.CloudAccess.Rules...)
	}
	if len(d.Secrets) > 0 { // the Secrets of CredentialsRequests
		rules = append(rules,
			permissions.Rule{For: config, Group: "operator.openshift.io", Resources: []string{"cloudcredentials"},
				Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
			permissions.Rule{For: credentials, Resources: []string{"secrets"}, Names: d.Secrets,
				Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback})
	}
	return rules, nil
}

// rulesToOwn returns the permissions to add an owner to objects that OLM creates without one. A driver without a package needs none,
// because OLM does not install it.
func (d Driver) rulesToOwn(reason string) ([]permissions.Rule, error) {
	if !d.HasPackage() {
		return nil, nil
	}
	unowned, err := d.UnownedInBundle()
	if err != nil {
		return nil, err
	}
	var rules []permissions.Rule
	for _, m := range unowned {
		kind := m.Object.GroupVersionKind().GroupKind()
		resource, err := ResourceOf(kind)
		if err != nil {
			return nil, err
		}
		rules = append(rules, permissions.Rule{For: reason, Only: permissions.Removable, Own: true,
			Group: kind.Group, Resources: []string{resource}, Names: []string{m.Object.GetName()}, Verbs: append([]string{"patch", "delete"}, permissions.ListWatch...),
			Unexercised: map[string]string{
				"delete": "OpenShift's API server lets an account add an owner to an object only if it may delete the object",
				"list":   permissions.ListFallback["list"],
			}})
	}
	return rules, nil
}

// kinds lists the kinds of assets, with their API resources.
var kinds = map[schema.GroupKind]struct {
	resource string
	// recreated objects have immutable fields on which the driver depends. If such a field is wrong, the object is
	// deleted and recreated, after a dry run under another name has shown that it can be created.
	recreated bool
	// updated objects are managed by library-go, which updates existing ones instead of applying them.
	updated bool
	// kept objects stay when the driver is removed, because volumes may refer to them.
	kept bool
	// permits says that objects can give permissions or credentials to a namespace. Such objects are deleted when the
	// namespace is no longer the driver's.
	permits bool
	// optional objects are deleted if an administrator does not want them, even while the driver stays.
	optional bool
	// uncreated is the reason why no end-to-end run of an operator that can remove its driver creates an object of this kind.
	uncreated string
}{
	{Kind: "ConfigMap"}: {resource: "configmaps"},
	{Kind: "Namespace"}: {resource: "namespaces", kept: true,
		uncreated: "the end-to-end run begins with an earlier operator, whose namespace exists"},
	{Kind: "Secret"}:                    {resource: "secrets", kept: true},
	{Kind: "Service"}:                   {resource: "services"},
	{Kind: "ServiceAccount"}:            {resource: "serviceaccounts"},
	{Group: "apps", Kind: "DaemonSet"}:  {resource: "daemonsets", updated: true},
	{Group: "apps", Kind: "Deployment"}: {resource: "deployments", updated: true},
	{Group: "cloudcredential.openshift.io", Kind: "CredentialsRequest"}:  {resource: "credentialsrequests", permits: true},
	{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}:             {resource: "prometheusrules"},
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}:             {resource: "servicemonitors"},
	{Group: "policy", Kind: "PodDisruptionBudget"}:                       {resource: "poddisruptionbudgets"},
	{Group: rbacv1.GroupName, Kind: "ClusterRole"}:                       {resource: "clusterroles"},
	{Group: rbacv1.GroupName, Kind: "Role"}:                              {resource: "roles"},
	{Group: rbacv1.GroupName, Kind: "ClusterRoleBinding"}:                {resource: "clusterrolebindings", recreated: true, permits: true},
	{Group: rbacv1.GroupName, Kind: "RoleBinding"}:                       {resource: "rolebindings", recreated: true},
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                         {resource: "csidrivers", recreated: true},
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: {resource: "securitycontextconstraints", permits: true},
	{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotClass"}:      {resource: "volumesnapshotclasses"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                      {resource: "storageclasses", optional: true},
}

// ResourceOf returns the API resource of a kind of asset, such as "daemonsets". It fails for unknown kinds.
func ResourceOf(kind schema.GroupKind) (string, error) {
	known, ok := kinds[kind]
	if !ok {
		return "", fmt.Errorf("the API resource of kind %s is unknown: add it to the table of kinds in package drivers", kind)
	}
	return known.resource, nil
}

// Kept reports whether an object stays when its driver is removed.
func (m Manifest) Kept() bool { return kinds[m.Object.GroupVersionKind().GroupKind()].kept }

// Recreated reports whether an object is recreated if it differs from the desired state in an immutable field. The
// driver does not work with a wrong attachRequired or volumeLifecycleModes of its CSIDriver, nor with a wrong roleRef of
// a binding.
func (m Manifest) Recreated() bool { return kinds[m.Object.GroupVersionKind().GroupKind()].recreated }

// Permits reports whether an object gives permissions or credentials to the driver's namespace. SecurityContextConstraints that list no
// users do not: a role permits their use.
func (m Manifest) Permits() bool {
	users, listed, _ := unstructured.NestedStringSlice(m.Object.Object, "users")
	return kinds[m.Object.GroupVersionKind().GroupKind()].permits && !(listed && len(users) == 0)
}

// TrialName returns the name for the dry run that shows whether an object can be created.
func TrialName(name string) string { return name + "-trial" }

// rulesToManage returns the permissions to create, watch, change and delete the object of an asset. They are limited to its name: lists
// and watches select the object by name, and server-side apply, which creates the object, has the name in the request.
func (d Driver) rulesToManage(m Manifest) ([]permissions.Rule, error) {
	object := m.Object
	group := object.GroupVersionKind().GroupKind()
	if group.Kind == "CustomResourceDefinition" {
		return nil, nil // installed with the operator, not by it
	}
	resource, err := ResourceOf(group)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", group.Kind, object.GetName(), err)
	}
	kind := kinds[group]
	rule := permissions.Rule{
		For: "To install, reconcile and remove the driver", From: "drivers/rules.go",
		Group: group.Group, Resources: []string{resource},
	}
	with := func(only permissions.Operators, name string, verbs ...string) permissions.Rule {
		r := rule
		r.Only, r.Names, r.Verbs = only, []string{name}, verbs
		return r
	}
	named := with("", object.GetName(), "get", "list", "watch", "patch")
	named.Unexercised = permissions.ListFallback
	if kind.updated {
		named.Verbs = append(named.Verbs, "update")
	}
	rules := []permissions.Rule{named}
	if kind.uncreated == "" {
		rules = append(rules, with("", object.GetName(), "create"))
	} else {
		created := with(permissions.Removable, object.GetName(), "create")
		created.Unexercised = map[string]string{"create": kind.uncreated}
		rules = append(rules, created, with(permissions.Permanent, object.GetName(), "create"))
	}
	switch {
	case kind.recreated || kind.optional || m.Permits():
		rules = append(rules, with("", object.GetName(), "delete"))
	case !kind.kept:
		rules = append(rules, with(permissions.Removable, object.GetName(), "delete"))
	}
	if kind.recreated {
		rules = append(rules, with("", TrialName(object.GetName()), "patch", "create"))
	}
	if slices.Contains([]string{"Role", "ClusterRole"}, group.Kind) {
		m.File = path.Join("drivers", d.Name, "assets", m.File)
		delegated, err := m.Delegated(fmt.Sprintf("To create %s %s, which gives these permissions", group.Kind, object.GetName()))
		if err != nil {
			return nil, err
		}
		rules = append(rules, delegated...)
	}
	return rules, nil
}

// Delegated returns the permissions that a role gives. The operator needs them, too: RBAC lets nobody grant permissions that they lack.
func (m Manifest) Delegated(reason string) ([]permissions.Rule, error) {
	var role rbacv1.ClusterRole // also fits a Role
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &role); err != nil {
		return nil, err
	}
	return permissions.Delegate(reason, m.File, role.Rules)
}
