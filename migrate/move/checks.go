package move

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
)

// The codes of the checks. If OLM v1 would refuse the version, the check has the code of the predicted reason instead.
const (
	olmV1             = "olm-v1"              // the cluster has OLM v1
	extensionExists   = "cluster-extension"   // no ClusterExtension is for the package
	subscriptions     = "subscriptions"       // no other Subscription would install the package again
	dependents        = "dependents"          // no other operator of OLM v0 needs this operator, or it moves first
	needed            = "needs"               // the packages that the operator needs are known; on a way back, OLM v0 has them
	objectSets        = "cluster-object-sets" // OLM v1 can record what Boxcutter applies
	catalogSource     = "catalog-source"      // the CatalogSource exists, for a way back; can be accepted
	channelAbsent     = "channel"             // the catalog of OLM v1 has the channel
	generatedBy       = "generated"           // an administrator has created the Subscription, and not OLM v0 for a dependency
	installedVersion  = "installed-version"   // the version is installed
	pendingUpdate     = "pending-update"      // no update is under way
	operatorGroup     = "operator-group"      // with OLM v1, the operator can watch the same namespaces
	scopedAccount     = "service-account"     // OLM v0 does not install with fewer permissions than OLM v1; can be accepted
	subscriptionConf  = "subscription-config" // the Subscription's settings for the operator's Deployment stay; can be accepted
	conditions        = "operator-condition"  // the operator does not ask OLM v0 to delay updates; can be accepted
	olmV0APIs         = "olm-v0-apis"         // the operator works without OLM v0's APIs; can be accepted
	conversion        = "conversion-webhook"  // no API has a conversion webhook, which OLM v0 would remove with the version
	webhooks          = "webhooks"            // the bundle has no webhooks
	operatorPods      = "operator-pods"       // OLM v1 changes nothing for which the operator's own pods restart
	unknownObjects    = "unknown-objects"     // all objects of the bundle are known
	foreignObjects    = "foreign-objects"     // all objects that OLM v1 takes over belong to this operator
	differentContent  = "different-content"   // the version has the same content in the catalog of OLM v1
	exactVersion      = "exact-version"       // OLM v1 takes exactly the installed version
	laterVersions     = "later-versions"      // OLM v1's actions once the move is complete
	extensionRefused  = "extension-refused"   // the API server accepts the ClusterExtension
	movedBefore       = "moved-before"        // the operator was moved from OLM v0, so its Subscription is known; only on a way back
	extensionProgress = "extension-progress"  // OLM v1 has finished with the ClusterExtension; only on a way back
	sourceVersion     = "source-version"      // the CatalogSource has the version; only on a way back
	namespaceTaken    = "subscription-exists" // OLM v0 has not installed the package; only on a way back
	existingObjects   = "existing-objects"    // OLM v0 can read and validate the objects of the APIs; can be accepted on the way to OLM v1
)

// acceptable are the checks whose refusal an administrator can accept.
var acceptable = []string{scopedAccount, subscriptionConf, olmV0APIs, conditions, catalogSource, existingObjects}

// Acceptable returns the codes of the checks whose refusal an administrator can accept.
func Acceptable() []string { return slices.Clone(acceptable) }

// checks evaluates all checks, except those of OLM v1's actions if these were not predicted.
func (in *input) checks() (found migrate.Checks) {
	all := []func() migrate.Checks{in.checkV1, in.checkSubscriptions, in.checkGenerated, in.checkInstalled, in.checkPending, in.checkGroup, in.checkSource}
	if in.version() != nil {
		all = append(all, in.checkDependents, in.checkNeeds, in.checkConfig, in.checkCondition, in.checkAPIs, in.checkWebhooks, in.checkExisting)
	}
	if in.now != nil && in.version() != nil {
		all = append(all, in.checkObjects, in.checkContent, in.checkPods, in.checkNow, in.checkChannel, in.checkThen, in.checkAccepted)
	}
	for _, check := range all {
		found = append(found, check()...)
	}
	for i, check := range found {
		if check.Verdict == findings.Refused && slices.Contains(acceptable, check.Code) {
			if slices.Contains(in.request.Accepted, check.Code) {
				found[i].Verdict, found[i].Do = findings.Warning, "nothing: it is accepted"
			} else {
				found[i].Do += "; or accept it with " + escape.Command("--accept %s", check.Code)
			}
		}
	}
	return found
}

