package subscription

import (
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// TestResumeUpdates: the handling of later versions after approval was restored.
func TestResumeUpdates(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	installPlan := func(name string, approved bool) *v1alpha1.InstallPlan {
		ip := &v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{ClusterServiceVersionNames: []string{name}, Approved: approved},
			Status: v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseRequiresApproval}}
		if approved {
			ip.Status.Phase = v1alpha1.InstallPlanPhaseInstalling
		}
		return ip
	}
	const target, later = "buoy.v1.1.0", "buoy.v1.1.1"
	deciding := migrate.Decision{Step: AwaitUpdates, Waits: "OLM to update to a later version; it gets 20 seconds"}
	for name, test := range map[string]struct {
		keep     bool // nothing is installed
		head     bool // the channel has no version after the target
		asks     bool
		restored time.Duration // how long ago
		chosen   string        // by OLM
		refersTo *v1alpha1.InstallPlan
		missing  bool
		stalled  bool
		want     migrate.Decision
	}{
		"the target is the head":                   {head: true, chosen: target, refersTo: installPlan(target, true)},
		"OLM has not decided":                      {chosen: target, refersTo: installPlan(target, true), want: deciding},
		"OLM has had the time to decide":           {chosen: target, refersTo: installPlan(target, true), restored: resolverDelay},
		"the clock was ahead":                      {chosen: target, refersTo: installPlan(target, true), restored: -time.Minute},
		"OLM updates":                              {chosen: later, refersTo: installPlan(later, true)},
		"OLM asks for approval":                    {chosen: later, refersTo: installPlan(later, false), restored: time.Hour, want: migrate.Decision{Step: DiscardInstallPlan}},
		"OLM asks, of a version nobody knew of":    {head: true, chosen: later, refersTo: installPlan(later, false), want: migrate.Decision{Step: DiscardInstallPlan}},
		"OLM asks, as somebody wants it to":        {asks: true, chosen: later, refersTo: installPlan(later, false)},
		"OLM asks, of a switch without an install": {keep: true, chosen: later, refersTo: installPlan(later, false)},
		"OLM has not noticed that it is deleted": {chosen: later, missing: true,
			want: migrate.Decision{Step: AwaitUpdates, Waits: "OLM to notice that InstallPlan install-gone is gone"}},
		"OLM does not notice in time":          {chosen: later, missing: true, restored: time.Hour, want: migrate.Decision{Step: ResolveAgain}},
		"OLM will not notice that":             {chosen: later, missing: true, stalled: true, want: migrate.Decision{Step: ResetStatus}},
		"OLM has noticed, and has not decided": {want: deciding},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid(Update)
			if test.keep {
				p = valid(Keep)
			}
			if !test.head {
				p.outcome().Then = []prediction.Update{{Name: later}}
			}
			s := &state{now: now, plan: p, subscription: subscribed(p, p.Target), asks: test.asks, current: test.refersTo, missing: test.missing, stalled: test.stalled,
				journal: &migrate.Journal{Entries: []migrate.Entry{{At: now.Add(-test.restored), Step: RestoreApproval}, {At: now.Add(-test.restored), Step: DiscardInstallPlan}}}}
			s.subscription.Status.CurrentCSV = test.chosen
			if test.missing {
				s.subscription.Status.InstallPlanRef = &corev1.ObjectReference{Name: "install-gone"}
			}
			if got, err := s.resumeUpdates(); err != nil || got != test.want {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}
