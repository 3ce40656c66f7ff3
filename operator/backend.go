package operator

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
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/yaml"
)

// errNoCredentials says that a backend has not been asked yet.
var errNoCredentials = errors.New("there are no credentials to ask with yet")

// backendTimeout is how long a backend may take to answer. Nobody waits for it but the driver's own
// installation.
const backendTimeout = 30 * time.Second

// classesMade is the end of the condition that tells whether all that the backend offers has a StorageClass.
const classesMade = "ClassesMade"

// A backendController asks what the driver's backend offers, and tells in conditions what it has heard. It
// takes nothing back: what was offered once has volumes.
type backendController struct {
	*operator
	clients *clients
	// deployed says that the driver is installed, whatever the backend says.
	deployed bool
	// known are the names of the StorageClasses that there are already.
	known []string
	// more is called when more is offered than what is known.
	more func()
	// leftOut is the last message about what is offered and has no StorageClass.
	leftOut string
}

func (o *operator) newBackendController(c *clients, deployed bool, known []drivers.Manifest, more func()) factory.Controller {
	controller := &backendController{operator: o, clients: c, deployed: deployed, known: namesOf(known), more: more}
	controller.leftOut = c.condition(o.driver.ConditionPrefix + "Backend" + classesMade).Message
	return factory.New().
		WithInformers(c.secrets(o.driver.Backend.Secret).Informer()).
		WithSync(controller.sync).
		ResyncEvery(o.driver.Backend.Interval).
		ToController(o.driver.ConditionPrefix+"BackendController", o.recorder)
}

func (c *backendController) sync(ctx context.Context, _ factory.SyncContext) error {
	classes, leftOut, err := c.ask(ctx)
	if ctx.Err() != nil {
		return nil // told to stop, which says nothing about the backend
	}
	if err == nil {
		c.leaveOut(strings.Join(leftOut, " "))
	}
	if err := c.report(ctx, len(classes), err); err != nil {
		return err
	}
	if slices.ContainsFunc(classes, func(m drivers.Manifest) bool { return !slices.Contains(c.known, m.Object.GetName()) }) {
		c.offered = union(classes, c.offered)
		c.more()
	}
	return nil
}

// leaveOut tells in an event, when that changes, what is offered and has no StorageClass.
func (c *backendController) leaveOut(message string) {
	if message != c.leftOut && message != "" {
		c.recorder.Warning("BackendLeftOut", message)
	}
	c.leftOut = message
}

// ask returns the StorageClasses of all that the backend offers, and a sentence about each thing that has none.
func (c *backendController) ask(ctx context.Context) (made []drivers.Manifest, leftOut []string, err error) {
	backend := c.driver.Backend
	secret, err := c.clients.secrets(backend.Secret).Lister().Secrets(c.clients.place.namespace).Get(backend.Secret)
	if apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("%w: Secret %s is not in namespace %s", errNoCredentials, backend.Secret, c.clients.place.namespace)
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, backendTimeout)
	defer cancel()
	classes, leftOut, err := backend.Classes(ctx, secret.Data, c.clients.place.namespace)
	if err != nil {
		return nil, nil, err
	}
	made, err = c.asManifests(classes)
	return made, leftOut, err
}

// asManifests makes objects of the driver of StorageClasses that its assets do not have.
func (o *operator) asManifests(classes []storagev1.StorageClass) ([]drivers.Manifest, error) {
	var manifests []drivers.Manifest
	for _, class := range classes {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&class)
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{Object: map[string]any{}}
		for _, field := range []string{"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion"} {
			if value, ok := content[field]; ok {
				object.Object[field] = value
			}
		}
		object.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("StorageClass"))
		object.SetName(class.Name)
		object.SetLabels(labels.Merge(class.Labels, labels.Set{managedByLabel: o.driver.Operator.Name}))
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, drivers.Manifest{File: "backend/" + class.Name, YAML: document, Object: object})
	}
	return manifests, nil
}

// report tells what became of a question: whether the backend answers, whether that keeps the driver from being
// installed, and what it offers in vain. None is a failure of the driver, nor of the operator.
func (c *backendController) report(ctx context.Context, offered int, failure error) error {
	backend := c.driver.Backend
	answers := c.backendCondition("Answers", operatorv1.ConditionTrue, "AsExpected", "")
	if failure != nil {
		answers = c.backendCondition("Answers", operatorv1.ConditionFalse, "CannotBeAsked", fmt.Sprintf(
			"%s cannot be asked for its %ss; what is installed stays as it is: %v", backend.Name, backend.Kind, failure))
	}
	made := c.backendCondition(classesMade, operatorv1.ConditionTrue, "AsExpected", "")
	if c.leftOut != "" {
		made = c.backendCondition(classesMade, operatorv1.ConditionFalse, "LeftOut", c.leftOut)
	}
	disabled := c.disabledCondition(operatorv1.ConditionFalse, "AsExpected", "")
	progressing := c.backendCondition("Progressing", operatorv1.ConditionFalse, "AsExpected", "")
	switch {
	case c.deployed:
	case offered > 0:
		progressing = c.backendCondition("Progressing", operatorv1.ConditionTrue, "Offered", "the driver is about to be installed")
	case errors.Is(failure, errNoCredentials):
		progressing = c.backendCondition("Progressing", operatorv1.ConditionTrue, "NoCredentials", failure.Error())
	case failure != nil:
		disabled = c.disabledCondition(operatorv1.ConditionTrue, "BackendUnknown", fmt.Sprintf(
			"the driver is installed as soon as %s says that it has a %s; now it cannot be asked: %v", backend.Name, backend.Kind, failure))
	case c.leftOut != "":
		disabled = c.disabledCondition(operatorv1.ConditionTrue, "NothingOffered", fmt.Sprintf(
			"the driver is installed as soon as there is something to serve: %s has no %s that a StorageClass can be made for", backend.Name, backend.Kind))
	default:
		disabled = c.disabledCondition(operatorv1.ConditionTrue, "NothingOffered", fmt.Sprintf(
			"the driver is installed as soon as there is something to serve: %s has no %s", backend.Name, backend.Kind))
	}
	return c.applyBackendStatus(ctx, c.clients, answers, made, disabled, progressing)
}

