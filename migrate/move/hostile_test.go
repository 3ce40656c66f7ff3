package move

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/hostile"
	"github.com/berth-csi/berth/test/hostile/screen"
)

// TestHostileFields puts hostile texts into each field of the cluster that a move reads, and of its journal, and looks at all that it shows:
// plans, statuses, what it waits for, and errors.
func TestHostileFields(t *testing.T) {
	for _, text := range hostile.Texts() {
		fields := 0
		in := healthy()
		fields += hostile.Each(in, text, func(path string) { screen.Check(t, "plan with a hostile "+path, in.plan()) }, Request{})
		way := moved()
		fields += hostile.Each(way, text, func(path string) { screen.Check(t, "plan of the way back with a hostile "+path, way.plan()) }, Request{})
		for name, from := range map[string]func() *state{"begun": begun, "ending": func() *state { return ending(moveFinalizer, "x") }, "arrived": arrived, "returning": returning,
			"leaving": func() *state { return leaving(moveFinalizer, "x") }, "free": free, "subscribed": subscribed, "returned": returned} {
			s := from()
			fields += hostile.Each(s, text, func(path string) {
				screen.CheckDecisions(t, name+" with a hostile "+path, healthy().plan(), s)
			}, Plan{}, migrate.Journal{})
		}
		assert.GreaterOrEqual(t, fields, 150, "fields with hostile texts")
		for _, p := range []*Plan{healthy().plan(), returning().plan} {
			hostile.Each(p, text, func(path string) {
				read, err := Move.Read(strings.NewReader(encoded(p)))
				if err != nil { // no such journal is read, and a warning says so
					screen.CheckError(t, "the error for a hostile "+path, err)
					return
				}
				screen.Check(t, "journal with a hostile "+path, &migrate.Status[*Plan]{Phase: migrate.Applying, Plan: read})
				screen.Check(t, "journal with a hostile "+path, read)
				screen.CheckCommand(t, "the command for a journal with a hostile "+path, "berth move apply"+read.Arguments("apply"))
			})
		}
	}
}
