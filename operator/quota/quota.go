// Package quota has the controller that measures what is used of something that the cloud limits, such as access points of a file
// system, so that an alert can tell before claims cannot get volumes any more. It measures at an interval, and writes nothing to the
// cluster.
package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/listing"
	"github.com/berth-csi/berth/operator/cloudaccess"
)

// retry is the time from a measurement that failed to the next.
const retry = 10 * time.Minute

// maxParents is how many file systems, or the like, are measured.
const maxParents = 100

// Options are the dependencies of the controller.
type Options struct {
	Driver drivers.Driver
	Access cloudaccess.Source
	// Storage reads from the API server's storage group.
	Storage rest.Interface
	// Show replaces what is shown: how many resources there are, by parent.
	Show     func(used map[string]int)
	Recorder events.Recorder
	Clock    clock.Clock
}

type controller struct {
	Options
	next time.Time // when to measure again
}

// NewController returns the controller.
func NewController(options Options) factory.Controller {
	c := &controller{Options: options}
	return factory.New().
		WithInformers(c.Access.Informers()...).
		WithSync(c.sync).
		ToController(c.Driver.ConditionPrefix+"QuotaController", c.Recorder)
}

// sync measures if it is time for that.
func (c *controller) sync(ctx context.Context, syncContext factory.SyncContext) error {
	if wait := c.next.Sub(c.Clock.Now()); wait > 0 {
		syncContext.Queue().AddAfter(syncContext.QueueKey(), wait)
		return nil
	}
	access, err := c.Access.Read()
	if err != nil {
		return err
	}
	after := c.Driver.Quota.Interval
	if access.Credentials == nil {
		c.Show(nil)
		return nil // the Secret triggers the next sync
	}
	used, err := c.measure(ctx, access)
	if ctx.Err() != nil {
		return nil
	}
	c.Show(used)
	if err != nil {
		klog.InfoS("Cannot measure what is used of a quota", "resources", c.Driver.Quota.Resources, "reason", err, "retry", retry)
		after = min(retry, after)
	}
	c.next = c.Clock.Now().Add(after)
	syncContext.Queue().AddAfter(syncContext.QueueKey(), after)
	return nil
}

// measure returns how many resources the parents have that StorageClasses name. If some cannot be measured, it returns the others
// and the first error.
func (c *controller) measure(ctx context.Context, access drivers.CloudAccess) (map[string]int, error) {
	parents, err := c.parents(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]int{}
	var first error
	for _, parent := range parents {
		count, err := c.Driver.Quota.Count(ctx, access, parent)
		switch {
		case err == nil:
			used[parent] = count
		case first == nil:
			first = err
		}
	}
	return used, first
}

// parents returns those that the driver's StorageClasses name. Only administrators can write these.
func (c *controller) parents(ctx context.Context) ([]string, error) {
	found := map[string]bool{}
	err := listing.Each(ctx, c.Storage, listing.List{Resource: "storageclasses"}, func(class storagev1.StorageClass) error {
		if parent := c.Driver.Quota.Parent(&class); class.Provisioner == c.Driver.CSIName && parent != "" {
			found[parent] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing StorageClasses: %w", err)
	}
	all := slices.Sorted(maps.Keys(found))
	return all[:min(len(all), maxParents)], nil
}
