package adoption

import (
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
)

// operator is the operator that OLM runs, as it is.
type operator struct {
	proof predecessor.Operator
	// version is its ClusterServiceVersion. It has no UID if it does not exist.
	version      v1alpha1.ClusterServiceVersion
	subscription *v1alpha1.Subscription
	// extension is set instead of version and subscription if OLM v1 runs the operator.
	extension *extension
}

// namespaces returns the namespaces where OLM v0 runs an operator of the driver, sorted.
func (in *input) namespaces() (found []string) {
	for _, p := range in.proven {
		if p.Kind == predecessor.Version {
			found = append(found, p.Namespace)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// operator returns the operator that OLM runs, or nil unless it runs exactly one.
func (in *input) operator() *operator {
	at := in.namespaces()
	if names := in.extensionNames(); len(at) == 0 && len(names) == 1 {
		return in.operatorOf(names[0])
	}
	if len(at) != 1 {
		return nil
	}
	var o *operator
	for _, p := range in.proven {
		if p.Kind != predecessor.Version {
			continue
		}
		o = &operator{proof: p}
		o.version.Namespace, o.version.Name = p.Namespace, p.Name
		if i := slices.IndexFunc(in.versions, func(v v1alpha1.ClusterServiceVersion) bool { return v.Namespace == p.Namespace && v.Name == p.Name }); i >= 0 {
			o.version = in.versions[i]
			break
		}
	}
	for i, s := range in.subscriptions {
		if s.Namespace != at[0] {
			continue
		}
		// The Subscription that has installed the operator is preferred. A check refuses the others.
		if o.subscription == nil || s.Status.InstalledCSV == o.version.Name && o.subscription.Status.InstalledCSV != o.version.Name {
			o.subscription = &in.subscriptions[i]
		}
	}
	return o
}

// extensionNames returns the names of the ClusterExtensions that install an operator of the driver or have installed one, sorted.
func (in *input) extensionNames() (found []string) {
	for _, e := range in.extensions {
		found = append(found, e.GetName())
	}
	for _, p := range in.proven {
		if p.Kind == predecessor.Extension {
			found = append(found, p.Name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// operatorOf returns the operator that OLM v1 runs for a ClusterExtension, or nil if the ClusterExtension does not exist, or no operator
// has permissions for it.
func (in *input) operatorOf(name string) *operator {
	at := slices.IndexFunc(in.extensions, func(e extension) bool { return e.GetName() == name })
	proof := slices.IndexFunc(in.proven, func(p predecessor.Operator) bool { return p.Kind == predecessor.Extension && p.Name == name })
	if at < 0 || proof < 0 {
		return nil
	}
	return &operator{proof: in.proven[proof], extension: &in.extensions[at]}
}

// plan makes a plan.
func (in *input) plan() *Plan {
	o := in.operator()
	p := &Plan{Driver: in.driver.Name, Outline: migrate.Outline{Subject: migrate.Subject{Name: in.driver.CSIName}}}
	if in.custom != nil {
		p.Subject.UID = in.custom.UID
	}
	p.Checks = in.checks(o)
	if o != nil {
		p.Operator = &Operator{Namespace: o.proof.Namespace, NamespaceUID: in.namespaceUID, Name: o.proof.Account}
		switch e := o.extension; {
		case e != nil:
			p.Operator.Extension = &Extension{Reference{Name: e.GetName(), UID: e.GetUID()}, e.bundle()}
		default:
			p.Operator.Version = Reference{Name: o.version.Name, UID: o.version.UID}
		}
		if o.subscription != nil {
			p.Operator.Subscription = &Reference{Name: o.subscription.Name, UID: o.subscription.UID}
		}
	}
	if len(in.old) > 0 {
		r := in.old[0]
		p.Settings = &Settings{Resource: r.of.String(), UID: r.UID}
		if in.custom == nil { // otherwise the ClusterCSIDriver stays as it is
			p.Settings.LogLevel, p.Settings.OperatorLogLevel = string(r.LogLevel), string(r.OperatorLogLevel)
		}
	}
	p.Objects = in.objects(p)
	return p
}

// objects returns the objects that will change. The result is empty if nothing is left to do.
func (in *input) objects(p *Plan) (objects []migrate.Object) {
	if !p.Checks.Safe() || p.Operator == nil {
		return nil
	}
	add := func(by, kind, namespace, name, how string) {
		objects = append(objects, migrate.Object{By: by, Kind: kind, Namespace: namespace, Name: name, How: how})
	}
	o, d := p.Operator, in.driver
	if o.Subscription != nil {
		add("berth", v1alpha1.SubscriptionKind, o.Namespace, o.Subscription.Name, "deleted")
		for _, installPlan := range in.installPlans {
			if isOnlyOf(installPlan, o.Namespace, o.Subscription) {
				add("berth", v1alpha1.InstallPlanKind, o.Namespace, installPlan.Name, "deleted")
			}
		}
	}
	if o.Extension == nil {
		add("berth", v1alpha1.ClusterServiceVersionKind, o.Namespace, o.Version.Name, "deleted")
		add("OLM", "Deployment", o.Namespace, o.Name, "deleted, with its pods, service account and permissions")
	} else {
		add("berth", predecessor.Extension, "", o.Extension.Name, "deleted, its objects orphaned")
		for _, installed := range in.installed {
			add("berth", installed.Kind, installed.Namespace, installed.Name, "deleted")
		}
	}
	const cso = "cluster storage operator"
	if !in.started {
		add(cso, "Deployment", drivers.ClusterStorageNamespace, d.Operator.Name, "created, with its permissions")
	}
	if in.custom == nil && !in.started {
		add(cso, "ClusterCSIDriver", "", d.CSIName, "created")
	}
	for _, w := range in.deployments {
		add("new operator", "Deployment", w.live.Namespace, w.live.Name, "updated in place, by a rolling update")
	}
	for _, w := range in.daemonSets {
		add("new operator", "DaemonSet", w.live.Namespace, w.live.Name, "updated in place, by a rolling update")
	}
	return objects
}

// isOnlyOf reports whether an InstallPlan belongs to a Subscription and to no other one.
func isOnlyOf(p v1alpha1.InstallPlan, namespace string, s *Reference) bool {
	return p.Namespace == namespace && len(p.OwnerReferences) == 1 && p.OwnerReferences[0].Kind == v1alpha1.SubscriptionKind && p.OwnerReferences[0].UID == s.UID
}
