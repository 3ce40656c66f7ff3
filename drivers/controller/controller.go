// Package controller is between the operator and the controllers that a driver brings of its own, which are in
// drivers/NAME/controller. A definition is data, which every program reads: what calls a cloud is here, and only the
// operator links it (drivers/registry/controllers).
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

// Own is what a driver brings besides its definition. A process has one, of its driver.
type Own struct {
	// New returns the driver's own controllers, of one cycle of the operator; nil if it has none.
	New func(Dependencies) []factory.Controller
	// Register registers their metrics, once for a process; nil if they have none.
	Register func(mustRegister func(...metrics.Registerable))
	// Withdraw withdraws what the metrics show, when there is no ClusterCSIDriver any more; nil if they have none.
	Withdraw func()
	// API is what the controller of an API that comes with the driver asks them; nil if it asks nothing.
	API any

	// Classes queries the driver's Backend in a cloud. It returns a StorageClass for each kind of storage that the backend
	// offers, and a sentence about each kind that cannot have one. An error says that the backend could not be queried.
	Classes func(ctx context.Context, cloud drivers.Cloud) (classes []storagev1.StorageClass, leftOut []string, err error)
	// Find asks the cloud for what the driver's Discovery is about, and returns keys that CloudConfig.Content gets as those
	// that the ConfigMap has. Until it succeeds, the driver is not installed.
	Find func(ctx context.Context, cloud drivers.Cloud, config, source map[string]string) (found map[string]string, err error)
}

// Dependencies are what the operator gives the controllers.
type Dependencies struct {
	Driver    drivers.Driver
	Namespace string // the driver's
	// Cloud returns what the cluster knows of its cloud, with the content of a Secret in the driver's namespace as the
	// credentials; they are nil while there is no such Secret. Triggers are the informers of what it reads.
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

// A Reporter reports conditions, and knows those that were reported.
type Reporter interface {
	v1helpers.OperatorClient
	Condition(conditionType string) operatorv1.OperatorCondition
}

// A Secret is one that a controller fills.
type Secret interface {
	Informers() []factory.Informer
	// Apply writes the content.
	Apply(ctx context.Context, content map[string][]byte) error
	// Fail says that there is no content yet. After several failures the driver's pods start without.
	Fail()
}
