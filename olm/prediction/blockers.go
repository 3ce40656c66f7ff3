package prediction

import (
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/cache"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/installplan"
)

// blockers find the reasons why OLM cannot install its choice. target is the chosen ClusterServiceVersion, nil if the catalog
// does not contain it.
var blockers = []func(f *subject, target *v1alpha1.ClusterServiceVersion) *Reason{
	pendingInstallPlan, manualApproval, notUpgradeable, tooOldKubernetes, unsupportedInstallMode, providedElsewhere,
}

// pendingInstallPlan: OLM resolves nothing while every Subscription of the namespace has an InstallPlan that is not complete.
func pendingInstallPlan(f *subject, _ *v1alpha1.ClusterServiceVersion) *Reason {
	for _, s := range f.state.Subscriptions {
		pending := s.Status.InstallPlanRef != nil && s.Status.State == v1alpha1.SubscriptionStateUpgradePending
		if _, missing := f.state.missingInstallPlans[s.Name]; !pending && !missing {
			return nil
		}
	}
	if gone := f.state.missingInstallPlans[f.subscription.Name]; gone != "" {
		return &Reason{InstallPlanGone, fmt.Sprintf("InstallPlan %s was deleted, but OLM still waits for it and does not read the catalog", gone),
			"reset the Subscription's status so that OLM resolves again: " + escape.Command("kubectl -n %s patch subscription %s --subresource=status --type=merge -p %s", f.state.Namespace, f.subscription.Name, installplan.ResetPatch)}
	}
	plan := f.subscription.Status.InstallPlanRef.Name
	return &Reason{PendingInstallPlan, fmt.Sprintf("InstallPlan %s, for %s, is not complete; until it is, OLM does not read the catalog", plan, f.subscription.Status.CurrentCSV),
		fmt.Sprintf("approve InstallPlan %s, or delete it so that OLM resolves again", plan)}
}

// manualApproval: one Subscription with manual approval makes OLM require approval for all of its namespace.
func manualApproval(f *subject, target *v1alpha1.ClusterServiceVersion) *Reason {
	manual := slices.IndexFunc(f.state.Subscriptions, func(s *v1alpha1.Subscription) bool { return s.Spec.InstallPlanApproval == v1alpha1.ApprovalManual })
	if manual < 0 || f.Next == nil {
		return nil
	}
	code, what, do := ManualApproval, "OLM creates an InstallPlan that waits for approval", "approve the InstallPlan when OLM has created it"
	if s := f.state.Subscriptions[manual]; s != f.subscription && f.subscription.Spec.InstallPlanApproval != v1alpha1.ApprovalManual {
		code = ManualApprovalElsewhere
		do += fmt.Sprintf(", or first set spec.installPlanApproval of Subscription %s to Automatic", s.Name)
		what += fmt.Sprintf(", because Subscription %s of the same namespace requires it", s.Name)
	}
	return &Reason{code, what, do}
}

// notUpgradeable: an operator may set Upgradeable to False in its OperatorCondition, and OLM then does not update it.
func notUpgradeable(f *subject, _ *v1alpha1.ClusterServiceVersion) *Reason {
	if f.csv == nil {
		return nil
	}
	for _, c := range f.state.Conditions {
		if c.Name != f.csv.Name {
			continue
		}
		upgradeable := meta.FindStatusCondition(c.Status.Conditions, operatorsv2.Upgradeable)
		if override := meta.FindStatusCondition(c.Spec.Overrides, operatorsv2.Upgradeable); override != nil {
			upgradeable = override
		}
		if upgradeable != nil && upgradeable.Status == metav1.ConditionFalse {
			return &Reason{NotUpgradeable, fmt.Sprintf("%s has set condition Upgradeable to False: %s", f.csv.Name, upgradeable.Message),
				fmt.Sprintf("do what the message asks for, or override condition Upgradeable in OperatorCondition %s", c.Name)}
		}
	}
	return nil
}

