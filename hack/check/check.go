// Package check runs the checks of the files that git knows: each is a command below hack.
package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// Main runs a command. It prints each place that the check finds, and then fails.
func Main(command string, check func() (found []string, err error)) {
	found, err := check()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command, err)
		os.Exit(1)
	}
	for _, line := range found {
		fmt.Fprintln(os.Stderr, line)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// EachFile calls do with each file that git knows or would add. With patterns, it calls do only with matching files.
func EachFile(do func(file string, content []byte) error, patterns ...string) error {
	out, err := exec.Command("git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard"}, patterns...)...).Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return err
		}
		if err := do(file, content); err != nil {
			return err
		}
	}
	return nil
}
