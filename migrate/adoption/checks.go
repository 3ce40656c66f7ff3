package adoption

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
)

// The codes of checks.
const (
	clusterExtension = "cluster-extension"        // no ClusterExtension has installed the operator, or it can be handed over
	severalOperators = "several-operators"        // OLM runs at most one operator of the driver
	subscriptions    = "subscriptions"            // no other Subscription would install the operator again
	pendingUpdate    = "pending-update"           // no update is pending
	installedVersion = "installed-version"        // the ClusterServiceVersion or the bundle is installed
	knownVersion     = "known-version"            // the cluster storage operator can succeed the version
	configuration    = "configuration"            // the operator's configuration stays
	managementState  = "management-state"         // the driver is managed
	csiDriverOwner   = "csidriver"                // no other driver of the same name is installed
	driverOwner      = "driver-owner"             // the driver belongs to no other operator
	driverPlace      = "driver-place"             // cluster-scoped objects show the driver's namespace
	selectors        = "selectors"                // the driver's workloads can be taken over in place
	rolloutState     = "rollout"                  // the driver's workloads are up to date
	successor        = "cluster-storage-operator" // the cluster storage operator waits to take the driver over
)

// checks evaluates all checks. Checks of the operator are left out if OLM runs no operator.
func (in *input) checks(o *operator) (found migrate.Checks) {
	all := []func(*operator) migrate.Checks{in.checkExtensions, in.checkOperators, in.checkSubscriptions}
	switch {
	case o == nil:
	case o.extension != nil:
		all = append(all, in.checkProgress, in.checkBundle, in.checkInline)
	default:
		all = append(all, in.checkPending, in.checkInstalled, in.checkKnown, in.checkConfiguration)
	}
	all = append(all, in.checkManagementState, in.checkCSIDriver, in.checkOwner, in.checkPlace, in.checkSelectors, in.checkRollouts, in.checkSuccessor)
	for _, check := range all {
		found = append(found, check(o)...)
	}
	return found
}

// checkOperators refuses several operators.
func (in *input) checkOperators(*operator) migrate.Checks {
	if at := in.namespaces(); len(at) > 1 {
		return migrate.Refuse(severalOperators, "find out which one manages the driver, and delete the Subscriptions and ClusterServiceVersions of the others",
			"OLM runs operators of the driver in the namespaces %s", strings.Join(at, ", "))
	}
	return migrate.Pass(severalOperators, "OLM runs at most one operator of the driver")
}

// checkSubscriptions refuses Subscriptions from which OLM would install an operator again. OLM installs operators for the whole cluster,
// such as these, only in namespaces with an OperatorGroup for all namespaces, which only administrators can create. So users of other
// namespaces cannot block a hand-over.
func (in *input) checkSubscriptions(o *operator) (found migrate.Checks) {
	var others, harmless names
	for _, s := range in.subscriptions {
		name := s.Namespace + "/" + s.Name
		switch {
		case o != nil && o.subscription != nil && s.UID == o.subscription.UID:
		case o != nil && s.Namespace == o.proof.Namespace, slices.Contains(in.groups, s.Namespace):
			others = append(others, name)
		default:
			harmless = append(harmless, name)
		}
	}
	if len(others) > 0 {
		found = migrate.Refuse(subscriptions, "delete those that nobody needs: OLM would install the operator from them again",
			"there are other Subscriptions to package %s: %s", in.driver.Package.Name, others)
	}
	if len(harmless) > 0 {
		found = append(found, migrate.Warn(subscriptions, "delete them if nobody needs them",
			"OLM installs nothing from these Subscriptions to package %s, as their namespaces have no OperatorGroup for all namespaces: %s", in.driver.Package.Name, harmless)...)
	}
	switch {
	case len(found) > 0:
		return found
	case o != nil && o.subscription == nil && o.extension == nil:
		return migrate.Warn(subscriptions, "nothing", "somebody has deleted the Subscription already")
	}
	return migrate.Pass(subscriptions, "no other Subscription would install the operator again")
}

// names are names of objects. Their text lists only a few of them, as users decide how many there are.
type names []string

func (n names) String() string {
	const most = 5
	if len(n) <= most {
		return strings.Join(n, ", ")
	}
	return fmt.Sprintf("%s, and %d others", strings.Join(n[:most], ", "), len(n)-most)
}

