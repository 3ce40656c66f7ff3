package programs

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryToolIsKnown: the folders with pins have the programs of the table and no others.
func TestEveryToolIsKnown(t *testing.T) {
	for _, folder := range []string{pinned, ofOLM} {
		content, err := os.ReadFile(filepath.Join("..", "..", folder, "go.mod"))
		require.NoError(t, err)
		_, block, _ := strings.Cut(string(content), "\ntool (\n")
		block, _, found := strings.Cut(block, "\n)")
		require.Truef(t, found, "%s/go.mod has no block of tools", folder)
		tools := strings.Fields(block)
		var known []string
		for _, from := range origins {
			if from.module != "" && from.folder() == folder {
				known = append(known, path.Join(from.module, from.pkg))
			}
		}
		slices.Sort(tools)
		slices.Sort(known)
		assert.Equalf(t, known, tools, "%s/go.mod pins other tools than the table has", folder)
	}
}

func TestUnknownProgram(t *testing.T) {
	_, err := Path(t.Context(), nil, "csi-provisoner")
	if err == nil || !strings.Contains(err.Error(), `"csi-provisoner"`) || !strings.Contains(err.Error(), "csi-provisioner,") {
		t.Errorf("got %v, want an error that names it and what there is", err)
	}
}

// TestGiven: the programs in the folder that PROGRAMS names are used, and its problems are errors.
func TestGiven(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(executable)
	require.NoError(t, err)
	folder := func(files map[string]os.FileMode) string {
		folder := t.TempDir()
		for name, mode := range files {
			content := program
			if mode&0o001 != 0 { // a script
				content = []byte("#!/bin/sh\n")
			}
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, mode))
		}
		return folder
	}
	const none = "/nowhere/at/all"
	for name, test := range map[string]struct {
		folder, wants string
		given         bool
		err           string
	}{
		"nothing":               {wants: "livenessprobe"},
		"a program":             {folder: folder(map[string]os.FileMode{"livenessprobe": 0o700}), wants: "livenessprobe", given: true},
		"another program":       {folder: folder(map[string]os.FileMode{"livenessprobe": 0o700}), wants: "nfsplugin"},
		"one that others have":  {folder: folder(map[string]os.FileMode{"livenessprobe": 0o700, "csi-attacher": 0o700}), wants: "csi-attacher"},
		"no folder":             {folder: none, wants: "livenessprobe", err: "PROGRAMS: stat " + none},
		"a file":                {folder: executable, wants: "livenessprobe", err: "is no folder"},
		"no known name":         {folder: folder(map[string]os.FileMode{"livenesprobe": 0o700}), wants: "livenessprobe", err: "has no program to use; want one or more of aws-efs-csi-driver-v2.1.11, "},
		"not executable":        {folder: folder(map[string]os.FileMode{"livenessprobe": 0o600}), wants: "livenessprobe", err: "livenessprobe is not executable: its mode is -rw-------"},
		"not executable, other": {folder: folder(map[string]os.FileMode{"livenessprobe": 0o700, "nfsplugin": 0o600}), wants: "livenessprobe", err: "nfsplugin is not executable"},
		"a script":              {folder: folder(map[string]os.FileMode{"livenessprobe": 0o701}), wants: "livenessprobe", err: "livenessprobe is no program for Linux"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(GivenVariable, test.folder)
			got, err := Given(test.wants)
			if test.err != "" {
				require.ErrorContains(t, err, test.err, "got error")
				return
			}
			want := ""
			if test.given {
				want = filepath.Join(test.folder, test.wants)
			}
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

// TestFolderOfTheClone: a relative path begins at the root of the clone, not where a test runs.
func TestFolderOfTheClone(t *testing.T) {
	t.Setenv(EFSUtilsVariable, "lab")
	here, err := os.Getwd()
	require.NoError(t, err)
	if got, err := Folder(EFSUtilsVariable); err != nil || got != filepath.Dir(here) {
		t.Errorf("got %q, %v; want %q", got, err, filepath.Dir(here))
	}
}