func (in *input) checkV1() migrate.Checks {
	if !in.served {
		return migrate.Refuse(olmV1, "install OLM v1: catalogd and operator-controller", "the cluster has no OLM v1: it does not serve ClusterExtensions")
	}
	if in.request.Gates[featuregates.Boxcutter] && !in.setsServed {
		return migrate.Refuse(objectSets, "install the types of OLM v1 that come with its experimental features",
			"the feature gate %s of OLM v1 is enabled, and the cluster does not serve %ss, in which it records what it applies", featuregates.Boxcutter, objectSetKind.Kind)
	}
	for _, e := range in.extensions {
		of, _, _ := unstructured.NestedString(e.Object, "spec", "source", "catalog", "packageName")
		if e.GetName() == in.request.Package || of == in.request.Package {
			return migrate.Refuse(extensionExists, "find out who has created it. If it has installed nothing, delete it; otherwise OLM v1 runs the operator already",
				"ClusterExtension %s is for package %s", e.GetName(), in.request.Package)
		}
	}
	return migrate.Pass(extensionExists, "the cluster has OLM v1, and no ClusterExtension for the package")
}

// checkSubscriptions refuses other Subscriptions from which OLM v0 would install the package again. It ignores Subscriptions in other
// namespaces that have installed nothing: they do no harm, and any user can write them.
func (in *input) checkSubscriptions() (found migrate.Checks) {
	for _, s := range in.twins {
		name := s.Namespace + "/" + s.Name
		switch {
		case s.Namespace == in.own.Namespace:
			found = append(found, migrate.Refuse(subscriptions, "find out which one is needed, and delete the other", "Subscription %s is for the same package: OLM v0 would install the package again", name)...)
		case s.Status.InstalledCSV != "":
			found = append(found, migrate.Refuse(subscriptions, "uninstall one of them: both have the same APIs, and OLM v1 lets nobody else change those",
				"Subscription %s has installed the package in another namespace, too", name)...)
		}
	}
	if len(found) > 0 {
		return found
	}
	return migrate.Pass(subscriptions, "no other Subscription installs the package")
}

// generatedAnnotation is on Subscriptions that OLM v0 has created for another operator's dependency.
const generatedAnnotation = "olm.generated-by"

func (in *input) checkGenerated() migrate.Checks {
	if by := in.own.Annotations[generatedAnnotation]; by != "" {
		return migrate.Refuse(generatedBy, "move the operator that needs it first, or remove that; then `"+escape.Command("oc -n %s annotate subscription %s %s-", in.own.Namespace, in.own.Name, generatedAnnotation)+"`", "OLM v0 has created Subscription %s/%s itself, for what another operator needs (InstallPlan %s): it would create it again",
			in.own.Namespace, in.own.Name, by)
	}
	return migrate.Pass(generatedBy, "an administrator has created the Subscription")
}

func (in *input) checkInstalled() migrate.Checks {
	s, v := in.own, in.version()
	switch {
	case s.DeletionTimestamp != nil:
		return migrate.Refuse(installedVersion, "find out who has deleted it", "Subscription %s/%s is being deleted, and has the finalizers %s", s.Namespace, s.Name, strings.Join(s.Finalizers, ", "))
	case s.Status.InstalledCSV == "":
		return migrate.Refuse(installedVersion, "wait until OLM v0 has installed it, or find out why it does not", "Subscription %s/%s has installed nothing", s.Namespace, s.Name)
	case v == nil:
		return migrate.Refuse(installedVersion, "find out who has deleted it; OLM v0 does not install it again", "ClusterServiceVersion %s/%s, which the Subscription has installed, does not exist", s.Namespace, s.Status.InstalledCSV)
	case v.DeletionTimestamp != nil:
		return migrate.Refuse(installedVersion, "find out who has deleted it", "ClusterServiceVersion %s/%s is being deleted", v.Namespace, v.Name)
	case v.Status.Phase != v1alpha1.CSVPhaseSucceeded:
		return migrate.Refuse(installedVersion, "find out why OLM v0 has not installed it completely", "the phase of ClusterServiceVersion %s/%s is %q, want %s", v.Namespace, v.Name, v.Status.Phase, v1alpha1.CSVPhaseSucceeded)
	case v.Status.Reason != v1alpha1.CSVReasonInstallSuccessful:
		return migrate.Refuse(installedVersion, "find out why OLM v0 has not installed it completely", "the reason in the status of ClusterServiceVersion %s/%s is %q, want %s", v.Namespace, v.Name, v.Status.Reason, v1alpha1.CSVReasonInstallSuccessful)
	}
	return migrate.Pass(installedVersion, "ClusterServiceVersion %s is installed", v.Name)
}

