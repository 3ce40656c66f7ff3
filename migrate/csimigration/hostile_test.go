package csimigration

import (
	"fmt"
	"testing"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/hostile"
	"github.com/berth-csi/berth/test/hostile/screen"
)

// TestHostileFields puts hostile texts into each field of the cluster that a switch of CSI migration reads, and looks at all that it shows.
func TestHostileFields(t *testing.T) {
	for _, text := range hostile.Texts() {
		fields := 0
		for _, direction := range []Direction{Enable, Disable} {
			for name, change := range map[string]func(*observed){"off": func(*observed) {}, "in use": (*observed).attach, "the control plane is on": (*observed).controlPlaneOn,
				"on": func(o *observed) { o.controlPlaneOn(); o.nodesOn() }, "unavailable": func(o *observed) { o.drivers["ebs"] = driverState{true, "it says no"} },
				"moving": func(o *observed) {
					o.nodes[3].state, o.nodes[3].reason, o.nodes[3].desired = "Degraded", "it says no", "next"
				}} {
				o := newObserved("4.20.0")
				change(o)
				p := o.plan(Request{Direction: direction})
				s := &state{observed: o, plan: p, journal: &migrate.Journal{}}
				fields += hostile.Each(o, text, func(path string) {
					what := fmt.Sprintf("%s, %s, with a hostile %s", name, direction, path)
					screen.Check(t, what, o.plan(Request{Direction: direction}))
					status := &migrate.Status[*Plan]{Phase: migrate.Applying, Plan: p}
					next, err := s.Next()
					if status.Next, status.Waits = next.Step, next.Waits; err != nil {
						status.Stuck = err.Error()
						screen.CheckError(t, what, err)
					}
					screen.Check(t, what, status)
					for _, d := range plugins() {
						for _, standing := range o.standings(d) {
							hostile.Check(t, what+", in a standing", standing.String(), 1<<20)
						}
					}
				}, staticPod{})
			}
		}
		if fields < 300 {
			t.Errorf("there are %d fields, want more than 300", fields)
		}
	}
}
