package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
)

// records copies the records of all drivers to a folder, changed by edit.
func records(t *testing.T, edit func(record string) string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, d := range registry.Packaged() {
		name := d.Name
		record, err := os.ReadFile(filepath.Join("..", "..", "drivers", name, permissions.RecordName))
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name, permissions.RecordName), []byte(edit(string(record))), 0o644))
	}
	return folder
}

func TestTableAndPage(t *testing.T) {
	folder := records(t, func(record string) string { return record })
	var table bytes.Buffer
	require.NoError(t, run(&table, folder, ""))
	file := filepath.Join(folder, "page.md")
	require.NoError(t, run(&table, folder, file))
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, d := range registry.Packaged() {
		for name, text := range map[string]string{"table": table.String(), "page": string(page)} {
			for _, want := range []string{d.Operator.Name, "clustercsidrivers named " + d.CSIName, permissions.ListFallback["list"], "only to delegate it"} {
				assert.Containsf(t, text, want, "the %s", name)
			}
		}
	}
}

func TestWhatDoesNotFitTogether(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(string) string
		want string
	}{
		"never seen": {func(record string) string {
			return strings.ReplaceAll(record, "clustercsidrivers named", "others named")
		},
			"no end-to-end run has used \"cluster  operator.openshift.io/clustercsidrivers named"},
		"no record": {func(record string) string { return "cluster" }, "line 1"},
		"seen after all": {func(record string) string { return strings.ReplaceAll(record, ": watch", ": list watch") },
			permissions.ListFallback["list"]},
		"not allowed": {func(record string) string { return record + "cluster  core/secrets: get\n" },
			"has used \"cluster  core/secrets: get\", which is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := records(t, test.edit)
			page := filepath.Join(folder, "page.md")
			err := run(os.Stdout, folder, page)
			assert.ErrorContains(t, err, test.want)
			_, err = os.Stat(page)
			assert.Error(t, err, "it wrote a page in spite of the error")
		})
	}
}

func TestARecordIsMissing(t *testing.T) {
	err := run(os.Stdout, t.TempDir(), "")
	assert.ErrorContains(t, err, "-run TestPermissionsAreExact/"+registry.Packaged()[0].Name+" -update")
}