// checkPending refuses an update that OLM has not finished, or that waits for approval.
func (in *input) checkPending(o *operator) migrate.Checks {
	for _, p := range in.installPlans {
		if p.Namespace != o.version.Namespace || p.Status.Phase == v1alpha1.InstallPlanPhaseComplete || p.Status.Phase == v1alpha1.InstallPlanPhaseFailed {
			continue
		}
		do := "wait until OLM has carried it out"
		if p.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval {
			do = "approve it, and wait until OLM has carried it out; or delete the Subscription yourself, and plan again"
		}
		return migrate.Refuse(pendingUpdate, do, "InstallPlan %s/%s, for %s, is pending: its phase is %s", p.Namespace, p.Name, strings.Join(p.Spec.ClusterServiceVersionNames, ", "), phase(string(p.Status.Phase)))
	}
	var names []string
	for _, v := range in.versions {
		if v.Namespace == o.version.Namespace && v.UID != o.version.UID {
			names = append(names, v.Name)
		}
	}
	if len(names) > 0 {
		return migrate.Refuse(pendingUpdate, "wait until OLM has finished the update, or find out why it does not",
			"besides ClusterServiceVersion %s there are others of the operator: %s", o.version.Name, strings.Join(names, ", "))
	}
	if s := o.subscription; s != nil && s.DeletionTimestamp != nil {
		return migrate.Refuse(pendingUpdate, "find out who has deleted it; wait until it is gone, and plan again",
			"Subscription %s/%s is being deleted, and has the finalizers %s", s.Namespace, s.Name, strings.Join(s.Finalizers, ", "))
	}
	if s := o.subscription; s != nil && (s.Status.InstalledCSV != o.version.Name || s.Status.CurrentCSV != o.version.Name) {
		return migrate.Refuse(pendingUpdate, "wait until OLM has finished the update, or find out why it does not",
			"the status of Subscription %s/%s has %q installed and %q as current; want %s as both", s.Namespace, s.Name, s.Status.InstalledCSV, s.Status.CurrentCSV, o.version.Name)
	}
	return migrate.Pass(pendingUpdate, "no update is pending")
}

func phase(p string) string {
	if p == "" {
		return "not known yet"
	}
	return p
}

// checkInstalled refuses an operator that OLM has not installed completely.
func (in *input) checkInstalled(o *operator) migrate.Checks {
	switch v := o.version; {
	case v.UID == "":
		return migrate.Refuse(installedVersion, "find out who has deleted it; wait until OLM has removed the operator's permissions, and plan again",
			"ClusterServiceVersion %s/%s does not exist, but ClusterRoleBinding %s gives its operator permissions", v.Namespace, v.Name, o.proof.Binding)
	case v.DeletionTimestamp != nil:
		return migrate.Refuse(installedVersion, "wait until it is gone, and plan again", "ClusterServiceVersion %s/%s is being deleted", v.Namespace, v.Name)
	case v.Status.Phase != v1alpha1.CSVPhaseSucceeded:
		return migrate.Refuse(installedVersion, "find out why OLM has not installed it completely",
			"the phase of ClusterServiceVersion %s/%s is %s, want %s%s", v.Namespace, v.Name, phase(string(v.Status.Phase)), v1alpha1.CSVPhaseSucceeded, detail(v.Status.Message))
	}
	return migrate.Pass(installedVersion, "ClusterServiceVersion %s is installed", o.version.Name)
}

