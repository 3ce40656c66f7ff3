package cloudcredential_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// waitLimit is the time limit for conditions that usually become true in a moment.
const waitLimit = 2 * time.Minute

// fixture is a request and its Secret.
type fixture struct {
	*cluster.Cluster
	request *unstructured.Unstructured
	secret  *corev1.Secret
}

// newRequest creates a request for a key pair in a Secret of the namespace.
func newRequest(c *cluster.Cluster, name, namespace string) fixture {
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cloudcredential.openshift.io/v1",
		"kind":       "CredentialsRequest",
		"metadata":   map[string]any{"namespace": "openshift-cloud-credential-operator", "name": name},
		"spec": map[string]any{
			"secretRef":    map[string]any{"namespace": namespace, "name": "credentials"},
			"providerSpec": map[string]any{"apiVersion": "cloudcredential.openshift.io/v1", "kind": "AWSProviderSpec"},
		},
	}}
	return fixture{c, request, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials"}}}
}

func (f fixture) with(value string, path ...string) fixture {
	if err := unstructured.SetNestedField(f.request.Object, value, path...); err != nil {
		panic(err)
	}
	return f
}

func (f fixture) create(t *testing.T) {
	t.Helper()
	require.NoError(t, f.Client().Create(t.Context(), f.request))
	t.Cleanup(func() {
		assert.NoError(t, client.IgnoreNotFound(f.Client().Delete(context.Background(), f.request)))
	})
}

func (f fixture) update(t *testing.T, value string, path ...string) {
	t.Helper()
	cluster.Eventually(t, waitLimit, "the request to be updated", func(ctx context.Context) error {
		if err := f.Client().Get(ctx, client.ObjectKeyFromObject(f.request), f.request); err != nil {
			return err
		}
		return f.Client().Update(ctx, f.with(value, path...).request)
	})
}

// awaitSecret waits until check accepts the Secret.
func (f fixture) awaitSecret(t *testing.T, what string, check func(data map[string][]byte) error) {
	t.Helper()
	f.Await(t, waitLimit, what, f.secret, func() error { return check(f.secret.Data) })
}

// awaitProvisioned waits until the status says that the request was provisioned in its current generation.
func (f fixture) awaitProvisioned(t *testing.T) {
	t.Helper()
	f.Await(t, waitLimit, "the request to be provisioned", f.request, func() error {
		status := f.request.Object["status"]
		provisioned, _, _ := unstructured.NestedBool(f.request.Object, "status", "provisioned")
		generation, _, _ := unstructured.NestedInt64(f.request.Object, "status", "lastSyncGeneration")
		if !provisioned || generation != f.request.GetGeneration() {
			return fmt.Errorf("status is %v in generation %d", status, f.request.GetGeneration())
		}
		return nil
	})
}

func isKeyPair(data map[string][]byte) error {
	want := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s", data["aws_access_key_id"], data["aws_secret_access_key"])
	if len(data["aws_access_key_id"]) == 0 || len(data["aws_secret_access_key"]) == 0 || string(data["credentials"]) != want {
		return fmt.Errorf("got %q, want a key pair and the same as credentials", data)
	}
	return nil
}

func isRole(role, token string) func(map[string][]byte) error {
	return func(data map[string][]byte) error {
		want := fmt.Sprintf("[default]\nsts_regional_endpoints = regional\nrole_arn = %s\nweb_identity_token_file = %s", role, token)
		if diff := cmp.Diff(map[string][]byte{"credentials": []byte(want)}, data); diff != "" {
			return fmt.Errorf("data (-want +got):\n%s", diff)
		}
		return nil
	}
}

func TestRequestGetsItsSecret(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	f := newRequest(c, "key-pair", c.Namespace(t))
	f.create(t)
	f.awaitProvisioned(t)
	f.awaitSecret(t, "the key pair", isKeyPair)
	if got, want := f.secret.Annotations["cloudcredential.openshift.io/credentials-request"], "openshift-cloud-credential-operator/key-pair"; got != want {
		t.Errorf("the Secret's annotation names %q, want %q", got, want)
	}
	first := f.secret.DeepCopy()

	// A deleted Secret is recreated, with new keys.
	require.NoError(t, c.Client().Delete(t.Context(), f.secret))
	f.awaitSecret(t, "a new key pair", isKeyPair)
	if string(first.Data["aws_access_key_id"]) == string(f.secret.Data["aws_access_key_id"]) {
		t.Errorf("the new Secret has the key %s of the old one", first.Data["aws_access_key_id"])
	}

	// A request that changes to a role gets a Secret without a key pair.
	f.update(t, "arn:aws:iam::1:role/r", "spec", "providerSpec", "stsIAMRoleARN")
	f.awaitProvisioned(t)
	f.awaitSecret(t, "the role", isRole("arn:aws:iam::1:role/r", "/var/run/secrets/kubernetes.io/serviceaccount/token"))
	f.update(t, "/var/run/token", "spec", "cloudTokenPath")
	f.awaitSecret(t, "the path of the token", isRole("arn:aws:iam::1:role/r", "/var/run/token"))

	require.NoError(t, c.Client().Delete(t.Context(), f.request))
	cluster.Eventually(t, waitLimit, "the request to go", c.Gone(f.request))
	cluster.Eventually(t, waitLimit, "the Secret to go", c.Gone(f.secret))
}

