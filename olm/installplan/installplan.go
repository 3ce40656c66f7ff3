// Package installplan models what OLM does with a Subscription whose InstallPlan is gone.
package installplan

import (
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// Missing reports whether a Subscription waits for an InstallPlan that no longer exists, and whether it waits forever because OLM does not
// notice. OLM resets such a Subscription only if one of its conditions says that the InstallPlan is pending or has failed. There is no such
// condition if the InstallPlan was deleted before OLM wrote one. existing are all InstallPlans of the Subscription's namespace.
func Missing(s *v1alpha1.Subscription, existing []*v1alpha1.InstallPlan) (missing, unnoticed bool) {
	ref := s.Status.InstallPlanRef
	if ref == nil || s.Status.State != v1alpha1.SubscriptionStateUpgradePending ||
		slices.ContainsFunc(existing, func(p *v1alpha1.InstallPlan) bool { return p.UID == ref.UID }) {
		return false, false
	}
	noticed := slices.ContainsFunc(s.Status.Conditions, func(c v1alpha1.SubscriptionCondition) bool {
		return c.Type == v1alpha1.SubscriptionInstallPlanPending || c.Type == v1alpha1.SubscriptionInstallPlanFailed
	})
	return true, !noticed
}

// Reset makes OLM resolve again for a Subscription whose InstallPlan is missing. It clears the same fields of the status
// that OLM clears when it notices.
func Reset(s *v1alpha1.Subscription) {
	s.Status.InstallPlanRef, s.Status.Install = nil, nil
	s.Status.CurrentCSV, s.Status.State = "", v1alpha1.SubscriptionStateNone
}

// ResetPatch is Reset as a merge patch for kubectl.
const ResetPatch = `{"status":{"installPlanRef":null,"installplan":null,"currentCSV":null,"state":null}}`
