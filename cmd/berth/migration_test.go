package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

type report string

func (r report) Text(findings.Palette) string { return string(r) }

// TestPrintReport: a report on standard error keeps its lines, though messages there are a line each.
func TestPrintReport(t *testing.T) {
	var out strings.Builder
	cmd := &cobra.Command{}
	cmd.SetErr(escape.Messages(&out))
	printReport(cmd, report("Driver x\n\n  from  OLM\n"))
	assert.Equal(t, "Driver x\n\n  from  OLM\n", out.String())
}
