// Package controller has the controller of EFS's access points. It lists the access points of each file system once,
// for all tasks that are due:
//
//   - their tags (tags.go). The driver sets tags only when it creates an access point. PersistentVolumes name the
//     access points to check, and AWS says whether one may be changed.
//   - their number (usage.go), in the file systems that StorageClasses name, so that an alert fires before new claims
//     get no volumes. It also finds StorageClasses that endanger files. The results are metrics, and nothing is written
//     to the cluster.
//   - whether the access points of SharedVolumes exist and can be reached (presence.go, accesspoints.go), for the
//     SharedVolumes' status.
//
// A pass over all tags begins when the operator starts, when its input has changed, and at an interval. The interval is
// for access points that the driver created before it knew the latest tags, and for tags that somebody has removed. The
// controller does not watch the cluster's volumes, because new ones have their tags. The rate of calls is limited
// (ratelimiter.go), so more volumes make a pass longer, but do not increase the load on AWS.
//
// Volumes work without tags, so problems with tags are not the driver's. They are reported in conditions, and cause
// Degraded only if they last.
package controller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/internal/listing"
)

// Intervals are the times between two passes over all tags, between two counts, and between two checks of
// SharedVolumes' access points, if nothing changes; and the shortest time between two calls to AWS.
type Intervals struct{ Tags, Count, Find, Call time.Duration }

// usual are the intervals in a cluster. AWS does not publish how many calls EFS allows. It was seen to throttle clients
// that made a few tens of calls a second. All clients of the account share the limit, including the driver.
var usual = Intervals{Tags: 6 * time.Hour, Count: time.Hour, Find: 10 * time.Minute, Call: time.Second}

const (
	// firstRetry and lastRetry are the times from a failed pass to the next pass: after the first failure, and after many.
	firstRetry = time.Minute
	lastRetry  = time.Hour
	// lasting is how long passes must fail before they cause Degraded: long enough to repair credentials in the course of a day.
	lasting = 8 * time.Hour
	// maxHandle is the longest volume handle that is considered, in bytes.
	maxHandle = 512
	// maxMessage is the longest message of a condition, in runes.
	maxMessage = 2048

	// countRetry is the time from a failed count to the next.
	countRetry = 10 * time.Minute
	// maxCounted is the maximum number of counted file systems.
	maxCounted = 100
	// maxNamed is the maximum number of shared group IDs in a log line.
	maxNamed = 10

	// pause is the shortest time between two checks of a file system for access points without a finding. A user with a
	// grant for all access points of a file system can make the operator check any number of IDs.
	pause = 15 * time.Second
	// lead is how much earlier a task may be done, so that one list serves all tasks that are due at about the same
	// time.
	lead = time.Minute
	// gathering is how long the controller waits for more SharedVolumes with new access points: there may be thousands
	// at once.
	gathering = time.Second
)

// errChanged ends a pass that would set tags which the cluster no longer wants.
var errChanged = errors.New("the input of the pass has changed")

// New returns EFS's own code: the controller of access points, and AccessPoints, from which the API of SharedVolumes learns which access
// points exist.
func New() controller.Own { return NewAt(usual) }

// NewAt is New with other intervals.
func NewAt(intervals Intervals) controller.Own {
	known, shown := newAccessPoints(), newGauges()
	return controller.Own{API: known, Register: shown.register, Withdraw: shown.withdraw, New: func(d controller.Dependencies) []factory.Controller {
		return []factory.Controller{newLoop(d, intervals, known, shown).controller()}
	}}
}

// A loop lists access points whenever a task is due.
type loop struct {
	controller.Dependencies
	intervals    Intervals
	accessPoints *AccessPoints
	shown        *gauges
	limiter      *RateLimiter

	begun    [sha256.Size]byte // the input of the last pass
	complete [sha256.Size]byte // the input of the last complete pass
	tags     [sha256.Size]byte // the tags to which refused applies
	refused  map[string]string
	next     time.Time         // when the next pass begins if nothing changes
	failures int               // failed passes in a row
	leftOut  string            // what the last complete pass left out
	recorded map[string]string // the messages of the last events, by condition

	count  time.Time            // when to count again
	look   time.Time            // when to check all access points of SharedVolumes
	looked map[string]time.Time // when the controller last checked access points of a file system
}

