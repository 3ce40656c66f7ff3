package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var jobCommand = regexp.MustCompile(`(?m)^\s*berth ([^>\n]*)`)

// TestJobsCommands: the commands in the jobs of certifications exist, with these flags and arguments.
func TestJobsCommands(t *testing.T) {
	jobs, err := filepath.Glob("../../deploy/certification/manifests/*/job.sh")
	require.NoError(t, err)
	found := 0
	for _, job := range jobs {
		script, err := os.ReadFile(job)
		require.NoError(t, err)
		for _, match := range jobCommand.FindAllStringSubmatch(string(script), -1) {
			found++
			cmd, args, err := newCommand().Find(strings.Fields(match[1]))
			if err != nil {
				t.Errorf("%s: berth %s: %v", job, match[1], err)
				continue
			}
			if err := errors.Join(cmd.ParseFlags(args), cmd.ValidateRequiredFlags()); err != nil {
				t.Errorf("%s: berth %s: %v", job, match[1], err)
				continue
			}
			if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil || isGroup(cmd) {
				t.Errorf("%s: berth %s: it is no command with these arguments (%v)", job, match[1], err)
			}
		}
	}
	assert.NotZerof(t, found, "the jobs %q have no command of berth", jobs)
}
