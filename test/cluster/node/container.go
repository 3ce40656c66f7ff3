package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is one container of a pod: a program that is started again as the restart policy
// demands, or something that is only reported running.
type container struct {
	pod  *pod
	spec *corev1.Container
	// initial says that the others wait until this container has completed.
	initial bool
	// program is the path of the image's program on this machine; empty if the image has none.
	program string
	log     *containerLog
	// started is closed when the container has started for the first time.
	started     chan struct{}
	markStarted func()

	// status and lastRun are guarded by the pod's mu; lastRun is nil until the program has run.
	status  corev1.ContainerStatus
	lastRun *process
}

func newContainer(p *pod, spec *corev1.Container, initial bool, known []corev1.ContainerStatus) *container {
	c := &container{
		pod:     p,
		spec:    spec,
		initial: initial,
		program: p.host.images[imageRepository(spec.Image)],
		log:     &containerLog{path: filepath.Join(p.dir, spec.Name+".log")},
		started: make(chan struct{}),
		status:  firstStatus(spec, known),
	}
	c.markStarted = sync.OnceFunc(func() { close(c.started) })
	if c.program != "" {
		c.status.ImageID = "file://" + c.program
	}
	return c
}

// imageRepository is the image without its tag and digest.
func imageRepository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image
}

// run runs the container until it has ended for good, and tells whether it has succeeded.
func (c *container) run(policy corev1.RestartPolicy) bool {
	if c.program == "" {
		return c.pretend()
	}
	var pause backoff
	for {
		news := c.pod.awaitNews()
		end, err := c.runOnce()
		switch {
		case c.pod.stopping.Err() != nil:
			return false
		case err != nil:
			c.wait(reasonNotStarted(err), err)
			if !c.pod.pause(max(pause.next(0), backoffFirst), news) {
				return false
			}
		case !restarts(policy, end.ExitCode):
			return end.ExitCode == 0
		default:
			delay := pause.next(end.FinishedAt.Sub(end.StartedAt.Time))
			if delay > 0 {
				c.wait("CrashLoopBackOff", fmt.Errorf("back-off %s restarting container %s: it ended with exit code %d", delay, c.spec.Name, end.ExitCode))
			}
			if !c.pod.pause(delay, nil) {
				return false
			}
		}
	}
}

// restarts tells whether a container that ended with this exit code is started again.
func restarts(policy corev1.RestartPolicy, exitCode int32) bool {
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && exitCode != 0
}

// pretend reports a container that has no program: completed if others wait for its end, running
// and ready until the pod stops otherwise.
func (c *container) pretend() bool {
	now := metav1.Now().Rfc3339Copy()
	if c.initial {
		c.update(func(s *corev1.ContainerStatus) {
			s.Ready = true
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		})
		return true
	}
	c.update(func(s *corev1.ContainerStatus) {
		s.Ready, s.Started = true, ptr(true)
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	})
	c.markStarted()
	<-c.pod.stopping.Done()
	return false
}

// runOnce starts the program and waits for its end. The error says that it could not be started.
func (c *container) runOnce() (*corev1.ContainerStateTerminated, error) {
	program, view, err := c.start()
	if err != nil {
		return nil, err
	}
	c.update(func(s *corev1.ContainerStatus) {
		if c.lastRun != nil {
			s.RestartCount++
		}
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		c.lastRun = program
		s.ContainerID = fmt.Sprintf("process://%d", program.cmd.Process.Pid)
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(program.started).Rfc3339Copy()}}
	})
	c.event(corev1.EventTypeNormal, "Started", fmt.Sprintf("process %d runs %s", program.cmd.Process.Pid, c.program))

	probing, stopProbing := context.WithCancel(c.pod.stopping)
	defer stopProbing()
	select {
	case <-program.ended:
	case grace := <-c.probe(probing, view):
		stopProbing()
		c.killAfter(program, grace)
	case <-c.pod.stopping.Done():
		c.event(corev1.EventTypeNormal, "Killing", "the pod is stopping")
		program.stop(c.pod.killing)
	}
	stopProbing()

	end := c.describeEnd(program)
	c.update(func(s *corev1.ContainerStatus) {
		s.Ready, s.Started = c.initial && end.ExitCode == 0, ptr(false)
		s.State = corev1.ContainerState{Terminated: end}
	})
	return end, nil
}

func (c *container) killAfter(program *process, grace time.Duration) {
	patience, cancel := context.WithTimeout(c.pod.killing, grace)
	defer cancel()
	program.stop(patience)
}

