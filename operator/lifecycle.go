package operator

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
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
	driver    drivers.Driver
	namespace string
	cfg       *rest.Config
	recorder  events.Recorder
	clock     clock.Clock
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
func (o *operator) serveCustomResource(ctx context.Context) error {
	wishes, err := o.watchCustomResource(ctx)
	if err != nil {
		return err
	}
	current := wish{mode: absent}
	for ctx.Err() == nil {
		klog.Infof("ClusterCSIDriver %s: %s (UID %q)", o.driver.CSIName, current.mode, current.uid)
		cycle, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		asked := current.mode
		running.Go(func() { o.grant(cycle, asked) })

		for serving := current; current == serving && ctx.Err() == nil; {
			select {
			case current = <-wishes:
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
	act, ok := map[mode]func(context.Context, *clients) error{
		manage:  o.manageDriver,
		leave:   o.leaveDriver,
		remove:  o.removeDriver,
		release: o.releaseCustomResource,
	}[asked]
	if !ok {
		return
	}
	retry := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: 30 * time.Second, Jitter: 0.1}
	for ctx.Err() == nil {
		if err := o.attempt(ctx, asked, act); err != nil && ctx.Err() == nil {
			klog.Errorf("ClusterCSIDriver %s: %s: %v", o.driver.CSIName, asked, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.Step()):
		}
	}
}

func (o *operator) attempt(ctx context.Context, asked mode, act func(context.Context, *clients) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the informers with the attempt
	defer cancel()
	c, err := o.newClients()
	if err != nil {
		return err
	}
	if err := c.syncCustomResource(ctx); err != nil {
		return err
	}
	if err := o.forgetOtherModes(ctx, c, asked); err != nil {
		return err
	}
	return act(ctx, c)
}

// forgetOtherModes removes the conditions that controllers of another mode wrote: nobody keeps them
// up to date any more.
func (o *operator) forgetOtherModes(ctx context.Context, c *clients, current mode) error {
	_, _, err := v1helpers.UpdateStatus(ctx, c.customResource, func(status *operatorv1.OperatorStatus) error {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(condition operatorv1.OperatorCondition) bool {
			return !isSummary(condition.Type) && o.writtenIn(condition.Type) != current
		})
		return nil
	})
	return err
}

// writtenIn returns the mode in which a condition is written.
func (o *operator) writtenIn(conditionType string) mode {
	switch rest := strings.TrimPrefix(conditionType, o.driver.ConditionPrefix); {
	case strings.HasPrefix(rest, "Uninstall"):
		return remove
	case strings.HasPrefix(rest, "ManagementState"):
		return leave
	default:
		return manage
	}
}

// watchCustomResource returns a channel that carries the wish of the driver's ClusterCSIDriver
// whenever that object changes. It watches that one object only.
func (o *operator) watchCustomResource(ctx context.Context) (<-chan wish, error) {
	client, err := dynamic.NewForConfig(o.cfg)
	if err != nil {
		return nil, err
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, clusterCSIDrivers, metav1.NamespaceAll, 0, cache.Indexers{},
		func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.driver.CSIName).String()
		}).Informer()
	wishes := make(chan wish)
	send := func(object *unstructured.Unstructured) {
		select {
		case wishes <- wishOf(object):
		case <-ctx.Done():
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send(object.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, object any) { send(object.(*unstructured.Unstructured)) },
		DeleteFunc: func(any) { send(nil) },
	})
	if err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	return wishes, nil
}

// runAll runs the tasks until ctx ends or one of them fails, and waits for all of them.
func runAll(ctx context.Context, tasks []func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		group.Go(func() error { return task(ctx) })
	}
	return group.Wait()
}
