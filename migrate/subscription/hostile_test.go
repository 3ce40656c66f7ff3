package subscription

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			require.NoError(t, err)
			for i, s := range states(j) {
				fields += hostile.Each(s, words, func(path string) {
					screen.CheckDecisions(t, fmt.Sprintf("%s, state %d with a hostile %s", strategy, i, path), p, s)
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
		assert.GreaterOrEqual(t, fields, 300, "fields with hostile texts")
	}
}
