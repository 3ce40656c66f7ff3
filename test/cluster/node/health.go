package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// probe watches over a running container until ctx is done: it marks it started and ready as its
// probes tell, and gives the grace period with which to kill it when they find it beyond hope.
func (c *container) probe(ctx context.Context, v view) <-chan time.Duration {
	hopeless := make(chan time.Duration, 2)
	doom := func(kind string, probe *corev1.Probe) func(error) {
		return func(err error) {
			if err == nil {
				return
			}
			c.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
			c.event(corev1.EventTypeNormal, "Killing", fmt.Sprintf("it failed its %s probe and will be restarted", kind))
			hopeless <- c.probeGrace(probe)
		}
	}
	ask := func(probe *corev1.Probe) check {
		return newCheck(probe, c.spec, c.pod.address(), func(ctx context.Context, command []string) error {
			return c.runBeside(ctx, v, command)
		})
	}
	afterStart := func() {
		c.setHealth(ctx, true, c.spec.ReadinessProbe == nil)
		if probe := c.spec.ReadinessProbe; probe != nil {
			go watch(ctx, probe, true, ask(probe), func(err error) {
				if err != nil {
					c.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("readiness probe failed: %v", err))
				}
				c.setHealth(ctx, true, err == nil)
			})
		}
		if probe := c.spec.LivenessProbe; probe != nil {
			go watch(ctx, probe, false, ask(probe), doom("liveness", probe))
		}
	}

	startup := c.spec.StartupProbe
	if startup == nil {
		afterStart()
		return hopeless
	}
	starting, started := context.WithCancel(ctx)
	failed := doom("startup", startup)
	go watch(starting, startup, true, ask(startup), func(err error) {
		failed(err)
		if err == nil {
			started()
			afterStart()
		}
	})
	return hopeless
}

// setHealth does nothing once ctx is done, as the container has ended then.
func (c *container) setHealth(ctx context.Context, started, ready bool) {
	c.update(func(s *corev1.ContainerStatus) {
		if ctx.Err() == nil {
			s.Started, s.Ready = &started, ready
		}
	})
	if started {
		c.markStarted()
	}
}

func (c *container) probeGrace(probe *corev1.Probe) time.Duration {
	if seconds := probe.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return c.pod.gracePeriod()
}
