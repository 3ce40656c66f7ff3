package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestLinksSayWhereTheyLead: a folder that is checked, or one above it, is a link.
func TestLinksSayWhereTheyLead(t *testing.T) {
	elsewhere := t.TempDir()
	t.Chdir(t.TempDir())
	for _, folder := range []string{"plain", filepath.Join(elsewhere, "catalog")} {
		require.NoError(t, os.Mkdir(folder, 0o755))
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	for link, to := range map[string]string{"catalog": "plain", "above": elsewhere} {
		require.NoError(t, os.Symlink(to, link))
	}
	for folder, want := range map[string]string{
		"plain": "", "./plain": "", "none": "", "quay.io/catalog:latest": "", filepath.Join(here, "plain"): "",
		"catalog": "leads to plain", "above/catalog": "leads to " + elsewhere, filepath.Join(here, "catalog"): "plain",
	} {
		cmd, out := &cobra.Command{}, &bytes.Buffer{}
		cmd.SetErr(out)
		sayLinks(cmd, folder)
		if (want == "") != (out.Len() == 0) || !strings.Contains(out.String(), want) {
			t.Errorf("of %s it says %q, want %q", folder, out, want)
		}
	}
}