func newLoop(d controller.Dependencies, intervals Intervals, known *AccessPoints, shown *gauges) *loop {
	c := &loop{Dependencies: d, intervals: intervals, accessPoints: known, shown: shown, limiter: NewRateLimiter(intervals.Call, d.Clock), looked: map[string]time.Time{}}
	c.leftOut = c.Reporter.Condition(c.conditionType(accepted)).Message
	c.recorded = map[string]string{set: c.Reporter.Condition(c.conditionType(set)).Message, accepted: c.leftOut}
	return c
}

func (c *loop) controller() factory.Controller {
	return factory.New().
		WithInformers(c.Triggers(c.Driver.CloudAccess.Secret)...).
		WithSync(c.sync).
		WithPostStartHooks(c.enqueueMissing).
		ToController(c.Driver.ConditionPrefix+"AccessPointsController", c.Recorder)
}

// enqueueMissing triggers a sync when there is an access point without a finding.
func (c *loop) enqueueMissing(ctx context.Context, syncContext factory.SyncContext) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.accessPoints.missing:
			syncContext.Queue().AddAfter(syncContext.QueueKey(), gathering)
		}
	}
}

// desired is the input of a pass over the tags, apart from the volumes.
type desired struct {
	access
	tags map[string]string
}

// observe returns the input of a pass. Without a Secret, there are no credentials.
func (c *loop) observe() (desired, error) {
	cloud, err := c.Cloud(c.Driver.CloudAccess.Secret)
	if err != nil {
		return desired{}, fmt.Errorf("reading the cluster's AWS settings: %w", err)
	}
	if cloud.CABundle != "" {
		if err := drivers.CheckCABundle(cloud.CABundle); err != nil {
			return desired{}, err
		}
	}
	return desired{access{
		Infrastructure: cloud.Infrastructure, Credentials: cloud.Credentials, TokenFile: c.Driver.CloudAccess.TokenFile,
		CABundle: cloud.CABundle + "\n" + cloud.TrustedCABundle, Wait: c.limiter.Wait,
	}, wantedTags(cloud.Infrastructure)}, nil
}

// sync does the tasks that are due, and returns when they are done. A change of the input ends a pass over the tags,
// and triggers another sync.
func (c *loop) sync(ctx context.Context, syncContext factory.SyncContext) error {
	after := func(wait time.Duration) { syncContext.Queue().AddAfter(syncContext.QueueKey(), max(wait, 0)) }
	wanted, err := c.observe()
	if err != nil {
		after(lastRetry)
		return c.report(ctx, failing(err))
	}
	if wanted.Credentials == nil {
		return c.syncBlind(ctx, wanted, after)
	}
	c.accessPoints.setBlind(false)
	if len(wanted.tags) == 0 {
		c.begun, c.complete, c.leftOut, c.next = [sha256.Size]byte{}, hashOf(wanted), "", time.Time{}
		if err := c.report(ctx, done); err != nil {
			return err
		}
		after(c.lookWithoutTags(ctx, wanted.access))
		return nil
	}
	c.expect(wanted)
	if wait := c.next.Sub(c.Clock.Now()); wait > 0 && !(c.isDue() && c.failures == 0 && isSoon(wait, c.intervals.Tags)) {
		after(min(wait, c.lookWithoutTags(ctx, wanted.access)))
		return nil
	}
	if err := c.reportProgress(ctx); err != nil {
		return err
	}
	result, err := c.pass(ctx, wanted)
	if ctx.Err() != nil {
		return nil // the shutdown says nothing about tags
	}
	if result.changed > 0 {
		klog.V(2).InfoS("Set tags", "resources", resources, "changed", result.changed)
		c.Recorder.Eventf("TagsSet", "Set the tags that the cluster wants on %d %s", result.changed, resources)
	}
	after(0) // for the next task
	if errors.Is(err, errChanged) {
		klog.V(2).InfoS("Begin again to set tags: something has changed", "resources", resources)
		return nil
	}
	if err != nil {
		retry := min(firstRetry<<min(c.failures, 10), lastRetry, c.intervals.Tags)
		c.failures++
		c.next = c.Clock.Now().Add(retry)
		klog.V(2).InfoS("Failed to set tags", "resources", resources, "reason", err, "retry", retry)
		return c.report(ctx, failing(err))
	}
	c.next = c.Clock.Now().Add(c.intervals.Tags)
	c.complete, c.failures, c.leftOut = c.begun, 0, truncate(strings.Join(result.leftOut, " "))
	return c.report(ctx, done)
}

