package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

// kindsOfOthers are the kinds that have controllers of their own.
var kindsOfOthers = sets.New("Deployment", "DaemonSet", "CredentialsRequest", "StorageClass")

// IsStatic reports whether the controller applies objects of a kind.
func IsStatic(kind string) bool { return !kindsOfOthers.Has(kind) }

// A StaticResources applies static resources. It is ready once all were applied, or were refused several times. Pods
// that start earlier would lack their service accounts and permissions.
type StaticResources struct {
	factory.Controller
	applier        *objects.Applier
	history        drivers.History
	operatorClient v1helpers.OperatorClient
	// waves are applied one after the other. The objects of one wave are applied concurrently, because the API server
	// delays each write of an RBAC object by up to a tenth of a second.
	waves [3][]*objects.WatchedObject
	ready *objects.Readiness
}

const (
	firstWave = iota
	defaultWave
	lastWave
)

// waveOf has the kinds that are not in the default wave. The API server rejects objects in a missing namespace, and
// lets the operator bind a role only once the role exists and the operator has all of its permissions.
var waveOf = map[string]int{"Namespace": firstWave, "RoleBinding": lastWave, "ClusterRoleBinding": lastWave}

// NewStaticResources returns the controller that applies the driver's objects that depend only on their assets: service
// accounts, RBAC, the CSIDriver, monitoring.
//
// library-go's StaticResourceController does not fit. It does not know SecurityContextConstraints, it recreates a
// CSIDriver that another client created, and it treats a missing ClusterCSIDriver as a failure.
func NewStaticResources(name string, watched []*objects.WatchedObject, applier *objects.Applier, history drivers.History, operatorClient v1helpers.OperatorClient, recorder events.Recorder) *StaticResources {
	c := &StaticResources{applier: applier, history: history, operatorClient: operatorClient, ready: objects.NewReadiness()}
	informers := []factory.Informer{operatorClient.Informer()}
	for _, object := range watched {
		wave, special := waveOf[object.Desired.GetKind()]
		if !special {
			wave = defaultWave
		}
		c.waves[wave] = append(c.waves[wave], object)
		informers = append(informers, object.Informers()...)
	}
	c.Controller = factory.New().
		WithInformers(informers...).
		WithSync(c.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(operatorClient).
		ToController(name, recorder)
	return c
}

// Ready returns a channel that is closed once the controller is ready.
func (c *StaticResources) Ready() <-chan struct{} { return c.ready.Done() }

// sync applies every object. An object that fails does not block the others.
func (c *StaticResources) sync(ctx context.Context, _ factory.SyncContext) error {
	spec, _, _, err := c.operatorClient.GetOperatorState()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if spec.ManagementState != operatorv1.Managed {
		klog.V(4).InfoS("Static resources are left as they are", "controller", c.Name(), "managementState", spec.ManagementState)
		return nil
	}
	var errs []error
	for _, wave := range c.waves {
		errs = append(errs, c.applyAll(ctx, wave)...)
	}
	if ctx.Err() != nil {
		return nil // for the remaining objects, the shutdown is not a failure
	}
	if len(errs) > 0 {
		c.ready.Fail()
		return utilerrors.NewAggregate(errs)
	}
	c.ready.Set()
	return nil
}

// applyAll applies objects concurrently, and returns an error for each that failed.
func (c *StaticResources) applyAll(ctx context.Context, watched []*objects.WatchedObject) []error {
	errs := make([]error, len(watched))
	var applying sync.WaitGroup
	for i, object := range watched {
		applying.Go(func() {
			if err := c.apply(ctx, object); err != nil {
				errs[i] = fmt.Errorf("applying %s %s: %w", object.Desired.GetKind(), object.Desired.GetName(), err)
			}
		})
	}
	applying.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// apply applies an object. It leaves a Secret with an earlier operator's keys to the Retirement.
func (c *StaticResources) apply(ctx context.Context, object *objects.WatchedObject) error {
	if retired := c.history.KeysOf(object.Desired.GetName()); retired != nil && object.Desired.GetKind() == "Secret" {
		live, err := c.applier.Get(ctx, object)
		if err != nil {
			return err
		}
		if live != nil && retired.In(live) {
			klog.V(4).InfoS("Secret is left as it is while it has the keys of an earlier operator", "object", klog.KObj(live))
			return nil
		}
	}
	_, err := c.applier.Apply(ctx, object, object.Desired)
	return err
}
