package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	operatorinformers "github.com/openshift/client-go/operator/informers/externalversions/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/credentialsrequestcontroller"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/operator/objects"
)

type credentialsRequest struct {
	CredentialsRequestOptions
	secret string // the Secret with the credentials
	// roleEnv is the environment variable with the role to assume with short-lived credentials; "" where the cloud
	// has no such roles.
	roleEnv string
}

// CredentialsRequestOptions are the dependencies of the controller.
type CredentialsRequestOptions struct {
	// Name is the name of the controller. Its condition types start with it.
	Name             string
	Request          *objects.WatchedObject
	Applier          *objects.Applier
	OperatorClient   v1helpers.OperatorClient
	CloudCredentials operatorinformers.CloudCredentialInformer
	// Secrets returns the informer of one Secret in the driver's namespace.
	Secrets func(name string) coreinformers.SecretInformer
	// Keys is drivers.Driver.CredentialKeys.
	Keys     [][]string
	Recorder events.Recorder
	// Optional says that the driver works without these credentials. Waiting for them is reported, and the driver is
	// available meanwhile.
	Optional bool
	// DriverNamespace, OperatorNamespace and Package appear in messages about what an administrator has to change.
	DriverNamespace, OperatorNamespace, Package string
	// Getenv returns the role to assume with short-lived credentials, by the variable that the request names.
	Getenv func(name string) string
}

// NewCredentialsRequest returns the controller that requests cloud credentials for one component of the driver from
// the cloud credential operator.
//
// library-go's controller does not fit. It rewrites the request once a minute and no sooner, and does not tell the
// administrator what to do where the credentials have to be created by hand.
func NewCredentialsRequest(options CredentialsRequestOptions) factory.Controller {
	desired := options.Request.Desired
	secret, _, _ := unstructured.NestedString(desired.Object, "spec", "secretRef", "name")
	c := &credentialsRequest{CredentialsRequestOptions: options, secret: secret, roleEnv: desired.GetAnnotations()[credentialsrequestcontroller.EnvVarsAnnotationKey]}
	return factory.New().
		WithInformers(
			c.OperatorClient.Informer(),
			c.CloudCredentials.Informer(),
			c.Secrets(secret).Informer(),
		).
		WithInformers(c.Request.Informers()...).
		WithSync(c.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.OperatorClient).
		ToController(c.Name, c.Recorder)
}

