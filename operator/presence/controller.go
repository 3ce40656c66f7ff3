package presence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/operator/cloudaccess"
)

// pause is the time from one look at a parent to the next because of a resource of which nothing is known. Whoever was granted all
// resources of a parent can have the operator look for any number of them.
const pause = 15 * time.Second

// gathering is how long objects that name something new are gathered: there may be thousands at once.
const gathering = time.Second

// Options are the dependencies of the controller.
type Options struct {
	Driver   drivers.Driver
	Registry *Registry
	Access   cloudaccess.Source
	// Core reads from the API server's core group.
	Core     rest.Interface
	Recorder events.Recorder
	Clock    clock.Clock
}

type controller struct {
	Options
	due    time.Time            // when to look for everything
	looked map[string]time.Time // when the controller last looked for resources of a parent
}

// NewController returns the controller.
func NewController(options Options) factory.Controller {
	c := &controller{Options: options, looked: map[string]time.Time{}}
	return factory.New().
		WithInformers(c.Access.Informers()...).
		WithSync(c.sync).
		WithPostStartHooks(c.enqueueMissing).
		ToController(c.Driver.ConditionPrefix+"PresenceController", c.Recorder)
}

// enqueueMissing has the controller look when there is a resource of which nothing is known.
func (c *controller) enqueueMissing(ctx context.Context, syncContext factory.SyncContext) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Registry.missing:
			syncContext.Queue().AddAfter(syncContext.QueueKey(), gathering)
		}
	}
}

// sync looks for everything if it is time for that, and otherwise for resources of parents with one of which nothing is known.
func (c *controller) sync(ctx context.Context, syncContext factory.SyncContext) error {
	access, err := c.Access.Read()
	if err != nil {
		return err
	}
	if access.Credentials == nil {
		c.Registry.setBlind(true)
		c.due = time.Time{}
		return nil // the Secret triggers the next sync
	}
	c.Registry.setBlind(false)
	now := c.Clock.Now()
	everything := !now.Before(c.due)
	if everything {
		c.due = now.Add(c.Driver.Presence.Interval)
	}
	wait, err := c.observe(ctx, access, c.Registry.resources(!everything), everything)
	if ctx.Err() != nil {
		return nil
	}
	syncContext.Queue().AddAfter(syncContext.QueueKey(), min(wait, max(c.due.Sub(c.Clock.Now()), 0)))
	return err
}

// observe looks for resources, by parent. It returns when to look for those for which it is too soon.
func (c *controller) observe(ctx context.Context, access drivers.CloudAccess, wanted map[string][]string, everything bool) (wait time.Duration, err error) {
	wait = c.Driver.Presence.Interval
	if len(wanted) == 0 {
		return wait, nil
	}
	zones, err := c.zones(ctx)
	if err != nil {
		return wait, err
	}
	for _, parent := range slices.Sorted(maps.Keys(wanted)) {
		if since := c.Clock.Since(c.looked[parent]); !everything && since < pause {
			wait = min(wait, pause-since)
			continue
		}
		findings, err := c.Driver.Presence.Find(ctx, access, parent, wanted[parent], zones)
		if ctx.Err() != nil {
			return wait, nil
		}
		c.looked[parent] = c.Clock.Now()
		if err != nil {
			klog.InfoS("Cannot look for what objects refer to", "parent", parent, "reason", err, "retry", c.Driver.Presence.Interval)
			c.Registry.giveUp(parent, wanted[parent])
			continue
		}
		c.Registry.record(parent, findings)
	}
	maps.DeleteFunc(c.looked, func(_ string, at time.Time) bool { return c.Clock.Since(at) > 2*c.Driver.Presence.Interval })
	return wait, nil
}

// zones returns those of the cluster's nodes, sorted.
func (c *controller) zones(ctx context.Context) ([]string, error) {
	type node struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	found := map[string]bool{}
	err := listing.Each(ctx, c.Core, listing.List{Resource: "nodes"}, func(n node) error {
		if zone := n.Metadata.Labels[corev1.LabelTopologyZone]; zone != "" {
			found[zone] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}
