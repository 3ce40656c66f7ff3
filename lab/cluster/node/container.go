package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is one container of a pod: a program that is restarted according to the restart policy, or a container
// that is only reported as running.
type container struct {
	pod  *pod
	spec *corev1.Container
	// initial says that the others wait until this container has completed.
	initial bool
	// program is the path of the image's program on this machine; empty if the image has no program.
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
		program: p.host.images[ImageRepository(spec.Image)],
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

// ImageRepository returns an image without tag and digest, as in Options.Images.
func ImageRepository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image
}

// run runs the container until it has ended for good, and reports whether it has succeeded.
func (c *container) run(policy corev1.RestartPolicy) bool {
	if c.program == "" {
		return c.pretend()
	}
	var pause backoff
	for {
		changed := c.pod.awaitChange()
		end, err := c.runOnce()
		switch {
		case c.pod.stopping.Err() != nil:
			return false
		case err != nil:
			c.wait(reasonNotStarted(err), err)
			if !c.pod.pause(max(pause.next(0), backoffFirst), changed) {
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

// restarts reports whether a container that ended with this exit code is restarted.
func restarts(policy corev1.RestartPolicy, exitCode int32) bool {
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && exitCode != 0
}

// pretend reports a container without a program as completed if others wait for its completion, and otherwise as
// running and ready until the pod stops.
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
		s.Ready, s.Started = true, new(true)
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	})
	c.markStarted()
	<-c.pod.stopping.Done()
	return false
}

// runOnce starts the program and waits for its end. An error says that it could not be started.
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
		s.Ready, s.Started = c.initial && end.ExitCode == 0, new(bool)
		s.State = corev1.ContainerState{Terminated: end}
	})
	return end, nil
}

func (c *container) killAfter(program *process, grace time.Duration) {
	ctx, cancel := context.WithTimeout(c.pod.killing, grace)
	defer cancel()
	program.stop(ctx)
}

// configError says that the container cannot be started because of an object that its pod refers to.
type configError struct{ error }

func reasonNotStarted(err error) string {
	if errors.As(err, new(configError)) {
		return "CreateContainerConfigError"
	}
	return "CreateContainerError"
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

// wait reports that the container is waiting, and why.
func (c *container) wait(reason string, why error) {
	c.event(corev1.EventTypeWarning, reason, why.Error())
	c.update(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.State = waitingState(reason, why.Error())
	})
}

// latestRun returns the current or last run of the program.
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
