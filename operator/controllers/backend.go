package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

// errNoBackendCredentials says that the backend cannot be queried yet.
var errNoBackendCredentials = errors.New("there are no credentials to ask with yet")

// requestTimeout is how long a backend or a cloud may take to answer.
const requestTimeout = 30 * time.Second

// backendRetryInterval is the time until the next query after a failure. It is shorter than the usual interval, because
// outages are short.
const backendRetryInterval = time.Minute

// classesMade is the suffix of the condition that reports whether each offer of the backend has a StorageClass.
const classesMade = "ClassesMade"

// A backend queries the driver's backend, and reports the answer in conditions.
type backend struct {
	BackendOptions
	leftOut string // the last message about offers without a StorageClass
}

// BackendOptions are the dependencies of the controller.
type BackendOptions struct {
	Driver    drivers.Driver
	Namespace string // the driver's
	// Classes queries the backend; see package drivers/controller.
	Classes func(ctx context.Context, cloud drivers.Cloud) (classes []storagev1.StorageClass, leftOut []string, err error)
	// Secret is the informer of the Secret with the backend's credentials.
	Secret coreinformers.SecretInformer
	// Cloud returns the cluster's information about the cloud, without credentials. Triggers are informers of the
	// objects that Cloud reads.
	Cloud    func() (drivers.Cloud, error)
	Triggers []factory.Informer
	Reporter *clustercsidriver.Reporter
	Recorder events.Recorder
	// Installed says that the driver is already installed, and so does not depend on the backend's offers.
	Installed bool
	// Known are the StorageClasses that the cycle manages. When the backend offers more, the controller adds them to
	// Offers and calls OnNew.
	Known  []drivers.Manifest
	Offers *Offers
	OnNew  func()
}

// NewBackend returns the controller that queries the driver's backend for its offers, such as Manila's share types. Once there is an
// offer, the operator installs the driver, with a StorageClass for each offer. It keeps the StorageClass even if the backend withdraws
// the offer, because volumes may exist.
func NewBackend(options BackendOptions) factory.Controller {
	c := &backend{BackendOptions: options}
	c.leftOut = c.Reporter.Condition(c.Driver.ConditionPrefix + "Backend" + classesMade).Message
	return factory.New().
		WithInformers(append(c.Triggers, c.Secret.Informer())...).
		WithSync(c.sync).
		ResyncEvery(c.Driver.Backend.Interval).
		ToController(c.Driver.ConditionPrefix+"BackendController", c.Recorder)
}

func (c *backend) sync(ctx context.Context, syncContext factory.SyncContext) error {
	classes, leftOut, err := c.ask(ctx)
	if ctx.Err() != nil {
		return nil // the shutdown says nothing about the backend
	}
	if err == nil {
		c.recordLeftOut(strings.Join(leftOut, " "))
	} else {
		klog.V(2).InfoS("The backend cannot be asked", "backend", c.Driver.Backend.Name, "reason", err)
		syncContext.Queue().AddAfter(syncContext.QueueKey(), min(backendRetryInterval, c.Driver.Backend.Interval))
	}
	if err := c.report(ctx, len(classes), err); err != nil {
		return err
	}
	known := classNames(c.Known)
	if slices.ContainsFunc(classes, func(m drivers.Manifest) bool { return !slices.Contains(known, m.Object.GetName()) }) {
		klog.InfoS("The backend offers something new", "backend", c.Driver.Backend.Name, "storageClasses", classNames(classes))
		c.Offers.add(classes)
		c.OnNew()
		return nil
	}
	klog.V(4).InfoS("The backend offers nothing new", "backend", c.Driver.Backend.Name)
	return nil
}

// recordLeftOut records an event when the message about offers without a StorageClass changes.
func (c *backend) recordLeftOut(message string) {
	if message != c.leftOut && message != "" {
		c.Recorder.Warning("BackendLeftOut", message)
	}
	c.leftOut = message
}

// ask returns the StorageClasses of all the backend's offers, and a sentence about each offer without a class.
func (c *backend) ask(ctx context.Context) (classes []drivers.Manifest, leftOut []string, err error) {
	backend := c.Driver.Backend
	secret, err := c.Secret.Lister().Secrets(c.Namespace).Get(backend.Secret)
	if apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("%w: Secret %s is not in namespace %s", errNoBackendCredentials, backend.Secret, c.Namespace)
	}
	if err != nil {
		return nil, nil, err
	}
	cloud, err := c.Cloud()
	if err != nil {
		return nil, nil, err
	}
	cloud.Credentials = secret.Data
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	offered, leftOut, err := c.Classes(ctx, cloud)
	if err != nil {
		return nil, nil, err
	}
	if classes, err = classManifests(c.Driver, offered); err != nil {
		return nil, nil, err
	}
	classes, more := limitClasses(backend, classes, MergeClasses(c.Known, c.Offers.Classes()))
	if more != "" {
		leftOut = append(leftOut, more)
	}
	return classes, leftOut, nil
}

