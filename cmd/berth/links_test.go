package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestLinksSayWhereTheyLead: a folder that is checked, or one above it, is a link.
func TestLinksSayWhereTheyLead(t *testing.T) {
	elsewhere := t.TempDir()
	t.Chdir(t.TempDir())
	for _, folder := range []string{"plain", filepath.Join(elsewhere, "catalog")} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"catalog": "plain", "above": elsewhere} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
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
