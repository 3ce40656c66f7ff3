// Package places tests where a clone may be, and how its user's environment may be set up. docs/contribute/develop.md has the table.
package places

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/page"
)

var update = flag.Bool("update", false, "write the table of docs/contribute/develop.md")

// row is a row of the table: a place or a setting, and the result there.
type row struct {
	where, happens string
	// try sets up the place. Without it, by names another proof of the row.
	try func(*testing.T, *place)
	by  string
}

// place is a folder with a copy of the project, and the environment of its user.
type place struct {
	folder string
	env    []string
	// shell is a command before make, such as "umask 077 &&".
	shell string
}

var rows = []row{
	{where: "a path with spaces and non-ASCII letters", happens: "works", try: func(*testing.T, *place) {}},
	{where: "through a symbolic link", happens: "works", try: func(t *testing.T, p *place) {
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(p.folder, link))
		p.folder = link
	}},
	{where: "below `/tmp`, also the user's cache", by: "`TestNoProcessOutlivesItsNode`",
		happens: "works: pods have a `/tmp` of their own, in which the clone and Berth's cache are at their paths"},
	{where: "`/tmp` mounted noexec", by: "`TestNoexec`", happens: "works with `make`, which has programs in the user's cache instead; elsewhere, set `TMPDIR`"},
	{where: "a release's archive, without `.git`", by: "`TestArchive`",
		happens: "works, except for `make verify`, which compares files with the commit, and says that it wants a clone"},
	{where: "`umask 077`", happens: "works", try: func(_ *testing.T, p *place) { p.shell = "umask 077 &&" }},
	{where: "`GOFLAGS=-mod=mod`", happens: "works: `make` drops `-mod` and `-modfile`", try: set("GOFLAGS=-mod=mod")},
	{where: "`GOFLAGS=-mod=vendor`", happens: "likewise", try: set("GOFLAGS=-mod=vendor")},
	{where: "`GOWORK` set", happens: "works: `make` switches it off", try: set("GOWORK=/nowhere/go.work")},
	{where: "`GOTOOLCHAIN=local`", happens: "works with the Go version of `go.mod`, or a later one; otherwise, the go command names the version that it needs", try: set("GOTOOLCHAIN=local")},
	{where: "`GOPROXY=off`", happens: "works with the modules that are in the module cache; otherwise, the go command names the first missing one", try: set("GOPROXY=off")},
	{where: "a read-only `HOME`", by: "`TestCacheFolder`", try: set("HOME=/proc", "XDG_CACHE_HOME=", "XDG_CONFIG_HOME="),
		happens: "works with `XDG_CACHE_HOME`, `GOPATH` and `GOCACHE` elsewhere; otherwise, the error names `XDG_CACHE_HOME`, or comes from the go command"},
	{where: "a proxy in `HTTP_PROXY`, `HTTPS_PROXY` or `ALL_PROXY`", by: "`TestInherited`", try: set(append(proxies("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxies("http_proxy", "https_proxy", "all_proxy")...)...),
		happens: "works: modules come through it, a cluster's programs and pods do not get it, and nobody asks it for a loopback address"},
	{where: "`TMPDIR` with spaces", happens: "works", try: func(t *testing.T, p *place) {
		temporary := filepath.Join(t.TempDir(), "a b")
		require.NoError(t, os.Mkdir(temporary, 0o755))
		p.env = append(p.env, "TMPDIR="+temporary)
	}},
	{where: "`SHELL`, and any locale", happens: "works", try: set("SHELL=/bin/false", "LC_ALL=C", "LANG=")},
	{where: "`CDPATH`", happens: "works", by: "`TestFolders`"},
	{where: "no `apt-get`", by: "`TestWithoutPackages`, `TestPredict`",
		happens: "works; without the Debian packages, demonstrations first say what they will only report and not run, and tests that need the packages are skipped or name them"},
	{where: "a container without privileges", by: "`TestLackingCapabilities`, `TestPredict`",
		happens: "without user namespaces, pods cannot run, and their events say how to allow user namespaces; without capabilities, the clone works as for an ordinary user"},
	{where: "two clones at the same time", by: "`TestTwoClusters`, `TestEnsureBuildsOnce`", happens: "works: each cluster has addresses of its own, and only one clone builds what both need"},
	{where: "after `make demo` of an earlier version", by: "`TestLink`", happens: "works; if a cluster from an earlier version is still up, the demonstration says so"},
}

// set returns a setup that sets variables.
func set(variables ...string) func(*testing.T, *place) {
	return func(_ *testing.T, p *place) { p.env = append(p.env, variables...) }
}

// proxies gives variables the address of a proxy that does not run.
func proxies(names ...string) []string {
	for i, name := range names {
		names[i] = name + "=http://127.0.0.1:9"
	}
	return names
}

// TestPlaces: in each place make compiles a demonstration and runs it. There is no cluster that it could end.
func TestPlaces(t *testing.T) {
	project := copied(t)
	// The first one fills the go command's cache for the others.
	out, err := demoDown(project)
	require.NoErrorf(t, err, "%s", out)
	for _, row := range rows {
		if row.try == nil {
			continue
		}
		t.Run(row.where, func(t *testing.T) {
			t.Parallel()
			p := &place{folder: project.folder, env: slices.Clip(project.env)} // rows add to it
			row.try(t, p)
			if out, err := demoDown(p); err != nil || !strings.Contains(out, "were not up") {
				t.Errorf("make demo-down: %v\n%s", err, out)
			}
		})
	}
}

// TestNoexec: where nothing can be executed in the temporary folder, make has another one.
func TestNoexec(t *testing.T) {
	unshare := []string{"--mount"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
		t.Skipf("want root or user namespaces, to mount a file system: %v: %s", err, out)
	}
	p, temporary := copied(t), t.TempDir()
	p.write(t, "run.mk", "include Makefile\nrun:\n\t@program=$$(mktemp) && printf '#!/bin/sh\\necho it runs' >$$program && chmod +x $$program && $$program\n")
	p.env = append(p.env, "TMPDIR="+temporary, "XDG_CACHE_HOME="+t.TempDir())
	out, err := p.run("unshare " + strings.Join(unshare, " ") + ` sh -c 'mount -t tmpfs -o noexec tmpfs "$TMPDIR" && exec make --no-print-directory -f run.mk run'`)
	require.NoError(t, err)
	assert.Equal(t, "it runs\n", out)
}

// TestFolders: make goes to folders of the project, even if CDPATH has some of the same names.
func TestFolders(t *testing.T) {
	p, elsewhere := copied(t), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(elsewhere, "hack", "tools"), 0o755))
	p.write(t, "where.mk", "include Makefile\nwhere:\n\t@cd hack/tools && pwd\n")
	p.env = append(p.env, "CDPATH="+elsewhere)
	if out, err := p.run("make --no-print-directory -f where.mk where"); err != nil || out != filepath.Join(p.folder, "hack", "tools")+"\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestArchive: an archive of a release has no history, and make says so where that matters, even inside of another repository.
func TestArchive(t *testing.T) {
	p := copied(t)
	for _, outside := range []bool{false, true} {
		if outside {
			out, err := exec.Command("git", "init", "-q", filepath.Dir(p.folder)).CombinedOutput()
			require.NoErrorf(t, err, "%s", out)
		}
		out, err := p.run("make --no-print-directory verify")
		if err == nil || !strings.Contains(out, "want a Git clone of the project") {
			t.Errorf("make verify in an archive, inside of another repository: %v: %v\n%s", outside, err, out)
		}
	}
}

// TestWithoutPackages: where nothing can be installed, demonstrations begin all the same, and targets that need a package name it.
func TestWithoutPackages(t *testing.T) {
	p := copied(t)
	programs := t.TempDir()
	for _, name := range []string{"id", "make", "sh"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(programs, name)))
	}
	p.env = append(p.env, "PATH="+programs)
	if out, err := p.run("make runtime"); err != nil || out != "" {
		t.Errorf("make runtime: %v\n%s", err, out)
	}
	for target, want := range map[string]string{
		"browser": "apt-get install chromium-headless-shell", "mkdocs": "apt-get install mkdocs", "mmdebstrap": "apt-get install mmdebstrap", "buildah": "apt-get install buildah",
	} {
		out, err := p.run("make " + target)
		said, rest, _ := strings.Cut(out, "\n")
		if err == nil || !strings.Contains(said, want) || strings.Count(rest, "\n") > 1 { // make adds that the target has failed
			t.Errorf("make %s: %v, and it says\n%s", target, err, out)
		}
	}
}

