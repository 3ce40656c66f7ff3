package repository

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Commit is a commit of the git repository that a folder is in. Paths are relative to the folder.
type Commit struct {
	ctx      context.Context // of the command that asks
	dir      string
	revision string
	instead  []setting // they replace the repository's own settings
	refused  []string  // the repository's own settings that prevent fetching
}

// Since returns the commit at which the current branch left ref, such as main.
func Since(ctx context.Context, dir, ref string) (*Commit, error) {
	if strings.HasPrefix(ref, "-") {
		return nil, fmt.Errorf("%q is not the name of a branch or a commit", ref)
	}
	c := &Commit{ctx: ctx, dir: dir}
	if err := c.disarm(); err != nil {
		return nil, err
	}
	out, err := c.git("merge-base", "--end-of-options", ref, "HEAD")
	if err != nil {
		return nil, fmt.Errorf("where the branch left %s: %w; expected a branch or a commit of a clone that has its history, as after git fetch", ref, err)
	}
	c.revision = strings.TrimSpace(string(out))
	return c, nil
}

// git runs git and returns its output.
func (c *Commit) git(args ...string) (out []byte, err error) {
	err = c.run(func(from io.Reader) (err error) { out, err = io.ReadAll(from); return err }, args...)
	return out, err
}

// setting is a setting of git, and its value.
type setting struct{ name, value string }

// settings apply to all calls of git. Because of the first, a folder of a branch that looks like a bare repository does not count as one.
var settings = []setting{
	{"safe.bareRepository", "explicit"},
	{"core.fsmonitor", "false"},
	{"core.hooksPath", "/dev/null"},
	{"gc.auto", "0"}, {"maintenance.auto", "false"}, // which git would start after a partial clone fetches objects
}

// protocols are the protocols by which a partial clone may fetch missing objects. Others run programs on this machine.
const protocols = "http:https:ssh"

// programs match the settings of a repository that would make git run a program when it is called here, and say what to set them to
// instead. A repository may come from anybody: as an archive, or as a folder of a branch.
var programs = []struct {
	names   *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?s)^filter\..*\.(clean|smudge|process)$`), ""},
	{regexp.MustCompile(`(?s)^filter\..*\.required$`), "false"},
	{regexp.MustCompile(`(?s)^credential\.(.*\.)?helper$`), ""},
	{regexp.MustCompile(`^core\.askpass$`), ""},
	{regexp.MustCompile(`^core\.sshcommand$`), "ssh"},
	{regexp.MustCompile(`^core\.alternaterefscommand$`), "true"},
}

// connections matches the settings of a repository that decide how git connects, and harmless the few of them that only affect the form
// or the minimum speed of its requests. Other settings can make git write a file of cookies anywhere, or send the user's passwords for a
// host to another host: through a proxy, with a certificate authority of the author's choice or none.
var (
	connections = regexp.MustCompile(`(?s)^(http\..*|remote\..*\.proxy(authmethod)?|core\.gitproxy)$`)
	harmless    = regexp.MustCompile(`(?s)^http\.(.*\.)?(extraheader|postbuffer|version|useragent|lowspeedlimit|lowspeedtime)$`)
)

// disarm finds the repository's settings that are replaced, and those that prevent fetching. The user's own settings stay.
func (c *Commit) disarm() error {
	out, err := c.git("config", "--list", "--show-scope", "--name-only", "-z")
	if err != nil {
		return fmt.Errorf("the settings of the git repository: %w", err)
	}
	for pair := range slices.Chunk(strings.Split(string(out), "\x00"), 2) {
		if pair[0] != "local" && pair[0] != "worktree" {
			continue
		}
		if connections.MatchString(pair[1]) && !harmless.MatchString(pair[1]) {
			c.refused = append(c.refused, pair[1])
		}
		for _, p := range programs {
			if p.names.MatchString(pair[1]) {
				c.instead = append(c.instead, setting{pair[1], p.instead})
			}
		}
	}
	return nil
}

// environment returns git's environment: the user's, with more settings.
func (c *Commit) environment() []string {
	allowed := cmp.Or(os.Getenv("GIT_ALLOW_PROTOCOL"), protocols)
	if len(c.refused) > 0 {
		allowed = "none"
	}
	all := append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C", "GIT_ALLOW_PROTOCOL="+allowed)
	n, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT"))
	for _, s := range slices.Concat(settings, c.instead) {
		all = append(all, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, s.name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, s.value))
		n++
	}
	return append(all, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}

// run runs git, and read gets its output. If read fails, run stops git. Nothing in the folder's own configuration makes git run other
// programs here.
func (c *Commit) run(read func(io.Reader) error, args ...string) error {
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	command := exec.CommandContext(ctx, "git", append([]string{"-C", c.dir}, args...)...)
	command.Env = c.environment()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err = command.Start(); err == nil {
		if err := read(out); err != nil {
			stop()
			_ = command.Wait() // it was stopped
			return err
		}
		err = command.Wait()
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("there is no program git; install it")
	case err != nil:
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		if len(c.refused) > 0 && strings.Contains(said, "not allowed") {
			return fmt.Errorf("git %s: the repository lacks files, and nothing is fetched, because its own settings say how: %s; make them your own with git config --global, or fetch the files",
				args[0], strings.Join(c.refused, ", "))
		}
		return fmt.Errorf("git %s: %s", args[0], strings.TrimPrefix(said, "fatal: "))
	}
	return nil
}

// Changed returns the paths of the files in the folder that differ from the commit, including untracked files, sorted.
func (c *Commit) Changed() ([]string, error) {
	var changed, unknown []byte
	var group errgroup.Group // each command reads all files, which takes most of the time if little has changed
	group.Go(func() (err error) {
		changed, err = c.git("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "--relative", c.revision, "--", ".")
		return err
	})
	group.Go(func() (err error) {
		unknown, err = c.git("ls-files", "-z", "--others", "--exclude-standard", "--", ".")
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	files := append(split0(changed), split0(unknown)...)
	slices.Sort(files)
	return slices.Compact(files), nil
}

func split0(out []byte) (all []string) {
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// pathsPerCall is the maximum number of paths in one call of git, because the length of a command line is limited.
const pathsPerCall = 500

// Has returns which of the folders the commit has.
func (c *Commit) Has(folders []string) (map[string]bool, error) {
	had := map[string]bool{}
	for some := range slices.Chunk(folders, pathsPerCall) {
		out, err := c.git(append([]string{"ls-tree", "-d", "-z", "--name-only", c.revision, "--"}, some...)...)
		if err != nil {
			return nil, err
		}
		for _, name := range split0(out) {
			had[name] = true
		}
	}
	return had, nil
}

// Files returns the paths of the commit's files below a folder.
func (c *Commit) Files(folder string) ([]string, error) {
	out, err := c.git("ls-tree", "-r", "-z", "--name-only", c.revision, "--", folder+"/")
	return split0(out), err
}

// Read returns a file of the commit, up to the size limit of files. Its error is fs.ErrNotExist if the file does not exist.
func (c *Commit) Read(file string) (content []byte, err error) {
	out, err := c.git("ls-tree", "-z", "--name-only", c.revision, "--", file)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s in commit %s: %w", file, c.revision, fs.ErrNotExist)
	}
	err = c.run(func(from io.Reader) (err error) { content, err = boundedyaml.Read(file, from); return err }, "show", "--no-textconv", c.revision+":./"+file)
	return content, err
}
