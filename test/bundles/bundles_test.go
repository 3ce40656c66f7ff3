// Package bundles_test tries every bundle of repositories of operators beside the real opm and the real API server.
package bundles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/test/catalogs"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// batch is how many bundles opm renders at once. It bounds the memory.
const batch = 20

// repositoriesOf returns the folders of repositories of operators. It skips the test without any.
func repositoriesOf(t *testing.T) []string {
	t.Helper()
	folders := filepath.SplitList(os.Getenv(programs.OperatorsVariable))
	if len(folders) == 0 {
		t.Skipf("set %s to folders of clones of repositories of operators, such as those of OpenShift's community and certified catalogs", programs.OperatorsVariable)
	}
	return folders
}

// git runs git in a repository.
func git(ctx context.Context, folder string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-C", folder}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, stderr.String())
	}
	return out, nil
}

// packagesOf returns the folders of all packages of a repository, such as operators/tide.
func packagesOf(t *testing.T, folder string) []string {
	t.Helper()
	out, err := git(t.Context(), folder, "ls-tree", "--name-only", "HEAD", "operators/")
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// extract writes a folder of a repository's last commit into a folder.
func extract(ctx context.Context, folder, path, dir string) error {
	archive, err := git(ctx, folder, "archive", "HEAD", path)
	if err != nil {
		return err
	}
	tar := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	tar.Stdin = bytes.NewReader(archive)
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}

// published counts what a run has seen.
type published struct {
	opm string

	sync.Mutex
	bundles, rendered, refused int
	opmTook, renderTook        time.Duration
	checkTook                  time.Duration
	longest                    time.Duration
	slowest                    string
	with                       map[findings.Verdict]int // bundles with a finding of that severity
	errors                     map[string]int           // by rule
}

// TestPublishedBundles: what opm renders, Berth renders, with the same bytes, and what opm refuses, Berth does not render. It counts the
// findings of bundle validate.
func TestPublishedBundles(t *testing.T) {
	repositories := repositoriesOf(t)
	for _, folder := range repositories {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			p := &published{opm: catalogs.OPM(t), with: map[findings.Verdict]int{}, errors: map[string]int{}}
			work, ctx := errgroup.WithContext(t.Context())
			work.SetLimit(runtime.GOMAXPROCS(0))
			started := time.Now()
			for _, path := range packagesOf(t, folder) {
				work.Go(func() error { return p.try(ctx, t, folder, path) })
			}
			require.NoError(t, work.Wait())
			p.report(t, time.Since(started))
		})
	}
}

// try tries all bundles of a package.
func (p *published) try(ctx context.Context, t *testing.T, folder, path string) error {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := extract(ctx, folder, path, dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(dir, path))
	if err != nil {
		return err
	}
	var bundles []string
	for _, e := range entries {
		if at := filepath.Join(dir, path, e.Name()); registryv1.IsFolder(at) {
			bundles = append(bundles, at)
		}
	}
	for some := range slices.Chunk(bundles, batch) {
		if err := p.compare(ctx, t, dir, some); err != nil {
			return err
		}
		for _, at := range some {
			if err := p.check(dir, at); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// compare compares opm's documents of bundles with Berth's.
func (p *published) compare(ctx context.Context, t *testing.T, dir string, bundles []string) error {
	started := time.Now()
	want, failed := exec.CommandContext(ctx, p.opm, append([]string{"render"}, bundles...)...).Output()
	opmTook := time.Since(started)
	if exit := (*exec.ExitError)(nil); failed != nil && !errors.As(failed, &exit) {
		return failed
	}
	started = time.Now()
	var got bytes.Buffer
	_, refused := render.Write(ctx, &got, render.Options{Output: "json"}, bundles)
	renderTook := time.Since(started)
	same := failed == nil && refused == nil && bytes.Equal(want, got.Bytes())
	if !same && len(bundles) > 1 {
		for _, one := range bundles {
			if err := p.compare(ctx, t, dir, []string{one}); err != nil {
				return err
			}
		}
		return nil
	}
	p.Lock()
	defer p.Unlock()
	p.opmTook, p.renderTook, p.bundles = p.opmTook+opmTook, p.renderTook+renderTook, p.bundles+len(bundles)
	name := strings.TrimPrefix(bundles[0], dir+"/")
	switch {
	case same:
		p.rendered += len(bundles)
	case failed != nil && refused != nil:
		p.refused++
		exit := (*exec.ExitError)(nil)
		errors.As(failed, &exit)
		t.Logf("%s: both refuse it: opm: %s; berth: %v", name, lastLine(exit.Stderr), refused)
	case failed != nil:
		exit := (*exec.ExitError)(nil)
		errors.As(failed, &exit)
		t.Errorf("%s: opm refuses it, and berth does not: %s", name, lastLine(exit.Stderr))
	case refused != nil:
		t.Errorf("%s: berth refuses it, and opm does not: %v", name, refused)
	default:
		t.Errorf("%s: opm's %d bytes differ from berth's %d", name, len(want), got.Len())
	}
	return nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// check counts the findings of a bundle.
func (p *published) check(dir, at string) error {
	started := time.Now()
	found, err := rules.Check(at, rules.Options{})
	took := time.Since(started)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(at, dir+"/")
	p.Lock()
	defer p.Unlock()
	if p.checkTook += took; took > p.longest {
		p.longest, p.slowest = took, name
	}
	worst := map[findings.Verdict]bool{}
	for _, f := range found {
		worst[f.Severity] = true
		if f.Severity == findings.Error {
			p.errors[f.Rule]++
		}
	}
	for severity := range worst {
		p.with[severity]++
	}
	return nil
}

// report logs the counts.
func (p *published) report(t *testing.T, took time.Duration) {
	t.Helper()
	t.Logf("%d bundles in %v: opm and berth render %d with the same bytes, in %v and %v; both refuse %d", p.bundles, took.Round(time.Second),
		p.rendered, p.opmTook.Round(time.Second), p.renderTook.Round(time.Second), p.refused)
	t.Logf("bundle validate took %v; the longest, %s, %v; %d bundles have errors, %d warnings", p.checkTook.Round(time.Second), p.slowest, p.longest.Round(time.Millisecond),
		p.with[findings.Error], p.with[findings.Warning])
	for _, rule := range slices.Sorted(maps.Keys(p.errors)) {
		t.Logf("errors of %s: %d", rule, p.errors[rule])
	}
	if p.rendered == 0 {
		t.Error("no bundle was rendered")
	}
}
