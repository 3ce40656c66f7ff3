package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// recordsFolder has a file for each claim that was proved, relative to the module root.
const recordsFolder = "test/prove/proofs"

// record is the result of a run that proves a claim.
type record struct {
	Claim    string `json:"claim"`
	Sentence string `json:"sentence"`
	// Tests are the arguments of the go command that ran them.
	Tests []string `json:"tests"`
	// Date is the date of the run, as in 2026-11-29, and Commit the tested commit.
	Date   string `json:"date"`
	Commit string `json:"commit"`
	// Machine is where, and Go the version of the toolchain.
	Machine string `json:"machine"`
	Go      string `json:"go"`
	// Real are the versions of programs that ran as they are, and Played says what played others.
	Real   map[string]string `json:"real,omitempty"`
	Played string            `json:"played,omitempty"`
	// Passed is the number of tests, none for benchmarks.
	Passed  int                `json:"passed"`
	Seconds float64            `json:"seconds"`
	Figures map[string]float64 `json:"figures,omitempty"`
	// Log is the digest of all that the tests printed, which the run leaves in bin/proofs.
	Log string `json:"log"`
}

var digest = regexp.MustCompile("^sha256:[0-9a-f]{64}$")

// readRecords returns the records in a folder, by claim.
func readRecords(folder string) (map[string]record, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]record{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r record
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); r.Claim != name {
			return nil, fmt.Errorf("%s is a record of claim %q, want %q", file, r.Claim, name)
		}
		if !digest.MatchString(r.Log) {
			return nil, fmt.Errorf("%s: the digest of the log is %q, want sha256: and 64 hexadecimal digits", file, r.Log)
		}
		all[r.Claim] = r
	}
	return all, nil
}

func (r record) write(folder string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, r.Claim+".json"), append(content, '\n'), 0o644)
}

// The pages whose tables show records, below the clone.
const (
	versionsPage = "docs/start/compatibility.md"
	recordsPage  = "docs/reference/proofs.md"
)

// mayRecord returns why a run would be no record: nobody else could repeat it. Earlier records need not be committed.
func mayRecord(ctx context.Context, root string) error {
	if os.Getenv("IMAGES") != "" {
		return errors.New("a record is of what a clone has; unset IMAGES")
	}
	changed, err := exec.CommandContext(ctx, "git", "-C", root, "status", "--porcelain", "--", ".", ":!"+recordsFolder, ":!"+versionsPage, ":!"+recordsPage).Output()
	if err != nil {
		return fmt.Errorf("a record names a commit, so it needs a Git clone: %w", err)
	}
	if len(changed) > 0 {
		return fmt.Errorf("a record names a commit; commit these first:\n%s", strings.TrimSuffix(string(changed), "\n"))
	}
	return nil
}

// describe adds the time, the place and the subject of the record.
func (r *record) describe(ctx context.Context, root string, c claim) (err error) {
	commit, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("find the commit: %w", err)
	}
	r.Commit, r.Date = strings.TrimSpace(string(commit)), time.Now().UTC().Format(time.DateOnly)
	r.Machine, r.Go, r.Played = machine(), strings.TrimPrefix(runtime.Version(), "go"), c.played
	r.Real, err = c.versions()
	return err
}

// machine describes this machine. What it does not say of itself is left out.
func machine() string {
	processors := fmt.Sprintf("%d processors", runtime.NumCPU())
	if model := line("/proc/cpuinfo", `(?m)^model name\s*: (.*)$`); model != "" {
		processors += " (" + model + ")"
	}
	all := []string{processors, line("/proc/meminfo", `(?m)^MemTotal: *(\d+)\d{6} kB$`) + " GB", line("/etc/os-release", `(?m)^PRETTY_NAME="(.*)"$`),
		"Linux " + line("/proc/sys/kernel/osrelease", `^(\d+\.\d+)`), runtime.GOARCH}
	if os.Geteuid() == 0 {
		all = append(all, "as root")
	}
	return strings.Join(slices.DeleteFunc(all, func(part string) bool { return strings.TrimSpace(part) == "" }), ", ")
}

// line returns the first group of an expression in a file, or nothing.
func line(file, expression string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	if match := regexp.MustCompile(expression).FindSubmatch(content); match != nil {
		return string(match[1])
	}
	return ""
}
