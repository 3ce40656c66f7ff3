// Package controller is the interface between the operator and a driver's own controllers, which are in
// drivers/NAME/controller. A definition is data, and every program reads it. Code that calls a cloud is separate, and
// only the operator links it (drivers/registry/controllers).
package controller

import (
	"context"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
)

// Own is a driver's code besides its definition. A process has one, for its driver.
type Own struct {
	// New returns the driver's own controllers, for one cycle of the operator; nil if the driver has none.
	New func(Dependencies) []factory.Controller
	// Register registers the controllers' metrics, once for a process; nil if they have none.
	Register func(mustRegister func(...metrics.Registerable))
	// Withdraw removes the series of the metrics when the ClusterCSIDriver is gone; nil if there are no metrics.
	Withdraw func()
	// API is the driver's interface for the controller of an API that comes with the driver; nil if that controller
	// needs none.
	API any

	// Classes queries the driver's Backend in a cloud. It returns a StorageClass for each kind of storage that the backend
	// offers, and a sentence about each kind that cannot have one. An error says that the backend could not be queried.
	Classes func(ctx context.Context, cloud drivers.Cloud) (classes []storagev1.StorageClass, leftOut []string, err error)
	// Find performs the query of the driver's Discovery. It returns keys that CloudConfig.Content receives as the
	// current content of the ConfigMap. Until Find succeeds, the driver is not installed.
	Find func(ctx context.Context, cloud drivers.Cloud, config, source map[string]string) (found map[string]string, err error)
}

// Dependencies holds everything that the operator gives to the controllers.
type Dependencies struct {
	Driver    drivers.Driver
	Namespace string // the driver's
	// Cloud returns the cluster's information about its cloud. Its Credentials are the content of a Secret in the driver's namespace, or
	// nil while there is no such Secret. Triggers returns informers of the objects that Cloud reads.
	Cloud    func(secret string) (drivers.Cloud, error)
	Triggers func(secret string) []factory.Informer
	// Fill returns a Secret among the driver's assets for a controller to fill. The driver's pods start when it is filled.
	Fill func(secret string) Secret
	// Environment returns the variables of drivers.Operator.Env that an administrator has set.
	Environment func() map[string]string
	// Core and Storage read from groups of the API server.
	Core, Storage rest.Interface
	Reporter      Reporter
	Recorder      events.Recorder
	Clock         clock.Clock
}

// A Reporter reports conditions, and returns reported ones.
type Reporter interface {
	v1helpers.OperatorClient
	Condition(conditionType string) operatorv1.OperatorCondition
}

// A Secret is one that a controller fills.
type Secret interface {
	Informers() []factory.Informer
	// Apply writes the content.
	Apply(ctx context.Context, content map[string][]byte) error
	// Fail says that there is no content yet. After several failures, the driver's pods start without it.
	Fail()
}
