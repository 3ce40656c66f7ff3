package operator

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
)

var clusterCSIDrivers = operatorv1.GroupVersion.WithResource("clustercsidrivers")

type operator struct {
	driver      drivers.Driver
	version     string
	namespace   string // the operator's own; the driver may be in another one
	cfg         *rest.Config
	recorder    events.Recorder
	clock       clock.Clock
	upgradeable upgradeable
	lockWait    *lockWait
	// offered are the StorageClasses of all that the driver's backend has been heard to offer. What it
	// offered to an earlier process shows in the cluster.
	offered []drivers.Manifest
}

// A wish is what the driver's ClusterCSIDriver asks for.
type wish struct {
	uid  types.UID
	mode mode
}

// mode says what the operator is to do with the driver's objects.
type mode string

const (
	// absent: there is no ClusterCSIDriver, and nothing is touched.
	absent mode = "absent"
	// manage: the objects are kept as the driver's definition says.
	manage mode = "manage"
	// leave: somebody else looks after the objects, or what is asked for is not known.
	leave mode = "leave"
	// remove: the objects are removed, in order.
	remove mode = "remove"
	// release: the ClusterCSIDriver is being deleted while somebody else looks after the objects.
	release mode = "release"
)

// wishOf reads what a ClusterCSIDriver asks for; nil stands for none. What it does not understand it
// takes as a wish to be left alone.
func wishOf(object *unstructured.Unstructured) wish {
	if object == nil {
		return wish{mode: absent}
	}
	state, _, err := unstructured.NestedString(object.Object, "spec", "managementState")
	if err != nil {
		state = ""
	}
	asked := wish{uid: object.GetUID(), mode: leave}
	deleted := object.GetDeletionTimestamp() != nil
	switch operatorv1.ManagementState(state) {
	case operatorv1.Managed:
		asked.mode = manage
		if deleted {
			asked.mode = remove
		}
	case operatorv1.Removed:
		asked.mode = remove
	default:
		if deleted {
			asked.mode = release
		}
	}
	return asked
}

// serveCustomResource does what the driver's ClusterCSIDriver asks for, for as long as it asks for
// the same, until ctx ends. Each change ends all that ran for the earlier wish before anything runs
// for the next, so that no controller works against another, and nothing that is remembered of a
// deleted object can act on its successor.
func (o *operator) serveCustomResource(ctx context.Context, customResource wishes) error {
	for ctx.Err() == nil {
		asked := customResource.current()
		klog.Infof("ClusterCSIDriver %s: %s (UID %q)", o.driver.CSIName, asked.mode, asked.uid)
		cycle, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { o.grant(cycle, asked.mode) })

		for customResource.current() == asked && ctx.Err() == nil {
			select {
			case <-customResource.changed:
			case <-ctx.Done():
			}
		}
		stop()
		running.Wait()
	}
	return nil
}

// grant does what the mode says until ctx ends. A failure, such as an API server that cannot be
// reached just now, is tried again.
func (o *operator) grant(ctx context.Context, asked mode) {
	missing := 0.0
	if asked == absent {
		missing = 1
	}
	customResourceMissing.WithLabelValues(o.driver.CSIName).Set(missing)
	if asked == absent {
		o.upgradeable.insist(ctx, mayUpgrade)
		return
	}
	act := map[mode]func(context.Context, *clients) error{
		manage:  o.takingCare(manage, o.manageDriver),
		leave:   o.leaveDriver,
		remove:  o.takingCare(remove, o.removeDriver),
		release: o.releaseCustomResource,
	}[asked]
	fresh := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: 30 * time.Second, Jitter: 0.1}
	retry := fresh
	for ctx.Err() == nil {
		began := o.clock.Now()
		if err := o.attempt(ctx, asked, act); err != nil && !errors.Is(err, errUnsettled) && ctx.Err() == nil {
			klog.Errorf("ClusterCSIDriver %s: %s: %v", o.driver.CSIName, asked, err)
		}
		if o.clock.Since(began) > time.Minute {
			retry = fresh // Something has gone well for a while.
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.Step()):
		}
	}
}

