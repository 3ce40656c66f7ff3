package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

// refusalsInterval is how often the controller checks whether missing pods were refused. It also checks whenever the
// status of the Deployment or DaemonSet changes, but the event about a refusal may come later.
const refusalsInterval = time.Minute

// maxRefusal is the maximum length of a reported refusal, in bytes.
const maxRefusal = 1000

// A podRefusals reports in a condition that the API server refuses pods of the driver, and why. Without this condition, it would look as
// if the pods of the DaemonSet and the Deployment only took longer to start.
type podRefusals struct {
	Workloads
	components []clustercsidriver.Component
	clock      clock.PassiveClock
}

// newRefusalsController returns the controller for the components that are a Deployment or a DaemonSet.
func (b Workloads) newRefusalsController(components []clustercsidriver.Component) factory.Controller {
	c := &podRefusals{Workloads: b, components: components, clock: clock.RealClock{}}
	var informers []factory.Informer
	for _, component := range components {
		apps := b.Named(component.Manifest.Object.GetName()).Apps().V1()
		switch component.Manifest.Object.GetKind() {
		case "Deployment":
			informers = append(informers, apps.Deployments().Informer())
		case "DaemonSet":
			informers = append(informers, apps.DaemonSets().Informer())
		}
	}
	return factory.New().
		WithInformers(informers...).
		WithSync(c.sync).
		ResyncEvery(refusalsInterval).
		WithSyncDegradedOnError(b.OperatorClient).
		ToController(b.Driver.ConditionPrefix+"DriverPodsController", b.Recorder)
}

func (c *podRefusals) sync(ctx context.Context, _ factory.SyncContext) error {
	var refused []string
	for _, component := range c.components {
		name, text := component.Manifest.Object.GetName(), ""
		var err error
		switch kind := component.Manifest.Object.GetKind(); kind {
		case "Deployment":
			text, err = c.ofDeployment(name)
		case "DaemonSet":
			text, err = c.ofDaemonSet(ctx, name)
		}
		if err != nil {
			return err
		}
		if text != "" {
			refused = append(refused, fmt.Sprintf("pods of %s %s/%s cannot be created: %s",
				component.Manifest.Object.GetKind(), c.Namespace, name, escape.Visible(escape.Short(text, maxRefusal))))
		}
	}
	degraded := applyoperatorv1.OperatorCondition().WithType(c.Driver.ConditionPrefix + "DriverPodsDegraded").
		WithStatus(operatorv1.ConditionFalse).WithReason("AsExpected").WithMessage("")
	if len(refused) > 0 {
		degraded.WithStatus(operatorv1.ConditionTrue).WithReason("PodsRefused").WithMessage(strings.Join(refused, "; "))
	}
	return c.OperatorClient.ApplyOperatorStatus(ctx, c.Driver.ConditionPrefix+"DriverPods", applyoperatorv1.OperatorStatus().WithConditions(degraded))
}

// ofDeployment returns why pods of a Deployment were refused. The Deployment's status says why.
func (c *podRefusals) ofDeployment(name string) (string, error) {
	live, err := c.Named(name).Apps().V1().Deployments().Lister().Deployments(c.Namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, condition := range live.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return condition.Message, nil
		}
	}
	return "", nil
}

// ofDaemonSet returns why pods of a DaemonSet were refused. Only the DaemonSet's events say why. They are read only while pods are
// missing.
func (c *podRefusals) ofDaemonSet(ctx context.Context, name string) (string, error) {
	live, err := c.Named(name).Apps().V1().DaemonSets().Lister().DaemonSets(c.Namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil || live.Status.CurrentNumberScheduled >= live.Status.DesiredNumberScheduled {
		return "", err
	}
	return rollout.LastRefusal(ctx, c.Kube.CoreV1().RESTClient(), live, c.clock.Now())
}
