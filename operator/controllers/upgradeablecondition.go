package controllers

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

	"github.com/berth-csi/berth/operator/objects"
)

// OperatorConditionEnv is set by OLM to the name of the OperatorCondition for this version of the operator. OLM also lets
// the operator's service account read and write that object.
const OperatorConditionEnv = "OPERATOR_CONDITION_NAME"

// An UpgradeableCondition is the condition Upgradeable of the operator's OperatorCondition. It tells OLM whether OLM may replace the
// operator with another version now.
type UpgradeableCondition struct {
	inner conditions.Condition // nil where OLM does not run the operator
	show  func(isUpgradeable bool)
}

// An UpgradeableReason is a reason of the condition. Only Settled allows an upgrade.
type UpgradeableReason struct{ name, message string }

var (
	Settled      = UpgradeableReason{"Settled", "no adoption or removal of the driver is in progress"}
	Adopting     = UpgradeableReason{"Adopting", "objects of an earlier operator are being taken over, until the driver has rolled out"}
	Uninstalling = UpgradeableReason{"Uninstalling", "the driver is being removed"}
)

// NewUpgradeableCondition returns the condition of the operator that runs in this process. show is called with each
// value that is written for OLM.
func NewUpgradeableCondition(cfg *rest.Config, show func(isUpgradeable bool)) (*UpgradeableCondition, error) {
	inner, err := newCondition(cfg, operatorsv2.ConditionType(operatorsv2.Upgradeable))
	return &UpgradeableCondition{inner, show}, err
}

// conditionRetries are the pauses between attempts to write a condition.
var conditionRetries = wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: time.Minute}

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
func (c *UpgradeableCondition) Set(ctx context.Context, reason UpgradeableReason) error {
	if c.inner == nil {
		return nil
	}
	status := metav1.ConditionFalse
	if reason == Settled {
		status = metav1.ConditionTrue
	}
	return objects.RetryOnConflict(ctx, func() error {
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

// TrySet does what Set does, where a failure must not block the operator: it logs the error. The caller sets the condition again later.
func (c *UpgradeableCondition) TrySet(ctx context.Context, reason UpgradeableReason) (ok bool) {
	err := c.Set(ctx, reason)
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Failed to set Upgradeable in the OperatorCondition", "reason", reason.name)
	}
	return err == nil
}

// SetUntilDone retries until the condition is set or ctx ends: OLM gives the permission to write it only after it has
// started the operator.
func (c *UpgradeableCondition) SetUntilDone(ctx context.Context, reason UpgradeableReason) {
	_ = conditionRetries.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (done bool, err error) { return c.TrySet(ctx, reason), nil })
}

// Has reports whether the condition has a reason.
func (c *UpgradeableCondition) Has(ctx context.Context, reason UpgradeableReason) bool {
	if c.inner == nil {
		return false
	}
	now, err := c.inner.Get(ctx)
	return err == nil && now.Reason == reason.name
}