// syncBlind is sync without credentials. The Secret's creation triggers the next sync.
func (c *loop) syncBlind(ctx context.Context, wanted desired, after func(time.Duration)) error {
	c.accessPoints.setBlind(true)
	c.look, c.count = time.Time{}, time.Time{}
	_, risky, err := c.classes(ctx)
	if err != nil {
		return err
	}
	c.shown.showRisks(c.Driver.CSIName, risky)
	c.shown.showUsage(c.Driver.CSIName, 0, nil)
	after(c.intervals.Count) // for the classes
	if len(wanted.tags) == 0 {
		c.begun, c.complete, c.leftOut = [sha256.Size]byte{}, hashOf(wanted), ""
		return c.report(ctx, done)
	}
	return c.report(ctx, outcome{operatorv1.ConditionUnknown, "NoCredentials", fmt.Sprintf(
		"existing %s do not get the tags that the cluster wants: Secret %s is not in namespace %s. The condition of its CredentialsRequest says why",
		resources, c.Driver.CloudAccess.Secret, c.Namespace)})
}

// expect makes the next pass begin at once if its input differs from the last pass's input.
func (c *loop) expect(wanted desired) {
	if tags := hash(wanted.tags); c.refused == nil || tags != c.tags {
		c.tags, c.refused = tags, map[string]string{}
	}
	if now := hashOf(wanted); now != c.begun {
		c.begun, c.next, c.failures = now, time.Time{}, 0
	}
}

func hashOf(wanted desired) [sha256.Size]byte {
	depends := []any{wanted.Infrastructure.Status.InfrastructureName, wanted.tags, wanted.Credentials, wanted.CABundle}
	if platform := wanted.Infrastructure.Status.PlatformStatus; platform != nil && platform.AWS != nil {
		depends = append(depends, platform.AWS.Region, platform.AWS.ServiceEndpoints)
	}
	return hash(depends)
}

// hash returns a hash of a value, by its JSON. A value that JSON cannot encode is a programming error.
func hash(value any) [sha256.Size]byte {
	document, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return sha256.Sum256(document)
}

// pass makes a pass over the tags of all access points of volumes. While it lists them, and between calls that set
// tags, it does the other tasks that are due.
func (c *loop) pass(ctx context.Context, wanted desired) (tagged, error) {
	volumes, err := c.volumes(ctx)
	if err != nil {
		return tagged{}, err
	}
	wait := wanted.Wait
	wanted.Wait = func(ctx context.Context, throttled bool) error {
		if err := wait(ctx, throttled); err != nil {
			return err
		}
		if now, err := c.observe(); err == nil && hashOf(now) != c.begun {
			return errChanged
		}
		return nil
	}
	aws, err := connect(wanted.access)
	if err != nil {
		c.giveUp()
		return tagged{}, err
	}
	defer aws.close()
	klog.V(4).InfoS("Comparing tags", "resources", resources, "volumes", len(volumes))
	return c.setTags(ctx, &tagger{caller: aws, tags: wanted.tags, refused: c.refused}, accessPointsOf(volumes))
}

func (c *loop) setTags(ctx context.Context, t *tagger, volumes map[string]map[string]bool) (tagged, error) {
	_, err := c.lookAt(ctx, t.caller, t, volumes)
	if err == nil {
		err = t.tagAll(ctx, func(ctx context.Context) error {
			_, err := c.lookAt(ctx, t.caller, nil, nil)
			return err
		})
	}
	return t.end(err)
}

// lookWithoutTags does the due tasks that are not about tags, and returns when the next one is due.
func (c *loop) lookWithoutTags(ctx context.Context, access access) (next time.Duration) {
	if !c.isDue() {
		return c.untilDue()
	}
	aws, err := connect(access)
	if err != nil {
		klog.InfoS("Cannot look at access points", "reason", err, "retry", countRetry)
		c.giveUp()
		return c.untilDue()
	}
	defer aws.close()
	next, _ = c.lookAt(ctx, aws, nil, nil) // failures are logged and retried
	return next
}

// giveUp removes the counts, records that new access points cannot be checked, and postpones the tasks, because AWS cannot be called.
func (c *loop) giveUp() {
	c.shown.showUsage(c.Driver.CSIName, 0, nil)
	for fileSystem, ids := range c.accessPoints.named(true) {
		c.accessPoints.giveUp(fileSystem, ids)
	}
	now := c.Clock.Now()
	c.count, c.look = now.Add(min(countRetry, c.intervals.Count)), now.Add(c.intervals.Find)
}