// TestTable: docs/contribute/develop.md has the rows, each with its proof.
func TestTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| --- | --- | --- |\n")
	for _, row := range rows {
		by := row.by
		if row.try != nil {
			by = strings.TrimSuffix("`TestPlaces`, "+by, ", ")
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", row.where, row.happens, by)
	}
	table.WriteString("\n")
	page.Part{
		File: "../../docs/contribute/develop.md", Begin: "| where a clone is, or which settings there are | what happens | shown by |", End: "Whatever else a machine has or lacks:",
		Update: "go test ./test/places -run TestTable -update",
	}.Check(t, table.String(), *update)
}

// copied returns a copy of the project, without history, in a folder with an unusual name, and an environment where the
// go command has its usual caches regardless of HOME.
func copied(t *testing.T) *place {
	t.Helper()
	root, err := tools.Root()
	require.NoError(t, err)
	p := &place{folder: filepath.Join(t.TempDir(), "größe of a “clone”"), env: os.Environ()}
	require.NoError(t, os.CopyFS(p.folder, sources{os.DirFS(root)}))
	caches, err := exec.Command("go", "env", "GOPATH", "GOMODCACHE", "GOCACHE").Output()
	require.NoError(t, err)
	values := strings.Split(string(caches), "\n")
	for i, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE"} {
		p.env = append(p.env, name+"="+values[i])
	}
	// Variables of the make that runs this test must not reach the place.
	p.env = append(p.env, "MAKEFLAGS=", "MAKELEVEL=", "GOFLAGS=", "GOWORK=")
	return p
}

// sources are the files of the project without build results and history.
type sources struct{ fs.FS }

// ReadDir leaves out build results and history.
func (s sources) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	if name != "." {
		return entries, err
	}
	var kept []fs.DirEntry
	for _, entry := range entries {
		switch entry.Name() {
		case ".git", "bin", ".demo":
		default:
			kept = append(kept, entry)
		}
	}
	return kept, err
}

// demoDown ends the clusters of demonstrations in a place.
func demoDown(p *place) (string, error) { return p.run("make --no-print-directory demo-down") }

// write writes a file of a place.
func (p *place) write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, name), []byte(content), 0o644))
}

// run runs a shell command in a place, and returns its output.
func (p *place) run(command string) (string, error) {
	cmd := exec.Command("sh", "-c", p.shell+" exec "+command)
	cmd.Dir, cmd.Env = p.folder, append(p.env, "PWD="+p.folder)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
