package operator

import (
	"context"
	"math"
	"os"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorConditionVariable is set by the Operator Lifecycle Manager (OLM), to the name of the
// OperatorCondition that it has made for this version of the operator. It also lets the operator's service
// account read and write that object.
const operatorConditionVariable = "OPERATOR_CONDITION_NAME"

// upgradeable tells OLM, in the OperatorCondition's condition Upgradeable, whether it may replace the
// operator with another version now.
type upgradeable struct {
	condition conditions.Condition // nil where OLM does not run the operator: nobody asks there
}

// upgradeVerdict is what it tells. Each reason but the first forbids.
type upgradeVerdict struct{ reason, message string }

var (
	mayUpgrade        = upgradeVerdict{"Settled", "the operator is in the middle of nothing"}
	whileAdopting     = upgradeVerdict{"Adopting", "objects of an earlier operator are being taken over, until the driver has rolled out"}
	whileUninstalling = upgradeVerdict{"Uninstalling", "the driver is being removed"}
)

func newUpgradeable(cfg *rest.Config) (upgradeable, error) {
	if os.Getenv(operatorConditionVariable) == "" {
		return upgradeable{}, nil
	}
	scheme := runtime.NewScheme()
	if err := operatorsv2.AddToScheme(scheme); err != nil {
		return upgradeable{}, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return upgradeable{}, err
	}
	condition, err := conditions.InClusterFactory{Client: c}.NewCondition(operatorsv2.ConditionType(operatorsv2.Upgradeable))
	return upgradeable{condition}, err
}

// tell writes the verdict unless it stands there already.
func (u upgradeable) tell(ctx context.Context, verdict upgradeVerdict) error {
	if u.condition == nil {
		return nil
	}
	status := metav1.ConditionFalse
	if verdict == mayUpgrade {
		status = metav1.ConditionTrue
	}
	return retry.RetryOnConflict(conflictBackoff, func() error {
		// An error means that there is no such condition yet, or one that the write meets as well.
		if now, err := u.condition.Get(ctx); err == nil && now.Status == status && now.Reason == verdict.reason {
			return nil
		}
		return u.condition.Set(ctx, status, conditions.WithReason(verdict.reason), conditions.WithMessage(verdict.message))
	})
}

// try is tell for where a failure must hold up nothing. It is told again later.
func (u upgradeable) try(ctx context.Context, verdict upgradeVerdict) (told bool) {
	err := u.tell(ctx, verdict)
	if err != nil && ctx.Err() == nil {
		klog.Errorf("telling OLM whether it may replace the operator (%s): %v", verdict.reason, err)
	}
	return err == nil
}

// insist tries until it has succeeded or ctx ends: OLM gives the permission to write only after it has
// started the operator.
func (u upgradeable) insist(ctx context.Context, verdict upgradeVerdict) {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: time.Minute}
	for ctx.Err() == nil && !u.try(ctx, verdict) {
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Step()):
		}
	}
}

// says tells whether a verdict stands there.
func (u upgradeable) says(ctx context.Context, verdict upgradeVerdict) bool {
	if u.condition == nil {
		return false
	}
	now, err := u.condition.Get(ctx)
	return err == nil && now.Reason == verdict.reason
}

// newUpgradeableController ends the time of adoption when the driver has rolled out.
func (o *operator) newUpgradeableController(c *clients, adopting bool) factory.Controller {
	var told upgradeVerdict
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		rolledOut := c.condition(operatorv1.OperatorStatusTypeAvailable).Status == operatorv1.ConditionTrue &&
			c.condition(operatorv1.OperatorStatusTypeProgressing).Status == operatorv1.ConditionFalse
		adopting = adopting && !rolledOut
		verdict := mayUpgrade
		if adopting {
			verdict = whileAdopting
		}
		if verdict == told {
			return nil
		}
		if err := o.upgradeable.tell(ctx, verdict); err != nil {
			return err
		}
		told = verdict
		return nil
	}
	return factory.New().WithInformers(c.customResource.Informer()).WithSync(sync).
		ToController(o.driver.ConditionPrefix+"UpgradeableController", o.recorder)
}
