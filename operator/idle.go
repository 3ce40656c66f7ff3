package operator

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/operator/controllers"
	"github.com/berth-csi/berth/operator/leader"
)

// waitForOther reports that another operator manages the driver, and waits until that operator is gone.
func (c *cycle) waitForOther(ctx context.Context, namespaces []string, other *leader.Holder) error {
	klog.InfoS("Waiting: another operator manages the driver", "clusterCSIDriver", c.driver.CSIName, "pod", other.Pod, "lock", other.Lock)
	if err := c.finder.ReportOtherOperator(ctx, fmt.Sprintf(
		"another operator manages the driver: its pod, %s, holds the lock %s in namespace %s. "+
			"This operator leaves the driver alone until the other operator is gone: delete the other operator's Subscription and ClusterServiceVersion",
		other.Pod, other.Lock.Name, other.Lock.Namespace)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return runAll(ctx, c.idle, func(ctx context.Context) error {
		defer cancel()
		return wait.PollUntilContextCancel(ctx, leader.PollInterval, false, func(ctx context.Context) (bool, error) {
			other, err := c.lock.OtherHolder(ctx, c.finder.Client, namespaces)
			return other == nil, err
		})
	})
}

// idle runs the controllers for an operator that leaves the driver as it is, until ctx ends.
func (c *cycle) idle(ctx context.Context) error {
	return runAll(ctx,
		func(ctx context.Context) error { return c.runControllers(ctx, c.newLogLevelController()) },
		func(ctx context.Context) error { c.upgradeable.SetUntilDone(ctx, controllers.Settled); return nil },
	)
}

// leaveUnmanaged leaves the driver as it is, and reports that, until ctx ends.
func (c *cycle) leaveUnmanaged(ctx context.Context) error {
	spec, _, _, err := c.reporter.GetOperatorState()
	if err != nil {
		return err
	}
	condition := func(conditionType string, status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
		return applyoperatorv1.OperatorCondition().WithType(c.driver.ConditionPrefix + "ManagementState" + conditionType).
			WithStatus(status).WithReason(reason).WithMessage(message)
	}
	const unmanaged = "the operator does not manage the driver's objects while spec.managementState is Unmanaged"
	conditions := applyoperatorv1.OperatorStatus().WithConditions(
		condition(operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionUnknown, "Unmanaged", unmanaged),
		condition(operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse, "Unmanaged", unmanaged),
		condition(operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionFalse, "Unmanaged", unmanaged))
	if spec.ManagementState != operatorv1.Unmanaged {
		conditions = applyoperatorv1.OperatorStatus().WithConditions(
			condition(operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionTrue, "UnsupportedState", fmt.Sprintf(
				"spec.managementState is %q; want Managed, Unmanaged or Removed; the driver is left as it is", spec.ManagementState)))
	}
	if err := c.reporter.ApplyOperatorStatus(ctx, c.driver.ConditionPrefix+"ManagementState", conditions); err != nil {
		return err
	}
	return c.idle(ctx)
}

// orphan removes the finalizer of a ClusterCSIDriver that is deleted while it is unmanaged.
func (c *cycle) orphan(ctx context.Context) error {
	if err := c.finalizer.Remove(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// refuseRemoval reports that the driver cannot be removed.
func (c *cycle) refuseRemoval(ctx context.Context) error {
	name := c.driver.ConditionPrefix + "ManagementState"
	return c.reporter.ApplyOperatorStatus(ctx, name, applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(name+operatorv1.OperatorStatusTypeDegraded).WithStatus(operatorv1.ConditionTrue).
			WithReason("RemovalNotSupported").WithMessage("spec.managementState is Removed, but the platform needs this driver, so it is kept and managed: "+
			"set it to Managed; or, to bring a driver of your own, to Unmanaged")))
}
