package gates_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// The size of the measured repository: the same as OpenShift's community catalog.
const (
	operators = 70
	versions  = 100
)

// BenchmarkCheck measures berth check in a repository of 7,000 bundles: one more bundle, all of them, and all again
// with kept results. The bundles are small, so the total is less than for public ones; CPU-s/bundle counts for one.
func BenchmarkCheck(b *testing.B) {
	p := programs(b)
	dir := newRepository(b)
	for b.Loop() {
		b.Setenv("XDG_CACHE_HOME", b.TempDir())
		all, again := p.measure(b, dir, "check"), p.measure(b, dir, "check")
		b.ReportMetric(all.CPU/(operators*versions), "CPU-s/bundle")
		b.ReportMetric(all.Wall, "s-all")
		b.ReportMetric(again.Wall, "s-again")
		b.ReportMetric(float64(all.PeakAnonymous)/(1<<20), "MiB-anonymous")
		b.Setenv("XDG_CACHE_HOME", b.TempDir())
		changed := p.measure(b, dir, "check", "--since", "main")
		b.ReportMetric(changed.Wall, "s-changed")
		b.ReportMetric(changed.CPU, "CPU-s-changed")
		b.ReportMetric(0, "ns/op") // it would be of all three together
	}
}

// BenchmarkValidateProfiles measures berth catalog validate with all profiles on the catalogs for OpenShift 4.20 of the variable OPERATORS, as
// one catalog.
func BenchmarkValidateProfiles(b *testing.B) {
	folders := filepath.SplitList(os.Getenv(repositories))
	if len(folders) == 0 {
		b.Skipf("set %s to folders of clones of repositories of operators, such as those of OpenShift's community and certified catalogs", repositories)
	}
	p, dir := programs(b), b.TempDir()
	catalog := filepath.Join(dir, "v4.20")
	for _, folder := range folders {
		for name := range strings.FieldsSeq(run(b, folder, "git", "ls-tree", "-r", "--name-only", "HEAD", "catalogs/v4.20/")) {
			content, err := exec.CommandContext(b.Context(), "git", "-C", folder, "show", "HEAD:"+name).Output()
			if err != nil {
				b.Logf("%s lacks %s", folder, name)
				continue
			}
			write(b, filepath.Join(catalog, strings.TrimPrefix(name, "catalogs/v4.20/")), string(content))
		}
	}
	for b.Loop() {
		took := p.measure(b, dir, "catalog", "validate", catalog, "--profile", "community", "--profile", "certified", "--profile", "konflux", "--profile", "operatorhub", "--profile", "openshift-4.20")
		b.ReportMetric(took.Wall, "s")
		b.ReportMetric(took.CPU, "CPU-s")
		b.ReportMetric(float64(took.PeakAnonymous)/(1<<20), "MiB-anonymous")
		b.ReportMetric(0, "ns/op")
	}
}

// newRepository returns a repository of operators, with a branch that adds one bundle.
func newRepository(b *testing.B) string {
	b.Helper()
	archive, err := txtar.ParseFile("../../cmd/berth/testdata/check.txtar")
	require.NoError(b, err)
	dir := b.TempDir()
	write(b, filepath.Join(dir, "config.yaml"), "organization: community-operators\n")
	bundle := func(operator string, version int) {
		for _, file := range archive.Files {
			below, of := strings.CutPrefix(file.Name, "repository/operators/tide/1.0.0/")
			if !of {
				continue
			}
			text := strings.NewReplacer("tide", operator, "1.0.0", fmt.Sprintf("1.%d.0", version)).Replace(string(file.Data))
			if version > 0 && strings.HasPrefix(below, "manifests/") {
				text = strings.Replace(text, "spec:\n", fmt.Sprintf("spec:\n  replaces: %s.v1.%d.0\n", operator, version-1), 1)
			}
			write(b, filepath.Join(dir, "operators", operator, fmt.Sprintf("1.%d.0", version), strings.ReplaceAll(below, "tide", operator)), text)
		}
	}
	for i := range operators {
		for version := range versions {
			bundle(fmt.Sprintf("tide-%d", i), version)
		}
		write(b, filepath.Join(dir, fmt.Sprintf("operators/tide-%d/ci.yaml", i)), "updateGraph: replaces-mode\n")
	}
	for _, script := range []string{"init --quiet --initial-branch=main", "add --all", "-c user.name=Moon -c user.email=moon@example.com commit --quiet --message first"} {
		run(b, dir, "git", strings.Fields(script)...)
	}
	bundle("tide-0", versions)
	return dir
}

func write(b *testing.B, file, text string) {
	b.Helper()
	require.NoError(b, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(b, os.WriteFile(file, []byte(text), 0o644))
}

func run(b *testing.B, dir, program string, args ...string) string {
	b.Helper()
	command := exec.CommandContext(b.Context(), program, args...)
	command.Dir = dir
	out, err := command.Output()
	require.NoErrorf(b, err, "%s %s", program, strings.Join(args, " "))
	return string(out)
}

// measured are berth and the program that measures it.
type measured struct{ berth, measurer string }

// usage holds the resources that a command used, as measure prints them.
type usage struct {
	Wall, CPU     float64 // in seconds
	PeakAnonymous int64   // in bytes
	Exit          int
}

func programs(b *testing.B) measured {
	b.Helper()
	dir := b.TempDir()
	require.NoError(b, tools.Build(b.Context(), dir, nil, "./cmd/berth", "./lab/measure"))
	return measured{filepath.Join(dir, "berth"), filepath.Join(dir, "measure")}
}

func (m measured) measure(b *testing.B, dir string, args ...string) usage {
	b.Helper()
	command := exec.CommandContext(b.Context(), m.measurer, append([]string{m.berth}, args...)...)
	command.Dir = dir
	out, err := command.Output()
	require.NoErrorf(b, err, "berth %s", strings.Join(args, " "))
	var took usage
	require.NoError(b, json.Unmarshal(out, &took))
	if took.Exit > 1 { // 1 is for findings
		b.Fatalf("berth %s: exit code %d", strings.Join(args, " "), took.Exit)
	}
	return took
}
