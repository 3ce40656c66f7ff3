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
	// Cluster applies in the whole cluster, Own in the operator's namespace, and Drivers in the namespace of the
	// drivers' operators.
	Cluster, Own, Drivers []rbacv1.PolicyRule
}

// OperatorPolicyRules returns OperatorRules as RBAC rules.
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

// OperatorRules returns the permissions of a cluster storage operator for all these drivers, because one release serves
// the clusters of all platforms. Namespaced rules in inOwn apply in the operator's namespace, and namespaced rules in
// inDrivers apply in the namespace of the drivers' operators. It fails if the objects of a driver's operator cannot be
// rendered.
func OperatorRules(all []drivers.Driver) (inOwn, inDrivers []permissions.Rule, err error) {
	if inOwn, err = ownRules(OfPlatforms(all)); err != nil {
		return nil, nil, err
	}
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

// ownRules returns the permissions for the operator's own objects and its reports.
func ownRules(all []drivers.Driver) ([]permissions.Rule, error) {
	const (
		observe = "To find out which drivers the cluster needs, and in which state they are"
		create  = "To create the ClusterCSIDriver of each driver"
		report  = "To report about the cluster's storage"
		lead    = "To be the only active cluster storage operator"
		events  = "To record events"
		alerts  = "To warn of several default StorageClasses, and of VolumeAttributesClasses that do not match"
		metrics = "To serve its metrics only to those who may read them"
		profile = "To serve its metrics with the cluster's TLS profile"
	)
	var csiNames []string
	for _, d := range all {
		csiNames = append(csiNames, d.CSIName)
	}
	rules := []permissions.Rule{
		{For: observe, Group: "config.openshift.io", Resources: []string{"infrastructures", "featuregates", "proxies"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: observe, Group: "operator.openshift.io", Resources: []string{"storages", "clustercsidrivers"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: observe, Group: "storage.k8s.io", Resources: []string{"csidrivers"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: alerts, Group: "storage.k8s.io", Resources: []string{"storageclasses", "volumeattributesclasses"},
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
		// Events refer to the operator's Deployment. The operator finds it through its pod and ReplicaSet.
		{For: events, Own: true, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{For: events, Own: true, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{For: events, Own: true, Group: "apps", Resources: []string{"replicasets"}, Verbs: []string{"get"}},
		{For: profile, Group: "config.openshift.io", Resources: []string{"apiservers"},
			Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
		{For: metrics, Group: "authentication.k8s.io", Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{For: metrics, Group: "authorization.k8s.io", Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	for _, d := range all {
		more, err := rulesToSucceed(d)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

// Succession says why no walk through an operator's life uses the permissions to take over from OLM's operator. TestAdoption uses them.
const Succession = "only while OLM runs the driver's operator: TestAdoption uses it, and no walk on a platform has OLM"

// rulesToSucceed returns the permissions to hand a driver over from OLM: for everything that package migrate/adoption reads and deletes.
func rulesToSucceed(d drivers.Driver) ([]permissions.Rule, error) {
	const (
		succeed = "To start an operator only when OLM's operator is gone, with its log levels"
		journal = "To keep the journal of a hand-over from OLM, which `berth adopt` reads and continues, too"
		check   = "To hand a driver over from OLM only if everything is as it has to be"
		remove  = "To remove the driver's operator from OLM. Users choose the names and namespaces of these objects, so no rule can name them; " +
			"only objects of an operator to which OLM gave permissions in the whole cluster are deleted"
	)
	var operators []string
	for _, p := range d.Predecessors() {
		if !slices.Contains(operators, p.Operator) {
			operators = append(operators, p.Operator)
		}
	}
	if len(operators) == 0 { // an empty list of names would allow all names
		return nil, nil
	}
	const olm = "operators.coreos.com"
	again := "only if there was a hand-over of the driver before"
	rules := []permissions.Rule{
		{For: journal, Resources: []string{"configmaps"}, Names: []string{"berth-adopt." + d.CSIName}, Verbs: []string{"get"}},
		{For: journal, Resources: []string{"configmaps"}, Names: []string{"berth-adopt." + d.CSIName}, Verbs: []string{"create", "patch", "update"},
			Unexercised: map[string]string{"create": Succession, "patch": Succession, "update": again}},
		{For: succeed, Group: "apps", Resources: []string{"deployments"}, Names: operators, Verbs: []string{"get"}},
		{For: succeed, Resources: []string{"serviceaccounts"}, Names: operators, Verbs: []string{"get"}},
		{For: succeed, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{For: succeed, Group: "apps", Resources: []string{"replicasets"}, Verbs: []string{"list"}},
		{For: check, Group: rbacv1.GroupName, Resources: []string{"clusterrolebindings"}, Verbs: []string{"list"}},
		{For: check, Group: "operator.openshift.io", Resources: []string{"storages"}, Names: []string{"cluster"}, Verbs: []string{"get"}},
		{For: check, Group: "operator.openshift.io", Resources: []string{"clustercsidrivers"}, Names: []string{d.CSIName}, Verbs: []string{"get"}},
		{For: check, Group: "storage.k8s.io", Resources: []string{"csidrivers"}, Names: []string{d.CSIName}, Verbs: []string{"get"}},
		{For: check, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{For: check, Group: olm, Resources: []string{"subscriptions", "clusterserviceversions", "installplans", "operatorgroups"}, Verbs: []string{"list"}},
		{For: check, Group: "olm.operatorframework.io", Resources: []string{"clusterextensions"}, Verbs: []string{"list"},
			Unexercised: map[string]string{"list": "only where OLM v1 is installed, which no test has"}},
		{For: remove, Group: olm, Resources: []string{"subscriptions", "clusterserviceversions"}, Verbs: []string{"delete"}},
		{For: remove, Group: olm, Resources: []string{"installplans"}, Verbs: []string{"delete"},
			Unexercised: map[string]string{"delete": "only if the garbage collector, which deletes them with their Subscription, is slower"}},
	}
	for _, old := range d.OldCustomResources() {
		resource, _, _ := strings.Cut(old.Definition, ".")
		rules = append(rules, permissions.Rule{For: succeed, Group: old.Kind.Group, Resources: []string{resource}, Names: []string{old.Name}, Verbs: []string{"get"}})
	}
	traces, err := d.Traces()
	if err != nil {
		return nil, err
	}
	for _, trace := range traces {
		if trace.Name == d.SuccessorBinding() {
			continue // the operator creates it, so it may read it already
		}
		resource, err := drivers.ResourceOf(trace.Kind.GroupKind())
		if err != nil {
			return nil, err
		}
		rules = append(rules, permissions.Rule{For: check, Group: trace.Kind.Group, Resources: []string{resource}, Names: []string{trace.Name}, Verbs: []string{"get"}})
	}
	operand, err := d.Operand(drivers.Values{Namespace: d.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		return nil, err
	}
	for kind, resource := range map[string]string{"Deployment": "deployments", "DaemonSet": "daemonsets"} {
		for _, m := range drivers.OfKind(operand, kind) {
			rules = append(rules, permissions.Rule{For: check, Group: "apps", Resources: []string{resource}, Names: []string{m.Object.GetName()}, Verbs: []string{"get"}})
		}
	}
	for i, rule := range rules {
		if rule.Unexercised == nil && rule.For != journal {
			rules[i].Unexercised = map[string]string{}
			for _, verb := range rule.Verbs {
				rules[i].Unexercised[verb] = Succession
			}
		}
	}
	return rules, nil
}

// rulesToManage returns the permissions to run the drivers' operators. RBAC lets nobody grant permissions that they lack, so they include
// the permissions of these operators.
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

// rulesFor returns the permissions to keep an object in its desired state. A binding that refers to another role is recreated.
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

// rulesForMonitoring returns the permissions that a driver's operator grants to the cluster's Prometheus.
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