// isDue reports whether a task that is not about tags is due.
func (c *loop) isDue() bool {
	return c.untilDue() <= 0 || len(c.accessPoints.named(true)) > 0
}

// isSoon reports whether a task with an interval is due so soon that it is done now, together with others.
func isSoon(wait, interval time.Duration) bool { return wait <= min(lead, interval/10) }

func (c *loop) untilDue() time.Duration {
	now := c.Clock.Now()
	return min(c.count.Sub(now), c.look.Sub(now))
}

// lookAt lists the access points of each file system with a due task, once. With t, that includes the access points of volumes, and t
// receives the access points that lack tags. next is the time until the next task is due, or until a file system may be checked that must
// not be checked yet.
func (c *loop) lookAt(ctx context.Context, aws *caller, t *tagger, volumes map[string]map[string]bool) (next time.Duration, err error) {
	if t == nil && !c.isDue() {
		return c.untilDue(), nil
	}
	jobs := map[string]*job{}
	of := func(fileSystem string) *job {
		if jobs[fileSystem] == nil {
			jobs[fileSystem] = &job{}
		}
		return jobs[fileSystem]
	}
	for i, id := range slices.Sorted(maps.Keys(volumes)) {
		if i == maxFileSystems {
			t.leaveOut("PersistentVolumes name %d file systems, and only %d can exist in a region: access points of the other file systems do not get tags. "+
				"Delete PersistentVolumes of file systems that do not exist", len(volumes), maxFileSystems)
			break
		}
		of(id).tagged = volumes[id]
	}
	now := c.Clock.Now()
	counting, everything := isSoon(c.count.Sub(now), c.intervals.Count), isSoon(c.look.Sub(now), c.intervals.Find)
	if counting {
		if err := c.addClasses(ctx, of); err != nil {
			klog.InfoS("Cannot count access points", "reason", err, "retry", pause)
			counting, c.count = false, now.Add(pause)
		}
	}
	next, err = c.addSought(ctx, everything, of)
	if err != nil {
		klog.InfoS("Cannot look for access points of SharedVolumes", "reason", err, "retry", pause)
		everything, c.look = false, now.Add(pause)
	}
	counted, countErr, err := c.doAll(ctx, aws, t, jobs)
	if ctx.Err() != nil || errors.Is(err, errChanged) {
		return 0, err // tasks that were not done stay due
	}
	if counting {
		c.shown.showUsage(c.Driver.CSIName, accessPointLimit(c.Environment()), counted)
		wait := c.intervals.Count
		if countErr != nil {
			wait = min(countRetry, wait)
			klog.InfoS("Cannot count access points", "reason", countErr, "retry", wait)
		}
		c.count = now.Add(wait)
	}
	if everything {
		c.look = now.Add(c.intervals.Find)
	}
	maps.DeleteFunc(c.looked, func(_ string, at time.Time) bool { return c.Clock.Since(at) > 2*c.intervals.Find })
	return min(next, c.untilDue()), err
}

// doAll does the jobs. It continues after a job's error, unless no more calls may be made. countErr says why file
// systems were not counted, and err why the pass over the tags must end.
func (c *loop) doAll(ctx context.Context, aws *caller, t *tagger, jobs map[string]*job) (counted map[string]usage, countErr, err error) {
	counted = map[string]usage{}
	var ended error
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		j := jobs[id]
		var compare func([]types.Tag) accessPoint
		if t != nil && err == nil {
			compare = t.compare
		} else if j.tagged = nil; j.counter == nil && len(j.sought) == 0 {
			continue
		}
		s, failure := seen{err: ended}, ended
		if ended == nil {
			s, failure = aws.do(ctx, id, j, compare)
		}
		why := cmp.Or(failure, s.err)
		if ctx.Err() != nil || errors.Is(why, errChanged) {
			return counted, countErr, why
		}
		if errors.As(why, new(*endedError)) {
			ended = why
		}
		if len(j.tagged) > 0 {
			err = t.take(ctx, id, s.lacking, failure)
		}
		if j.counter != nil {
			countErr = cmp.Or(countErr, c.noteCount(id, j.counter, failure, counted))
		}
		if len(j.sought) > 0 {
			c.noteFindings(id, j.sought, s)
		}
	}
	return counted, countErr, cmp.Or(err, ended)
}

