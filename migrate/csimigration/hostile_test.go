package csimigration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

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
					screen.CheckDecisions(t, what, p, s)
					for _, d := range plugins() {
						for _, standing := range o.standings(d) {
							hostile.Check(t, what+", in a standing", standing.String(), 1<<20)
						}
					}
				}, staticPod{})
			}
		}
		assert.GreaterOrEqual(t, fields, 300, "fields with hostile texts")
	}
}
