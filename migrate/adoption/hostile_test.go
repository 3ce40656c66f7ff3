package adoption

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/hostile"
	"github.com/berth-csi/berth/test/hostile/screen"
)

// TestHostileFields puts hostile texts into each field of the cluster that a hand-over and its clean-up read, and of the journal, and looks
// at all that they show.
func TestHostileFields(t *testing.T) {
	for _, text := range hostile.Texts() {
		in := healthy()
		fields := hostile.Each(in, text, func(path string) { screen.Check(t, "plan with a hostile "+path, in.plan()) }, drivers.Driver{}, drivers.CustomResource{})
		m := remaining()
		fields += hostile.Each(m, text, func(path string) {
			c := m.cleanup()
			screen.Check(t, "clean-up with a hostile "+path, c)
			if _, err := c.next(c); err != nil {
				screen.CheckError(t, "clean-up with a hostile "+path, err)
			}
		}, drivers.Driver{}, drivers.CustomResource{}, drivers.Leftover{}, migrate.Journal{})
		for name, from := range map[string]func() *state{"begun": begun, "unsubscribed": unsubscribed, "deleted": deleted, "quiet": quiet, "ended": ended, "started": started, "handed over": handedOver} {
			s := from()
			fields += hostile.Each(s, text, func(path string) {
				for way, decide := range map[string]func() (migrate.Decision, error){"next": s.Next, "back": s.Back,
					"verify": func() (migrate.Decision, error) { return migrate.Decision{}, s.Verify() }, "holds": func() (migrate.Decision, error) { _, err := s.Holds(); return migrate.Decision{}, err }} {
					next, err := decide()
					what := fmt.Sprintf("%s, %s, with a hostile %s", name, way, path)
					status := &migrate.Status[*Plan]{Phase: migrate.Applying, Plan: valid(), Next: next.Step, Waits: next.Waits}
					if err != nil {
						status.Stuck = err.Error()
						screen.CheckError(t, what, err)
					}
					screen.Check(t, what, status)
				}
			}, Plan{}, migrate.Journal{}, drivers.Driver{})
		}
		if fields < 150 {
			t.Errorf("there are %d fields, want more than 150", fields)
		}
		p := valid()
		hostile.Each(p, text, func(path string) {
			written, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			read, err := Adopt.Read(bytes.NewReader(written))
			if err != nil { // no such journal is read, and a warning says so
				screen.CheckError(t, "the error for a hostile "+path, err)
				return
			}
			screen.Check(t, "journal with a hostile "+path, read)
			screen.CheckCommand(t, "the command for a journal with a hostile "+path, "berth adopt apply"+read.Arguments("apply"))
		})
	}
}
