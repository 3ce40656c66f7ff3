package subscription

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/hostile"
	"github.com/berth-csi/berth/test/hostile/screen"
)

// TestHostileFields puts hostile texts into each field of the cluster that the next step of a switch is decided from, and of its plan and
// journal, and looks at all that it shows.
func TestHostileFields(t *testing.T) {
	for _, words := range hostile.Texts() {
		fields := 0
		for _, strategy := range []Strategy{Update, Keep, Replace} {
			p := valid(strategy)
			j, err := Switch.ParseJournal(stored(journalName, text(t, p), "Applying", "2026-11-22T00:00:00Z record-plan\n", "", ""))
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range states(j) {
				fields += hostile.Each(s, words, func(path string) {
					for way, decide := range map[string]func() (migrate.Decision, error){"next": s.Next, "back": s.Back,
						"verify": func() (migrate.Decision, error) { return migrate.Decision{}, s.Verify() }, "holds": func() (migrate.Decision, error) { _, err := s.Holds(); return migrate.Decision{}, err }} {
						next, err := decide()
						what := fmt.Sprintf("%s, state %d, %s, with a hostile %s", strategy, i, way, path)
						status := &migrate.Status[*Plan]{Phase: migrate.Applying, Plan: p, Next: next.Step, Waits: next.Waits}
						if err != nil {
							status.Stuck = err.Error()
							screen.CheckError(t, what, err)
						}
						screen.Check(t, what, status)
					}
				}, Plan{}, migrate.Journal{})
			}
			hostile.Each(p, words, func(path string) {
				read, err := Switch.Read(strings.NewReader(text(t, p)))
				if err != nil { // no such journal is read, and a warning says so
					screen.CheckError(t, "the error for a hostile "+path, err)
					return
				}
				screen.Check(t, "journal with a hostile "+path, read)
				screen.CheckCommand(t, "the command for a journal with a hostile "+path, "berth switch apply"+read.Arguments("apply"))
			})
		}
		if fields < 300 {
			t.Errorf("there are %d fields, want more than 300", fields)
		}
	}
}