// checkPending refuses to move while OLM v0 updates the operator. The move drops an update that waits for approval.
func (in *input) checkPending() migrate.Checks {
	for _, p := range in.installPlans {
		if phase := p.Status.Phase; isOf(p, in.own.UID) && phase != v1alpha1.InstallPlanPhaseComplete && phase != v1alpha1.InstallPlanPhaseFailed && phase != v1alpha1.InstallPlanPhaseRequiresApproval {
			return migrate.Refuse(pendingUpdate, "wait until OLM v0 has carried it out", "InstallPlan %s/%s, for %s, is under way: its phase is %q", p.Namespace, p.Name, strings.Join(p.Spec.ClusterServiceVersionNames, ", "), phase)
		}
	}
	for _, v := range in.versions {
		if current := in.own.Status.CurrentCSV; v.Name != in.own.Status.InstalledCSV && (v.Name == current || v.Spec.Replaces == in.own.Status.InstalledCSV) {
			return migrate.Refuse(pendingUpdate, "wait until OLM v0 has finished the update, or find out why it does not", "OLM v0 updates the operator to %s", v.Name)
		}
		if installed := in.version(); installed != nil && v.Name == installed.Spec.Replaces {
			return migrate.Refuse(pendingUpdate, "wait until OLM v0 has removed it, or find out why it does not", "ClusterServiceVersion %s, which %s replaces, is still there", v.Name, installed.Name)
		}
	}
	switch state, current := in.own.Status.State, in.own.Status.CurrentCSV; {
	case state == v1alpha1.SubscriptionStateUpgradePending && in.own.Spec.InstallPlanApproval != v1alpha1.ApprovalManual:
		return migrate.Refuse(pendingUpdate, "wait until OLM v0 has carried it out", "OLM v0 is about to update the operator to %s", current)
	case state == v1alpha1.SubscriptionStateUpgradeAvailable && in.own.Spec.InstallPlanApproval != v1alpha1.ApprovalManual:
		return migrate.Refuse(pendingUpdate, "wait until OLM v0 has carried it out; if it cannot, set spec.installPlanApproval of the Subscription to Manual",
			"there is an update of the operator, which OLM v0 may begin at any time")
	case state == v1alpha1.SubscriptionStateUpgradePending:
		return migrate.Warn(pendingUpdate, "approve it first if you want it", "the update to %s waits for approval, and the move drops it", current)
	case state != v1alpha1.SubscriptionStateAtLatest && state != v1alpha1.SubscriptionStateUpgradeAvailable:
		return migrate.Refuse(pendingUpdate, "find out why with `"+escape.Command("oc -n %s describe subscription %s", in.own.Namespace, in.own.Name)+"`",
			"the state of Subscription %s/%s is %q, want %s", in.own.Namespace, in.own.Name, state, v1alpha1.SubscriptionStateAtLatest)
	}
	return migrate.Pass(pendingUpdate, "no update is under way")
}

// isOf reports whether an InstallPlan belongs to a Subscription and to no other.
func isOf(p v1alpha1.InstallPlan, uid any) bool {
	return len(p.OwnerReferences) == 1 && p.OwnerReferences[0].Kind == v1alpha1.SubscriptionKind && any(p.OwnerReferences[0].UID) == uid
}

// targets returns the namespaces that the operator watches; "" is all.
func (in *input) targets() []string {
	if len(in.groups) != 1 {
		return nil
	}
	return in.groups[0].Status.Namespaces
}

// watched returns the only namespace that the operator watches; "" if it watches all, or several.
func (in *input) watched() string {
	if targets := in.targets(); len(targets) == 1 {
		return targets[0]
	}
	return ""
}

