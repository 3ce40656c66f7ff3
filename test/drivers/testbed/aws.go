package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/disks"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/iam"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
)

// AWS is a private region of AWS, with endpoints and a CA of its own, and an instance for each node.
type AWS struct {
	*aws.Cloud
	// Instances are the instances of the nodes, in the order of Nodes. All are in one zone.
	Instances []ec2.Instance
	// Tags are the tags that the Infrastructure wants on all resources.
	Tags []configv1.AWSResourceTag
	// Metadata are the metadata services of the nodes, in the order of Nodes.
	Metadata []aws.Metadata
	// Former are CredentialsRequests of former operators of the driver.
	Former []*unstructured.Unstructured
	// Root returns the root folder of a node; its /dev has the disks. It is the cluster's NodeRoot unless a test plays the
	// machines of some nodes.
	Root func(node string) (string, error)

	t      testing.TB
	driver drivers.Driver
	tokens bool
}

// account is the ID of the cluster's account.
const account = "111122223333"

// metadataAddress is where instances find the metadata service.
const metadataAddress = "169.254.169.254:80"

// EndpointPort is the port of the services on nodes.
const EndpointPort = "443"

// endpoints are the addresses of services on nodes, and their names in the Infrastructure.
var endpoints = map[string]struct{ ip, name string }{
	"ec2": {"10.0.64.1", "ec2"},
	"efs": {"10.0.64.2", "elasticfilesystem"},
	"sts": {"10.0.64.3", "sts"},
}

// StartAWS starts a region for a driver until the test ends. Its disks are devices of the nodes. It sets the options Account, Disks,
// Hosts and TLS itself.
func StartAWS(t testing.TB, driver drivers.Driver, options aws.Options) *AWS {
	t.Helper()
	options.TLS = true
	options.Account = account
	for _, endpoint := range endpoints {
		options.Hosts = append(options.Hosts, endpoint.ip)
	}
	a := &AWS{t: t, driver: driver}
	devices := disks.New(a.rootOf)
	t.Cleanup(func() {
		assert.NoError(t, devices.Close())
	})
	options.Disks = devices
	a.Cloud = aws.Start(t, options)
	subnet, err := a.EC2.AddSubnet(ec2.Subnet{VPC: "vpc-0123456789abcdef0", Zone: a.Zones()[0].Name, Prefix: mountTargets})
	require.NoError(t, err)
	group := a.EC2.AddSecurityGroup(ec2.SecurityGroup{VPC: subnet.VPC, Name: cluster.InfrastructureName + "-node",
		Tags: ec2.Tags{"kubernetes.io/cluster/" + cluster.InfrastructureName: "owned"}})
	for range Nodes {
		instance, err := a.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: subnet.Zone, Subnet: subnet.ID, SecurityGroups: []string{group.ID}})
		require.NoError(t, err)
		a.Instances = append(a.Instances, instance)
		a.Metadata = append(a.Metadata, a.startMetadata(instance))
	}
	return a
}

// nodeRole is the role that the installer gives to instances. It has no permissions for drivers. But mount.efs needs
// some credentials when the EFS driver deletes files of a volume, and finds no others.
const nodeRole = cluster.InfrastructureName + "-master-role"

func (a *AWS) startMetadata(instance ec2.Instance) aws.Metadata {
	a.t.Helper()
	m := a.StartMetadata(a.t, instance)
	role := iam.Role{ARN: fmt.Sprintf("arn:aws:iam::%s:role/%s", account, nodeRole)}
	m.SetRole(nodeRole, a.IAM.Assume(role, instance.ID, 6*time.Hour))
	return m
}

// UseTokens lets the driver's pods assume roles with their tokens, instead of having key pairs. It returns the ARN of a
// role for each CredentialsRequest, by its name. Each has the permissions that the request asks for.
func (a *AWS) UseTokens() map[string]string {
	a.t.Helper()
	a.tokens = true
	roles := map[string]string{}
	for _, request := range a.requests() {
		roles[request.GetName()] = roleARN(request)
	}
	return roles
}

func roleARN(request *unstructured.Unstructured) string {
	return fmt.Sprintf("arn:aws:iam::%s:role/%s", account, request.GetName())
}

// requests returns the CredentialsRequests among the driver's objects, as in the namespace for operators, and the CredentialsRequests in
// Former.
func (a *AWS) requests() []*unstructured.Unstructured {
	a.t.Helper()
	return append((&Testbed{Driver: a.driver}).credentialsRequests(a.t), a.Former...)
}

// credentialsRequests returns the CredentialsRequests among the driver's objects.
func (b *Testbed) credentialsRequests(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	manifests, err := b.Driver.Operand(drivers.Values{Namespace: b.DriverNamespace(), Image: func(env string) string { return env }})
	require.NoError(t, err)
	var found []*unstructured.Unstructured
	for _, m := range drivers.OfKind(manifests, "CredentialsRequest") {
		found = append(found, m.Object)
	}
	return found
}

// actions returns the actions that a CredentialsRequest asks for.
func actions(t testing.TB, request *unstructured.Unstructured) []string {
	t.Helper()
	var all []string
	statements, _, err := unstructured.NestedSlice(request.Object, "spec", "providerSpec", "statementEntries")
	require.NoError(t, err)
	for _, statement := range statements {
		some, _, err := unstructured.NestedStringSlice(statement.(map[string]any), "action")
		require.NoError(t, err)
		all = append(all, some...)
	}
	return all
}

