package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// credentials are the credentials of the driver's components: the controller's and the nodes'.
var credentials = []struct{ part, request, secret, variable, role string }{
	{"Controller", "openshift-aws-efs-csi-driver", "aws-efs-cloud-credentials", "ROLEARN", "arn:aws:iam::123456789012:role/controller"},
	{"Node", "openshift-aws-efs-csi-driver-node", "node-aws-efs-cloud-credentials", "NODE_ROLEARN", "arn:aws:iam::123456789012:role/node"},
}

func (env *testEnv) credentialsRequest(name string) (*unstructured.Unstructured, error) {
	request := &unstructured.Unstructured{}
	request.SetAPIVersion("cloudcredential.openshift.io/v1")
	request.SetKind("CredentialsRequest")
	return request, env.Client().Get(context.Background(), client.ObjectKey{Namespace: "openshift-cloud-credential-operator", Name: name}, request)
}

func manualMode(env *testEnv) *operatorv1.CloudCredential {
	cloud := &operatorv1.CloudCredential{ObjectMeta: singleton}
	during(env, cloud, func(c *operatorv1.CloudCredential) { c.Spec.CredentialsMode = operatorv1.CloudCredentialsModeManual })
	return cloud
}

func TestShortLivedCredentials(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	manualMode(env)
	for _, c := range credentials {
		env.variables.Store(c.variable, c.role)
	}
	env.installDriver()

	for _, c := range credentials {
		request, err := env.credentialsRequest(c.request)
		require.NoError(t, err)
		for path, want := range map[string]string{
			"spec.providerSpec.stsIAMRoleARN": c.role,
			"spec.cloudTokenPath":             "/var/run/secrets/openshift/serviceaccount/token",
			"spec.secretRef.namespace":        env.namespace,
		} {
			got, _, _ := unstructured.NestedString(request.Object, strings.Split(path, ".")...)
			assert.Equalf(t, want, got, "%s of CredentialsRequest %s", path, c.request)
		}
		secret := &corev1.Secret{}
		require.NoError(t, env.Client().Get(t.Context(), client.ObjectKey{Namespace: env.namespace, Name: c.secret}, secret))
		assert.Containsf(t, string(secret.Data["credentials"]), c.role, "Secret %s says", c.secret)
	}
}

// TestManualModeWithoutRoles: nothing provisions credentials there. The driver runs all the same, and the conditions say
// what to do. Whichever way the credentials are provided then, the operator continues by itself.
func TestManualModeWithoutRoles(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cloud := manualMode(env)
	custom := env.installDriver()

	for _, c := range credentials {
		got := condition(custom, env.conditionOf(c.part))
		assert.EqualValuesf(t, "RoleMissing", got.Reason, "condition %s has reason", got.Type)
		for _, word := range []string{c.variable + " ", "Subscription", env.driver.Package.Name, "namespace " + env.namespace, "Secret " + c.secret} {
			assert.Containsf(t, got.Message, word, "condition %s", got.Type)
		}
		if _, err := env.credentialsRequest(c.request); !apierrors.IsNotFound(err) {
			t.Errorf("CredentialsRequest %s: error %v, want NotFound: nothing would provision it", c.request, err)
		}
	}
	env.waitForWorkloads("the driver's pods to run without credentials", func(l workloads) error {
		if l.controller.Status.AvailableReplicas == 0 || l.node.Status.NumberAvailable == 0 {
			return fmt.Errorf("%d of the controller and %d of the nodes are available", l.controller.Status.AvailableReplicas, l.node.Status.NumberAvailable)
		}
		return nil
	})

	byHand := credentials[0]
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: byHand.secret}, StringData: map[string]string{"aws_access_key_id": "AKIA"}}
	env.create(secret)
	env.waitForReason(env.conditionOf(byHand.part), "CredentialsUnusable")
	custom = env.waitForConditions(nil)
	for _, word := range []string{"Secret " + byHand.secret, "namespace " + env.namespace, "has the key aws_access_key_id", "credentials, or", "aws_secret_access_key"} {
		assert.Containsf(t, condition(custom, env.conditionOf(byHand.part)).Message, word, "condition %s", env.conditionOf(byHand.part))
	}
	change(env, secret, func(s *corev1.Secret) { s.Data["aws_secret_access_key"] = []byte("key") })
	env.waitForReason(env.conditionOf(byHand.part), "CredentialsByHand")
	change(env, secret, func(s *corev1.Secret) { s.Data = map[string][]byte{"credentials": {}} })
	env.waitForReason(env.conditionOf(byHand.part), "CredentialsUnusable")
	change(env, secret, func(s *corev1.Secret) { s.Data["credentials"] = []byte("[default]") })
	env.waitForReason(env.conditionOf(byHand.part), "CredentialsByHand")
	env.waitForWorkloads("the controller to roll with the credentials made by hand", func(l workloads) error {
		if marks(l.controller.Spec.Template)[byHand.secret] == "" {
			return fmt.Errorf("it has no annotation with their hash")
		}
		return nil
	})

	change(env, cloud, func(c *operatorv1.CloudCredential) { c.Spec.CredentialsMode = operatorv1.CloudCredentialsModeDefault })
	for _, c := range credentials {
		env.waitForReason(env.conditionOf(c.part), "AsExpected")
		_, err := env.credentialsRequest(c.request)
		assert.NoErrorf(t, err, "CredentialsRequest %s", c.request)
	}
}

func (env *testEnv) conditionOf(part string) string {
	return env.driver.ConditionPrefix + part + "CredentialsRequestControllerAvailable"
}

func (env *testEnv) waitForReason(conditionType, reason string) {
	env.t.Helper()
	custom := env.customResource()
	env.Await(env.t, limit, fmt.Sprintf("condition %s with reason %s", conditionType, reason), custom, func() error {
		if got := condition(custom, conditionType); got.Reason != reason {
			return fmt.Errorf("it is %s (%s: %s)", got.Status, got.Reason, got.Message)
		}
		return nil
	})
}
