package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/aws/metadata"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// ebsClass is a class of the driver.
const ebsClass = "gp3-csi"

// ebsBed is a testbed with the EBS driver.
type ebsBed struct {
	*disks
	cloud *testbed.AWS
}

func startEBS(t *testing.T, driver drivers.Driver, options testbed.EBSOptions) *ebsBed {
	t.Helper()
	bed := testbed.StartEBS(t, driver, options)
	cloud := bed.Region
	left := func() string { return describeLeft(cloud.EC2.Volumes(), cloud.EC2.Snapshots()) }
	return &ebsBed{&disks{bed.Testbed, bed.Namespace(t), ebsClass, "dev/nvme*", left}, cloud}
}

// volumeOf returns the volume of a claim in the cloud.
func (b *ebsBed) volumeOf(t *testing.T, claim *corev1.PersistentVolumeClaim) ec2.Volume {
	t.Helper()
	return volumeOf(t, b.disks, claim, b.cloud.EC2.Volumes(), func(v ec2.Volume, handle string) bool { return v.ID == handle })
}

// failed returns the calls that AWS has refused for a reason other than that something does not exist. The driver finds
// out limits by dry runs that fail.
func (b *ebsBed) failed() []gateway.Call {
	return slices.DeleteFunc(b.cloud.Calls(), func(call gateway.Call) bool {
		return call.Error == "" || strings.HasSuffix(call.Error, ".NotFound") || call.Parameters["DryRun"] == "true"
	})
}

// testEBS runs the driver with a key pair, and then with tokens.
func testEBS(t *testing.T) {
	bed := startEBS(t, ebs.Driver, testbed.EBSOptions{Tags: []configv1.AWSResourceTag{{Key: "team", Value: "harbour"}}})
	data := bed.claim(t, testbed.Claim{Name: "data"})
	var writer testbed.RunningPod
	first := testbed.Nodes[0]

	t.Run("provision", func(t *testing.T) {
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: first, Claim: data})
		volume := bed.volumeOf(t, data)
		if volume.Size != 1 || volume.Type != "gp3" || !volume.Encrypted || volume.Zone != bed.cloud.Instances[0].Zone {
			t.Errorf("got the volume %+v, want an encrypted one of type gp3 with 1 GiB in the zone of its pod", volume)
		}
	})
	t.Run("tags", func(t *testing.T) {
		want := map[string]string{"team": "harbour", "kubernetes.io/cluster/" + cluster.InfrastructureName: "owned", "CSIVolumeName": bed.Bound(t, data).Name,
			"kubernetes.io/created-for/pvc/name": data.Name, "kubernetes.io/created-for/pvc/namespace": bed.namespace}
		wantTags(t, bed.volumeOf(t, data).Tags, want)
	})
	t.Run("attach", func(t *testing.T) {
		volume := bed.volumeOf(t, data)
		if len(volume.Attachments) != 1 || volume.Attachments[0].InstanceID != bed.cloud.Instances[0].ID {
			t.Fatalf("the volume has the attachments %+v, want one to the instance of node %s", volume.Attachments, first)
		}
		wantAttached(t, bed.Testbed, first)
	})
	t.Run("publish", func(t *testing.T) { writer = bed.publish(t, data, writer) })
	t.Run("expand", func(t *testing.T) {
		bed.expand(t, nil, func(t *testing.T, claim *corev1.PersistentVolumeClaim) {
			assert.EqualValues(t, 3, bed.volumeOf(t, claim).Size, "size of the volume in GiB")
		})
	})
	t.Run("modify", func(t *testing.T) {
		c := testbed.Claim{Namespace: bed.namespace, Class: ebsClass, Size: "10Gi"} // enough for these IOPS
		modify(t, bed.Testbed, c, "iops", "3100", "3200", func(claim *corev1.PersistentVolumeClaim) string { return fmt.Sprint(bed.volumeOf(t, claim).IOPS) })
	})
	t.Run("snapshot", func(t *testing.T) {
		snapshot := bed.Snapshot(t, data, "snapshot", "csi-aws-vsc")
		for _, s := range bed.cloud.EC2.Snapshots() {
			wantTags(t, s.Tags, map[string]string{"team": "harbour", "kubernetes.io/cluster/" + cluster.InfrastructureName: "owned"})
		}
		writer.Write(t, "greeting", "later")
		bed.restore(t, snapshot, "ahoy again")
	})
	t.Run("clone", func(t *testing.T) { bed.clone(t, data, "later") })
	t.Run("node_without_metadata", func(t *testing.T) { bed.restartWithoutMetadata(t, 0) })
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, writer.Pod, data)
		bed.wantEmpty(t)
	})
	t.Run("private_endpoint", func(t *testing.T) {
		// No other way leads to the cloud than its endpoints, whose certificates only its own CA has signed.
		bed.wantPrincipal(t, "arn:aws:iam::111122223333:user/aws-ebs-csi-driver-operator")
	})
	t.Run("calls", func(t *testing.T) {
		for _, call := range bed.failed() {
			t.Errorf("AWS refused %s: %s", call.Action, call.Error)
		}
	})
	settle(t, bed.Testbed, ebsUnexercised)
	t.Run("STS", testEBSWithTokens)
	t.Run("cluster_storage", testEBSOfPlatform)
}

