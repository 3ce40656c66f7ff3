package operator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers"
)

// TestSidecarsReadTheSecretsOfClasses: a StorageClass may name a Secret that the sidecars pass to the driver. Without
// the permission to read it, no volume is ever created.
func TestSidecarsReadTheSecretsOfClasses(t *testing.T) {
	t.Parallel()
	forEachDriver(t, testClassSecrets)
}

func testClassSecrets(t *testing.T, env *testEnv) {
	env.installDriver()
	account := env.controllerAccount()
	list := &storagev1.StorageClassList{}
	require.NoError(t, env.Client().List(t.Context(), list))
	secrets := map[string]string{} // namespaces, by name
	for _, class := range list.Items {
		if class.Provisioner != env.driver.CSIName {
			continue
		}
		for parameter, name := range class.Parameters {
			if step, named := strings.CutSuffix(parameter, "-secret-name"); named {
				secrets[name] = class.Parameters[step+"-secret-namespace"]
			}
		}
	}
	if env.driver.Backend != nil && len(secrets) == 0 {
		t.Error("no StorageClass names a Secret: nothing was tested")
	}
	for name, namespace := range secrets {
		assert.Truef(t, env.may(account, "get", namespace, name), "%s may not read the Secret %s/%s of a StorageClass", account, namespace, name)
	}
	for _, verb := range []string{"get", "list", "watch"} {
		assert.Falsef(t, env.may(account, verb, env.home, "another"), "%s may %s any Secret in namespace %s", account, verb, env.home)
	}
}

// controllerAccount returns the user name of the account of the driver's Deployment.
func (env *testEnv) controllerAccount() string {
	env.t.Helper()
	manifests, err := env.driver.Operand(drivers.Values{Namespace: env.home, Image: func(env string) string { return env }})
	require.NoError(env.t, err)
	for _, m := range drivers.OfKind(manifests, "Deployment") {
		template, _ := m.Object.Object["spec"].(map[string]any)["template"].(map[string]any)
		return fmt.Sprintf("system:serviceaccount:%s:%s", env.home, template["spec"].(map[string]any)["serviceAccountName"])
	}
	env.t.Fatal("the driver has no Deployment")
	return ""
}

// may asks the API server whether a user may do something with a Secret.
func (env *testEnv) may(user, verb, namespace, name string) bool {
	env.t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "secrets", Namespace: namespace, Name: name},
	}}
	env.create(review)
	return review.Status.Allowed
}
