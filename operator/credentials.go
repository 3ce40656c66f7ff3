package operator

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/credentialsrequestcontroller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// credentialsController asks the cloud credential operator for the credentials of one part of the
// driver. library-go's controller is not used because it writes the request anew whenever it looks at
// it, which is once a minute and no sooner, and has nothing to say to the person who has to act.
type credentialsController struct {
	*operator
	clients *clients
	part    part
	request *followed
	// variable is the environment variable that carries the role to assume with short-lived credentials; ""
	// where the cloud has no such roles.
	variable string
	secret   string // that the credentials go to
}

func (o *operator) newCredentialsController(c *clients, p part) factory.Controller {
	request := c.follow(p.manifest.Object)
	secret, _, _ := unstructured.NestedString(request.wanted.Object, "spec", "secretRef", "name")
	controller := &credentialsController{operator: o, clients: c, part: p, request: request, secret: secret,
		variable: request.wanted.GetAnnotations()[credentialsrequestcontroller.EnvVarsAnnotationKey]}
	return factory.New().
		WithInformers(
			c.customResource.Informer(),
			c.operatorInformers.Operator().V1().CloudCredentials().Informer(),
			c.secrets(secret).Informer(),
		).
		WithInformers(request.informers()...).
		WithSync(controller.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.customResource).
		ToController(p.name, o.recorder)
}

func (c *credentialsController) sync(ctx context.Context, _ factory.SyncContext) error {
	cloud, err := c.clients.operatorInformers.Operator().V1().CloudCredentials().Lister().Get("cluster")
	if err != nil {
		return fmt.Errorf("who makes the driver's credentials: %w", err)
	}
	role := os.Getenv(c.variable)
	if cloud.Spec.CredentialsMode == operatorv1.CloudCredentialsModeManual && role == "" {
		_, err := c.clients.secrets(c.secret).Lister().Secrets(c.clients.place.namespace).Get(c.secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return c.report(ctx, c.madeByHand(err == nil))
	}
	request, err := withRole(c.request.wanted, role)
	if err != nil {
		return err
	}
	if cached := c.request.cached(); cached != nil && progressOf(cached).waiting {
		c.request.looked = time.Time{} // Ask whether it is over.
	}
	live, err := c.apply(ctx, c.clients, c.request, request)
	if err != nil {
		return fmt.Errorf("applying CredentialsRequest %s: %w", request.GetName(), err)
	}
	return c.report(ctx, progressOf(live))
}

// withRole returns the request for short-lived credentials of a role, or the request as it is where
// there is none. The token that proves who asks for the role is where the asset says.
func withRole(request *unstructured.Unstructured, role string) (*unstructured.Unstructured, error) {
	if role == "" {
		return request, nil
	}
	request = request.DeepCopy()
	return request, unstructured.SetNestedField(request.Object, role, "spec", "providerSpec", "stsIAMRoleARN")
}

// progress is how far the credentials are.
type progress struct {
	waiting         bool
	reason, message string
}

// madeByHand is for a cluster where nobody serves requests without a role. That holds nothing up: what
// the driver can do without credentials, such as mounting most volumes, it does.
func (c *credentialsController) madeByHand(exists bool) progress {
	if exists {
		return progress{reason: "CredentialsByHand", message: fmt.Sprintf(
			"the Secret %s is used as it was made by hand: spec.credentialsMode of CloudCredential cluster is Manual", c.secret)}
	}
	if c.variable == "" {
		return progress{reason: "SecretMissing", message: fmt.Sprintf(
			"there are no credentials: spec.credentialsMode of CloudCredential cluster is Manual. Create the Secret %s in namespace %s",
			c.secret, c.clients.place.namespace)}
	}
	return progress{reason: "RoleMissing", message: fmt.Sprintf(
		"there are no credentials: spec.credentialsMode of CloudCredential cluster is Manual, and the operator's environment variable %[1]s is not set. "+
			"Either set %[1]s to the ARN of an IAM role, in spec.config.env of the Subscription to package %[2]s in namespace %[3]s, "+
			"or create the Secret %[4]s in namespace %[5]s",
		c.variable, c.driver.Package.Name, c.namespace, c.secret, c.clients.place.namespace)}
}

// progressOf reads what the cloud credential operator says of a request.
func progressOf(request *unstructured.Unstructured) progress {
	if provisioned, _, _ := unstructured.NestedBool(request.Object, "status", "provisioned"); provisioned {
		return progress{reason: "AsExpected"}
	}
	message := fmt.Sprintf("waiting for the cloud credential operator to serve CredentialsRequest %s", request.GetName())
	if complaints := complaintsAbout(request); len(complaints) > 0 {
		message += ", which says: " + strings.Join(complaints, "; ")
	}
	return progress{waiting: true, reason: "CredentialsNotProvisionedYet", message: message}
}

// complaintsAbout returns the conditions of a CredentialsRequest that hold: all of its types are about
// failures.
func complaintsAbout(request *unstructured.Unstructured) []string {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	var complaints []string
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["status"] == "True" {
			complaints = append(complaints, fmt.Sprintf("%s: %s", c["type"], c["message"]))
		}
	}
	return complaints
}

func (c *credentialsController) report(ctx context.Context, p progress) error {
	available, progressing := operatorv1.ConditionTrue, operatorv1.ConditionFalse
	if p.waiting {
		available, progressing = operatorv1.ConditionFalse, operatorv1.ConditionTrue
	}
	condition := func(conditionType string, status operatorv1.ConditionStatus) *applyoperatorv1.OperatorConditionApplyConfiguration {
		return applyoperatorv1.OperatorCondition().WithType(c.part.name + conditionType).
			WithStatus(status).WithReason(p.reason).WithMessage(p.message)
	}
	return c.clients.customResource.ApplyOperatorStatus(ctx, c.part.name+"Progress", applyoperatorv1.OperatorStatus().WithConditions(
		condition(operatorv1.OperatorStatusTypeAvailable, available), condition(operatorv1.OperatorStatusTypeProgressing, progressing)))
}
