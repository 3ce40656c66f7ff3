package findings_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
)

// TestWriteTerminal: advice is on its own line, and no line is longer than the terminal is wide.
func TestWriteTerminal(t *testing.T) {
	report := findings.Report{Findings: []*findings.Finding{
		{File: "catalog.yaml", Line: 3, Severity: findings.Error, Rule: "channel-head", Message: `channel "stable" has 2 heads, tide.v1, tide.v2; expected one entry that no other replaces or skips: add tide.v1 to the skips of tide.v2`},
		{File: "cat\x1balog.yaml", Severity: findings.Warning, Rule: "odd", Message: "it is odd\n"},
	}}
	for colour, want := range map[bool]string{false: `catalog.yaml:3
  error: channel "stable" has 2 heads, tide.v1,
         tide.v2 (channel-head)
  do: expected one entry that no other replaces or
      skips: add tide.v1 to the skips of tide.v2
cat\x1balog.yaml
  warning: it is odd\n (odd)
`, true: "catalog.yaml:3\n  \x1b[31merror\x1b[0m: channel"} {
		var text strings.Builder
		require.NoError(t, report.WriteTerminal(&text, 52, colour))
		got := text.String()
		if colour {
			got = got[:len(want)]
		}
		assert.Emptyf(t, cmp.Diff(want, got), "colour %t: -want +got", colour)
	}
}