// noteCount adds the count of a file system to counted, or returns why there is none.
func (c *loop) noteCount(id string, counter *counter, failure error, counted map[string]usage) error {
	if none := (*types.FileSystemNotFound)(nil); errors.As(failure, &none) {
		return fmt.Errorf("file system %s does not exist in the account and region of the cluster: change fileSystemId in the StorageClass, or, if it is of another account, look there", id)
	}
	if failure != nil {
		return failure
	}
	counted[id] = counter.usage()
	if shared := counted[id].shared; len(shared) > 0 {
		klog.InfoS("Several access points share a group ID, although each should have its own", "fileSystem", id,
			"groups", shared[:min(len(shared), maxNamed)], "number", len(shared))
	}
	return nil
}

// noteFindings records the findings about access points that SharedVolumes name.
func (c *loop) noteFindings(id string, sought []string, s seen) {
	c.looked[id] = c.Clock.Now()
	if s.err != nil {
		klog.InfoS("Cannot look for access points of SharedVolumes", "fileSystem", id, "reason", s.err, "retry", c.intervals.Find)
		c.accessPoints.giveUp(id, sought)
		return
	}
	c.accessPoints.record(id, s.findings)
}

// addClasses adds jobs that count access points in the file systems of StorageClasses, and shows the classes that endanger files.
func (c *loop) addClasses(ctx context.Context, of func(fileSystem string) *job) error {
	classes, risky, err := c.classes(ctx)
	if err != nil {
		return err
	}
	c.shown.showRisks(c.Driver.CSIName, risky)
	byFileSystem := map[string][]storagev1.StorageClass{}
	for i := range classes {
		if id := fileSystemOf(&classes[i]); id != "" {
			byFileSystem[id] = append(byFileSystem[id], classes[i])
		}
	}
	ids := slices.Sorted(maps.Keys(byFileSystem))
	for _, id := range ids[:min(len(ids), maxCounted)] {
		of(id).counter = &counter{classes: byFileSystem[id], groups: map[int64]int{}}
	}
	return nil
}

// addSought adds to the jobs the access points that SharedVolumes name: all of them, or only those in file systems with an access point
// that has no finding. next is the time until it may check the file systems that must not be checked yet.
func (c *loop) addSought(ctx context.Context, everything bool, of func(fileSystem string) *job) (next time.Duration, err error) {
	next = c.intervals.Find
	named := c.accessPoints.named(!everything)
	for id := range named {
		if since := c.Clock.Since(c.looked[id]); !everything && since < pause {
			next = min(next, pause-since)
			delete(named, id)
		}
	}
	if len(named) == 0 {
		return next, nil
	}
	zones, err := c.zones(ctx)
	if err != nil {
		return pause, err
	}
	for id, sought := range named {
		j := of(id)
		j.sought, j.zones = sought, zones
	}
	return next, nil
}

// volumes returns the handles of the driver's PersistentVolumes, sorted, each once. Some handles may be wrong, because tenants cause the
// creation of these objects, and administrators write them by hand.
func (c *loop) volumes(ctx context.Context) ([]string, error) {
	type persistentVolume struct {
		Spec struct {
			CSI *struct{ Driver, VolumeHandle string }
		}
	}
	var handles []string
	err := listing.Each(ctx, c.Core, listing.List{Resource: "persistentvolumes"}, func(volume persistentVolume) error {
		if csi := volume.Spec.CSI; csi != nil && csi.Driver == c.Driver.CSIName && len(csi.VolumeHandle) <= maxHandle {
			handles = append(handles, csi.VolumeHandle)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	slices.Sort(handles)
	return slices.Compact(handles), nil
}

// classes returns the driver's StorageClasses, with the parameters that a count needs, and the names of those that endanger files. Only
// administrators can write these, but some of them administer storage alone: a class may have 1.5 MiB, and there may be hundreds.
func (c *loop) classes(ctx context.Context) (classes []storagev1.StorageClass, risky []string, err error) {
	err = listing.Each(ctx, c.Storage, listing.List{Resource: "storageclasses"}, func(class storagev1.StorageClass) error {
		if class.Provisioner != c.Driver.CSIName {
			return nil
		}
		if c.Driver.ClassRisk(&class) != "" {
			risky = append(risky, strings.Clone(class.Name))
		}
		classes = append(classes, storagev1.StorageClass{Parameters: counted(class.Parameters)})
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing StorageClasses: %w", err)
	}
	return classes, risky, nil
}

// zones returns the zones of the cluster's nodes, sorted.
func (c *loop) zones(ctx context.Context) ([]string, error) {
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
