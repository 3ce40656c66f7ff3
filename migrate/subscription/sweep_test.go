package subscription_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/test/migrations"
)

// sweepers is the number of concurrent runs in a cluster. They mostly wait for OLM.
const sweepers = 6

// episodes are the runs with injected faults.
var episodes = []struct {
	name  string
	known string // the catalog to switch to
	// begin is done before, without faults.
	begin func(*place)
	do    func(*place) migrations.Tool
	end   end
}{
	{
		name: "update", known: second,
		do: func(p *place) migrations.Tool { return p.apply(p.to(second), migrate.Options{}) },
		end: end{source: second, pkg: "buoy", channel: "stable", installed: "buoy.v1.1.0",
			versions: succeeded("buoy.v1.1.0"), state: "Completed"},
	},
	{
		name: "replace", known: renamed,
		do: func(p *place) migrations.Tool { return p.apply(p.to(renamed), migrate.Options{}) },
		end: end{source: renamed, pkg: "beacon", channel: "stable", installed: "beacon.v2.0.0",
			versions: succeeded("beacon.v2.0.0"), state: "Completed"},
	},
	{
		name: "rollback", known: second, begin: applyToApproval,
		do: func(p *place) migrations.Tool { return p.rollback },
		end: end{source: first, pkg: "buoy", channel: "stable", installed: "buoy.v1.0.0",
			versions: succeeded("buoy.v1.0.0"), state: "RolledBack"},
	},
}

func succeeded(name string) map[string]v1alpha1.ClusterServiceVersionPhase {
	return map[string]v1alpha1.ClusterServiceVersionPhase{name: v1alpha1.CSVPhaseSucceeded}
}

// applyToApproval applies until there is an InstallPlan for the target, which is not approved.
func applyToApproval(p *place) {
	p.t.Helper()
	p.applyUntil(subscription.Approve, p.to(second))
	cluster.Eventually(p.t, limit, "OLM to ask for approval", func(ctx context.Context) error {
		e, err := p.end(ctx)
		if err == nil && !slices.Equal(e.pending, []string{"buoy.v1.1.0"}) {
			err = fmt.Errorf("unapproved InstallPlans are for %q", e.pending)
		}
		if err != nil {
			return err
		}
		asks := &v1alpha1.Subscription{} // it refers to the InstallPlan some time after that exists
		if err := p.Client().Get(ctx, client.ObjectKeyFromObject(p.subscription), asks); err != nil {
			return err
		}
		if asks.Status.State != v1alpha1.SubscriptionStateUpgradePending {
			return fmt.Errorf("the Subscription is %s", asks.Status.State)
		}
		return nil
	})
}

// TestCrashSweep kills the tool before and after each of its writes, and then injects each kind of fault into single
// writes. A tool that is killed is run again. Whatever the fault, the end state must be the same, the same objects must
// have been created and deleted, and another run must write nothing.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	sites := []*site{newSite(t)}
	if fault.All() { // OLM limits its own requests, so that one is not enough for all faults in an hour
		sites = append(sites, newSiteIn(t, t.Name()+"2", "buoy", "beacon"))
	}
	var started atomic.Uint32
	var plans []fault.Scenario
	for _, e := range episodes {
		play := func(t *testing.T, injector *fault.Injector) (*place, []fault.Write) {
			t.Helper()
			p := sites[int(started.Add(1))%len(sites)].newPlace(t, "", e.known)
			if e.begin != nil {
				e.begin(p)
			}
			p.RunWith(injector, e.do(p))
			cluster.Eventually(t, limit, "the end", func(ctx context.Context) error {
				got, err := p.end(ctx)
				if diff := cmp.Diff(e.end, got, cmp.AllowUnexported(end{})); err == nil && diff != "" {
					err = fmt.Errorf("it differs (-want +got):\n%s", diff)
				}
				return err
			})
			p.MustWriteNothing(e.do(p))
			return p, injector.Writes()
		}
		undisturbed, reference := play(t, fault.Record())
		t.Run(e.name+"/killed at each write", func(t *testing.T) { play(t, fault.KillAtEach()) })
		points := pointsOf(reference)
		// OLM's rate limit makes each run slow, and the tool was killed at all writes already.
		plans = append(plans, fault.Scenario{Name: e.name, Points: points, Sample: 4, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
			injector := fault.InjectNth(slices.Index(points, at)+1, f)
			disturbed, writes := play(t, injector)
			assert.Empty(t, cmp.Diff(undisturbed.tally(reference), disturbed.tally(writes)), "what was created and deleted (-undisturbed +disturbed)")
			return injector.Came()
		}})
	}
	for i, tally := range fault.Sweep(t, sweepers*len(sites), plans...) {
		assert.Emptyf(t, tally.Missed, "%s: %s", plans[i].Name, tally)
	}
}

// pointsOf returns the writes that each run makes. Others depend on the timing of OLM: a write that was refused, and a correction with
// the write before it, which records that step in the journal.
func pointsOf(reference []fault.Write) (points []fault.Point) {
	corrected := false
	for _, w := range reference {
		switch {
		case w.Code >= http.StatusBadRequest:
		case w.Point.Resource == correction && !corrected:
			points, corrected = points[:len(points)-1], true
		case w.Point.Resource != correction:
			points = append(points, w.Point)
		}
	}
	return points
}

// correction is the write of step reset-status, which happens only if OLM has left the Subscription waiting for a
// deleted InstallPlan. It creates and deletes nothing.
const correction = "subscriptions/status"

// tally counts creations and deletions by resource, because OLM generates some names. A repeated deletion counts once
// if the audit log shows that OLM has recreated the object.
func (p *place) tally(writes []fault.Write) map[string]fault.Count {
	counts := map[string]fault.Count{}
	for _, w := range writes {
		if w.Point.Resource == correction {
			continue
		}
		count := counts[w.Point.Resource]
		if w.Created() {
			count.Created++
		}
		if w.Deleted() {
			count.Deleted++
		}
		counts[w.Point.Resource] = count
	}
	for resource, again := range p.recreatedByOLM() {
		if count := counts[resource]; count.Deleted > 1 && again > 0 {
			count.Deleted -= min(count.Deleted-1, again)
			counts[resource] = count
		}
	}
	return counts
}

// recreatedByOLM returns how often OLM has recreated objects that the tool has to delete. The first
// ClusterServiceVersion is expected once, and InstallPlans for it and for the target.
func (p *place) recreatedByOLM() map[string]int {
	p.t.Helper()
	again := map[string]int{"clusterserviceversions": -1, "installplans": -2}
	for _, event := range p.AuditOf(p.t, cluster.Requests{Agent: "catalog/"}) {
		if event.Namespace == p.namespace && event.Verb == "create" && event.Code == http.StatusCreated &&
			(event.Resource != "clusterserviceversions" || event.Name == "buoy.v1.0.0") {
			again[event.Resource]++
		}
	}
	return again
}
