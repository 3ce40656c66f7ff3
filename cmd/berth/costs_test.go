package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/trials"
)

var allCosts = flag.Bool("all-costs", false, "give commands inputs ten times as large, with the whole of their budgets")

// input is a kind of hostile input: gen writes one of size n to a folder, and returns its argument on the command line.
type input struct {
	name string
	gen  func(t *testing.T, dir string, n int) string
	// n is its size, in its own unit.
	n int
}

// always are the inputs that commands are given without -all-costs.
var always = []string{"chain", "range", "duplicates", "owned", "index", "packages", "images", "channels", "reviewers", "apis", "beside", "rules", "brackets", "repeated"}

// budget is the cost that a command may have for the inputs of a row: seconds of processor time and MiB of memory.
type budget struct{ seconds, mebibytes float64 }

var (
	small = budget{8, 400}
	large = budget{40, 1500}
)

// costs are the inputs of each command. IN stands for the input, and OUT for a folder to write to.
var costs = map[string]struct {
	args   string
	inputs []input
}{
	"bundle validate":          {"IN", bundleInputs},
	"check":                    {"IN --profile community --profile certified", slices.Concat(inRepository(bundleInputs), repositoryInputs)},
	"bundle permissions":       {"IN", bundleInputs},
	"bundle image":             {"IN --layout OUT", bundleInputs},
	"bundle bump":              {"IN --output-dir OUT --image OPERATOR_IMAGE=quay.io/example/tide:v2", bundleInputs},
	"catalog build":            {"IN --output-dir OUT", slices.Concat(bundleInputs, templateInputs)},
	"catalog add":              {"IN none", slices.Concat(catalogInputs, templateInputs)}, // it reads all of the file before the bundle
	"catalog validate":         {"IN", withImages(catalogInputs)},
	"catalog render":           {"IN", withImages(catalogInputs)},
	"catalog convert-template": {"basic IN", withImages(catalogInputs)},
	"catalog list":             {"bundles IN", withImages(catalogInputs)},
	"catalog lifecycle":        {"IN", append(withImages(catalogInputs), input{"lifecycle", lifecycles, 20_000})},
	"catalog diff":             {"IN IN", withImages(catalogInputs)},
	"catalog graph":            {"IN -o html", append(withImages(catalogInputs), input{"packages", packages, 1000})},
	"catalog image":            {"IN --layout OUT", catalogInputs},
	"catalog plan":             {"IN tide", append(except("rules", catalogInputs), input{"pigeons", pigeons, 13})}, // OLM's resolver reads all rules, for at most 30 s
	"catalog mirror":           {"IN oci:OUT", append(slices.Clone(catalogInputs), input{"index", manyInIndex, 400_000})},
	"catalog serve":            {"IN --address 127.0.0.1:0", withImages(catalogInputs)}, // until it is ready; it takes no images, and must refuse them at once
}

// withFlags are other arguments of commands for the same inputs, except for those in withoutFlags, which fail before flags count.
var (
	withFlags = map[string][]string{
		"catalog validate": {"IN --against IN --for olm-v1"},
		"catalog diff":     {"IN IN --for olm-v1"},
		"catalog plan":     {"IN tide@1.0.0 --olm v1"},
		"catalog mirror":   {"IN oci:OUT --package tide@1.5.0", "IN oci:OUT --package tide@>=2.0.0 --package tide@1.0.0"},
	}
	withoutFlags = []string{"index", "unreachable", "pigeons"}
)