func tooOldKubernetes(f *subject, target *v1alpha1.ClusterServiceVersion) *Reason {
	if target == nil || f.state.Kubernetes == nil {
		return nil
	}
	wanted, err := semver.ParseTolerant(target.Spec.MinKubeVersion)
	if err != nil || f.state.Kubernetes.GTE(wanted) {
		return nil
	}
	return &Reason{OldKubernetes, fmt.Sprintf("%s requires Kubernetes %s or later, and the cluster runs %s", f.Next.Name, wanted, f.state.Kubernetes), "update the cluster first"}
}

func unsupportedInstallMode(f *subject, target *v1alpha1.ClusterServiceVersion) *Reason {
	if target == nil || len(f.state.OperatorGroups) != 1 {
		return nil
	}
	group := f.state.OperatorGroups[0]
	if len(group.Status.Namespaces) == 0 {
		return nil // OLM has not yet written its target namespaces
	}
	supported := v1alpha1.InstallModeSet{}
	for _, mode := range target.Spec.InstallModes {
		supported[mode.Type] = mode.Supported
	}
	if err := supported.Supports(f.state.Namespace, group.Status.Namespaces); err != nil {
		return &Reason{InstallMode, fmt.Sprintf("%s does not support the target namespaces of OperatorGroup %s: %v", f.Next.Name, group.Name, err), "subscribe in a namespace whose OperatorGroup has supported target namespaces"}
	}
	return nil
}

// providedElsewhere: if OperatorGroups overlap, only one of their operators may provide an API. OLM installs a second operator anyway,
// which fails. If both have the same version, OLM mistakes a copy of the first operator's ClusterServiceVersion for the second operator's:
// OLM keeps such a copy in each target namespace.
func providedElsewhere(f *subject, _ *v1alpha1.ClusterServiceVersion) *Reason {
	provided := apis(f.pkg.FindBundle(f.Next.Name), property.TypeGVK)
	for _, other := range f.state.overlapping() {
		shared := provided.Intersection(cache.GVKStringToProvidedAPISet(other.OperatorGroups[0].Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotationKey]))
		if len(shared) == 0 {
			continue
		}
		result := "which then fails"
		if other.csv(f.Next.Name) != nil {
			result = "but takes the copy of the other namespace's ClusterServiceVersion for it: no operator runs here"
		}
		return &Reason{ProvidedElsewhere,
			fmt.Sprintf("an operator in namespace %s already provides %s, and OperatorGroups %s and %s/%s have target namespaces in common: OLM chooses %s, %s",
				other.Namespace, shared, f.state.OperatorGroups[0].Name, other.Namespace, other.OperatorGroups[0].Name, f.Next.Name, result),
			fmt.Sprintf("change the Subscription in namespace %s instead of creating another one, or uninstall that operator first (its Subscription and its ClusterServiceVersion)", other.Namespace)}
	}
	return nil
}

// overlapping returns the other namespaces whose OperatorGroup has a target namespace in common with this one's.
func (st *State) overlapping() (found []*State) {
	if len(st.OperatorGroups) != 1 {
		return nil
	}
	for _, other := range st.WithGroup {
		if other.Namespace != st.Namespace && len(other.OperatorGroups) == 1 && overlap(st.OperatorGroups[0], other.OperatorGroups[0]) {
			found = append(found, other)
		}
	}
	return found
}

// overlap reports whether two OperatorGroups have target namespaces in common. OLM adds the OperatorGroup's own namespace to specific
// target namespaces.
func overlap(a, b *operatorsv1.OperatorGroup) bool {
	of := func(g *operatorsv1.OperatorGroup) []string {
		if len(g.Status.Namespaces) == 0 || g.Status.Namespaces[0] == "" {
			return g.Status.Namespaces
		}
		return append(slices.Clone(g.Status.Namespaces), g.Namespace)
	}
	return slices.ContainsFunc(of(a), func(x string) bool {
		return slices.ContainsFunc(of(b), func(y string) bool { return x == y || x == "" || y == "" })
	})
}
