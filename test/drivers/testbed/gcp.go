package testbed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/gcp"
)

// gcpAddress is the address of all services of Google Cloud on nodes. Only pods on the host network can resolve their
// names.
const gcpAddress = "203.0.113.10"

// GCP is Google Cloud, with an instance for each node. Its disks are devices of the nodes.
type GCP struct {
	*gcp.Cloud
	// Instances are the instances of the nodes, in the order of Nodes. All are in one zone, which is not the first.
	Instances []*gcp.Instance

	t       testing.TB
	driver  drivers.Driver
	options GCPOptions
	cluster *cluster.Cluster // once there is one
}

// GCPOptions configure a cluster on Google Cloud.
type GCPOptions struct {
	Cloud gcp.Options
	// Labels and Tags are the labels and tags that the Infrastructure requires on all resources.
	Labels []configv1.GCPResourceLabel
	Tags   []configv1.GCPResourceTag
	// Tokens says that the driver has no key, but exchanges its service account's token.
	Tokens bool
}

// StartGCP starts a cloud for a driver until the test ends.
func StartGCP(t testing.TB, driver drivers.Driver, options GCPOptions) *GCP {
	t.Helper()
	g := &GCP{t: t, driver: driver, options: options}
	devices := gcp.NewDevices(g.rootOf)
	t.Cleanup(func() {
		assert.NoError(t, devices.Close())
	})
	options.Cloud.Disks = devices
	g.Cloud = gcp.Start(t, options.Cloud)
	for _, tag := range options.Tags {
		g.AddTag(tag.ParentID + "/" + tag.Key + "/" + tag.Value)
	}
	for _, node := range Nodes {
		g.Instances = append(g.Instances, g.AddInstance(node, g.Zones()[1], "n2-standard-4"))
	}
	return g
}

// Options returns the cloud for a testbed.
func (g *GCP) Options() Cloud {
	g.t.Helper()
	names := map[string]string{}
	for _, host := range gcp.Hosts {
		names[host] = gcpAddress
	}
	return Cloud{
		Platform: &configv1.PlatformStatus{Type: configv1.GCPPlatformType, GCP: &configv1.GCPPlatformStatus{
			ProjectID: g.Project(), Region: g.Region(), ResourceLabels: g.options.Labels, ResourceTags: g.options.Tags}},
		Servers: map[string]string{net.JoinHostPort(gcpAddress, EndpointPort): g.Address()},
		Names:   names,
		CA:      g.CA(),
		Prepare: g.prepare,
	}
}

func (g *GCP) prepare(c *cluster.Cluster) {
	g.t.Helper()
	g.cluster = c
	g.serveMetadata()
	for _, request := range (&Testbed{Driver: g.driver}).credentialsRequests(g.t) {
		if g.options.Tokens {
			g.trust(request)
		} else {
			g.giveKey(request)
		}
	}
}

// rootOf returns the root folder of the node that is an instance.
func (g *GCP) rootOf(instance string) (string, error) {
	if !slices.Contains(Nodes, instance) {
		return "", fmt.Errorf("no node is the instance %s", instance)
	}
	return g.cluster.NodeRoot(instance)
}

func (g *GCP) serveMetadata() {
	g.t.Helper()
	for i, node := range Nodes {
		listener, err := g.cluster.ListenOn(node, "tcp", metadataAddress)
		require.NoError(g.t, err)
		server := &http.Server{Handler: g.MetadataHandler(g.Instances[i])}
		g.t.Cleanup(func() { server.Close() })
		go func() { _ = server.Serve(listener) }() // until it is closed
	}
}

// account returns the email of a service account with a CredentialsRequest's permissions.
func (g *GCP) account(request *unstructured.Unstructured) string {
	g.t.Helper()
	permissions, _, err := unstructured.NestedStringSlice(request.Object, "spec", "providerSpec", "permissions")
	require.NoError(g.t, err)
	roles, _, err := unstructured.NestedStringSlice(request.Object, "spec", "providerSpec", "predefinedRoles")
	require.NoError(g.t, err)
	return g.AddServiceAccount("driver", permissions, roles...)
}

// credentialsFile is the key of Secrets for clients of Google.
const credentialsFile = "service_account.json"

// giveKey makes the cluster's own credentials, which the cloud credential operator copies for the request.
func (g *GCP) giveKey(request *unstructured.Unstructured) {
	g.t.Helper()
	g.createSecret(cloudcredential.RootNamespace, cloudcredential.RootGCP, g.NewKey(g.t, g.account(request)))
}

func (g *GCP) createSecret(namespace, name string, file []byte) {
	g.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{credentialsFile: file}}
	require.NoError(g.t, g.cluster.Client().Create(g.t.Context(), secret))
}

// trust plays an administrator who prepares a cluster with short-lived credentials: the cluster's issuer of tokens is
// an identity provider, a service account has the request's permissions, the request's own accounts may act as it, and
// its Secret says how.
func (g *GCP) trust(request *unstructured.Unstructured) {
	g.t.Helper()
	api, err := kubernetes.NewForConfig(g.cluster.Config())
	require.NoError(g.t, err)
	issuer, err := issuer(g.t.Context(), api)
	require.NoError(g.t, err)
	audience := g.AddIdentityProvider(cluster.InfrastructureName, gcp.IdentityProvider{Issuer: issuer, Audiences: []string{"openshift"}, KeySet: func() ([]byte, error) {
		return api.CoreV1().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(context.Background())
	}})
	namespace, _, _ := unstructured.NestedString(request.Object, "spec", "secretRef", "namespace")
	name, _, _ := unstructured.NestedString(request.Object, "spec", "secretRef", "name")
	tokenFile, _, _ := unstructured.NestedString(request.Object, "spec", "cloudTokenPath")
	accounts, _, _ := unstructured.NestedStringSlice(request.Object, "spec", "serviceAccountNames")
	email := g.account(request)
	var file []byte
	for _, account := range accounts {
		file = g.Trust(g.t, audience, "system:serviceaccount:"+namespace+":"+account, email, tokenFile)
	}
	g.createSecret(namespace, name, file)
	manual := fmt.Sprintf(`{"spec":{"credentialsMode":%q}}`, operatorv1.CloudCredentialsModeManual)
	config := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	require.NoError(g.t, g.cluster.Client().Patch(g.t.Context(), config, client.RawPatch("application/merge-patch+json", []byte(manual))))
}