// without are the commands that read no input of strangers from files or registries, and why their costs are bounded.
var without = map[string]string{
	"bundle generate":        "it reads a definition of this repository",
	"version":                "it reads nothing",
	"help":                   "it reads nothing",
	"catalog rules":          "it reads nothing",
	"catalog unmirror":       "it reads catalogs as catalog mirror does, and a list whose size is limited",
	"opm":                    "it leaves the work to the packages behind catalog render, validate, list, graph, build and serve",
	"switch plan":            "they read a cluster in pages, and OLM's resolver has its time: olm/prediction",
	"switch apply":           "as above",
	"switch status":          "as above",
	"switch rollback":        "as above",
	"adopt plan":             "they read objects of a cluster, which are at most 1.5 MiB each, in pages",
	"adopt apply":            "as above",
	"adopt resume":           "as above",
	"adopt status":           "as above",
	"adopt rollback":         "as above",
	"adopt cleanup":          "as above",
	"move plan":              "as above, and catalogs of the cluster, as catalog plan",
	"move apply":             "as above",
	"move resume":            "as above",
	"move status":            "as above",
	"move rollback":          "as above",
	"csi-migration status":   "as above",
	"csi-migration plan":     "as above",
	"grant list":             "as above",
	"csi-migration enable":   "as above",
	"csi-migration disable":  "as above",
	"csi-migration resume":   "as above",
	"csi-migration rollback": "as above",
	"doctor":                 "as above",
	"aws create":             "they read AWS, in pages",
	"aws destroy":            "as above",
}

// TestCosts: a command stays within its budget for any input of a stranger. Each runs in a process of its own.
func TestCosts(t *testing.T) {
	berth := itself(t)
	for _, command := range commandsOf(newCommand()) {
		_, has := costs[command]
		if !has && without[command] == "" {
			t.Errorf("`berth %s` has no row in costs, and no reason in without", command)
		}
		if !has {
			continue
		}
		t.Run(command, func(t *testing.T) {
			for _, r := range costRuns(command) {
				r.try(t, berth)
			}
		})
	}
}

// A costRun is a command with one input.
type costRun struct {
	name, command, given string
	in                   input
}

// costRuns are the runs of a command, with each of its arguments.
func costRuns(command string) (all []costRun) {
	row := costs[command]
	for at, given := range append([]string{row.args}, withFlags[command]...) {
		for _, in := range row.inputs {
			if !*allCosts && !slices.Contains(always, in.name) || at > 0 && slices.Contains(withoutFlags, in.name) {
				continue
			}
			name := in.name
			if _, flags, has := strings.Cut(given, "--"); has {
				name += " --" + flags
			}
			all = append(all, costRun{name, command, given, in})
		}
	}
	return all
}

// TestAttacksNameCosts: an attack that TestCosts tries has the name of one of its runs.
func TestAttacksNameCosts(t *testing.T) {
	var names []string
	for command := range costs {
		for _, r := range costRuns(command) {
			names = append(names, strings.ReplaceAll("cmd/berth TestCosts/"+command+"/"+r.name, " ", "_"))
		}
	}
	for _, area := range trials.Areas {
		for _, a := range area.Attacks {
			if name := strings.ReplaceAll(a.Test, " ", "_"); strings.HasPrefix(name, "cmd/berth_TestCosts/") {
				assert.Contains(t, names, name, a.Attack)
			}
		}
	}
}

func (r costRun) try(t *testing.T, berth string) {
	command, given, in := r.command, r.given, r.in
	t.Run(r.name, func(t *testing.T) {
		t.Parallel()
		n, limit := in.n, small
		if *allCosts && in.name != "pigeons" {
			n, limit = 10*in.n, large
		}
		if in.name == "pigeons" { // it takes the resolver's whole time
			limit = budget{45, 1500}
		}
		where := in.gen(t, filepath.Join(t.TempDir(), "in"), n)
		args := strings.Fields(strings.NewReplacer("IN", where, "OUT", filepath.Join(t.TempDir(), "out")).Replace(command + " " + given))
		took, most := cost(t, berth, args, limit)
		t.Logf("%-16s %-14s %8d %6.1f s of %2.0f %6.0f MiB of %4.0f", command, r.name, n, took, limit.seconds, most, limit.mebibytes)
		if took > limit.seconds || most > limit.mebibytes {
			t.Errorf("it took %.1f s and %.0f MiB; want at most %.0f and %.0f", took, most, limit.seconds, limit.mebibytes)
		}
	})
}