func (o *operator) applyBackendStatus(ctx context.Context, c *clients, conditions ...*applyoperatorv1.OperatorConditionApplyConfiguration) error {
	return c.customResource.ApplyOperatorStatus(ctx, o.driver.ConditionPrefix+"Backend", applyoperatorv1.OperatorStatus().WithConditions(conditions...))
}

// backendCondition returns a condition of the backend, such as Progressing.
func (o *operator) backendCondition(conditionType string, status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
	return applyoperatorv1.OperatorCondition().WithType(o.driver.ConditionPrefix + "Backend" + conditionType).
		WithStatus(status).WithReason(reason).WithMessage(message)
}

// disabledCondition tells whether the driver is left out. OpenShift knows conditions that end in Disabled:
// what is left out is no fault of the cluster.
func (o *operator) disabledCondition(status operatorv1.ConditionStatus, reason, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
	return applyoperatorv1.OperatorCondition().WithType(o.driver.ConditionPrefix + "ControllerDisabled").
		WithStatus(status).WithReason(reason).WithMessage(message)
}

// offers returns the StorageClasses of what the driver's backend offers, or has offered, so that the driver
// is to be installed for them. Where there are none it waits, until ctx ends, with no more of the driver in
// the cluster than it takes to ask.
func (o *operator) offers(ctx context.Context, c *clients, manifests []drivers.Manifest) ([]drivers.Manifest, error) {
	made, err := o.classesMade(ctx, c)
	if err != nil {
		return nil, err
	}
	deployed, err := o.deployed(ctx, c, manifests)
	if err != nil {
		return nil, err
	}
	if !deployed && len(o.offered) == 0 {
		err = o.awaitOffer(ctx, c, manifests)
	}
	return union(o.offered, made), err
}

// awaitOffer waits until the backend offers something, or ctx ends.
func (o *operator) awaitOffer(ctx context.Context, c *clients, manifests []drivers.Manifest) error {
	if c.condition(o.driver.ConditionPrefix+"BackendProgressing").Type == "" { // so that nobody takes us for done
		if err := o.applyBackendStatus(ctx, c, o.backendCondition("Progressing", operatorv1.ConditionTrue, "Asking",
			fmt.Sprintf("%s is about to be asked for its %ss", o.driver.Backend.Name, o.driver.Backend.Kind))); err != nil {
			return err
		}
	}
	waiting, end := context.WithCancel(ctx)
	defer end()
	namespaces, _ := o.newObjectsController(c, drivers.OfKind(manifests, "Namespace"))
	parts := o.parts(drivers.OfKind(manifests, "CredentialsRequest"))
	c.customResource.expect(parts)
	first := []factory.Controller{namespaces, o.newBackendController(c, false, nil, end)}
	for _, p := range parts {
		first = append(first, o.newCredentialsController(c, p))
	}
	c.startInformers(ctx) // They are needed for longer.
	return runAll(waiting, []func(context.Context) error{
		func(ctx context.Context) error { return o.reportManifests(ctx, c, nil) },
		func(ctx context.Context) error { return o.onlyReport(ctx, c) },
		func(ctx context.Context) error { return c.run(ctx, first) },
	})
}

// deployed tells whether this operator, or an earlier one of the driver, has installed it. The nodes' part of a driver
// shows that: every version has it, and volumes hang on it.
func (o *operator) deployed(ctx context.Context, c *clients, manifests []drivers.Manifest) (bool, error) {
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(m.Object.GroupVersionKind())
		err := c.objects.Get(ctx, client.ObjectKeyFromObject(m.Object), live)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading DaemonSet %s: %w", m.Object.GetName(), err)
		}
		if err == nil && o.ours(live) {
			return true, nil
		}
	}
	return false, nil
}

// classesMade returns the StorageClasses that were made of what the backend has offered.
func (o *operator) classesMade(ctx context.Context, c *clients) ([]drivers.Manifest, error) {
	if o.driver.Backend == nil {
		return nil, nil // all of its classes are assets
	}
	list := &storagev1.StorageClassList{}
	if err := c.objects.List(ctx, list, client.MatchingLabels{managedByLabel: o.driver.Operator.Name}); err != nil {
		return nil, fmt.Errorf("listing the driver's StorageClasses: %w", err)
	}
	return o.asManifests(list.Items)
}

// union returns the manifests of both lists, sorted by name. Of those in both it takes the first one's.
func union(first, second []drivers.Manifest) []drivers.Manifest {
	all := slices.Concat(first, second)
	slices.SortStableFunc(all, byName)
	return slices.CompactFunc(all, func(a, b drivers.Manifest) bool { return byName(a, b) == 0 })
}

func byName(a, b drivers.Manifest) int {
	return strings.Compare(a.Object.GetName(), b.Object.GetName())
}

func namesOf(manifests []drivers.Manifest) []string {
	var names []string
	for _, m := range manifests {
		names = append(names, m.Object.GetName())
	}
	return names
}
