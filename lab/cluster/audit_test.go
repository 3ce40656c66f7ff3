package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// logLine returns a line of the audit log.
func logLine(id, user, stage string, received time.Time) string {
	return fmt.Sprintf(`{"stage":%q,"auditID":%q,"verb":"watch","user":{"username":%q},"userAgent":"a\u003cb/v1","requestReceivedTimestamp":%q}`+"\n",
		stage, id, user, received.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// TestAuditReader: a test gets each request since it took the cluster once, and no line of the log is read twice.
func TestAuditReader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	write := func(flag int, text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
		require.NoError(t, err)
		defer file.Close()
		_, err = file.WriteString(text)
		require.NoError(t, err)
	}
	logged := func(text string) { t.Helper(); write(os.O_APPEND, text) }
	before := time.Now().Add(-time.Hour)
	half := logLine("half", "a", "ResponseComplete", before)
	logged(logLine("early", "a", "ResponseComplete", before) + half[:40])
	whole := newAuditTrail(path)
	part, err := whole.fromNow()
	require.NoError(t, err)
	reads := func(when string, trail *auditTrail, requests Requests, want ...string) {
		t.Helper()
		events, err := trail.read(requests)
		require.NoError(t, err, when)
		var got []string
		for _, event := range events {
			got = append(got, event.ID)
		}
		assert.Equal(t, strings.Join(want, " "), strings.Join(got, " "), when)
	}
	all, ofA := Requests{}, Requests{User: "a"}
	reads("while a line is written", whole, all, "early")
	reads("while a line is written, from its middle on", part, all)
	logged(half[40:])
	reads("when the line is complete", whole, all, "early", "half")
	reads("when the line that began before is complete", part, all)

	// The reader must not need lines that it has already read.
	write(0, strings.Repeat("x", 60))
	now := time.Now().Add(time.Second)
	logged(logLine("1", "a", "ResponseStarted", now) + logLine("2", "ab", "ResponseComplete", now) + logLine("late", "a", "ResponseComplete", before))
	reads("with new lines", whole, all, "early", "half", "1", "2", "late")
	reads("without what was received before", part, all, "1", "2")
	reads("of one user", part, ofA, "1")
	reads("of one agent", part, Requests{Agent: "a<b/"}, "1", "2")
	reads("of another agent", part, Requests{Agent: "b"})
	logged(logLine("3", "a", "ResponseComplete", now) + logLine("1", "a", "ResponseComplete", now.Add(time.Minute)))
	reads("when the watch has ended", part, ofA, "1", "3")
	if events, err := part.read(all); err != nil || len(events) != 3 {
		t.Errorf("there are %d requests, want 3 (%v)", len(events), err)
	}
	assert.Empty(t, part.readers[all].running, "the reader still expects the end of")
	logged("no JSON, " + logLine("4", "a", "ResponseComplete", now))
	_, err = part.read(all)
	assert.ErrorContains(t, err, "at byte ", "a line that is no JSON")
}