// cost runs a command, and returns its processor time in seconds and its memory in MiB. Whether it succeeds does not matter.
func cost(t *testing.T, program string, args []string, limit budget) (seconds, mebibytes float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(10*limit.seconds)*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout = &readiness{out: &out, stop: func() error { return cmd.Process.Signal(os.Interrupt) }}
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	for running := true; running; { // the kernel's count for processes that have ended includes the one that started them
		select {
		case err = <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
			mebibytes = max(mebibytes, peak(cmd.Process.Pid))
		}
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Errorf("%s: %v\n%.500s", cmd, errors.Join(err, ctx.Err()), out.Bytes())
	}
	assert.NotContainsf(t, out.String(), "See 'berth ", "%s: the command line is wrong, so the command does nothing", cmd)
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), mebibytes
}

// readiness is the output of a command that is stopped once it serves.
type readiness struct {
	out  *bytes.Buffer
	stop func() error
}

func (s *readiness) Write(text []byte) (int, error) {
	n, err := s.out.Write(text)
	if bytes.HasPrefix(text, []byte("serving ")) {
		err = errors.Join(err, s.stop())
	}
	return n, err
}

// peak returns the largest memory of a process so far, in MiB, or 0 if it has ended.
func peak(pid int) (mebibytes float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kibibytes float64
	_, _ = fmt.Sscan(after, &kibibytes) // a process that ends has none any more
	return kibibytes / 1024
}

// commandsOf returns the commands that do something, by their names below the program's.
func commandsOf(cmd *cobra.Command) (all []string) {
	if !cmd.HasSubCommands() {
		if !cmd.Runnable() { // it is only help
			return nil
		}
		return []string{strings.TrimPrefix(cmd.CommandPath(), "berth ")}
	}
	for _, sub := range cmd.Commands() {
		all = append(all, commandsOf(sub)...)
	}
	return all
}

// itself returns the program: TestMain is that under its name.
func itself(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "berth")
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, program))
	return program
}

// TestSignals: while it computes, a command that only reads ends soon after the first signal, and any command at the second.
func TestSignals(t *testing.T) {
	t.Parallel()
	where := pigeons(t, filepath.Join(t.TempDir(), "in"), 13)
	cmd := exec.CommandContext(t.Context(), itself(t), "catalog", "plan", where, "tide")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for busy := 0; busy < 200; { // until it has computed for two seconds
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		require.NoError(t, err)
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if busy, err = strconv.Atoi(fields[11]); err != nil { // hundredths of a second
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-ended:
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "berth: ") {
			t.Errorf("it ended with %v: %s", err, stderr.String())
		}
	case <-time.After(10 * time.Second): // of a machine with much else to do
		t.Errorf("it still computes")
		_ = cmd.Process.Kill()
	}
}

// TestInterruptedRequest: of a request that a signal ends, nothing is said but that.
func TestInterruptedRequest(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"catalog mirror IMAGE oci:out", "catalog list packages IMAGE", "catalog graph IMAGE -o html"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, silent.Close()) })
			cmd := exec.CommandContext(t.Context(), itself(t), strings.Fields(strings.ReplaceAll(args, "IMAGE", silent.Addr().String()+"/tide/catalog:v1"))...)
			cmd.Dir = t.TempDir()
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			require.NoError(t, cmd.Start())
			asked, err := silent.Accept() // and never answered
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			exit := (*exec.ExitError)(nil)
			require.ErrorAs(t, cmd.Wait(), &exit)
			assert.NoError(t, asked.Close())
			assert.Equal(t, exitFailed, exit.ExitCode())
			assert.Regexp(t, `^berth: interrupted(: .*; run the same command again to continue)?\n$`, stderr.String())
		})
	}
}

// TestReadOnly: only commands that exist may end at any time.
func TestReadOnly(t *testing.T) {
	all := commandsOf(newCommand())
	for _, name := range readOnly {
		assert.Containsf(t, all, name, "there is no command %s", name)
	}
}
