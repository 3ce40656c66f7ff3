package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// view is a running container's environment, for another program to run in it.
type view struct {
	env    map[string]string
	dir    string
	mounts []mount
}

// start starts the container's program in a new view.
func (c *container) start() (*process, view, error) {
	object := c.pod.view()
	env, err := environment(object, c.spec, baseEnvironment(object, c.pod.host.apiHost, c.pod.host.apiPort), c.pod.host.from)
	if err != nil {
		return nil, view{}, configError{err}
	}
	mounts, err := c.pod.volumes.mounts(object, c.spec, env)
	if err != nil {
		return nil, view{}, configError{err}
	}
	private, err := freshRoot(c.root(), c.pod.host.kept)
	if err != nil {
		return nil, view{}, err
	}
	output, err := c.log.open()
	if err != nil {
		return nil, view{}, err
	}
	defer output.Close()
	v := view{env: env, dir: cmp.Or(c.spec.WorkingDir, "/"), mounts: append(private, mounts...)}
	program, err := c.launch(v, c.program, programArgs(c.spec, env), output)
	return program, v, err
}

func (c *container) launch(v view, program string, args []string, output *os.File) (*process, error) {
	return c.pod.host.spawner.start(launch{Program: program, Args: args, Dir: v.dir, Mounts: v.mounts}, assignments(v.env), output)
}

// programArgs returns the arguments of the program: the image's program replaces the first element of the command;
// the rest of the command precedes the container's args.
func programArgs(spec *corev1.Container, env map[string]string) []string {
	var args []string
	if len(spec.Command) > 0 {
		args = append(args, spec.Command[1:]...)
	}
	args = append(args, spec.Args...)
	for i := range args {
		args[i] = expand(args[i], env)
	}
	return args
}

// runBeside runs a command in the view of the running container. Its error has the exit code and the output.
func (c *container) runBeside(ctx context.Context, v view, command []string) error {
	output, err := os.CreateTemp(c.root(), "exec-")
	if err != nil {
		return err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	p, err := c.launch(v, command[0], command[1:], output)
	if err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		<-p.ended
		return fmt.Errorf("%q took too long: %w", command, ctx.Err())
	}
	if code := p.exitCode(); code != 0 {
		return fmt.Errorf("%q ended with exit code %d: %s", command, code, tail(output.Name(), 0))
	}
	return nil
}

// root returns the folder of files that only this container sees, such as its /tmp.
func (c *container) root() string { return filepath.Join(c.pod.dir, "containers", c.spec.Name) }

// freshRoot empties the folder root, and creates the folders in it that each run has for itself: /run, with the pod's service account,
// and /tmp. Where they hide kept folders of the machine, it mounts the kept folders over them.
func freshRoot(root string, kept []string) ([]mount, error) {
	run, tmp := filepath.Join(root, "run"), filepath.Join(root, "tmp")
	if err := errors.Join(os.RemoveAll(root), os.MkdirAll(run, 0o755), os.MkdirAll(tmp, 0o777)); err != nil {
		return nil, err
	}
	mounts := []mount{{Source: run, Target: "/run"}, {Source: tmp, Target: "/tmp"}}
	if resolved, err := filepath.EvalSymlinks("/var/run"); err == nil && resolved != "/run" {
		mounts = append(mounts, mount{Source: run, Target: resolved})
	}
	for _, folder := range kept {
		resolved, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return nil, err
		}
		for _, path := range []string{folder, resolved} {
			if belowAny(path, []string{"/run", "/tmp", "/var/run"}) {
				mounts = append(mounts, mount{Source: resolved, Target: path})
			}
		}
	}
	return mounts, keepResolver(run)
}

// keepResolver copies the list of name servers if the machine has it below /run, which the container does not see.
func keepResolver(run string) error {
	path, err := filepath.EvalSymlinks("/etc/resolv.conf")
	below, found := strings.CutPrefix(path, "/run/")
	if err != nil || !found {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	copied := filepath.Join(run, below)
	if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
		return err
	}
	return os.WriteFile(copied, content, 0o644)
}
