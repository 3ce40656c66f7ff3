package clusterstorage

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
)

// Rules are the RBAC rules of the cluster storage operator, merged and without duplicates.
type Rules struct {
	// Cluster applies in the whole cluster, Own in the operator's namespace, and Drivers in that of the drivers' operators.
	Cluster, Own, Drivers []rbacv1.PolicyRule
}

// OperatorPolicyRules returns OperatorRules as RBAC rules. It fails as that does.
func OperatorPolicyRules(all []drivers.Driver) (Rules, error) {
	inOwn, inDrivers, err := OperatorRules(all)
	if err != nil {
		return Rules{}, err
	}
	everywhere := slices.DeleteFunc(slices.Clone(inDrivers), func(r permissions.Rule) bool { return r.Own })
	var rules Rules
	rules.Own, rules.Cluster = permissions.PolicyRules(slices.Concat(inOwn, everywhere))
	rules.Drivers, _ = permissions.PolicyRules(inDrivers)
	return rules, nil
}

// OperatorRules returns the permissions of a cluster storage operator for all these drivers: the release has one for the
// clusters of all platforms. Of inOwn, the rules that are limited to a namespace apply in the operator's own, and of inDrivers
// in that of the drivers' operators. It fails if the objects of a driver's operator cannot be rendered.
func OperatorRules(all []drivers.Driver) (inOwn, inDrivers []permissions.Rule, err error) {
	inOwn = ownRules(OfPlatforms(all))
	inDrivers, err = rulesToManage(OfPlatforms(all))
	for _, rules := range [][]permissions.Rule{inOwn, inDrivers} {
		for i := range rules {
			if rules[i].From == "" {
				rules[i].From = "operator/clusterstorage/rules.go"
			}
		}
	}
	return inOwn, inDrivers, err
}

