package controllers

import (
	"context"

	"github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/operator/objects"
)

// OperatorDegraded is the OperatorCondition's condition Degraded. It is for reports that must not be in the status of
// the ClusterCSIDriver, because that object is another operator's.
type OperatorDegraded struct {
	inner conditions.Condition // nil where OLM does not run the operator
}

// NewOperatorDegraded returns the condition of the operator that runs in this process.
func NewOperatorDegraded(cfg *rest.Config) (*OperatorDegraded, error) {
	inner, err := newCondition(cfg, "Degraded")
	return &OperatorDegraded{inner}, err
}

// SetUntilDone sets the condition to True. It retries until that is done or ctx ends, because OLM gives the permission only after it has
// started the operator.
func (d *OperatorDegraded) SetUntilDone(ctx context.Context, reason, message string) {
	d.retry(ctx, func(ctx context.Context) error {
		if now, err := d.inner.Get(ctx); err == nil && now.Status == metav1.ConditionTrue && now.Reason == reason && now.Message == message {
			return nil
		}
		return d.inner.Set(ctx, metav1.ConditionTrue, conditions.WithReason(reason), conditions.WithMessage(message))
	})
}

// ClearUntilDone sets the condition to False if an operator of this version has set it.
func (d *OperatorDegraded) ClearUntilDone(ctx context.Context) {
	d.retry(ctx, func(ctx context.Context) error {
		if now, err := d.inner.Get(ctx); err != nil || now.Status == metav1.ConditionFalse {
			return nil // an error means that there is no such condition
		}
		return d.inner.Set(ctx, metav1.ConditionFalse, conditions.WithReason("AsExpected"))
	})
}

func (d *OperatorDegraded) retry(ctx context.Context, do func(context.Context) error) {
	if d.inner == nil {
		return
	}
	_ = conditionRetries.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		err = objects.RetryOnConflict(ctx, func() error { return do(ctx) })
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to set Degraded in the OperatorCondition")
		}
		return err == nil, nil
	})
}