func (in *input) checkGroup() (found migrate.Checks) {
	if len(in.groups) != 1 {
		return migrate.Refuse(operatorGroup, "have exactly one, as OLM v0 requires", "namespace %s has %d OperatorGroups", in.own.Namespace, len(in.groups))
	}
	g := in.groups[0]
	switch targets := in.targets(); {
	case g.Spec.Selector != nil && len(g.Spec.Selector.MatchLabels)+len(g.Spec.Selector.MatchExpressions) > 0:
		found = migrate.Refuse(operatorGroup, "name the namespace in spec.targetNamespaces, or have the operator watch all",
			"OperatorGroup %s/%s selects the operator's namespaces by labels, and OLM v1 knows only fixed ones", g.Namespace, g.Name)
	case len(g.Spec.TargetNamespaces) > 0 && !sameNames(g.Spec.TargetNamespaces, targets):
		found = migrate.Refuse(operatorGroup, "wait until OLM v0 has noticed", "OperatorGroup %s/%s is for namespaces %q, and its status names %q", g.Namespace, g.Name, g.Spec.TargetNamespaces, targets)
	case len(targets) == 0:
		found = migrate.Refuse(operatorGroup, "wait until OLM v0 has written it", "the status of OperatorGroup %s/%s names no namespaces", g.Namespace, g.Name)
	case len(targets) > 1:
		found = migrate.Refuse(operatorGroup, "have the operator watch all namespaces, or one", "the operator watches %d namespaces, and OLM v1 has operators watch all or one", len(targets))
	case targets[0] != metav1.NamespaceAll && !in.request.Gates[featuregates.SingleOwnNamespace]:
		found = migrate.Refuse(operatorGroup, fmt.Sprintf("enable the feature gate %s of OLM v1; or have the operator watch all namespaces with OLM v0 first, if it supports that", featuregates.SingleOwnNamespace),
			"the operator watches only namespace %s, and OLM v1 has operators watch all namespaces unless its feature gate %s is enabled", targets[0], featuregates.SingleOwnNamespace)
	case targets[0] != metav1.NamespaceAll:
		found = migrate.Pass(operatorGroup, "the operator goes on to watch namespace %s, by watchNamespace of the ClusterExtension", targets[0])
	default:
		found = migrate.Pass(operatorGroup, "the operator watches all namespaces, with both OLMs")
	}
	if account := g.Spec.ServiceAccountName; account != "" {
		found = append(found, migrate.Refuse(scopedAccount, "remove spec.serviceAccountName of the OperatorGroup if the limits are not needed",
			"OperatorGroup %s/%s makes OLM v0 install with the permissions of service account %s, and OLM v1 installs with its own", g.Namespace, g.Name, account)...)
	}
	if strategy := g.Spec.UpgradeStrategy; strategy != "" && strategy != operatorsv1.UpgradeStrategyDefault {
		found = append(found, migrate.Warn(operatorGroup, "nothing", "upgradeStrategy %s of the OperatorGroup has no effect any more", strategy)...)
	}
	return found
}

// sameNames reports whether two lists have the same names.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// checkSource refuses an operator whose CatalogSource is gone: nothing could install it again with OLM v0.
func (in *input) checkSource() migrate.Checks {
	spec := in.own.Spec
	if in.sourced {
		return migrate.Pass(catalogSource, "CatalogSource %s/%s exists, for a way back", spec.CatalogSourceNamespace, spec.CatalogSource)
	}
	return migrate.Refuse(catalogSource, "create it, with a catalog that has the installed version",
		"there is no CatalogSource %s/%s: neither a rollback nor a move back could install the operator again", spec.CatalogSourceNamespace, spec.CatalogSource)
}

// checkChannel refuses a Subscription whose channel OLM v1 does not find, as nothing would be resolved after the move.
func (in *input) checkChannel() migrate.Checks {
	if in.channel == "" || len(in.channels) == 0 || slices.Contains(in.channels, in.channel) {
		return nil
	}
	return migrate.Refuse(channelAbsent, "have a ClusterCatalog with that channel; or set spec.channel of the Subscription to one of "+strings.Join(slices.Compact(slices.Sorted(slices.Values(in.channels))), ", "),
		"no catalog of OLM v1 has channel %q, which the Subscription names", in.channel)
}

// inline returns spec.config.inline of the ClusterExtension, or nil if it needs none.
func (in *input) inline() json.RawMessage {
	fields := map[string]any{}
	if namespace := in.watched(); namespace != "" {
		fields["watchNamespace"] = namespace
	}
	if config := fieldsOf(in.deploymentConfig()); config != nil {
		fields["deploymentConfig"] = config
	}
	if len(fields) == 0 {
		return nil
	}
	text, err := json.Marshal(fields)
	if err != nil { // impossible: config was read from JSON
		return nil
	}
	return text
}