// testEBSOfPlatform runs the driver as the cluster storage operator does: without a package.
func testEBSOfPlatform(t *testing.T) {
	driver := ebs.Driver
	driver.Package = drivers.Package{}
	startEBS(t, driver, testbed.EBSOptions{}).use(t)
}

// wantPrincipal fails the test if others than the principal with the prefix called AWS.
func (b *ebsBed) wantPrincipal(t *testing.T, prefix string) {
	t.Helper()
	calls := b.cloud.Calls()
	assert.NotEmpty(t, calls, "nobody called AWS")
	for _, call := range calls {
		if !strings.HasPrefix(call.Principal, prefix) && call.Action != "AssumeRoleWithWebIdentity" {
			t.Errorf("%s was called by %q, want %s", call.Action, call.Principal, prefix)
		}
	}
}

func wantTags(t *testing.T, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		assert.Equalf(t, value, got[key], "the tag %s; all are %v", key, got)
	}
}

// notReady is the taint that the driver removes from its node when it is registered there.
const notReady = "ebs.csi.aws.com/agent-not-ready"

// restartWithoutMetadata restarts the driver on a node where the metadata service does not answer. It finds everything
// in its Node, and removes the administrator's taint that has kept pods away.
func (b *ebsBed) restartWithoutMetadata(t *testing.T, index int) {
	t.Helper()
	node := testbed.Nodes[index]
	b.cloud.Metadata[index].SetState(metadata.Disabled)
	defer b.cloud.Metadata[index].SetState(metadata.Up)
	before := &storagev1.CSINode{}
	require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Name: node}, before))
	n := &corev1.Node{}
	require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Name: node}, n))
	untainted := n.DeepCopy()
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: notReady, Effect: corev1.TaintEffectNoSchedule})
	require.NoError(t, b.Client().Patch(t.Context(), n, client.MergeFrom(untainted)))
	pods := &corev1.PodList{}
	require.NoError(t, b.Client().List(t.Context(), pods, client.InNamespace(b.DriverNamespace()), client.MatchingLabels{"app": "aws-ebs-csi-driver-node"}))
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == node {
			b.Delete(t, &pod)
		}
	}
	cluster.Eventually(t, testbed.Limit, "the driver to remove its taint from node "+node, func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := b.Client().Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
			return err
		}
		if slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == notReady }) {
			return fmt.Errorf("it has the taints %+v", n.Spec.Taints)
		}
		return nil
	})
	const account = ":aws-ebs-csi-driver-node-sa"
	cluster.Eventually(t, testbed.Limit, "the driver to read its Node", func(context.Context) error {
		for _, request := range b.Audit(t) {
			if request.Verb == "get" && request.Resource == "nodes" && request.Name == node && strings.HasSuffix(request.User, account) {
				return nil
			}
		}
		return fmt.Errorf("no request of %s gets the Node %s", account, node)
	})
	// While the driver restarts, the kubelet takes it out of the CSINode.
	cluster.Eventually(t, testbed.Limit, "the driver to register as before", func(ctx context.Context) error {
		after := &storagev1.CSINode{}
		if err := b.Client().Get(ctx, client.ObjectKey{Name: node}, after); err != nil {
			return err
		}
		if diff := cmp.Diff(before.Spec.Drivers, after.Spec.Drivers); diff != "" {
			return fmt.Errorf("without metadata, it registers differently (-before +after):\n%s", diff)
		}
		return nil
	})
}

// ebsUnexercised says why the run needs no use of these permissions.
var ebsUnexercised = map[string]string{
	"ebs-privileged-role: use securitycontextconstraints.security.openshift.io aws-ebs-csi-driver-node": "the cluster does not admit pods by SecurityContextConstraints",
}

// testEBSWithTokens runs the driver without any key pair, behind a proxy. Its sessions in AWS end after some seconds.
func testEBSWithTokens(t *testing.T) {
	bed := startEBS(t, ebs.Driver, testbed.EBSOptions{Region: aws.Options{SessionLifetime: 10 * time.Second}, Tokens: true, BehindProxy: true})
	bed.use(t)
	bed.wantPrincipal(t, "arn:aws:sts::111122223333:assumed-role/aws-ebs-csi-driver-operator/")
	sessions := 0
	for _, call := range bed.cloud.Calls() {
		if call.Action == "AssumeRoleWithWebIdentity" {
			sessions++
		}
	}
	assert.GreaterOrEqual(t, sessions, 2, "sessions of the driver, of which the first has ended")
}
