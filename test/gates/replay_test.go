// Package gates_test replays merges into repositories of operators, and compares the findings with the changes that the
// repositories' pipelines accepted.
package gates_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/registryv1/cache/store"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
	"github.com/berth-csi/berth/internal/repository"
)

// repositories is the variable with folders of git repositories, bare ones or not, as a list in the way of PATH.
const repositories = "OPERATORS"

// merged is how many of the last changes of each repository are replayed.
const merged = 300

// TestReplay: merged changes, which have passed the pipeline, have no errors except those in testdata/faults.txt.
func TestReplay(t *testing.T) {
	folders := filepath.SplitList(os.Getenv(repositories))
	if len(folders) == 0 {
		t.Skipf("set %s to folders of clones of repositories of operators, with their history, such as those of OpenShift's community and certified catalogs", repositories)
	}
	known := knownFaults(t)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) { replayAll(t, folder, known) })
	}
}

// knownFaults returns the lines of testdata/faults.txt, each a commit, a rule and why it is right.
func knownFaults(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/faults.txt")
	require.NoError(t, err)
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSpace(line), " ", 3); len(fields) == 3 && fields[0] != "#" {
			known[fields[0]+" "+fields[1]] = fields[2]
		}
	}
	return known
}

// outcome counts the findings by rule.
type outcome struct{ errors, warnings map[string]int }

func replayAll(t *testing.T, folder string, known map[string]string) {
	g := &history{t: t, folder: folder}
	kept := &repository.Kept{Program: "replay", Store: &store.Store{What: "replays", Dir: t.TempDir(), Suffix: ".json", Limit: 1 << 30, Longest: 16 << 20}}
	total := outcome{map[string]int{}, map[string]int{}}
	tried, faulty := 0, 0
	for _, m := range g.changes() {
		if tried == merged {
			break
		}
		commit := m.commit
		found, ok := g.replay(m, kept)
		if !ok {
			continue
		}
		tried++
		isFaulty := false
		for _, f := range found {
			if f.Severity != findings.Error {
				total.warnings[f.Rule]++
				continue
			}
			total.errors[f.Rule]++
			if why := known[commit[:12]+" "+f.Rule]; why != "" {
				t.Logf("%s: %v: as listed: %s", commit[:12], f, why)
				continue
			}
			isFaulty = true
			t.Errorf("%s: %v", commit[:12], f)
		}
		if isFaulty {
			faulty++
		}
	}
	t.Logf("%d changes, %d with errors that are not listed", tried, faulty)
	for severity, counts := range map[string]map[string]int{"errors": total.errors, "warnings": total.warnings} {
		for _, rule := range slices.Sorted(maps.Keys(counts)) {
			t.Logf("%s of %s: %d", severity, rule, counts[rule])
		}
	}
	assert.GreaterOrEqualf(t, tried, merged, "changes in %s", folder)
}

// history is a git repository with all commits.
type history struct {
	t      *testing.T
	folder string
}

func (g *history) git(args ...string) []byte {
	g.t.Helper()
	out, err := g.try(args...)
	require.NoError(g.t, err)
	return out
}

func (g *history) try(args ...string) ([]byte, error) {
	command := exec.CommandContext(g.t.Context(), "git", append([]string{"-C", g.folder}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, stderr.String())
	}
	return out, nil
}

// change is one merge.
type change struct{ commit, before string }

// changes returns the merges into the main branch that change operators or catalogs, the latest first. The commits of a
// branch that was merged as they are have the same time; the pipeline has seen only the last of them.
func (g *history) changes() (all []change) {
	last := ""
	for line := range strings.Lines(string(g.git("log", "--first-parent", "--format=%H %ct", fmt.Sprint("-", merged*3), "HEAD", "--", "operators", "catalogs"))) {
		commit, when, _ := strings.Cut(strings.TrimSpace(line), " ")
		if when == last {
			all[len(all)-1].before = commit + "^1"
			continue
		}
		last = when
		all = append(all, change{commit, commit + "^1"})
	}
	return all
}