// TestRequestForACopy: the Secret is a copy of the cluster's own credentials, once there are some, and is updated with
// them.
func TestRequestForACopy(t *testing.T) {
	for kind, name := range map[string]string{"OpenStackProviderSpec": cloudcredential.RootOpenStack, "GCPProviderSpec": cloudcredential.RootGCP, "AzureProviderSpec": cloudcredential.RootAzure,
		"VSphereProviderSpec": cloudcredential.RootVSphere} {
		t.Run(kind, func(t *testing.T) { testRequestForACopy(t, kind, name) })
	}
}

func testRequestForACopy(t *testing.T, kind, name string) {
	c := cluster.Shared(t, cluster.Options{})
	f := newRequest(c, name, c.Namespace(t)).with(kind, "spec", "providerSpec", "kind")
	f.create(t)
	root := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredential.RootNamespace, Name: name}}
	root.Data = map[string][]byte{"key": []byte("old"), "cacert": []byte("a certificate")}
	require.NoError(t, c.Client().Create(t.Context(), root))
	t.Cleanup(func() { c.Client().Delete(context.Background(), root) })
	isCopy := func(data map[string][]byte) error {
		if diff := cmp.Diff(root.Data, data); diff != "" {
			return fmt.Errorf("data (-want +got):\n%s", diff)
		}
		return nil
	}
	f.awaitProvisioned(t)
	f.awaitSecret(t, "the copy", isCopy)
	root.Data["key"] = []byte("new")
	require.NoError(t, c.Client().Update(t.Context(), root))
	f.awaitSecret(t, "the new content", isCopy)
}

func TestRequestWaitsForItsNamespace(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	f := newRequest(c, "early", "comes-later")
	f.create(t)
	missing := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := c.Client().Get(ctx, client.ObjectKeyFromObject(f.request), f.request); err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(f.request.Object, "status", "conditions")
			for _, condition := range conditions {
				if c := condition.(map[string]any); c["type"] == "MissingTargetNamespace" && c["status"] == want && strings.Contains(fmt.Sprint(c["message"]), "comes-later") {
					return nil
				}
			}
			return fmt.Errorf("got conditions %v, want MissingTargetNamespace %s", conditions, want)
		}
	}
	cluster.Eventually(t, waitLimit, "the missing namespace to be reported", missing("True"))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "comes-later"}}
	require.NoError(t, c.Client().Create(t.Context(), namespace))
	t.Cleanup(func() { c.Client().Delete(context.Background(), namespace) })
	f.awaitSecret(t, "the key pair", isKeyPair)
	f.awaitProvisioned(t)
	cluster.Eventually(t, waitLimit, "the found namespace to be reported", missing("False"))
}

func TestOnlyRolesInManualMode(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	config := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	setMode := func(mode operatorv1.CloudCredentialsMode) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"credentialsMode":%q}}`, mode)
		require.NoError(t, c.Client().Patch(context.Background(), config, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	setMode(operatorv1.CloudCredentialsModeManual)
	t.Cleanup(func() { setMode(operatorv1.CloudCredentialsModeDefault) })
	pair, role := newRequest(c, "key-pair", c.Namespace(t)), newRequest(c, "role", c.Namespace(t))
	pair.create(t)
	role.with("arn:aws:iam::1:role/r", "spec", "providerSpec", "stsIAMRoleARN").create(t)

	// Requests are reconciled in order: when the later one is provisioned, the other one would be, too.
	role.awaitProvisioned(t)
	assert.NoError(t, c.Gone(pair.secret)(t.Context()))
	setMode(operatorv1.CloudCredentialsModeDefault)
	pair.awaitSecret(t, "the key pair", isKeyPair)
}

func TestRequestsForOtherCloudsAreLeftAlone(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	other := newRequest(c, "other-cloud", c.Namespace(t)).with("IBMCloudProviderSpec", "spec", "providerSpec", "kind")
	other.create(t)
	later := newRequest(c, "later", c.Namespace(t))
	later.create(t)
	later.awaitProvisioned(t)
	assert.NoError(t, c.Gone(other.secret)(t.Context()))
}
