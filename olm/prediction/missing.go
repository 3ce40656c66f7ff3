package prediction

import (
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// Missing tells whether a Subscription waits for an InstallPlan that is not there any more, and whether it is stalled
// by that, as OLM is not going to notice. OLM corrects a Subscription whose InstallPlan is gone only if that changes a
// condition of it: one that says that the InstallPlan is pending, or has failed. There is none if the InstallPlan went
// before OLM had written it. The InstallPlans are those that there are in the namespace.
func Missing(s *v1alpha1.Subscription, there []*v1alpha1.InstallPlan) (missing, stalled bool) {
	named := s.Status.InstallPlanRef
	if named == nil || s.Status.State != v1alpha1.SubscriptionStateUpgradePending ||
		slices.ContainsFunc(there, func(p *v1alpha1.InstallPlan) bool { return p.UID == named.UID }) {
		return false, false
	}
	noticed := slices.ContainsFunc(s.Status.Conditions, func(c v1alpha1.SubscriptionCondition) bool {
		return c.Type == v1alpha1.SubscriptionInstallPlanPending || c.Type == v1alpha1.SubscriptionInstallPlanFailed
	})
	return true, !noticed
}

// Unblock has OLM choose anew for a Subscription that waits for an InstallPlan that is gone. It takes from the status what
// OLM itself takes from it if it notices.
func Unblock(s *v1alpha1.Subscription) {
	s.Status.InstallPlanRef, s.Status.Install = nil, nil
	s.Status.CurrentCSV, s.Status.State = "", v1alpha1.SubscriptionStateNone
}

// unblocking is Unblock as a merge patch, for people.
const unblocking = `{"status":{"installPlanRef":null,"installplan":null,"currentCSV":null,"state":null}}`
