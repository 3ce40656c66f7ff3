package adoption

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
				screen.CheckDecisions(t, name+" with a hostile "+path, valid(), s)
			}, Plan{}, migrate.Journal{}, drivers.Driver{})
		}
		assert.GreaterOrEqual(t, fields, 150, "fields with hostile texts")
		p := valid()
		hostile.Each(p, text, func(path string) {
			written, err := json.Marshal(p)
			require.NoError(t, err)
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