// deploymentConfig returns the Subscription's settings for the Deployment, if OLM v1 accepts them.
func (in *input) deploymentConfig() *v1alpha1.SubscriptionConfig {
	if !in.request.Gates[featuregates.DeploymentConfig] {
		return nil
	}
	return in.config()
}

// config returns the Subscription's settings for the Deployment, or nil, without their selector, which OLM v0 never used.
func (in *input) config() *v1alpha1.SubscriptionConfig {
	config := in.own.Spec.Config.DeepCopy()
	if config == nil {
		return nil
	}
	config.Selector = nil
	if len(fieldsOf(config)) == 0 {
		return nil
	}
	return config
}

func (in *input) checkConfig() migrate.Checks {
	switch {
	case in.config() == nil:
		return migrate.Pass(subscriptionConf, "the Subscription sets nothing for the operator's Deployment")
	case in.request.Gates[featuregates.DeploymentConfig]:
		return migrate.Pass(subscriptionConf, "the ClusterExtension gets what the Subscription sets for the operator's Deployment")
	}
	return migrate.Refuse(subscriptionConf, fmt.Sprintf("enable the feature gate %s of OLM v1, which also needs its experimental API; or remove spec.config of the Subscription", featuregates.DeploymentConfig),
		"spec.config of Subscription %s/%s sets something for the operator's Deployment, which OLM v1 does not: it sets back what the bundle sets, too, and restarts the operator for that", in.own.Namespace, in.own.Name)
}

// checkCondition refuses an operator that wants no updates now. OLM v1 has no OperatorCondition and would not wait.
func (in *input) checkCondition() migrate.Checks {
	if in.condition == nil {
		return migrate.Pass(conditions, "the operator has told OLM v0 nothing")
	}
	all := slices.Concat(in.condition.Spec.Overrides, in.condition.Status.Conditions)
	switch c := meta.FindStatusCondition(all, operatorsv1.Upgradeable); {
	case c != nil && c.Status == metav1.ConditionFalse:
		return migrate.Refuse(conditions, "wait until the operator allows updates", "OperatorCondition %s/%s says that the operator must not be updated now, and OLM v1 does not wait for that: %s", in.condition.Namespace, in.condition.Name, c.Message)
	case len(all) > 0:
		return migrate.Warn(conditions, "read in its documentation when not to update it", "the operator uses OperatorCondition %s/%s, which stays and has no effect any more", in.condition.Namespace, in.condition.Name)
	}
	return migrate.Pass(conditions, "the operator has told OLM v0 nothing")
}

// checkAPIs refuses an operator that works with OLM v0's own objects.
func (in *input) checkAPIs() migrate.Checks {
	var resources []string
	v1 := false
	strategy := in.version().Spec.InstallStrategy.StrategySpec
	for _, p := range slices.Concat(strategy.ClusterPermissions, strategy.Permissions) {
		for _, rule := range p.Rules {
			v1 = v1 || slices.Contains(rule.APIGroups, clusterextension.Kind.Group)
			if !slices.Contains(rule.APIGroups, v1alpha1.SchemeGroupVersion.Group) {
				continue
			}
			for _, resource := range rule.Resources {
				if slices.Contains([]string{"subscriptions", "installplans", "clusterserviceversions", "catalogsources", "*"}, resource) {
					resources = append(resources, resource)
				}
			}
		}
	}
	if len(resources) == 0 || v1 {
		return migrate.Pass(olmV0APIs, "the operator does not use OLM v0's objects, or it also uses OLM v1's")
	}
	slices.Sort(resources)
	return migrate.Refuse(olmV0APIs, "read in its documentation whether it works with OLM v1", "the operator may use OLM v0's own objects: it has permissions for %s", strings.Join(slices.Compact(resources), ", "))
}