func (c *credentialsRequest) sync(ctx context.Context, _ factory.SyncContext) error {
	cloud, err := c.CloudCredentials.Lister().Get("cluster")
	if err != nil {
		return fmt.Errorf("reading how the cluster provides credentials: %w", err)
	}
	role := c.Getenv(c.roleEnv)
	if cloud.Spec.CredentialsMode == operatorv1.CloudCredentialsModeManual && role == "" {
		secret, err := c.Secrets(c.secret).Lister().Secrets(c.DriverNamespace).Get(c.secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		klog.V(4).InfoS("No CredentialsRequest: the credentials are created by hand", "controller", c.Name, "secret", klog.KRef(c.DriverNamespace, c.secret))
		if err != nil {
			secret = nil
		}
		return c.report(ctx, c.manualProgress(secret))
	}
	request, err := withRole(c.Request.Desired, role)
	if err != nil {
		return err
	}
	if cached := c.Request.Cached(); cached != nil && progressOf(cached).waiting {
		c.Request.Expire() // read the latest status from the API server
	}
	live, err := c.Applier.Apply(ctx, c.Request, request)
	if ctx.Err() != nil {
		return nil // the shutdown is no failure
	}
	if err != nil {
		return fmt.Errorf("applying CredentialsRequest %s: %w", request.GetName(), err)
	}
	return c.report(ctx, progressOf(live))
}

// withRole returns the request for short-lived credentials of a role, or the unchanged request if there is no role. The
// asset has the path of the token that authenticates the pod.
func withRole(request *unstructured.Unstructured, role string) (*unstructured.Unstructured, error) {
	if role == "" {
		return request, nil
	}
	request = request.DeepCopy()
	return request, unstructured.SetNestedField(request.Object, role, "spec", "providerSpec", "stsIAMRoleARN")
}

// progress is the state of the credentials.
type progress struct {
	waiting         bool
	reason, message string
}

// manualProgress returns the progress in a cluster where nothing provisions credentials unless there is a role. secret is the Secret that
// somebody created by hand, or nil. A missing Secret does not block the driver, because the driver can do most things without
// credentials, such as mounting volumes.
func (c *credentialsRequest) manualProgress(secret *corev1.Secret) progress {
	if secret != nil && !c.usable(secret) {
		return progress{reason: "CredentialsUnusable", message: fmt.Sprintf(
			"the driver cannot use the Secret %s in namespace %s, which was created by hand: it has %s. It must have %s, and not empty",
			c.secret, c.DriverNamespace, describeKeys(slices.Sorted(maps.Keys(secret.Data))), c.wantedKeys())}
	}
	if secret != nil {
		return progress{reason: "CredentialsByHand", message: fmt.Sprintf(
			"the Secret %s is used as it was created by hand: spec.credentialsMode of CloudCredential cluster is Manual", c.secret)}
	}
	if c.roleEnv == "" {
		return progress{reason: "SecretMissing", message: fmt.Sprintf(
			"there are no credentials: spec.credentialsMode of CloudCredential cluster is Manual. Create the Secret %s in namespace %s",
			c.secret, c.DriverNamespace)}
	}
	return progress{reason: "RoleMissing", message: fmt.Sprintf(
		"there are no credentials: spec.credentialsMode of CloudCredential cluster is Manual, and the operator's environment variable %[1]s is not set. "+
			"Either set %[1]s to the ARN of an IAM role, in spec.config.env of the Subscription to package %[2]s in namespace %[3]s, "+
			"or create the Secret %[4]s in namespace %[5]s",
		c.roleEnv, c.Package, c.OperatorNamespace, c.secret, c.DriverNamespace)}
}

// usable reports whether a Secret has a set of keys that the driver reads.
func (c *credentialsRequest) usable(secret *corev1.Secret) bool {
	return len(c.Keys) == 0 || slices.ContainsFunc(c.Keys, func(set []string) bool {
		return !slices.ContainsFunc(set, func(key string) bool { return len(secret.Data[key]) == 0 })
	})
}

func (c *credentialsRequest) wantedKeys() string {
	var sets []string
	for _, set := range c.Keys {
		sets = append(sets, describeKeys(set))
	}
	return strings.Join(sets, ", or ")
}

// maxKeys is the largest number of keys that a message names.
const maxKeys = 8

func describeKeys(keys []string) string {
	switch {
	case len(keys) == 0:
		return "no keys"
	case len(keys) == 1:
		return "the key " + keys[0]
	case len(keys) > maxKeys:
		return fmt.Sprintf("%d keys, such as %s", len(keys), keys[0])
	}
	return "the keys " + strings.Join(keys, " and ")
}

// progressOf reads the status that the cloud credential operator reports for a request.
func progressOf(request *unstructured.Unstructured) progress {
	if provisioned, _, _ := unstructured.NestedBool(request.Object, "status", "provisioned"); provisioned {
		return progress{reason: "AsExpected"}
	}
	message := fmt.Sprintf("waiting for the cloud credential operator to provision CredentialsRequest %s", request.GetName())
	if failures := failuresOf(request); len(failures) > 0 {
		message += ", which reports: " + strings.Join(failures, "; ")
	}
	return progress{waiting: true, reason: "CredentialsNotProvisionedYet", message: message}
}

// failuresOf returns the conditions of a CredentialsRequest that are true: all of its condition types are failures.
func failuresOf(request *unstructured.Unstructured) []string {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	var failures []string
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["status"] == "True" {
			failures = append(failures, fmt.Sprintf("%s: %s", c["type"], c["message"]))
		}
	}
	return failures
}

// report reports the progress. A driver that has waited for credentials for a quarter of an hour is degraded: by then
// the cloud credential operator has answered, and nothing else would distinguish this state from an installation in
// progress.
func (c *credentialsRequest) report(ctx context.Context, p progress) error {
	available, progressing, degraded := operatorv1.ConditionTrue, operatorv1.ConditionFalse, operatorv1.ConditionFalse
	if p.waiting && !c.Optional {
		_, status, _, err := c.OperatorClient.GetOperatorState()
		if err != nil {
			return err
		}
		available, progressing = operatorv1.ConditionFalse, operatorv1.ConditionTrue
		if v1helpers.IsUpdatingTooLong(status, c.Name+operatorv1.OperatorStatusTypeProgressing) {
			degraded = operatorv1.ConditionTrue
		}
	}
	condition := func(conditionType string, status operatorv1.ConditionStatus) *applyoperatorv1.OperatorConditionApplyConfiguration {
		return applyoperatorv1.OperatorCondition().WithType(c.Name + conditionType).
			WithStatus(status).WithReason(p.reason).WithMessage(p.message)
	}
	late := condition("Waiting"+operatorv1.OperatorStatusTypeDegraded, degraded) // the condition without Waiting is about errors
	if degraded == operatorv1.ConditionFalse {
		late.WithReason("AsExpected").WithMessage("")
	}
	return c.OperatorClient.ApplyOperatorStatus(ctx, c.Name+"Progress", applyoperatorv1.OperatorStatus().WithConditions(
		condition(operatorv1.OperatorStatusTypeAvailable, available), condition(operatorv1.OperatorStatusTypeProgressing, progressing), late))
}
