package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/standin/backend"
)

// AzureOptions configure an Azure cloud.
type AzureOptions struct {
	// Tags are the tags that the Infrastructure wants on all resources.
	Tags []configv1.AzureResourceTag
	// Tokens says that an administrator has made the driver's Secret, without a client secret: the driver logs in with its
	// service account's token.
	Tokens bool
}

// AzureZone is the zone of all nodes.
const AzureZone = azureLocation + "-1"

const (
	azureLocation = "westeurope"
	azureTenant   = "7e3b8a40-tenant"
	azureClient   = "1c0fd9b2-client"
	azureSecret   = "of-the-service-principal"
)

// tokenFile is where a driver finds the token of its service account, and tokenAudience is the token's audience.
const (
	tokenFile     = "/var/run/secrets/openshift/serviceaccount/token"
	tokenAudience = "openshift"
)

// StartAzure starts a stand-in for an Azure cloud, and a testbed with one of its drivers, until the test ends.
func StartAzure(t testing.TB, driver drivers.Driver, options AzureOptions) (*Testbed, *StandIn) {
	t.Helper()
	cloud, storage := startAzureCloud(t, options, driver)
	return Start(t, Options{Driver: driver, Snapshots: true, Cloud: cloud}), storage
}

// startAzureCloud starts a stand-in for an Azure cloud with drivers until the test ends.
func startAzureCloud(t testing.TB, options AzureOptions, of ...drivers.Driver) (Cloud, *StandIn) {
	t.Helper()
	cluster.NeedRealNodes(t)
	var accounts []string
	for _, driver := range of {
		accounts = append(accounts, requestedAccounts(t, driver)...)
	}
	var api atomic.Pointer[cluster.Cluster]
	storage := StartStandIn(t, func(login backend.Login) error {
		if options.Tokens {
			return checkToken(t.Context(), api.Load().Client(), login, accounts)
		}
		return checkSecret(login)
	})
	objects := []client.Object{cloudConfigOf()}
	if options.Tokens {
		for _, driver := range of {
			objects = append(objects, azureCredentials(drivers.ClusterStorageNamespace, driver.Secrets[0], map[string]string{"azure_federated_token_file": tokenFile}))
		}
	} else {
		objects = append(objects, azureCredentials(cloudcredential.RootNamespace, cloudcredential.RootAzure, map[string]string{"azure_client_secret": azureSecret}))
	}
	return storage.Behind(Cloud{
		Platform: &configv1.PlatformStatus{Type: configv1.AzurePlatformType, Azure: &configv1.AzurePlatformStatus{
			ResourceGroupName: cluster.InfrastructureName + "-rg", CloudName: configv1.AzurePublicCloud, ResourceTags: options.Tags}},
		Objects: objects,
		Prepare: func(c *cluster.Cluster) {
			api.Store(c)
			require.NoError(t, prepareAzure(t.Context(), c.Client(), options))
		},
	}), storage
}

// prepareAzure labels the nodes with their zone, and sets how the cluster gets credentials.
func prepareAzure(ctx context.Context, c client.Client, options AzureOptions) error {
	for _, node := range Nodes {
		zone := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, AzureZone)
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := c.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(zone))); err != nil {
			return err
		}
	}
	if !options.Tokens {
		return nil
	}
	manual := fmt.Sprintf(`{"spec":{"credentialsMode":%q}}`, operatorv1.CloudCredentialsModeManual)
	config := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	return c.Patch(ctx, config, client.RawPatch("application/merge-patch+json", []byte(manual)))
}

// cloudConfigOf returns the configuration of the cloud as OpenShift publishes it. Like the installer's, it asks for the
// identity of the nodes, which drivers must not use to log in.
func cloudConfigOf() *corev1.ConfigMap {
	config, err := json.Marshal(map[string]any{
		"cloud": "AzurePublicCloud", "tenantId": azureTenant, "subscriptionId": "s", "resourceGroup": cluster.InfrastructureName + "-rg",
		"location": azureLocation, "vmType": "standard", "useManagedIdentityExtension": true, "useInstanceMetadata": true,
	})
	if err != nil {
		panic(err) // not expected: JSON can encode these values
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName},
		Data:       map[string]string{drivers.CloudConfigKey: string(config)},
	}
}

// azureCredentials returns a Secret with credentials.
func azureCredentials(namespace, name string, more map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{
		"azure_client_id": []byte(azureClient), "azure_tenant_id": []byte(azureTenant), "azure_subscription_id": []byte("s"), "azure_region": []byte(azureLocation),
	}}
	for key, value := range more {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// checkSecret lets a service principal in.
func checkSecret(login backend.Login) error {
	if login["client"] != azureClient || login["secret"] != azureSecret || login["tenant"] != azureTenant {
		return fmt.Errorf("there is no client %q with that secret in the tenant %q (and the identity is %q)", login["client"], login["tenant"], login["identity"])
	}
	return nil
}

// requestedAccounts returns the names of the users that the driver's CredentialsRequest names, whom Azure is told to trust.
func requestedAccounts(t testing.TB, driver drivers.Driver) (users []string) {
	t.Helper()
	manifests, err := driver.Manifests(drivers.Values{Namespace: drivers.ClusterStorageNamespace, Image: func(env string) string { return env }})
	require.NoError(t, err)
	for _, m := range drivers.OfKind(manifests, "CredentialsRequest") {
		names, _, err := unstructured.NestedStringSlice(m.Object.Object, "spec", "serviceAccountNames")
		require.NoError(t, err)
		for _, name := range names {
			users = append(users, "system:serviceaccount:"+drivers.ClusterStorageNamespace+":"+name)
		}
	}
	return users
}

// checkToken lets users in by their tokens.
func checkToken(ctx context.Context, c client.Client, login backend.Login, users []string) error {
	if login["client"] != azureClient || login["secret"] != "" || login["tenant"] != azureTenant {
		return fmt.Errorf("want a token of client %s, and got client %q, which has a secret or the tenant %q", azureClient, login["client"], login["tenant"])
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: login["token"], Audiences: []string{tokenAudience}}}
	if err := c.Create(ctx, review); err != nil {
		return err
	}
	if !review.Status.Authenticated || !slices.Contains(users, review.Status.User.Username) {
		return errors.New(cmp.Or(review.Status.Error, "the token is of "+review.Status.User.Username))
	}
	return nil
}
