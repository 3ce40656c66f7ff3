package testbed

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/disks"
	"github.com/berth-csi/berth/lab/nfs"
	"github.com/berth-csi/berth/lab/openstack"
)

// OpenStackPort and OpenStackAddress are where nodes and their pods find the services of an OpenStack cloud.
const (
	OpenStackPort    = "13000"
	OpenStackAddress = "203.0.113.5:" + OpenStackPort
)

// openStackMetadata is where every instance of OpenStack finds its metadata. Drivers have it built in.
const openStackMetadata = "169.254.169.254:80"

// CASource is where a cluster has the CA of its OpenStack cloud.
type CASource int

const (
	CAInBoth        CASource = iota // as OpenShift has it since 4.19
	CAInConfig                      // only in the cloud's configuration, as before
	CAInCredentials                 // only in the credentials
)

// OpenStack is an OpenStack cloud with a CA of its own, and an instance for each node. Its volumes are devices of the nodes.
type OpenStack struct {
	*openstack.Cloud
	// Files is the folder of all shares.
	Files string
	// Instances are the instances of Nodes.
	Instances []openstack.Instance
	// CA may be set before Options.
	CA CASource
	// Root is the same as AWS.Root.
	Root func(node string) (string, error)

	t testing.TB
}

// StartOpenStack starts a cloud with these types of shares until the test ends.
func StartOpenStack(t testing.TB, shareTypes ...string) *OpenStack {
	t.Helper()
	o := &OpenStack{Files: t.TempDir(), t: t}
	o.Cloud = openstack.StartWith(t, openstack.Options{TLS: true, Public: OpenStackAddress, Files: o.Files, ShareTypes: shareTypes})
	return o
}

// Options returns the cloud for a testbed. The cluster logs in with a new application credential.
func (o *OpenStack) Options() Cloud {
	cluster.NeedRealNodes(o.t)
	content := disks.New(disks.Options{
		Root: o.rootOf,
		// Instances have their root volume as vda, which does not exist here.
		Device: func(n int) string { return "vd" + string(rune('a'+n)) },
		Link:   func(a disks.Attachment) string { return "virtio-" + a.Disk[:20] },
	})
	o.t.Cleanup(func() {
		assert.NoError(o.t, content.Close())
	})
	o.SetDisks(openstack.Disks{
		Create: func(v openstack.Volume) error {
			return content.Create(v.ID, gib(v.Size), cmp.Or(v.SnapshotID, v.SourceID))
		},
		Snapshot: func(s openstack.VolumeSnapshot) error { return content.Create(s.ID, gib(s.Size), s.VolumeID) },
		Delete:   content.Delete,
		Attach: func(a openstack.Attachment) error {
			if err := content.Resize(a.VolumeID, gib(a.Size)); err != nil { // it may have grown meanwhile
				return err
			}
			return content.Attach(disks.Attachment{Disk: a.VolumeID, Instance: a.Instance.ID})
		},
		Detach: func(a openstack.Attachment) error { return content.Detach(a.VolumeID, a.Instance.ID) },
		Extend: func(a openstack.Attachment) error { return content.Resize(a.VolumeID, gib(a.Size)) },
	})
	credentials, config := credentialsOf(o.Cloud), configOf(o.Cloud)
	switch o.CA {
	case CAInConfig:
		delete(credentials.Data, "cacert")
	case CAInCredentials:
		delete(config.Data, drivers.CABundleKey)
	}
	server := nfs.Start(o.t, func(r nfs.Request) (string, error) { return o.Export(r.Path) })
	return Cloud{
		Platform: &configv1.PlatformStatus{Type: configv1.OpenStackPlatformType, OpenStack: &configv1.OpenStackPlatformStatus{CloudName: "openstack"}},
		Servers:  map[string]string{OpenStackAddress: o.Address(), net.JoinHostPort(openstack.FileServer, "2049"): server.Address()},
		NFS:      server,
		Objects:  []client.Object{credentials, config},
		Prepare: func(c *cluster.Cluster) {
			if o.Root == nil {
				o.Root = c.NodeRoot
			}
			for _, node := range Nodes {
				instance := o.AddInstance(node)
				o.Instances = append(o.Instances, instance)
				ServeOpenStackMetadata(o.t, c, node, o.MetadataHandler(instance))
			}
		},
	}
}

func gib(size int) int64 { return int64(size) << 30 }

// rootOf returns the root folder of the node that is an instance.
func (o *OpenStack) rootOf(instance string) (string, error) {
	for i, node := range Nodes {
		if o.Instances[i].ID == instance {
			return o.Root(node)
		}
	}
	return "", fmt.Errorf("no node is the instance %s", instance)
}

// configOf returns the configuration of a cloud that the installer makes, as OpenShift publishes it.
func configOf(cloud *openstack.Cloud) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName},
		Data: map[string]string{
			drivers.CloudConfigKey: "[Global]\nsecret-name = " + cloudcredential.RootOpenStack + "\nsecret-namespace = " + cloudcredential.RootNamespace +
				"\nregion = " + cloud.Login().Region + "\nca-file = " + openstack.InstallerCA + "\n",
			drivers.CABundleKey: string(cloud.CA()),
		},
	}
}

// credentialsOf returns the installer's Secret with the cluster's credentials for a cloud: a new application
// credential, and the cloud's CA.
func credentialsOf(cloud *openstack.Cloud) *corev1.Secret {
	login := cloud.LoginWithCredential("")
	login.CAFile = openstack.InstallerCA
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredential.RootNamespace, Name: cloudcredential.RootOpenStack},
		Data:       map[string][]byte{"clouds.yaml": login.CloudsYAML(), "cacert": cloud.CA()},
	}
}

// ServeOpenStackMetadata serves the metadata of an instance on the node that it is, until the test ends.
func ServeOpenStackMetadata(t testing.TB, c *cluster.Cluster, node string, metadata http.Handler) {
	t.Helper()
	listener, err := c.ListenOn(node, "tcp", openStackMetadata)
	require.NoError(t, err)
	server := &http.Server{Handler: metadata}
	t.Cleanup(func() { server.Close() })
	go func() { _ = server.Serve(listener) }() // until it is closed
}
