package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/fix"
)

// fixFlag is the flag --fix of commands that check files.
type fixFlag struct{ mode string }

// The values of --fix.
const (
	fixDiff  = "diff"
	fixWrite = "write"
)

// aboutFix is part of the help of commands with the flag --fix.
const aboutFix = `--fix prints mechanical corrections as a diff for git apply, and changes nothing. --fix=write writes them, and prints
the remaining findings. The rest of each file stays as it is, including comments and order.`

func (f *fixFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "fix", "", "`MODE` print mechanical corrections as a diff, or, with --fix=write, write them")
	cmd.Flags().Lookup("fix").NoOptDefVal = fixDiff
	completeFlag(cmd, "fix", oneOf(fixDiff, fixWrite))
}

// check fails unless the flag has a valid value that can be combined with the format of the report.
func (f *fixFlag) check(format string) error {
	switch {
	case f.mode != "" && f.mode != fixDiff && f.mode != fixWrite:
		return fmt.Errorf("--fix is %q, want %s or %s", f.mode, fixDiff, fixWrite)
	case f.mode == fixDiff && format != findings.Text:
		return fmt.Errorf("--fix prints a diff instead of findings; omit -o %s, or add --fix=%s", format, fixWrite)
	}
	return nil
}

// checkFolder fails if --fix is set and the name is not a local file or folder.
func (f *fixFlag) checkFolder(name string) error {
	if _, err := os.Stat(name); f.mode != "" && err != nil {
		return fmt.Errorf("--fix corrects local files, and %s is neither a file nor a folder: %w", name, err)
	}
	return nil
}

// apply corrects findings in files below some folders, or shows the corrections. It returns the remaining findings, and whether a
// diff was shown instead of the report.
func (f *fixFlag) apply(cmd *cobra.Command, report findings.Report, dirs []string) (left findings.Report, shown bool, err error) {
	if f.mode == "" {
		return report, false, nil
	}
	files, err := fix.Of(report.Findings, boundedyaml.ReadFile)
	if err != nil {
		return report, false, fmt.Errorf("--fix: %w", err)
	}
	fixed, shownFiles := map[*findings.Finding]bool{}, 0
	for _, file := range files {
		if f.mode == fixDiff {
			diff, err := file.Diff()
			if err != nil {
				cmd.PrintErrf("cannot show a diff: %v; --fix=%s corrects the file\n", err, fixWrite)
				continue
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), diff); err != nil {
				return report, true, err
			}
			shownFiles++
		} else if err := file.Write(folderOf(file.Name, dirs)); err != nil {
			return report, false, fmt.Errorf("--fix: %w", err)
		}
		for _, found := range file.Fixed {
			fixed[found] = true
		}
	}
	total := len(report.Findings)
	if f.mode == fixDiff && len(fixed) == 0 {
		cmd.PrintErrf("none of %s can be corrected mechanically\n", count(total, "finding"))
		return report, true, nil
	}
	if f.mode == fixDiff {
		cmd.PrintErrf("%d of %s can be corrected in %s; --fix=%s writes that\n", len(fixed), count(total, "finding"), count(shownFiles, "file"), fixWrite)
		return report, true, nil
	}
	cmd.PrintErrf("corrected %d of %s in %s\n", len(fixed), count(total, "finding"), count(len(files), "file"))
	left = report
	left.Findings = slices.DeleteFunc(slices.Clone(report.Findings), func(found *findings.Finding) bool { return fixed[found] })
	return left, false, nil
}

// folderOf returns the folder that a file was checked in.
func folderOf(file string, dirs []string) string {
	for _, dir := range dirs {
		if below, err := filepath.Rel(dir, file); err == nil && below != "." && filepath.IsLocal(below) && !strings.HasPrefix(below, "..") {
			return dir
		}
	}
	return filepath.Dir(file)
}