// parent is the commit before another one.
type parent struct {
	*history
	commit string
}

// Has implements repository.Before.
func (p parent) Has(folders []string) (map[string]bool, error) {
	had := map[string]bool{}
	for some := range slices.Chunk(folders, 500) {
		out, err := p.try(append([]string{"ls-tree", "-d", "-z", "--name-only", p.commit, "--"}, some...)...)
		if err != nil {
			return nil, err
		}
		for name := range strings.SplitSeq(string(out), "\x00") {
			had[name] = true
		}
	}
	return had, nil
}

// replay checks a change as before its merge. It returns false for changes that are not for pipelines: it touches more
// than operators and catalogs, adds no bundle and changes no package of a catalog, or lacks files.
func (g *history) replay(m change, kept *repository.Kept) (found []*findings.Finding, ok bool) {
	commit, before := m.commit, m.before
	files := strings.Split(strings.TrimSuffix(string(g.git("diff", "--name-only", "-z", "--no-renames", before, commit)), "\x00"), "\x00")
	paths := map[string]bool{"config.yaml": true}
	for _, file := range files {
		parts := strings.Split(file, "/")
		switch {
		case len(parts) > 2 && parts[0] == "operators":
			paths["operators/"+parts[1]] = true
		case len(parts) > 3 && parts[0] == "catalogs":
			paths[strings.Join(parts[:3], "/")] = true
		}
	}
	dir := g.t.TempDir()
	defer os.RemoveAll(dir)
	for _, name := range []string{"operators", "catalogs"} {
		require.NoError(g.t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	for _, name := range strings.Fields(string(g.git("ls-tree", "-d", "--name-only", commit, "catalogs/"))) {
		require.NoError(g.t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	if err := g.extract(commit, dir, slices.Sorted(maps.Keys(paths))); err != nil {
		g.t.Logf("%s is not tried: %v", commit[:12], err)
		return nil, false
	}
	r, err := repository.Open(dir, nil)
	require.NoError(g.t, err)
	changed, err := r.ChangeOf(files, parent{g, before})
	require.NoError(g.t, err)
	if len(changed.Added) == 0 && len(changed.Packages) == 0 || len(changed.Others) > 0 {
		return nil, false
	}
	profile, err := gates.Parse(r.Profiles())
	require.NoError(g.t, err)
	found, err = r.Check(context.Background(), r.Selection(changed), repository.Options{Profile: profile, Kept: kept})
	if err != nil {
		g.t.Logf("%s is not tried: %v", commit[:12], err)
		return nil, false
	}
	found = append(found, r.CheckChange(changed, profile)...)
	for _, f := range found {
		f.File = strings.TrimPrefix(f.File, dir+"/")
	}
	return found, true
}

// extract writes the files at some paths of a commit into a folder, as far as they exist.
func (g *history) extract(commit, dir string, paths []string) error {
	have := strings.Split(strings.TrimSuffix(string(g.git(append([]string{"ls-tree", "-z", "--name-only", commit, "--"}, paths...)...)), "\x00"), "\x00")
	archive := exec.CommandContext(g.t.Context(), "git", append([]string{"-C", g.folder, "archive", "--format=tar", commit, "--"}, have...)...)
	unpack := exec.CommandContext(g.t.Context(), "tar", "-x", "-C", dir)
	var err error
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return err
	}
	var stderr bytes.Buffer
	archive.Stderr, unpack.Stderr = &stderr, &stderr
	if err := archive.Start(); err != nil {
		return err
	}
	unpacked := unpack.Run()
	if err := archive.Wait(); err != nil {
		return fmt.Errorf("git archive: %w: %s", err, stderr.String())
	}
	if unpacked != nil {
		return fmt.Errorf("tar: %w: %s", unpacked, stderr.String())
	}
	return nil
}
