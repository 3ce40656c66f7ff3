// Package upgradeable reports in the operator's OperatorCondition, which belongs to OLM: in the condition Upgradeable,
// whether OLM may replace the operator with another version now, and in the condition Degraded, why the operator does
// nothing.
package upgradeable

import (
	"context"
	"math"
	"os"
	"time"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/operator/conflict"
)

// OperatorConditionEnv is set by OLM to the name of the OperatorCondition for this version of the operator. OLM also lets
// the operator's service account read and write that object.
const OperatorConditionEnv = "OPERATOR_CONDITION_NAME"

// A Condition is the OperatorCondition's condition Upgradeable.
type Condition struct {
	inner conditions.Condition // nil where OLM does not run the operator
	show  func(isUpgradeable bool)
}

// A Reason is a reason of the condition. Only Settled allows an upgrade.
type Reason struct{ name, message string }

var (
	Settled      = Reason{"Settled", "no adoption or removal of the driver is in progress"}
	Adopting     = Reason{"Adopting", "objects of an earlier operator are being taken over, until the driver has rolled out"}
	Uninstalling = Reason{"Uninstalling", "the driver is being removed"}
)

// New returns the condition of the operator that runs in this process. show is called with each value that OLM sees.
func New(cfg *rest.Config, show func(isUpgradeable bool)) (*Condition, error) {
	inner, err := newCondition(cfg, operatorsv2.ConditionType(operatorsv2.Upgradeable))
	return &Condition{inner, show}, err
}

// newCondition returns a condition of the OperatorCondition, nil where OLM does not run the operator.
func newCondition(cfg *rest.Config, conditionType operatorsv2.ConditionType) (conditions.Condition, error) {
	if os.Getenv(OperatorConditionEnv) == "" {
		return nil, nil
	}
	scheme := runtime.NewScheme()
	if err := operatorsv2.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return conditions.InClusterFactory{Client: c}.NewCondition(conditionType)
}

// Set writes the condition unless it has the reason already.
func (c *Condition) Set(ctx context.Context, reason Reason) error {
	if c.inner == nil {
		return nil
	}
	status := metav1.ConditionFalse
	if reason == Settled {
		status = metav1.ConditionTrue
	}
	return conflict.Retry(ctx, func() error {
		// An error means that the condition does not exist yet, or that the write will fail, too.
		if now, err := c.inner.Get(ctx); err == nil && now.Status == status && now.Reason == reason.name {
			c.show(reason == Settled)
			return nil
		}
		if err := c.inner.Set(ctx, status, conditions.WithReason(reason.name), conditions.WithMessage(reason.message)); err != nil {
			return err
		}
		c.show(reason == Settled)
		klog.V(2).InfoS("Set Upgradeable in the OperatorCondition", "status", status, "reason", reason.name)
		return nil
	})
}

// TrySet is Set where a failure must not block the operator. The caller sets the condition again later.
func (c *Condition) TrySet(ctx context.Context, reason Reason) (ok bool) {
	err := c.Set(ctx, reason)
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Failed to set Upgradeable in the OperatorCondition", "reason", reason.name)
	}
	return err == nil
}

// SetUntilDone retries until the condition is set or ctx ends: OLM gives the permission to write it only after it has
// started the operator.
func (c *Condition) SetUntilDone(ctx context.Context, reason Reason) {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: time.Minute}
	for ctx.Err() == nil && !c.TrySet(ctx, reason) {
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Step()):
		}
	}
}

// Has reports whether the condition has a reason.
func (c *Condition) Has(ctx context.Context, reason Reason) bool {
	if c.inner == nil {
		return false
	}
	now, err := c.inner.Get(ctx)
	return err == nil && now.Reason == reason.name
}