// report reports whether the backend can be queried, whether that blocks the installation of the driver, and which
// offers have no StorageClass. None of these is a failure of the driver or of the operator.
func (c *backend) report(ctx context.Context, offered int, failure error) error {
	backend := c.Driver.Backend
	answers := backendCondition(c.Driver, "Answers", operatorv1.ConditionTrue, "AsExpected", "")
	if failure != nil {
		answers = backendCondition(c.Driver, "Answers", operatorv1.ConditionFalse, "CannotBeAsked", fmt.Sprintf(
			"%s cannot be asked for its %ss; the installed driver stays as it is: %v", backend.Name, backend.Kind, failure))
	}
	made := backendCondition(c.Driver, classesMade, operatorv1.ConditionTrue, "AsExpected", "")
	if c.leftOut != "" {
		made = backendCondition(c.Driver, classesMade, operatorv1.ConditionFalse, "LeftOut", c.leftOut)
	}
	disabled := c.disabledCondition(operatorv1.ConditionFalse, "AsExpected", "")
	decided := []*applyoperatorv1.OperatorConditionApplyConfiguration{
		backendCondition(c.Driver, operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionTrue, "AsExpected", ""),
		backendCondition(c.Driver, operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse, "AsExpected", ""),
	}
	switch {
	case c.Installed:
	case offered > 0:
		decided = undecidedBackend(c.Driver, "Offered", "the driver is about to be installed")
	case errors.Is(failure, errNoBackendCredentials):
		decided = undecidedBackend(c.Driver, "NoCredentials", failure.Error())
	case failure != nil:
		disabled = c.disabledCondition(operatorv1.ConditionTrue, "BackendUnknown", fmt.Sprintf(
			"the driver is installed as soon as %s says that it has a %s; now it cannot be asked: %v", backend.Name, backend.Kind, failure))
	case c.leftOut != "":
		disabled = c.disabledCondition(operatorv1.ConditionTrue, "NothingOffered", fmt.Sprintf(
			"the driver is installed as soon as there is something to serve: %s has no %s that a StorageClass can be made for. %s", backend.Name, backend.Kind, c.leftOut))
	default:
		disabled = c.disabledCondition(operatorv1.ConditionTrue, "NothingOffered", fmt.Sprintf(
			"the driver is installed as soon as there is something to serve: %s has no %s", backend.Name, backend.Kind))
	}
	return applyBackendStatus(ctx, c.Driver, c.Reporter, append(decided, answers, made, disabled)...)
}

// ReportAskingBackend reports that the operator is about to query the backend, unless the status already has a result.
// Without this report, the operator would appear to have nothing to do.
func ReportAskingBackend(ctx context.Context, driver drivers.Driver, reporter *clustercsidriver.Reporter) error {
	if reporter.Condition(driver.ConditionPrefix+"BackendProgressing").Type != "" {
		return nil
	}
	return applyBackendStatus(ctx, driver, reporter, undecidedBackend(driver, "Asking",
		fmt.Sprintf("%s is about to be asked for its %ss", driver.Backend.Name, driver.Backend.Kind))...)
}

// undecidedBackend returns the conditions until the driver's installation begins, or until the cloud turns out to have nothing for it.
// They report that the driver is not available. Otherwise it would seem to become unavailable as soon as its installation begins.
func undecidedBackend(driver drivers.Driver, reason, message string) []*applyoperatorv1.OperatorConditionApplyConfiguration {
	return []*applyoperatorv1.OperatorConditionApplyConfiguration{
		backendCondition(driver, operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionFalse, reason, message),
		backendCondition(driver, operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionTrue, reason, message),
	}
}

func applyBackendStatus(ctx context.Context, driver drivers.Driver, reporter *clustercsidriver.Reporter, conditions ...*applyoperatorv1.OperatorConditionApplyConfiguration) error {
	return reporter.ApplyOperatorStatus(ctx, driver.ConditionPrefix+"Backend", applyoperatorv1.OperatorStatus().WithConditions(conditions...))
}

// backendCondition returns a condition of the backend, such as Progressing.
func backendCondition(driver drivers.Driver, conditionType string, status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
	return applyoperatorv1.OperatorCondition().WithType(driver.ConditionPrefix + "Backend" + conditionType).
		WithStatus(status).WithReason(reason).WithMessage(message)
}

// disabledCondition returns the condition that reports whether the driver is not installed because the cloud has nothing for it.
// OpenShift does not count condition types that end in Disabled as faults.
func (c *backend) disabledCondition(status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
	return applyoperatorv1.OperatorCondition().WithType(c.Driver.ConditionPrefix + "ControllerDisabled").
		WithStatus(status).WithReason(reason).WithMessage(message)
}
