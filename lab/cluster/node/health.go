package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// probe probes a running container until ctx is done. It marks the container started and ready according to its
// probes, and returns the grace period for killing it when they fail for good.
func (c *container) probe(ctx context.Context, v view) <-chan time.Duration {
	hopeless := make(chan time.Duration, 2) // The startup and the liveness probe may each fail once.
	startup := c.spec.StartupProbe
	if startup == nil {
		c.probeStarted(ctx, v, hopeless)
		return hopeless
	}
	starting, started := context.WithCancel(ctx)
	c.watch(starting, v, startup, true, func(err error) {
		if err != nil {
			hopeless <- c.giveUp("startup", startup, err)
			return
		}
		started()
		c.probeStarted(ctx, v, hopeless)
	})
	return hopeless
}

// probeStarted probes a container that has started.
func (c *container) probeStarted(ctx context.Context, v view, hopeless chan<- time.Duration) {
	readiness, liveness := c.spec.ReadinessProbe, c.spec.LivenessProbe
	c.setHealth(ctx, readiness == nil)
	if readiness != nil {
		c.watch(ctx, v, readiness, true, func(err error) {
			if err != nil {
				c.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("readiness probe failed: %v", err))
			}
			c.setHealth(ctx, err == nil)
		})
	}
	if liveness != nil {
		c.watch(ctx, v, liveness, false, func(err error) {
			if err != nil {
				hopeless <- c.giveUp("liveness", liveness, err)
			}
		})
	}
}

func (c *container) watch(ctx context.Context, v view, probe *corev1.Probe, eager bool, report func(error)) {
	ask := newCheck(probe, c.spec, c.pod.address(), func(ctx context.Context, command []string) error {
		return c.runBeside(ctx, v, command)
	})
	c.pod.background.Go(func() { watch(ctx, probe, eager, ask, report) })
}

// giveUp reports why the container will be killed, and sends its grace period.
func (c *container) giveUp(kind string, probe *corev1.Probe, err error) time.Duration {
	c.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
	c.event(corev1.EventTypeNormal, "Killing", fmt.Sprintf("it failed its %s probe and will be restarted", kind))
	if seconds := probe.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return c.pod.gracePeriod()
}

// setHealth marks the container started, and ready or not. It changes nothing once ctx is done, as the container has
// ended.
func (c *container) setHealth(ctx context.Context, ready bool) {
	c.update(func(s *corev1.ContainerStatus) {
		if ctx.Err() == nil {
			s.Started, s.Ready = new(true), ready
		}
	})
	c.markStarted()
}
