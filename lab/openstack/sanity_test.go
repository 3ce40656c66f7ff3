package openstack_test

import (
	"os"
	"testing"

	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/lab/sanity"
)

// mounts is why the node service is not checked here.
const mounts = "it mounts, which the matrix shows on real nodes"

// TestManilaDriverSanity: the real Manila controller, with the real NFS driver for nodes, keeps the rules of the CSI on the fake
// Manila.
func TestManilaDriverSanity(t *testing.T) {
	path := program(t, "manila-csi-plugin")
	cloud := openstack.Start(t, "default")
	login := cloud.Login().ManilaSecrets()
	nfs := startDriver(t, program(t, "nfsplugin"), t.TempDir(), nil, "--nodeid=worker-0", "--mount-permissions=0777")
	d := startDriver(t, path, t.TempDir(), login, "--provide-controller-service=true", "--provide-node-service=true", "--nodeid=worker-0",
		"--drivername=manila.csi.openstack.org", "--share-protocol-selector=NFS", "--fwdendpoint=unix://"+nfs.socket, "--cluster-id=harbour-x7")
	sanity.Check(t, sanity.Options{
		Socket: d.socket, Secrets: login, Parameters: map[string]string{"type": "default"},
		Skip:  map[string]string{"Node Service": mounts},
		Least: 30,
	})
	if shares, snapshots := cloud.Shares(), cloud.ShareSnapshots(); len(shares) != 0 || len(snapshots) != 0 {
		t.Errorf("the cloud still has %+v and %+v", shares, snapshots)
	}
}

// TestCinderDriverSanity: the real Cinder controller keeps the rules of the CSI on the fake Cinder, and its node plugin says which
// instance it is on.
func TestCinderDriverSanity(t *testing.T) {
	path := program(t, "cinder-csi-plugin")
	if os.Geteuid() != 0 {
		t.Skip("makes a network namespace, so it needs root")
	}
	cloud := openstack.Start(t)
	node := startCinderNode(t, path, cloud, cloud.AddInstance("worker-0"))
	sanity.Check(t, sanity.Options{
		Socket: node.socket, Controller: startCinder(t, path, cloud.Login()).socket,
		Skip: map[string]string{"Node Service": mounts},
		Fails: map[string]string{
			"Controller Service [Controller Server] ListVolumes should fail when an invalid starting_token is passed": "without a limit, the driver lists all volumes whatever the token",
		},
		Least: 50,
	})
	if volumes, snapshots := cloud.Volumes(), cloud.VolumeSnapshots(); len(volumes) != 0 || len(snapshots) != 0 {
		t.Errorf("the cloud still has %+v and %+v", volumes, snapshots)
	}
}
