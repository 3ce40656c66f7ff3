// Package quota has the controller that measures what is used of something that the cloud limits, such as access points of a file
// system, so that an alert can tell before claims cannot get volumes any more, and that shows which StorageClasses endanger files. It
// measures at an interval, and writes nothing to the cluster.
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
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/operator/cloudaccess"
)

// retry is the time from a measurement that failed to the next.
const retry = 10 * time.Minute

// maxParents is how many file systems, or the like, are measured.
const maxParents = 100

// maxNamed is how many values that are shared a line of the log has.
const maxNamed = 10

// Options are the dependencies of the controller.
type Options struct {
	Driver drivers.Driver
	Access cloudaccess.Source
	// Storage reads from the API server's storage group.
	Storage rest.Interface
	// Show replaces what is shown of the quota, by parent.
	Show func(used map[string]drivers.Usage)
	// ShowRisks replaces the names of the driver's StorageClasses that endanger files.
	ShowRisks func(classes []string)
	Recorder  events.Recorder
	Clock     clock.Clock
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
	after := c.Driver.Quota.Interval
	classes, err := c.classes(ctx)
	if err != nil {
		return err
	}
	c.ShowRisks(risks(c.Driver, classes))
	access, err := c.Access.Read()
	if err != nil {
		return err
	}
	if access.Credentials == nil {
		c.Show(nil)
		syncContext.Queue().AddAfter(syncContext.QueueKey(), after) // for the classes. The Secret triggers the sync that measures
		return nil
	}
	used, err := c.measure(ctx, access, classes)
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
func (c *controller) measure(ctx context.Context, access drivers.CloudAccess, classes []storagev1.StorageClass) (map[string]drivers.Usage, error) {
	byParent := map[string][]storagev1.StorageClass{}
	for i := range classes {
		if parent := c.Driver.Quota.Parent(&classes[i]); parent != "" {
			byParent[parent] = append(byParent[parent], classes[i])
		}
	}
	parents := slices.Sorted(maps.Keys(byParent))
	used := map[string]drivers.Usage{}
	var first error
	for _, parent := range parents[:min(len(parents), maxParents)] {
		usage, err := c.Driver.Quota.Measure(ctx, access, parent, byParent[parent])
		switch {
		case err == nil:
			used[parent] = usage
		case first == nil:
			first = err
		}
		if len(usage.Shared) > 0 {
			klog.InfoS("Several have what each should have for itself", "resources", c.Driver.Quota.Resources, "of", parent,
				"shared", usage.Shared[:min(len(usage.Shared), maxNamed)], "number", len(usage.Shared))
		}
	}
	return used, first
}

// classes returns the driver's StorageClasses. Only administrators can write these.
func (c *controller) classes(ctx context.Context) (classes []storagev1.StorageClass, err error) {
	err = listing.Each(ctx, c.Storage, listing.List{Resource: "storageclasses"}, func(class storagev1.StorageClass) error {
		if class.Provisioner == c.Driver.CSIName {
			classes = append(classes, class)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing StorageClasses: %w", err)
	}
	return classes, nil
}

// risks returns the names of the classes that endanger files.
func risks(driver drivers.Driver, classes []storagev1.StorageClass) (names []string) {
	for i := range classes {
		if driver.ClassRisk != nil && driver.ClassRisk(&classes[i]) != "" {
			names = append(names, classes[i].Name)
		}
	}
	return names
}