// checkWebhooks refuses conversion webhooks: OLM v0 removes them from the APIs with the version, and the API server then gives clients
// objects of one version as if they were of another.
func (in *input) checkWebhooks() migrate.Checks {
	n := 0
	for _, w := range in.version().Spec.WebhookDefinitions {
		if w.Type == v1alpha1.ConversionWebhook {
			return migrate.Refuse(conversion, "leave it with OLM v0, until a version of the operator has no conversion webhook",
				"conversion webhook %s is for %s: OLM v0 removes it when it leaves the operator, and until OLM v1 has set it up again, objects of other versions would be read and written wrongly", w.GenerateName, strings.Join(w.ConversionCRDs, ", "))
		}
		n++
	}
	if n == 0 {
		return migrate.Pass(webhooks, "the bundle has no webhooks")
	}
	return migrate.Warn(webhooks, "move it when nobody writes what they check", "the bundle has %d webhooks: OLM v0 deletes them and OLM v1 creates them again, so for some seconds nothing is checked or changed by them; and the operator's pods restart, with another certificate", n)
}

// checkExisting refuses objects of the operator's APIs that OLM v0 cannot read or validate, as it does whenever it installs.
func (in *input) checkExisting() migrate.Checks {
	return checkExisting(in.existing, "neither a rollback nor a move back could install the operator again: ")
}

func checkExisting(reasons []prediction.Reason, so string) (found migrate.Checks) {
	for _, r := range reasons {
		found = append(found, migrate.Refuse(existingObjects, r.Do, "%s%s", so, r.What)...)
	}
	if len(found) == 0 {
		return migrate.Pass(existingObjects, "OLM v0 can read and validate the objects of the APIs")
	}
	return found
}

// checkObjects refuses unknown objects and other owners' objects.
func (in *input) checkObjects() (found migrate.Checks) {
	if !in.known {
		found = migrate.Refuse(unknownObjects, "repeat the command with --images, which pulls the bundle",
			"neither an InstallPlan nor the catalog of OLM v1 has the bundle's manifests: OLM v1 would refuse existing objects that the move does not know")
	}
	for _, p := range in.present {
		if why, do := in.strange(p); why != "" {
			found = append(found, migrate.Refuse(foreignObjects, do, "%s exists, OLM v1 would take it over, and %s", p, why)...)
		}
	}
	if len(found) == 0 {
		return migrate.Pass(foreignObjects, "OLM v1 takes over %d objects, all of this operator", len(in.present))
	}
	return found
}

// strange returns why an object seems not to belong to this operator, and what to do. Both are "" if it belongs to this operator.
func (in *input) strange(p present) (why, do string) {
	v := in.version()
	do = "find out whose it is; if it is of this operator, remove that"
	for _, owner := range p.OwnerReferences {
		if owner.Kind == v1alpha1.ClusterServiceVersionKind && owner.Name == v.Spec.Replaces && isOwnedBy(p.PartialObjectMetadata, v.UID) {
			return fmt.Sprintf("%s %s, which %s has replaced, owns it, too", owner.Kind, owner.Name, v.Name), "wait until the garbage collector has removed that"
		}
		if owner.Kind == v1alpha1.ClusterServiceVersionKind && owner.UID != v.UID || owner.Kind != v1alpha1.ClusterServiceVersionKind && owner.Controller != nil && *owner.Controller {
			return fmt.Sprintf("%s %s owns it", owner.Kind, owner.Name), do
		}
		if isOfV1(owner) {
			return fmt.Sprintf("%s %s owns it", owner.Kind, owner.Name), do
		}
	}
	if by := p.Annotations[helmNameAnnotation]; by != "" && by != in.request.Package {
		return fmt.Sprintf("Helm release %s/%s has installed it", p.Annotations[helmNamespaceAnnotation], by), do
	}
	strategy := v.Spec.InstallStrategy.StrategySpec
	switch {
	case isOwnedBy(p.PartialObjectMetadata, v.UID), p.stepped, p.Labels[ownerLabel] == v.Name, p.Labels[managedLabel] == "true":
		return "", ""
	case p.Kind == definitionKind.Kind && slices.ContainsFunc(v.Spec.CustomResourceDefinitions.Owned, func(o v1alpha1.CRDDescription) bool { return o.Name == p.Object.Name }):
		return "", ""
	case p.Kind == "ServiceAccount" && slices.ContainsFunc(slices.Concat(strategy.Permissions, strategy.ClusterPermissions),
		func(a v1alpha1.StrategyDeploymentPermissions) bool { return a.ServiceAccountName == p.Object.Name }):
		return "", ""
	}
	return "OLM v0 has not installed it", do
}