// configError says that the container cannot be started because of something that its pod refers to.
type configError struct{ error }

func reasonNotStarted(err error) string {
	if errors.As(err, new(configError)) {
		return "CreateContainerConfigError"
	}
	return "CreateContainerError"
}

// view is how a running container sees the world: what a program needs to run beside it.
type view struct {
	env    map[string]string
	dir    string
	mounts []mount
}

// start starts the container's program in a fresh view.
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
	private, err := freshRoot(c.root())
	if err != nil {
		return nil, view{}, err
	}
	output, err := c.log.open()
	if err != nil {
		return nil, view{}, err
	}
	defer output.Close()
	v := view{env: env, dir: workingDir(c.spec), mounts: append(private, mounts...)}
	program, err := c.launch(v, c.program, programArgs(c.spec, env), output)
	return program, v, err
}

func (c *container) launch(v view, program string, args []string, output *os.File) (*process, error) {
	return c.pod.host.spawner.start(launch{Program: program, Args: args, Dir: v.dir, Mounts: v.mounts}, assignments(v.env), output)
}

func workingDir(spec *corev1.Container) string {
	if spec.WorkingDir != "" {
		return spec.WorkingDir
	}
	return "/"
}

// programArgs are the arguments of the program: the image's program stands in for the first element
// of the command, and the rest of it comes before the container's args.
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

// runBeside runs a command in the view of the running container. The error of one that fails tells
// its exit code and what it wrote.
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

func (c *container) describeEnd(program *process) *corev1.ContainerStateTerminated {
	end := &corev1.ContainerStateTerminated{
		ExitCode:    program.exitCode(),
		Reason:      "Completed",
		StartedAt:   metav1.NewTime(program.started).Rfc3339Copy(),
		FinishedAt:  metav1.NewTime(program.finished).Rfc3339Copy(),
		ContainerID: fmt.Sprintf("process://%d", program.cmd.Process.Pid),
	}
	if end.ExitCode != 0 {
		end.Reason = "Error"
		if c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			end.Message = c.log.tail()
		}
	}
	return end
}

// root is the folder of what only this container sees, such as its /tmp.
func (c *container) root() string { return filepath.Join(c.pod.dir, c.spec.Name) }

// freshRoot empties the folder and makes in it what each run of a container has for itself: /run,
// where a pod's service account is, and /tmp.
func freshRoot(root string) ([]mount, error) {
	run, tmp := filepath.Join(root, "run"), filepath.Join(root, "tmp")
	if err := errors.Join(os.RemoveAll(root), os.MkdirAll(run, 0o755), os.MkdirAll(tmp, 0o777)); err != nil {
		return nil, err
	}
	mounts := []mount{{Source: run, Target: "/run"}, {Source: tmp, Target: "/tmp"}}
	if resolved, err := filepath.EvalSymlinks("/var/run"); err == nil && resolved != "/run" {
		mounts = append(mounts, mount{Source: run, Target: resolved})
	}
	return mounts, keepResolver(run)
}

// keepResolver copies the name servers where the machine keeps them below /run, which the container
// does not see.
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

// wait reports that the container waits to be started, and why.
func (c *container) wait(reason string, why error) {
	c.event(corev1.EventTypeWarning, reason, why.Error())
	c.update(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.State = waitingState(reason, why.Error())
	})
}

// latestRun is the run of the program that is going on or has ended last.
func (c *container) latestRun() *process {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return c.lastRun
}

func (c *container) update(change func(*corev1.ContainerStatus)) {
	c.pod.update(func() { change(&c.status) })
}

func (c *container) event(kind, reason, message string) {
	c.pod.event(kind, reason, fmt.Sprintf("container %s: %s", c.spec.Name, message))
}

// backoff grows with each restart of a container that does not run for long.
type backoff struct{ delay time.Duration }

// The first restart is immediate, the next waits backoffFirst, later ones up to backoffMost. A run of
// backoffReset makes the next restart immediate again.
const (
	backoffFirst = time.Second
	backoffMost  = 10 * time.Second
	backoffReset = 2 * backoffMost
)

// next tells how long to wait after a run of this length.
func (b *backoff) next(ran time.Duration) time.Duration {
	if ran >= backoffReset {
		b.delay = 0
	}
	delay := b.delay
	b.delay = min(max(2*delay, backoffFirst), backoffMost)
	return delay
}

func ptr[T any](value T) *T { return &value }
