package csimigration_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2api "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/gophercloud/gophercloud/v2"
	gophercloudopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/cinder"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// inTree is the name under which the played in-tree plugin calls a cloud, and its calls are recorded.
const inTree = "in-tree"

// cloud is a simulated cloud with one volume, as the in-tree plugin uses it. The driver calls the same cloud.
type cloud interface {
	driver() drivers.Driver
	options() testbed.Cloud
	// setRoot sets the function that returns the root folders of nodes.
	setRoot(func(node string) (string, error))
	// create creates the volume, and returns its source in a PersistentVolume, and the labels that such a PersistentVolume has.
	create(context.Context) (corev1.PersistentVolumeSource, map[string]string, error)
	attach(ctx context.Context, node string) error
	detach(ctx context.Context, node string) error
	// attached returns the nodes to whose instances the volume is attached.
	attached() []string
	// refusal is a part of the cloud's error for a volume that is attached already.
	refusal() string
	// changes returns the volumes that the cloud attached and detached on request, in order.
	changes() []change
}

// change is a volume that was attached or detached.
type change struct {
	attach   bool
	inTree   bool // or the driver asked for it
	instance string
}

func (c change) String() string {
	what, who := "detach from", "the driver"
	if c.attach {
		what = "attach to"
	}
	if c.inTree {
		who = "the in-tree plugin"
	}
	return fmt.Sprintf("%s %s by %s", what, c.instance, who)
}

// awsCloud has an EBS volume.
type awsCloud struct {
	*testbed.AWS
	api    *ec2api.Client // of the in-tree plugin
	volume string
}

func startAWSCloud(t *testing.T) cloud {
	c := &awsCloud{AWS: testbed.StartAWS(t, unpackaged(ebs.Driver), aws.Options{})}
	user := c.AddUser(t, inTree, "ec2:CreateVolume", "ec2:AttachVolume", "ec2:DetachVolume")
	c.api = ec2api.NewFromConfig(c.Config("ec2", user))
	return c
}

// unpackaged is a driver as the cluster storage operator runs it.
func unpackaged(d drivers.Driver) drivers.Driver {
	d.Package = drivers.Package{}
	return d
}

func (c *awsCloud) driver() drivers.Driver                         { return unpackaged(ebs.Driver) }
func (c *awsCloud) options() testbed.Cloud                         { return c.Options() }
func (c *awsCloud) setRoot(root func(node string) (string, error)) { c.Root = root }
func (c *awsCloud) refusal() string                                { return "VolumeInUse" }

func (c *awsCloud) create(ctx context.Context) (corev1.PersistentVolumeSource, map[string]string, error) {
	zone := c.Instances[0].Zone
	made, err := c.api.CreateVolume(ctx, &ec2api.CreateVolumeInput{AvailabilityZone: &zone, Size: sdk.Int32(1), VolumeType: ec2types.VolumeTypeGp2})
	if err != nil {
		return corev1.PersistentVolumeSource{}, nil, err
	}
	c.volume = *made.VolumeId
	labels := map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: c.Region()}
	return corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{
		VolumeID: "aws://" + zone + "/" + c.volume, FSType: "ext4"}}, labels, nil
}

func (c *awsCloud) instance(node string) *string {
	return &c.Instances[slices.Index(testbed.Nodes, node)].ID
}

func (c *awsCloud) attach(ctx context.Context, node string) error {
	_, err := c.api.AttachVolume(ctx, &ec2api.AttachVolumeInput{VolumeId: &c.volume, InstanceId: c.instance(node), Device: sdk.String("/dev/xvdba")})
	return err
}

func (c *awsCloud) detach(ctx context.Context, node string) error {
	_, err := c.api.DetachVolume(ctx, &ec2api.DetachVolumeInput{VolumeId: &c.volume, InstanceId: c.instance(node)})
	return err
}

func (c *awsCloud) attached() (nodes []string) {
	for _, v := range c.EC2.Volumes() {
		for _, a := range v.Attachments {
			for _, node := range testbed.Nodes {
				if v.ID == c.volume && a.InstanceID == *c.instance(node) {
					nodes = append(nodes, node)
				}
			}
		}
	}
	return nodes
}