func detail(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// checkKnown refuses an operator that the driver's definition does not know.
func (in *input) checkKnown(o *operator) migrate.Checks {
	if o.version.UID == "" {
		return nil
	}
	if _, err := in.predecessorOf(o); err != nil {
		return migrate.Refuse(knownVersion, "update the operator to a version that can be handed over, or use a later version of this command", "%v", err)
	}
	return migrate.Pass(knownVersion, "it is a version that the cluster storage operator can succeed")
}

// predecessorOf returns the operator's entry in the definition.
func (in *input) predecessorOf(o *operator) (drivers.Predecessor, error) {
	d, v := in.driver, o.version
	none := drivers.Predecessor{}
	number, of := d.VersionOf(v.Name)
	if !of {
		return none, fmt.Errorf("ClusterServiceVersion %s/%s is not of package %s, though it owns an API of the driver's operators", v.Namespace, v.Name, d.Package.Name)
	}
	version, err := semver.Parse(number)
	if err != nil || !version.Equals(v.Spec.Version.Version) {
		return none, fmt.Errorf("ClusterServiceVersion %s/%s has spec.version %s, want the version in its name", v.Namespace, v.Name, v.Spec.Version)
	}
	p, err := predecessorAt(d, version)
	if err != nil {
		return none, err
	}
	specs := v.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	switch {
	case p.CustomResource != nil && !owns(v, p.CustomResource.Definition):
		return none, fmt.Errorf("ClusterServiceVersion %s/%s does not own CustomResourceDefinition %s, as every operator of its versions does", v.Namespace, v.Name, p.CustomResource.Definition)
	case len(specs) != 1 || specs[0].Name != p.Operator || p.Operator != o.proof.Account:
		return none, fmt.Errorf("ClusterServiceVersion %s/%s does not have exactly the Deployment %s, as every operator of its versions does", v.Namespace, v.Name, p.Operator)
	}
	return p, nil
}

// predecessorAt returns the definition's entry for a version of the operator.
func predecessorAt(d drivers.Driver, version semver.Version) (drivers.Predecessor, error) {
	var known []string
	for _, p := range d.Predecessors() {
		inRange, err := semver.ParseRange(p.Versions)
		if err != nil {
			return drivers.Predecessor{}, fmt.Errorf("the definition of driver %s: %w", d.Name, err)
		}
		if inRange(version) {
			return p, nil
		}
		known = append(known, p.Versions)
	}
	return drivers.Predecessor{}, fmt.Errorf("version %s of the driver's operator is not known: want one of %s", version, strings.Join(known, ", or "))
}

// checkManagementState refuses an unmanaged driver: only a person knows its state.
func (in *input) checkManagementState(*operator) migrate.Checks {
	if c := in.custom; c != nil {
		switch {
		case c.DeletionTimestamp != nil:
			return migrate.Refuse(managementState, "wait until it is gone; the driver goes with it", "ClusterCSIDriver %s is being deleted", c.Name)
		case c.Spec.ManagementState == operatorv1.Unmanaged || c.Spec.ManagementState == operatorv1.Removed:
			return migrate.Refuse(managementState, "decide what becomes of the driver, and set spec.managementState to Managed to start the hand-over", "spec.managementState of ClusterCSIDriver %s is %s", c.Name, c.Spec.ManagementState)
		}
		return migrate.Pass(managementState, "the driver is managed")
	}
	for _, r := range in.old {
		if why := r.Unsettled(); why != "" {
			return migrate.Refuse(managementState, "decide what becomes of the driver, and set spec.managementState to Managed to start the hand-over; do not delete the object while the operator runs",
				"%s configures the operator, and %s", r.of, why)
		}
	}
	return migrate.Pass(managementState, "the driver is managed")
}

// checkCSIDriver refuses a driver that an administrator has installed.
func (in *input) checkCSIDriver(*operator) migrate.Checks {
	if in.csiDriver == nil || in.driver.IsOwn(in.csiDriver) {
		return migrate.Pass(csiDriverOwner, "no other driver of the same name is installed")
	}
	return migrate.Refuse(csiDriverOwner, "remove that driver, CSIDriver included, or keep it and create the ClusterCSIDriver with spec.managementState Unmanaged",
		"CSIDriver %s belongs to none of the driver's operators", in.driver.CSIName)
}

// checkOwner refuses a driver that another cluster storage operator runs elsewhere.
func (in *input) checkOwner(o *operator) migrate.Checks {
	for _, r := range in.references {
		if r.Trace.Owner == "" && r.Namespace == drivers.ClusterStorageNamespace && in.driver.Namespace != drivers.ClusterStorageNamespace {
			return migrate.Refuse(driverOwner, "leave it alone; delete the Subscription and the ClusterServiceVersion of OLM's operator, if there are any",
				"a cluster storage operator runs the driver in %s already: %s", drivers.ClusterStorageNamespace, r)
		}
	}
	if in.started && o != nil {
		return migrate.Warn(driverOwner, "nothing: the hand-over removes OLM's operator", "the cluster storage operator has started its operator of the driver already, as ClusterRoleBinding %s shows", in.driver.SuccessorBinding())
	}
	return migrate.Pass(driverOwner, "the driver belongs to no other operator")
}

// checkPlace refuses a driver that the new operator would not touch.
func (in *input) checkPlace(*operator) migrate.Checks {
	switch p := in.placed; {
	case p.Refusal != nil:
		return migrate.Refuse(driverPlace, "follow that message", "the new operator would not touch the driver: %s", p.Refusal.Message)
	case p.Create:
		return migrate.Pass(driverPlace, "the driver is not installed, and its namespace %s does not exist yet", p.Namespace)
	}
	return migrate.Pass(driverPlace, "the driver is in namespace %s, as cluster-scoped objects show", in.placed.Namespace)
}

// checkSelectors refuses workloads that cannot be taken over in place. Nobody may replace them while volumes are in use.
func (in *input) checkSelectors(*operator) migrate.Checks {
	for _, w := range in.deployments {
		if !equality.Semantic.DeepEqual(w.live.Spec.Selector, w.desired.Spec.Selector) {
			return refusedSelector("Deployment", w.live.ObjectMeta, w.live.Spec.Selector, w.desired.Spec.Selector)
		}
	}
	for _, w := range in.daemonSets {
		if !equality.Semantic.DeepEqual(w.live.Spec.Selector, w.desired.Spec.Selector) {
			return refusedSelector("DaemonSet", w.live.ObjectMeta, w.live.Spec.Selector, w.desired.Spec.Selector)
		}
	}
	return migrate.Pass(selectors, "the driver's workloads can be taken over in place")
}

func refusedSelector(kind string, live metav1.ObjectMeta, is, want *metav1.LabelSelector) migrate.Checks {
	return migrate.Refuse(selectors, "do not delete it while volumes are in use; find out who has made it", "%s %s/%s has spec.selector %s, want %s, and nobody can change that in place",
		kind, live.Namespace, live.Name, metav1.FormatLabelSelector(is), metav1.FormatLabelSelector(want))
}

// checkRollouts refuses workloads that are paused or on the way to another version.
func (in *input) checkRollouts(*operator) (found migrate.Checks) {
	const resume = "resume the roll-out, and wait until all pods are up to date"
	for _, w := range in.deployments {
		if w.live.Spec.Paused {
			return migrate.Refuse(rolloutState, resume, "Deployment %s/%s of the driver is paused", w.live.Namespace, w.live.Name)
		}
	}
	for _, w := range in.daemonSets {
		set := w.live
		switch {
		case set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType:
			return migrate.Refuse(rolloutState, resume, "DaemonSet %s/%s of the driver has spec.updateStrategy OnDelete, so that its pods are not updated", set.Namespace, set.Name)
		case set.Status.ObservedGeneration < set.Generation || set.Status.UpdatedNumberScheduled < set.Status.DesiredNumberScheduled && !rollout.IsStable(&set):
			return migrate.Refuse(rolloutState, "wait until all pods are up to date", "DaemonSet %s/%s of the driver is rolling out: %d of %d pods are up to date",
				set.Namespace, set.Name, set.Status.UpdatedNumberScheduled, set.Status.DesiredNumberScheduled)
		case set.Status.NumberUnavailable > 0:
			found = append(found, migrate.Warn(rolloutState, "repair the nodes: they get the new version of the driver when they are ready",
				"DaemonSet %s/%s of the driver has %d pods that are not available", set.Namespace, set.Name, set.Status.NumberUnavailable)...)
		}
	}
	if len(found) > 0 {
		return found
	}
	return migrate.Pass(rolloutState, "the driver's workloads are up to date")
}

// checkSuccessor refuses if nobody would take the driver over. If the cluster storage operator reports that it waits, then it runs, the
// platform needs the driver, and it does not start its own operator while OLM's operator runs.
func (in *input) checkSuccessor(o *operator) migrate.Checks {
	do := "without a cluster storage operator, update the operator within OLM instead: see " + findings.Page("move/adopt.md#without-a-cluster-storage-operator")
	switch {
	case in.storage == nil:
		return migrate.Refuse(successor, do, "there is no Storage cluster, so no cluster storage operator manages this cluster")
	case in.storage.Spec.ManagementState == operatorv1.Unmanaged:
		return migrate.Refuse(successor, "set it to Managed", "spec.managementState of Storage cluster is Unmanaged, so the cluster storage operator would start nothing")
	case in.bySuccessor:
		return migrate.Pass(successor, "the cluster storage operator itself takes the driver over")
	case in.started:
		return migrate.Pass(successor, "the cluster storage operator has started its operator of the driver")
	}
	condition := v1helpers.FindOperatorCondition(in.storage.Status.Conditions, predecessor.Condition(in.driver))
	switch {
	case o == nil:
		return migrate.Pass(successor, "the cluster storage operator starts its operator of the driver by itself")
	case condition == nil || !predecessor.Waits(condition.Reason):
		return migrate.Refuse(successor, do, "the cluster storage operator does not say that it waits to take the driver over: condition %s of Storage cluster with reason %s is missing; "+
			"it does not run, is of another version, or the platform does not need the driver", predecessor.Condition(in.driver), predecessor.Reason)
	}
	return migrate.Pass(successor, "the cluster storage operator waits to take the driver over")
}
