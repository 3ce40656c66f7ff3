package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Commit is a commit of the git repository that a folder is in. Paths are relative to the folder.
type Commit struct {
	ctx      context.Context // of the command that asks
	dir      string
	revision string
}

// Since returns the commit at which the current branch left ref, such as main.
func Since(ctx context.Context, dir, ref string) (*Commit, error) {
	if strings.HasPrefix(ref, "-") {
		return nil, fmt.Errorf("%q is not the name of a branch or a commit", ref)
	}
	c := &Commit{ctx: ctx, dir: dir}
	out, err := c.git("merge-base", "--end-of-options", ref, "HEAD")
	if err != nil {
		return nil, fmt.Errorf("where the branch left %s: %w; fetch it, with its history", ref, err)
	}
	c.revision = strings.TrimSpace(string(out))
	return c, nil
}

// git runs git and returns its output.
func (c *Commit) git(args ...string) (out []byte, err error) {
	err = c.run(func(from io.Reader) (err error) { out, err = io.ReadAll(from); return err }, args...)
	return out, err
}

// run runs git and passes its output to read; git ends if read fails. The folder's own configuration cannot make these commands run
// other programs.
func (c *Commit) run(read func(io.Reader) error, args ...string) error {
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	command := exec.CommandContext(ctx, "git", append([]string{"-C", c.dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
	command.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
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
		return fmt.Errorf("git %s: %s", args[0], strings.TrimPrefix(said, "fatal: "))
	}
	return nil
}

// Changed returns the paths of the files in the folder that differ from the commit, including untracked files, sorted.
func (c *Commit) Changed() ([]string, error) {
	var changed, unknown []byte
	var group errgroup.Group // each command reads all files, which takes most of the time if little has changed
	group.Go(func() (err error) {
		changed, err = c.git("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--relative", c.revision, "--", ".")
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

// Has returns the folders that the commit has.
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

// Read returns a file of the commit, within the limit of files. Its error is fs.ErrNotExist if the file does not exist.
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