// checkContent refuses a version whose content differs in the catalog of OLM v1: the move would in fact update the operator.
func (in *input) checkContent() migrate.Checks {
	if in.offered == nil || equality.Semantic.DeepEqual(in.offered.CSV.Spec.InstallStrategy, in.version().Spec.InstallStrategy) {
		return nil
	}
	return migrate.Refuse(differentContent, "have OLM v1 use the catalog that the Subscription uses: create a ClusterCatalog of its image, and name it with --catalog",
		"the catalog of OLM v1 has a %s whose Deployments or permissions differ from those that are installed", in.version().Name)
}

// derived are the types of properties that opm makes from a bundle's manifests and dependencies.
var derived = []string{property.TypePackage, property.TypeGVK, property.TypePackageRequired, property.TypeGVKRequired, property.TypeConstraint}

// checkPods warns of a change of the operator's pods: OLM v1 annotates them with the properties of metadata/properties.yaml, and OLM v0 does not.
func (in *input) checkPods() migrate.Checks {
	var known []property.Property
	_ = json.Unmarshal([]byte(in.version().Annotations["olm.properties"]), &known) // OLM v1 refuses a bundle with a malformed one
	var added []string
	for _, p := range in.properties {
		isKnown := slices.ContainsFunc(known, func(k property.Property) bool { return k.Type == p.Type })
		if !isKnown && !fbc.IsPayload(p.Type) && !slices.Contains(derived, p.Type) {
			added = append(added, p.Type)
		}
	}
	if len(added) == 0 {
		return nil
	}
	slices.Sort(added)
	return migrate.Warn(operatorPods, "move it when the operator may restart", "the operator's own pods restart once: OLM v1 adds to them the annotation olm.properties, with properties of the bundle's metadata/properties.yaml: %s",
		strings.Join(slices.Compact(added), ", "))
}

// checkNow checks that OLM v1 takes exactly the installed version.
func (in *input) checkNow() (found migrate.Checks) {
	for _, reason := range in.now.Why {
		do := reason.Do
		if reason.Code == prediction.PackageAbsent || reason.Code == prediction.NoBundle {
			do = fmt.Sprintf("create a ClusterCatalog of the image that CatalogSource %s/%s has, and wait until it is served", in.own.Spec.CatalogSourceNamespace, in.own.Spec.CatalogSource)
		}
		if reason.Code == prediction.CatalogsAmbiguous {
			do = "choose one with --catalog"
		}
		found = append(found, migrate.Refuse(string(reason.Code), do, "OLM v1 would refuse it: %s", reason.What)...)
	}
	if len(found) > 0 {
		return found
	}
	if next := in.now.Next; next == nil || next.Name != in.version().Name {
		name := "nothing"
		if next != nil {
			name = next.Name
		}
		return migrate.Refuse(exactVersion, "have a ClusterCatalog with that version, and name it with --catalog", "OLM v1 would install %s, and %s is installed", name, in.version().Name)
	}
	return migrate.Pass(exactVersion, "OLM v1 takes exactly the installed version, %s", in.version().Name)
}

// checkThen reports OLM v1's action once the move is complete.
func (in *input) checkThen() (found migrate.Checks) {
	then := in.then
	switch {
	case in.own.Spec.InstallPlanApproval == v1alpha1.ApprovalManual:
		return migrate.Pass(laterVersions, "the ClusterExtension stays at %s, as the Subscription asks for approval: set spec.source.catalog.version to update it", in.number())
	case then.Reaction == prediction.Latest:
		return migrate.Pass(laterVersions, "no later version is there yet")
	case then.Reaction.Good() && then.Next != nil:
		return migrate.Warn(laterVersions, "move it when an update suits, or set installPlanApproval of the Subscription to Manual first", "OLM v1 updates it to %s as soon as the move is complete", then.Next.Name)
	}
	for _, reason := range then.Why {
		found = append(found, migrate.Warn(laterVersions, reason.Do, "after the move, OLM v1 does not update it: %s", reason.What)...)
	}
	return found
}

func (in *input) checkAccepted() migrate.Checks {
	if in.refusedBy == nil {
		return migrate.Pass(extensionRefused, "the API server takes the ClusterExtension")
	}
	do := "see why"
	if strings.Contains(in.refusedBy.Error(), "serviceAccount") {
		do = "this version of OLM v1 needs a service account that may do all that the bundle contains: create one, and name it with --service-account"
	}
	return migrate.Refuse(extensionRefused, do, "the API server refuses the ClusterExtension: %v", in.refusedBy)
}