// Options returns the region as a testbed finds it.
func (a *AWS) Options() Cloud {
	a.t.Helper()
	platform := &configv1.AWSPlatformStatus{Region: a.Region(), ResourceTags: a.Tags}
	servers := map[string]string{}
	for _, service := range slices.Sorted(maps.Keys(endpoints)) {
		endpoint := endpoints[service]
		at, err := url.Parse(a.URL(service))
		require.NoError(a.t, err)
		servers[endpoint.ip+":"+EndpointPort] = at.Host
		platform.ServiceEndpoints = append(platform.ServiceEndpoints, configv1.AWSServiceEndpoint{Name: endpoint.name, URL: "https://" + endpoint.ip})
	}
	return Cloud{
		Platform: &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: platform},
		Servers:  servers,
		Objects: []client.Object{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName},
			Data:       map[string]string{drivers.CABundleKey: string(a.CA())},
		}},
		Prepare: a.prepare,
	}
}

// rootOf returns the root folder of the node that is an instance.
func (a *AWS) rootOf(instance string) (string, error) {
	for i, node := range Nodes {
		if a.Instances[i].ID == instance {
			return a.Root(node)
		}
	}
	return "", fmt.Errorf("no node is the instance %s", instance)
}

func (a *AWS) prepare(c *cluster.Cluster) {
	a.t.Helper()
	if a.Root == nil {
		a.Root = c.NodeRoot
	}
	for i, node := range Nodes {
		listener, err := c.ListenOn(node, "tcp", metadataAddress)
		require.NoError(a.t, err)
		a.t.Cleanup(func() { listener.Close() })
		go http.Serve(listener, a.Metadata[i]) // until it is closed
		a.DescribeNode(a.t, c, i)
	}
	if a.tokens {
		a.trust(c)
	} else {
		a.adoptKeyPairs(c)
	}
}

// DescribeNode describes one of Nodes as AWS's cloud controller does. The node must have joined the cluster.
func (a *AWS) DescribeNode(t testing.TB, c *cluster.Cluster, index int) {
	t.Helper()
	node, instance := &corev1.Node{}, a.Instances[index]
	require.NoError(t, c.Client().Get(t.Context(), client.ObjectKey{Name: Nodes[index]}, node))
	before := node.DeepCopy()
	node.Spec.ProviderID = "aws:///" + instance.Zone + "/" + instance.ID
	node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone] = a.Region(), instance.Zone
	node.Labels[corev1.LabelInstanceTypeStable] = instance.Type
	require.NoError(t, c.Client().Patch(t.Context(), node, client.MergeFrom(before)))
}

// adoptKeyPairs makes the region accept the key pairs that the cluster's cloud credential operator makes for the driver. The real operator
// makes them in AWS. Each key pair has the permissions that its CredentialsRequest asks for.
func (a *AWS) adoptKeyPairs(c *cluster.Cluster) {
	api, err := kubernetes.NewForConfig(c.Config())
	require.NoError(a.t, err)
	type permission struct {
		user    string
		actions []string
	}
	permissions := map[string]permission{} // by the mark of a Secret
	for _, request := range a.requests() {
		permissions[request.GetNamespace()+"/"+request.GetName()] = permission{request.GetName(), actions(a.t, request)}
	}
	adopt := func(object any) {
		secret := object.(*corev1.Secret)
		id, key := string(secret.Data["aws_access_key_id"]), string(secret.Data["aws_secret_access_key"])
		p, asked := permissions[secret.Annotations[cloudcredential.OwnerMark]]
		if id == "" || !asked {
			return
		}
		if _, err := a.IAM.AddUserWith(account, p.user, id, key, p.actions...); err != nil {
			a.t.Error(err)
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = cloudcredential.OwnerMark
	}))
	if _, err := factory.Core().V1().Secrets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: adopt, UpdateFunc: func(_, object any) { adopt(object) },
	}); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(start(factory))
}

// trust adds the cluster's issuer of tokens to the region, and a role for each CredentialsRequest, which the request's service accounts can
// assume. The cloud credential operator then makes no key pairs.
func (a *AWS) trust(c *cluster.Cluster) {
	a.t.Helper()
	api, err := kubernetes.NewForConfig(c.Config())
	require.NoError(a.t, err)
	issuer, err := issuer(a.t.Context(), api)
	require.NoError(a.t, err)
	a.IAM.AddIdentityProvider(iam.IdentityProvider{Issuer: issuer, Audiences: []string{"openshift"}, KeySet: func() ([]byte, error) {
		return api.CoreV1().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(context.Background())
	}})
	for _, request := range a.requests() {
		role := iam.Role{ARN: roleARN(request), Actions: actions(a.t, request), Issuer: issuer}
		namespace, _, _ := unstructured.NestedString(request.Object, "spec", "secretRef", "namespace")
		accounts, _, _ := unstructured.NestedStringSlice(request.Object, "spec", "serviceAccountNames")
		for _, account := range accounts {
			role.Subjects = append(role.Subjects, "system:serviceaccount:"+namespace+":"+account)
		}
		require.NoError(a.t, a.IAM.AddRole(role))
	}
	manual := fmt.Sprintf(`{"spec":{"credentialsMode":%q}}`, operatorv1.CloudCredentialsModeManual)
	config := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	require.NoError(a.t, c.Client().Patch(a.t.Context(), config, client.RawPatch("application/merge-patch+json", []byte(manual))))
}

// issuer returns the issuer of the cluster's service account tokens.
func issuer(ctx context.Context, api kubernetes.Interface) (string, error) {
	content, err := api.CoreV1().RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(ctx)
	if err != nil {
		return "", err
	}
	var configuration struct {
		Issuer string `json:"issuer"`
	}
	err = json.Unmarshal(content, &configuration)
	return configuration.Issuer, err
}
