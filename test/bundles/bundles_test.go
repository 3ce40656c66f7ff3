// Package bundles_test tries every bundle of repositories of operators beside the real opm and the real API server.
package bundles_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/render"
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

// part chooses packages, so that a run can be divided.
var part = flag.String("part", "1/1", "tries only part K of N of each repository, as K/N: every Nth package, from the Kth")

// packagesOf returns the folders of the packages of a repository that the run is about, such as operators/tide.
func packagesOf(t *testing.T, folder string) (packages []string) {
	t.Helper()
	var k, n int
	if _, err := fmt.Sscanf(*part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		t.Fatalf("-part=%s; expected K/N, such as 1/4", *part)
	}
	out, err := git(t.Context(), folder, "ls-tree", "-d", "--name-only", "HEAD", "operators/")
	require.NoError(t, err)
	for i, path := range strings.Fields(string(out)) {
		if i%n == k-1 {
			packages = append(packages, path)
		}
	}
	return packages
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

// comparison counts the bundles of a run by result.
type comparison struct {
	opm string

	sync.Mutex
	bundles, rendered, refused int
	opmTook, renderTook        time.Duration
}

// TestPublishedBundles: what opm renders, Berth renders, with the same bytes, and what opm refuses, Berth does not render.
func TestPublishedBundles(t *testing.T) {
	for _, folder := range repositoriesOf(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			c := &comparison{opm: catalogs.OPM(t)}
			started := time.Now()
			eachPackage(t, folder, func(ctx context.Context, dir string, bundles []string) error {
				for some := range slices.Chunk(bundles, batch) {
					if err := c.compare(ctx, t, dir, some); err != nil {
						return err
					}
				}
				return nil
			})
			t.Logf("%s, part %s: %d bundles in %v: opm and berth render %d with the same bytes, in %v and %v; both refuse %d", describe(t, folder), *part, c.bundles,
				time.Since(started).Round(time.Second), c.rendered, c.opmTook.Round(time.Second), c.renderTook.Round(time.Second), c.refused)
			assert.NotZero(t, c.rendered, "no bundle was rendered")
		})
	}
}

// describe names a repository and its commit.
func describe(t *testing.T, folder string) string {
	t.Helper()
	commit, err := git(t.Context(), folder, "rev-parse", "HEAD")
	require.NoError(t, err)
	return folder + " at " + strings.TrimSpace(string(commit))
}

// eachPackage calls a function with the folders of all bundles of each package, below a folder that it deletes afterwards.
func eachPackage(t *testing.T, folder string, do func(ctx context.Context, dir string, bundles []string) error) {
	t.Helper()
	work, ctx := errgroup.WithContext(t.Context())
	work.SetLimit(runtime.GOMAXPROCS(0))
	for _, path := range packagesOf(t, folder) {
		work.Go(func() error { return inPackage(ctx, t, folder, path, do) })
	}
	require.NoError(t, work.Wait())
}

func inPackage(ctx context.Context, t *testing.T, folder, path string, do func(ctx context.Context, dir string, bundles []string) error) error {
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
	return cmp.Or(do(ctx, dir, bundles), ctx.Err())
}

// compare compares opm's documents of bundles with Berth's. If they differ, it compares those of each half.
func (c *comparison) compare(ctx context.Context, t *testing.T, dir string, bundles []string) error {
	started := time.Now()
	want, failed := exec.CommandContext(ctx, c.opm, append([]string{"render"}, bundles...)...).Output()
	opmTook := time.Since(started)
	exit := (*exec.ExitError)(nil)
	if failed != nil && !errors.As(failed, &exit) {
		return failed
	}
	started = time.Now()
	var got bytes.Buffer
	_, refused := render.Write(ctx, &got, render.Options{Output: "json"}, bundles)
	renderTook := time.Since(started)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	same := failed == nil && refused == nil && bytes.Equal(want, got.Bytes())
	if half := len(bundles) / 2; !same && half > 0 {
		return cmp.Or(c.compare(ctx, t, dir, bundles[:half]), c.compare(ctx, t, dir, bundles[half:]))
	}
	c.Lock()
	defer c.Unlock()
	c.opmTook, c.renderTook, c.bundles = c.opmTook+opmTook, c.renderTook+renderTook, c.bundles+len(bundles)
	name := strings.TrimPrefix(bundles[0], dir+"/")
	switch {
	case same:
		c.rendered += len(bundles)
	case failed != nil && refused != nil:
		c.refused++
		t.Logf("%s: both refuse it: opm: %s; berth: %v", name, lastLine(exit.Stderr), refused)
	case failed != nil:
		t.Errorf("%s: opm refuses it, and berth does not: %s", name, lastLine(exit.Stderr))
	case refused != nil:
		t.Errorf("%s: berth refuses it, and opm does not: %v", name, refused)
	default:
		t.Errorf("%s: opm's %d bytes differ from berth's %d: %s", name, len(want), got.Len(), firstDifference(want, got.Bytes()))
	}
	return nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// firstDifference returns the first line that differs.
func firstDifference(want, got []byte) string {
	ours := strings.Split(string(got), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(ours) || ours[i] != line {
			return fmt.Sprintf("line %d is %.200q, and berth's %.200q", i+1, line, strings.Join(ours[min(i, len(ours)):min(i+1, len(ours))], ""))
		}
	}
	return "berth's are longer"
}
