package main

import (
	"path/filepath"

	"github.com/spf13/cobra"
)

// sayLinks warns about folders that are links or are in a linked folder, and prints their targets: a checkout may have a link in place of
// the folder to check. In an absolute path, only the last element counts.
func sayLinks(cmd *cobra.Command, folders ...string) {
	for _, folder := range folders {
		path := filepath.Clean(folder)
		if filepath.IsAbs(folder) {
			parent, _ := filepath.EvalSymlinks(filepath.Dir(path))
			path = filepath.Join(parent, filepath.Base(path))
		}
		if leads, err := filepath.EvalSymlinks(path); err == nil && leads != path {
			cmd.PrintErrf("warning: %s is a link, and leads to %s\n", folder, leads)
		}
	}
}
