// Package filesystem follows the file system of a cluster from berth aws create to berth aws destroy: the real EFS driver and
// the pods of a team use it in between.
package filesystem

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	driver "github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/internal/aws/provision"
	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/cluster"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// administrator runs berth with credentials for AWS that have the documented permissions.
type administrator struct {
	berth string
	env   []string
}

// run runs a command, and returns its standard output.
func (a administrator) run(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.berth, args...)
	cmd.Env = append(os.Environ(), a.env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	t.Logf("$ berth %s\n%s%s", strings.Join(args, " "), said.Bytes(), out)
	require.NoError(t, err)
	return out
}

// TestFileSystem: an administrator starts from a cluster without file system, and leaves only other people's resources
// behind in AWS.
func TestFileSystem(t *testing.T) {
	region := testbed.StartAWS(t, driver.Driver, aws.Options{Settle: 100 * time.Millisecond})
	files := testbed.AddFileSystems(t, region)
	neighbour := region.EFS.AddFileSystem(efs.FileSystem{Tags: map[string]string{"kubernetes.io/cluster/neighbour-b4q9z": "owned"}})
	machines := region.EC2.SecurityGroups()
	programs := release.Programs(t, driver.Driver)
	creator := administrator{programs.Berth, append(region.Environment(t, nil), aws.Variables(region.AddUser(t, "creator", provision.Permissions...))...)}

	cloud := region.Options()
	files.Serve(&cloud)
	prepare := cloud.Prepare
	cloud.Prepare = func(c *cluster.Cluster) {
		prepare(c)
		creator.env = append(creator.env, "KUBECONFIG="+c.Kubeconfig())
		creator.run(t, "aws", "create", "--dry-run")
		creator.run(t, "aws", "create", "--access-point", "/team-a")
	}
	bed := testbed.Start(t, testbed.Options{Driver: driver.Driver, Cloud: cloud})
	require.Len(t, region.EFS.FileSystems(), 2, "the cloud has the file systems")

	// The same command again creates nothing, and prints the IDs and instructions again.
	namespace := bed.Namespace(t)
	shared := &sharedvolume.SharedVolume{}
	require.NoError(t, yaml.UnmarshalStrict(creator.run(t, "aws", "create", "--access-point", "/team-a", "-o", "sharedvolume"), shared))
	shared.Namespace = namespace
	kubectl := bed.Kubectl(t.Context(), "apply", "-f", "-")
	kubectl.Stdin = bytes.NewReader(creator.run(t, "aws", "create", "-o", "storageclass"))
	out, err := kubectl.CombinedOutput()
	require.NoErrorf(t, err, "kubectl apply\n%s", out)
	useBoth(t, bed, shared, "efs-dynamic")
	assert.Len(t, region.EFS.AccessPoints(), 2, "the cloud has the access points")

	destroy := []string{"aws", "destroy", "--infra-id", cluster.InfrastructureName}
	auditor := administrator{programs.Berth, append(region.Environment(t, nil), aws.Variables(region.AddUser(t, "auditor", removal.PermissionsToFind...))...)}
	var report removal.Report
	require.NoError(t, json.Unmarshal(auditor.run(t, append(destroy, "-o", "json")...), &report))
	var kinds []removal.Kind
	for _, r := range report.Delete {
		kinds = append(kinds, r.Kind)
	}
	want := []removal.Kind{removal.AccessPoint, removal.AccessPoint, removal.MountTarget, removal.FileSystem, removal.SecurityGroup}
	if diff := cmp.Diff(want, kinds); diff != "" || len(report.Keep) > 0 || len(region.EFS.FileSystems()) != 2 {
		t.Errorf("it keeps %+v, and would delete (-want +got):\n%s", report.Keep, diff)
	}
	remover := administrator{programs.Berth, append(region.Environment(t, nil), aws.Variables(region.AddUser(t, "remover", removal.Permissions...))...)}
	remover.run(t, append(destroy, "--confirm")...)
	if left := region.EFS.FileSystems(); len(left) != 1 || left[0].ID != neighbour.ID {
		t.Errorf("the cloud still has the file systems %+v, want that of the neighbour", left)
	}
	if points, targets := region.EFS.AccessPoints(), region.EFS.MountTargets(); len(points) > 0 || len(targets) > 0 {
		t.Errorf("the cloud still has the access points %+v and the mount targets %+v", points, targets)
	}
	assert.Empty(t, cmp.Diff(machines, region.EC2.SecurityGroups()), "the security groups are not those of before (-before +after)")
	out = remover.run(t, destroy...)
	assert.Containsf(t, string(out), "0 to delete, 0 to keep", "when all is gone, it prints\n%s", out)
}

// useBoth has pods on two nodes share a SharedVolume, and one use a claim of a class.
func useBoth(t *testing.T, bed *testbed.Testbed, shared *sharedvolume.SharedVolume, class string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	require.NoError(t, journey.Grant(ctx, bed.Client(), shared.Namespace, shared.Spec.FileSystemID, shared.Spec.AccessPointID))
	name, err := journey.Share(ctx, bed.Client(), shared)
	require.NoError(t, err)
	website := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: shared.Namespace, Name: name}}
	first := bed.Run(t, testbed.Pod{Name: "first", Node: testbed.Nodes[0], Claim: website})
	second := bed.Run(t, testbed.Pod{Name: "second", Node: testbed.Nodes[1], Claim: website})
	first.Write(t, "greeting", "ahoy")
	assert.Equalf(t, "ahoy", second.Read(t, "greeting"), "the pod on node %s reads", testbed.Nodes[1])
	claim := bed.Claim(t, testbed.Claim{Namespace: shared.Namespace, Name: "files", Class: class})
	third := bed.Run(t, testbed.Pod{Name: "third", Node: testbed.Nodes[0], Claim: claim})
	third.Write(t, "greeting", "aye")
	assert.EqualValuesf(t, "aye", third.Read(t, "greeting"), "the pod with the claim of class %s reads", class)
}
