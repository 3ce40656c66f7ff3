package subscription_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/fault"
)

// sweepers is how many runs go on at the same time. Most of their time they wait for OLM.
const sweepers = 6

// episodes are what the tool is disturbed in.
var episodes = []struct {
	name  string
	known string // the catalog to switch to
	// begin is what is done before, undisturbed.
	begin func(*place)
	do    func(*place) tool
	end   end
}{
	{
		name: "update", known: second,
		do: func(p *place) tool { return p.apply(p.to(second), migrate.Options{}) },
		end: end{source: second, pkg: "buoy", channel: "stable", installed: "buoy.v1.1.0",
			versions: succeeded("buoy.v1.1.0"), state: "Completed"},
	},
	{
		name: "replace", known: renamed,
		do: func(p *place) tool { return p.apply(p.to(renamed), migrate.Options{}) },
		end: end{source: renamed, pkg: "beacon", channel: "stable", installed: "beacon.v2.0.0",
			versions: succeeded("beacon.v2.0.0"), state: "Completed"},
	},
	{
		name: "rollback", known: second, begin: turned,
		do: func(p *place) tool { return p.rollback },
		end: end{source: first, pkg: "buoy", channel: "stable", installed: "buoy.v1.0.0",
			versions: succeeded("buoy.v1.0.0"), state: "RolledBack"},
	},
}

func succeeded(name string) map[string]v1alpha1.ClusterServiceVersionPhase {
	return map[string]v1alpha1.ClusterServiceVersionPhase{name: v1alpha1.CSVPhaseSucceeded}
}

// turned brings a switch to where OLM has made an InstallPlan that nobody has approved.
func turned(p *place) {
	p.t.Helper()
	p.applyUntil(subscription.Approve, p.to(second))
	cluster.Eventually(p.t, limit, "OLM to ask for approval", func(ctx context.Context) error {
		e, err := p.end(ctx)
		if err == nil && !slices.Equal(e.pending, []string{"buoy.v1.1.0"}) {
			err = fmt.Errorf("%q are to be approved", e.pending)
		}
		return err
	})
}

// TestCrashSweep kills the tool at each of its writes, before it and after it, and then disturbs single writes, in
// each way that there is. Where a fault kills it, somebody runs it again. Whatever the fault, the end must be the
// same, the tool must have made and deleted the same, and another run must write nothing.
func TestCrashSweep(t *testing.T) {
	s := newSite(t)
	var plans []fault.Plan
	for _, e := range episodes {
		play := func(t *testing.T, injector *fault.Injector) (*place, []fault.Write) {
			t.Helper()
			p := s.settle(t, "", e.known)
			if e.begin != nil {
				e.begin(p)
			}
			p.run(func(ctx context.Context, config *rest.Config) error { return injector.Run(ctx, config, e.do(p)) })
			cluster.Eventually(t, limit, "the end", func(ctx context.Context) error {
				got, err := p.end(ctx)
				if diff := cmp.Diff(e.end, got, cmp.AllowUnexported(end{})); err == nil && diff != "" {
					err = fmt.Errorf("it is another one (-want +got):\n%s", diff)
				}
				return err
			})
			p.mustWriteNothing(e.do(p))
			return p, injector.Writes()
		}
		undisturbed, reference := play(t, fault.Record())
		t.Run(e.name+"/killed at each write", func(t *testing.T) { play(t, fault.KillAtEach()) })
		var points []fault.Point
		for _, w := range reference {
			if w.Code < http.StatusBadRequest && w.Point.Resource != correction { // others come of what OLM does meanwhile, now and then
				points = append(points, w.Point)
			}
		}
		// OLM's own limit of requests is what takes time; and all writes have been disturbed already.
		plans = append(plans, fault.Plan{Name: e.name, Points: points, Sample: 4, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
			injector := fault.InjectNth(slices.Index(points, at)+1, f)
			disturbed, writes := play(t, injector)
			if diff := cmp.Diff(undisturbed.tally(reference), disturbed.tally(writes)); diff != "" {
				t.Errorf("what was made and deleted (-undisturbed +disturbed):\n%s", diff)
			}
			return injector.Came()
		}})
	}
	for i, tally := range fault.Sweep(t, sweepers, plans...) {
		if len(tally.Missed) > 0 {
			t.Errorf("%s: %s", plans[i].Name, tally)
		}
	}
}

// correction is what the tool writes only in those runs in which OLM has left the Subscription waiting for an InstallPlan
// that is gone: step unblock. It makes and deletes nothing.
const correction = "subscriptions/status"

// tally counts what was made and deleted, by kinds: some names are OLM's choice. What had to be done once more counts
// once, if the API server has seen OLM make again what was removed.
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
	for resource, again := range p.madeAgain() {
		if count := counts[resource]; count.Deleted > 1 && again > 0 {
			count.Deleted -= min(count.Deleted-1, again)
			counts[resource] = count
		}
	}
	return counts
}

// madeAgain returns how often OLM has made again what the tool has to delete: the first ClusterServiceVersion besides
// the first time, and InstallPlans besides those for the first one and for the target.
func (p *place) madeAgain() map[string]int {
	p.t.Helper()
	again := map[string]int{"clusterserviceversions": -1, "installplans": -2}
	for _, event := range p.Audit(p.t) {
		if event.Namespace == p.namespace && event.Verb == "create" && event.Code == http.StatusCreated && strings.HasPrefix(event.Agent, "catalog/") &&
			(event.Resource != "clusterserviceversions" || event.Name == "buoy.v1.0.0") {
			again[event.Resource]++
		}
	}
	return again
}

// mustWriteNothing runs a tool once more.
func (p *place) mustWriteNothing(t tool) {
	p.t.Helper()
	recorder := fault.Record()
	p.run(func(ctx context.Context, config *rest.Config) error { return recorder.Run(ctx, config, t) })
	if writes := recorder.Writes(); len(writes) > 0 {
		p.t.Errorf("another run wrote %+v", writes)
	}
}