// ownRules are about the operator itself and what it reports.
func ownRules(all []drivers.Driver) []permissions.Rule {
	const (
		observe = "To find out which drivers the cluster needs, and how they are"
		create  = "To create the ClusterCSIDriver of each driver"
		succeed = "To start an operator only when the one that OLM ran is gone, with its log levels"
		report  = "To report about the cluster's storage"
		lead    = "To be the only active cluster storage operator"
		events  = "To record events"
		metrics = "To serve its metrics only to those who may read them"
	)
	var csiNames, predecessors []string
	for _, d := range all {
		csiNames = append(csiNames, d.CSIName)
		for _, p := range d.Predecessors() {
			if !slices.Contains(predecessors, p.Operator) {
				predecessors = append(predecessors, p.Operator)
			}
		}
	}
	rules := []permissions.Rule{
		{For: observe, Group: "config.openshift.io", Resources: []string{"infrastructures", "featuregates"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: observe, Group: "operator.openshift.io", Resources: []string{"storages", "clustercsidrivers"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: observe, Group: "storage.k8s.io", Resources: []string{"csidrivers"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: observe, Group: rbacv1.GroupName, Resources: []string{"clusterrolebindings"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: create, Group: "operator.openshift.io", Resources: []string{"clustercsidrivers"}, Names: csiNames, Verbs: []string{"patch", "create"}},
		{For: report, Group: "operator.openshift.io", Resources: []string{"storages/status"}, Names: []string{"cluster"}, Verbs: []string{"update"}},
		{For: report, Group: "config.openshift.io", Resources: []string{"clusteroperators"}, Names: []string{ClusterOperatorName},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: report, Group: "config.openshift.io", Resources: []string{"clusteroperators"}, Verbs: []string{"create"}},
		{For: report, Group: "config.openshift.io", Resources: []string{"clusteroperators/status"}, Names: []string{ClusterOperatorName}, Verbs: []string{"update"}},
		{For: lead, Own: true, Group: "coordination.k8s.io", Resources: []string{"leases"}, Verbs: []string{"create"}},
		{For: lead, Own: true, Group: "coordination.k8s.io", Resources: []string{"leases"}, Names: []string{lock}, Verbs: []string{"get", "update"}},
		// Events refer to the operator's own Deployment, which it finds through its pod and ReplicaSet.
		{For: events, Own: true, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{For: events, Own: true, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{For: events, Own: true, Group: "apps", Resources: []string{"replicasets"}, Verbs: []string{"get"}},
		{For: metrics, Group: "authentication.k8s.io", Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{For: metrics, Group: "authorization.k8s.io", Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	const succession = "only while OLM runs the driver's operator: TestAdoption uses it, and no walk on a platform has OLM"
	if len(predecessors) > 0 { // no names would be all names
		rules = append(rules,
			permissions.Rule{For: succeed, Group: "apps", Resources: []string{"deployments"}, Names: predecessors, Verbs: []string{"get"}, Unexercised: map[string]string{"get": succession}},
			permissions.Rule{For: succeed, Resources: []string{"serviceaccounts"}, Names: predecessors, Verbs: []string{"get"}, Unexercised: map[string]string{"get": succession}},
			permissions.Rule{For: succeed, Resources: []string{"pods"}, Verbs: []string{"list"}, Unexercised: map[string]string{"list": succession}},
		)
	}
	for _, d := range all {
		for _, old := range d.OldCustomResources() {
			resource, _, _ := strings.Cut(old.Definition, ".")
			rules = append(rules, permissions.Rule{For: succeed, Group: old.Kind.Group, Resources: []string{resource}, Names: []string{old.Name}, Verbs: []string{"get"},
				Unexercised: map[string]string{"get": succession}})
		}
	}
	return rules
}

// rulesToManage are those to run the operators of drivers. RBAC lets nobody grant permissions that they do not have, so they
// include those of these operators.
func rulesToManage(all []drivers.Driver) ([]permissions.Rule, error) {
	var rules []permissions.Rule
	for _, d := range all {
		desired, err := render(d, "", func(name string) string { return name })
		if err != nil {
			return nil, err
		}
		for _, object := range desired.objects {
			more, err := rulesFor(object.GroupVersionKind().GroupKind(), object.GetName(), object.GetNamespace() != "")
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
			rules = append(rules, more...)
		}
		deployments := permissions.Rule{For: manage, Own: true, Group: "apps", Resources: []string{"deployments"}, Names: []string{d.Operator.Name},
			Verbs: []string{"get", "list", "watch", "create", "update", "patch"}, Unexercised: permissions.ListFallback}
		delegated, err := d.OperatorRules(permissions.Permanent)
		if err != nil {
			return nil, err
		}
		for i := range delegated {
			delegated[i].Delegated = true
		}
		rules = append(rules, deployments)
		rules = append(rules, delegated...)
		forMonitoring, err := rulesForMonitoring(d)
		if err != nil {
			return nil, err
		}
		rules = append(rules, forMonitoring...)
	}
	return rules, nil
}

const manage = "To run the operator of each driver"

// rulesFor returns the permissions to keep an object as it is desired. A binding of another role is recreated.
func rulesFor(kind schema.GroupKind, name string, namespaced bool) ([]permissions.Rule, error) {
	resource, err := drivers.ResourceOf(kind)
	if err != nil {
		return nil, err
	}
	rule := permissions.Rule{For: manage, Own: namespaced, Group: kind.Group, Resources: []string{resource}, Names: []string{name},
		Verbs: []string{"get", "list", "watch", "patch", "create"}, Unexercised: permissions.ListFallback}
	if kind.Group != rbacv1.GroupName || kind.Kind == "Role" || kind.Kind == "ClusterRole" {
		return []permissions.Rule{rule}, nil
	}
	rule.Verbs = append(rule.Verbs, "delete")
	trial := rule
	trial.Names, trial.Verbs, trial.Unexercised = []string{drivers.TrialName(name)}, []string{"patch", "create"}, nil
	return []permissions.Rule{rule, trial}, nil
}

// rulesForMonitoring are what a driver's operator gives to the cluster's Prometheus.
func rulesForMonitoring(d drivers.Driver) ([]permissions.Rule, error) {
	monitoring, err := d.OperatorMonitoring()
	if err != nil {
		return nil, err
	}
	var rules []permissions.Rule
	for _, m := range drivers.OfKind(monitoring, "Role") {
		delegated, err := m.Delegated("To let the cluster's monitoring read the metrics of the operator of each driver")
		if err != nil {
			return nil, err
		}
		for i := range delegated {
			delegated[i].Own = true
		}
		rules = append(rules, delegated...)
	}
	return rules, nil
}
