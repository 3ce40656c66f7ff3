// Package screen judges how migrations show the texts that they have read.
package screen

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/hostile"
)

// lineLimit is the maximum number of bytes of a line on a screen: package escape limits characters, and writes some as several.
const lineLimit = 20 << 10

// Check fails a test unless each form in which a plan or a status is shown is harmless.
func Check(t testing.TB, what string, r migrate.Report) {
	t.Helper()
	for _, format := range migrate.Formats {
		var shown bytes.Buffer
		require.NoError(t, migrate.Write(&shown, format, r, findings.Plain))
		limit := lineLimit
		if format == "json" {
			limit = 8 << 20 // it is data for a program
		}
		hostile.Check(t, what+", as "+format, shown.String(), limit)
	}
}

// CheckDecisions is Check for the status of a migration with each decision that its state leads to, or with the error instead.
func CheckDecisions[P migrate.Plan](t testing.TB, what string, plan P, s migrate.State) {
	t.Helper()
	for way, decide := range map[string]func() (migrate.Decision, error){
		"next":   s.Next,
		"back":   s.Back,
		"verify": func() (migrate.Decision, error) { return migrate.Decision{}, s.Verify() },
		"holds":  func() (migrate.Decision, error) { _, err := s.Holds(); return migrate.Decision{}, err },
	} {
		next, err := decide()
		status := &migrate.Status[P]{Phase: migrate.Applying, Journal: "kube-system/journal", Plan: plan, Next: next.Step, Waits: next.Waits}
		if err != nil {
			status.Stuck = err.Error()
			CheckError(t, what+", "+way, err)
		}
		Check(t, what+", "+way, status)
	}
}

// CheckError is Check for an error, which the command writes as one line.
func CheckError(t testing.TB, what string, err error) {
	t.Helper()
	hostile.Check(t, what, escape.Line(err.Error()), lineLimit)
}

// CheckCommand is Check for a command.
func CheckCommand(t testing.TB, what, command string) {
	t.Helper()
	hostile.Check(t, what, command, lineLimit)
}
