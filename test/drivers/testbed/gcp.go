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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/cluster/cloudcredential"
	"github.com/berth-csi/berth/test/gcp"
)

// gcpAddress is where nodes find all services of Google Cloud, whose names only pods on the host network can resolve.
const gcpAddress = "203.0.113.10"

// GCP is a testbed with a driver on Google Cloud. Its disks are devices of the nodes.
type GCP struct {
	*Testbed
	Cloud *gcp.Cloud
	// Instances are those of the nodes, in the order of Nodes. All are in one zone, which is not the first.
	Instances []*gcp.Instance

	t testing.TB
}

// GCPOptions say what a testbed on Google Cloud has.
type GCPOptions struct {
	Cloud gcp.Options
	// Labels and Tags are those that the Infrastructure wants on all resources.
	Labels []configv1.GCPResourceLabel
	Tags   []configv1.GCPResourceTag
	// Tokens says that the driver has no key, but exchanges its service account's token.
	Tokens bool
	// BehindProxy says that only a proxy reaches the cloud.
	BehindProxy bool
}

// StartGCP starts a testbed with a driver on Google Cloud, and the API of snapshots, until the test ends.
func StartGCP(t testing.TB, driver drivers.Driver, options GCPOptions) *GCP {
	t.Helper()
	cluster.NeedRealNodes(t)
	bed := &GCP{t: t}
	devices := gcp.NewDevices(bed.rootOf)
	t.Cleanup(func() {
		if err := devices.Close(); err != nil {
			t.Error(err)
		}
	})
	options.Cloud.Disks = devices
	bed.Cloud = gcp.Start(t, options.Cloud)
	for _, tag := range options.Tags {
		bed.Cloud.AddTag(tag.ParentID + "/" + tag.Key + "/" + tag.Value)
	}
	for _, node := range Nodes {
		bed.Instances = append(bed.Instances, bed.Cloud.AddInstance(node, bed.Cloud.Zones()[1], "n2-standard-4"))
	}
	names := map[string]string{}
	for _, host := range gcp.Hosts {
		names[host] = gcpAddress
	}
	of := Options{Driver: driver, Snapshots: true, Cloud: Cloud{
		Platform: &configv1.PlatformStatus{Type: configv1.GCPPlatformType, GCP: &configv1.GCPPlatformStatus{
			ProjectID: bed.Cloud.Project(), Region: bed.Cloud.Region(), ResourceLabels: options.Labels, ResourceTags: options.Tags}},
		Servers: map[string]string{net.JoinHostPort(gcpAddress, EndpointPort): bed.Cloud.Address()},
		Names:   names,
		CA:      bed.Cloud.CA(),
	}}
	requests := (&Testbed{Driver: driver}).credentialsRequests(t)
	of.Cloud.Prepare = func(c *cluster.Cluster) {
		bed.serveMetadata(c)
		for _, request := range requests {
			if options.Tokens {
				bed.trust(c, request)
			} else {
				bed.giveKey(c, request)
			}
		}
	}
	if options.BehindProxy {
		of.BehindProxy = EndpointPort
	}
	bed.Testbed = Start(t, of)
	return bed
}

// rootOf returns the root folder of the node that is an instance.
func (b *GCP) rootOf(instance string) (string, error) {
	if !slices.Contains(Nodes, instance) {
		return "", fmt.Errorf("no node is the instance %s", instance)
	}
	return b.NodeRoot(instance)
}

func (b *GCP) serveMetadata(c *cluster.Cluster) {
	b.t.Helper()
	for i, node := range Nodes {
		listener, err := c.ListenOn(node, "tcp", metadataAddress)
		if err != nil {
			b.t.Fatal(err)
		}
		server := &http.Server{Handler: b.Cloud.MetadataHandler(b.Instances[i])}
		b.t.Cleanup(func() { server.Close() })
		go func() { _ = server.Serve(listener) }() // until it is closed
	}
}

// account returns the email of a service account that has what a CredentialsRequest asks for.
func (b *GCP) account(request *unstructured.Unstructured) string {
	b.t.Helper()
	permissions, _, err := unstructured.NestedStringSlice(request.Object, "spec", "providerSpec", "permissions")
	if err != nil {
		b.t.Fatal(err)
	}
	roles, _, err := unstructured.NestedStringSlice(request.Object, "spec", "providerSpec", "predefinedRoles")
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Cloud.AddServiceAccount("driver", permissions, roles...)
}

// credentialsFile is the key of Secrets for clients of Google.
const credentialsFile = "service_account.json"

// giveKey makes the cluster's own credentials, which the cloud credential operator copies for the request.
func (b *GCP) giveKey(c *cluster.Cluster, request *unstructured.Unstructured) {
	b.t.Helper()
	b.createSecret(c, cloudcredential.RootNamespace, cloudcredential.RootGCP, b.Cloud.NewKey(b.t, b.account(request)))
}

func (b *GCP) createSecret(c *cluster.Cluster, namespace, name string, file []byte) {
	b.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{credentialsFile: file}}
	if err := c.Client().Create(b.t.Context(), secret); err != nil {
		b.t.Fatal(err)
	}
}

// trust does what an administrator does before a cluster with short-lived credentials is installed: the cluster's issuer of
// tokens is an identity provider, a service account has what the request asks for, the request's own accounts may act as it,
// and its Secret says how.
func (b *GCP) trust(c *cluster.Cluster, request *unstructured.Unstructured) {
	b.t.Helper()
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		b.t.Fatal(err)
	}
	issuer, err := issuer(b.t.Context(), api)
	if err != nil {
		b.t.Fatal(err)
	}
	audience := b.Cloud.AddIdentityProvider(cluster.InfrastructureName, gcp.IdentityProvider{Issuer: issuer, Audiences: []string{"openshift"}, KeySet: func() ([]byte, error) {
		return api.CoreV1().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(context.Background())
	}})
	namespace, _, _ := unstructured.NestedString(request.Object, "spec", "secretRef", "namespace")
	name, _, _ := unstructured.NestedString(request.Object, "spec", "secretRef", "name")
	tokenFile, _, _ := unstructured.NestedString(request.Object, "spec", "cloudTokenPath")
	accounts, _, _ := unstructured.NestedStringSlice(request.Object, "spec", "serviceAccountNames")
	email := b.account(request)
	var file []byte
	for _, account := range accounts {
		file = b.Cloud.Trust(b.t, audience, "system:serviceaccount:"+namespace+":"+account, email, tokenFile)
	}
	b.createSecret(c, namespace, name, file)
	manual := fmt.Sprintf(`{"spec":{"credentialsMode":%q}}`, operatorv1.CloudCredentialsModeManual)
	config := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := c.Client().Patch(b.t.Context(), config, client.RawPatch("application/merge-patch+json", []byte(manual))); err != nil {
		b.t.Fatal(err)
	}
}
