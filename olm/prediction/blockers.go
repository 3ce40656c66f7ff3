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
)

// holds find what keeps OLM from going on to what it has chosen. Its ClusterServiceVersion is nil where
// the catalog does not say what it is.
var blockers = []func(f *subject, target *v1alpha1.ClusterServiceVersion) *Reason{
	pendingInstallPlan, manualApproval, notUpgradeable, tooOldKubernetes, unsupportedInstallMode, providedElsewhere,
}

// pendingPlans: while all Subscriptions of a namespace have an InstallPlan that is not carried out, OLM
// resolves nothing.
func pendingInstallPlan(f *subject, _ *v1alpha1.ClusterServiceVersion) *Reason {
	for _, s := range f.state.Subscriptions {
		pending := s.Status.InstallPlanRef != nil && s.Status.State == v1alpha1.SubscriptionStateUpgradePending
		if _, stalled := f.state.missingInstallPlans[s.Name]; !pending && !stalled {
			return nil
		}
	}
	if gone := f.state.missingInstallPlans[f.subscription.Name]; gone != "" {
		return &Reason{InstallPlanGone, fmt.Sprintf("InstallPlan %s is gone, and OLM has not noticed; it waits for it, and does not look at the catalog", gone),
			fmt.Sprintf("have OLM choose anew: kubectl -n %s patch subscription %s --subresource=status --type=merge -p '%s'", f.state.Namespace, f.subscription.Name, unblocking)}
	}
	plan := f.subscription.Status.InstallPlanRef.Name
	return &Reason{PendingInstallPlan, fmt.Sprintf("InstallPlan %s, for %s, is not carried out; until it is, OLM does not look at the catalog", plan, f.subscription.Status.CurrentCSV),
		fmt.Sprintf("approve InstallPlan %s, or delete it to have OLM choose anew", plan)}
}

// manualApproval: one Subscription that asks for approval makes OLM ask for all of its namespace.
func manualApproval(f *subject, target *v1alpha1.ClusterServiceVersion) *Reason {
	manual := slices.IndexFunc(f.state.Subscriptions, func(s *v1alpha1.Subscription) bool { return s.Spec.InstallPlanApproval == v1alpha1.ApprovalManual })
	if manual < 0 || f.Next == nil {
		return nil
	}
	code, what, do := ManualApproval, "OLM makes an InstallPlan that waits for approval", "approve the InstallPlan when it is there"
	if s := f.state.Subscriptions[manual]; s != f.subscription && f.subscription.Spec.InstallPlanApproval != v1alpha1.ApprovalManual {
		code = ManualApprovalElsewhere
		do += fmt.Sprintf(", or set spec.installPlanApproval of Subscription %s to Automatic before", s.Name)
		what += fmt.Sprintf(", because Subscription %s of the same namespace asks for it", s.Name)
	}
	return &Reason{code, what, do}
}

// notUpgradeable: an operator may say in its OperatorCondition that it must not be updated now.
func notUpgradeable(f *subject, _ *v1alpha1.ClusterServiceVersion) *Reason {
	if f.csv == nil {
		return nil
	}
	for _, c := range f.state.Conditions {
		if c.Name != f.csv.Name {
			continue
		}
		said := meta.FindStatusCondition(c.Status.Conditions, operatorsv2.Upgradeable)
		if override := meta.FindStatusCondition(c.Spec.Overrides, operatorsv2.Upgradeable); override != nil {
			said = override
		}
		if said != nil && said.Status == metav1.ConditionFalse {
			return &Reason{NotUpgradeable, fmt.Sprintf("%s says that it must not be updated now: %s", f.csv.Name, said.Message),
				fmt.Sprintf("do what it asks for, or override condition Upgradeable in OperatorCondition %s", c.Name)}
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
	return &Reason{OldKubernetes, fmt.Sprintf("%s wants Kubernetes %s or later, and the cluster has %s", f.Next.Name, wanted, f.state.Kubernetes), "update the cluster first"}
}

func unsupportedInstallMode(f *subject, target *v1alpha1.ClusterServiceVersion) *Reason {
	if target == nil || len(f.state.OperatorGroups) != 1 {
		return nil
	}
	group := f.state.OperatorGroups[0]
	if len(group.Status.Namespaces) == 0 {
		return nil // OLM has not yet said which namespaces it has
	}
	supported := v1alpha1.InstallModeSet{}
	for _, mode := range target.Spec.InstallModes {
		supported[mode.Type] = mode.Supported
	}
	if err := supported.Supports(f.state.Namespace, group.Status.Namespaces); err != nil {
		return &Reason{InstallMode, fmt.Sprintf("%s does not fit OperatorGroup %s: %v", f.Next.Name, group.Name, err), "subscribe in a namespace whose OperatorGroup fits"}
	}
	return nil
}

// providedElsewhere: of operators whose OperatorGroups have namespaces in common, only one may provide an
// API. OLM installs another one all the same, which then fails; or which is taken for installed where it is
// the same one, of which OLM keeps a copy in each namespace that it serves.
func providedElsewhere(f *subject, _ *v1alpha1.ClusterServiceVersion) *Reason {
	provided := apis(f.pkg.FindBundle(f.Next.Name), property.TypeGVK)
	for _, other := range f.state.overlapping() {
		shared := provided.Intersection(cache.GVKStringToProvidedAPISet(other.OperatorGroups[0].Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotationKey]))
		if len(shared) == 0 {
			continue
		}
		ends := "and then fails it"
		if other.csv(f.Next.Name) != nil {
			ends = "but takes the copy of that of the other namespace for it: nothing runs here"
		}
		return &Reason{ProvidedElsewhere,
			fmt.Sprintf("an operator of namespace %s provides %s already, and OperatorGroups %s and %s/%s have namespaces in common: OLM installs %s, %s",
				other.Namespace, shared, f.state.OperatorGroups[0].Name, other.Namespace, other.OperatorGroups[0].Name, f.Next.Name, ends),
			fmt.Sprintf("change the Subscription of namespace %s instead of making another one, or uninstall that operator first (its Subscription and its ClusterServiceVersion)", other.Namespace)}
	}
	return nil
}

// overlapping returns the other namespaces whose operators serve a namespace that those of this one serve, too.
func (st *State) overlapping() (found []*State) {
	for _, other := range st.Elsewhere {
		if len(st.OperatorGroups) == 1 && len(other.OperatorGroups) == 1 && overlap(st.OperatorGroups[0], other.OperatorGroups[0]) {
			found = append(found, other)
		}
	}
	return found
}

// overlap tells whether two OperatorGroups have namespaces in common. One with specific namespaces has its
// own, too.
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