func (c *awsCloud) changes() (all []change) {
	for _, call := range c.Calls() {
		if attach := call.Action == "AttachVolume"; (attach || call.Action == "DetachVolume") && call.Error == "" && call.Parameters["DryRun"] != "true" {
			all = append(all, change{attach, strings.HasSuffix(call.Principal, "/"+inTree), call.Parameters["InstanceId"]})
		}
	}
	return all
}

// openStackCloud has a Cinder volume.
type openStackCloud struct {
	*testbed.OpenStack
	cinder, nova *gophercloud.ServiceClient // of the in-tree plugin
	volume       string
}

func startOpenStackCloud(t *testing.T) cloud {
	c := &openStackCloud{OpenStack: testbed.StartOpenStack(t)}
	login := c.Login()
	provider, err := gophercloudopenstack.NewClient(login.URL)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(c.Cloud.CA())
	provider.HTTPClient = http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { // the cloud's name for itself is known on nodes alone
			return (&net.Dialer{}).DialContext(ctx, network, c.Address())
		},
	}}
	provider.UserAgent.Prepend(inTree)
	options := gophercloud.AuthOptions{IdentityEndpoint: login.URL, Username: login.User, Password: login.Password, TenantName: login.Project, DomainName: "Default"}
	require.NoError(t, gophercloudopenstack.Authenticate(t.Context(), provider, options))
	var errs [2]error
	c.cinder, errs[0] = gophercloudopenstack.NewBlockStorageV3(provider, gophercloud.EndpointOpts{Region: login.Region})
	c.nova, errs[1] = gophercloudopenstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: login.Region})
	require.NoError(t, errors.Join(errs[:]...))
	return c
}

func (c *openStackCloud) driver() drivers.Driver                         { return unpackaged(cinder.Driver) }
func (c *openStackCloud) options() testbed.Cloud                         { return c.Options() }
func (c *openStackCloud) setRoot(root func(node string) (string, error)) { c.Root = root }
func (c *openStackCloud) refusal() string                                { return "must be available to reserve" }

func (c *openStackCloud) create(ctx context.Context) (corev1.PersistentVolumeSource, map[string]string, error) {
	made, err := volumes.Create(ctx, c.cinder, volumes.CreateOpts{Size: 1, Name: "in-tree"}, nil).Extract()
	if err != nil {
		return corev1.PersistentVolumeSource{}, nil, err
	}
	c.volume = made.ID
	return corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: c.volume, FSType: "ext4"}}, nil, nil
}

func (c *openStackCloud) instance(node string) string {
	return c.Instances[slices.Index(testbed.Nodes, node)].ID
}

func (c *openStackCloud) attach(ctx context.Context, node string) error {
	_, err := volumeattach.Create(ctx, c.nova, c.instance(node), volumeattach.CreateOpts{VolumeID: c.volume}).Extract()
	return err
}

func (c *openStackCloud) detach(ctx context.Context, node string) error {
	return volumeattach.Delete(ctx, c.nova, c.instance(node), c.volume).ExtractErr()
}

func (c *openStackCloud) attached() (nodes []string) {
	for _, v := range c.Volumes() {
		for _, a := range v.Attachments {
			for _, node := range testbed.Nodes {
				if v.ID == c.volume && a.Instance.ID == c.instance(node) {
					nodes = append(nodes, node)
				}
			}
		}
	}
	return nodes
}

func (c *openStackCloud) changes() (all []change) {
	for _, call := range c.Calls() {
		if call.Service != openstack.Nova || call.Code >= 300 || !strings.HasPrefix(call.Route, "/servers/{id}/os-volume_attachments") {
			continue
		}
		_, of, _ := strings.Cut(call.Path, "/servers/")
		instance, _, _ := strings.Cut(of, "/")
		made := change{call.Method == http.MethodPost, strings.HasPrefix(call.UserAgent, inTree), instance}
		if made.attach || call.Method == http.MethodDelete && path.Base(call.Path) == c.volume {
			all = append(all, made)
		}
	}
	return all
}