// takingCare returns an act that needs to know where the driver's objects are, and to be the only one who
// looks after them. A driver that another operator still looks after is left to that one.
func (o *operator) takingCare(asked mode, act func(context.Context, *clients) error) func(context.Context, *clients) error {
	return func(ctx context.Context, c *clients) error {
		decision, err := o.locate(ctx, c)
		if err != nil {
			return err
		}
		holder, err := o.otherOperator(ctx, c.unguarded, decision.Believed)
		if err != nil {
			return err
		}
		if holder != nil {
			return o.leaveToOther(ctx, c, decision.Believed, holder)
		}
		if c.place, err = o.settle(ctx, c, decision, asked); err != nil {
			return err
		}
		c.guard.keep(c.place)
		if err := o.claim(ctx, c); err != nil {
			return err
		}
		return act(ctx, c)
	}
}

func (o *operator) attempt(ctx context.Context, asked mode, act func(context.Context, *clients) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the informers with the attempt
	defer cancel()
	c, err := o.newClients(asked, cancel)
	if err != nil {
		return err
	}
	if err := c.syncCustomResource(ctx); err != nil {
		return err
	}
	return runAll(ctx, []func(context.Context) error{
		c.customResource.run,
		func(ctx context.Context) error {
			defer cancel()
			return act(ctx, c)
		},
		func(ctx context.Context) error { return o.reportLockWait(ctx, c) },
	})
}

// writtenIn returns the modes in which a condition is written.
func (o *operator) writtenIn(conditionType string) []mode {
	switch rest := strings.TrimPrefix(conditionType, o.driver.ConditionPrefix); {
	case strings.HasPrefix(rest, "Uninstall"), strings.HasPrefix(rest, "DriverUninstall"):
		return []mode{remove}
	case strings.HasPrefix(rest, "ManagementState"):
		return []mode{leave}
	case strings.HasPrefix(rest, "DriverNamespace"):
		return []mode{manage, remove}
	case strings.HasPrefix(rest, "OperatorLock"):
		return nil // only while it is said
	default:
		return []mode{manage}
	}
}

// wishes are those of the driver's ClusterCSIDriver.
type wishes struct {
	changed <-chan struct{} // carries something when current may have changed
	current func() wish
	// metadata returns that of the ClusterCSIDriver, nil if there is none.
	metadata func() *metav1.ObjectMeta
}

// watchCustomResource follows the driver's ClusterCSIDriver, and no other object. It returns when it is
// known whether there is one.
func (o *operator) watchCustomResource(ctx context.Context) (wishes, error) {
	client, err := dynamic.NewForConfig(o.cfg)
	if err != nil {
		return wishes{}, err
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, clusterCSIDrivers, metav1.NamespaceAll, 0, cache.Indexers{}, only(o.driver.CSIName)).Informer()
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it is about to be looked at anyway
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell() },
		UpdateFunc: func(any, any) { tell() },
		DeleteFunc: func(any) { tell() },
	})
	if err != nil {
		return wishes{}, err
	}
	go informer.RunWithContext(ctx)
	cache.WaitFor(ctx, "", informer.HasSyncedChecker())
	object := func() *unstructured.Unstructured {
		object, exists, _ := informer.GetStore().GetByKey(o.driver.CSIName) // a store in memory does not fail
		if !exists {
			return nil
		}
		return object.(*unstructured.Unstructured)
	}
	return wishes{changed: changed,
		current: func() wish { return wishOf(object()) },
		metadata: func() *metav1.ObjectMeta {
			live := object()
			if live == nil {
				return nil
			}
			return &metav1.ObjectMeta{UID: live.GetUID(), CreationTimestamp: live.GetCreationTimestamp(),
				Annotations: live.GetAnnotations(), ManagedFields: live.GetManagedFields()}
		},
	}, nil
}

// runAll runs the tasks until ctx ends or one of them fails, and waits for all of them.
func runAll(ctx context.Context, tasks []func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		group.Go(func() error { return task(ctx) })
	}
	return group.Wait()
}
