package aws_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/lab/sanity"
)

var runDrivers = flag.Bool("drivers", false, "build the real EBS driver and run it against the cloud")

// ebsProgram returns the EBS driver's program.
func ebsProgram(t *testing.T) string {
	t.Helper()
	if !*runDrivers {
		t.Skip("without -drivers: the driver takes minutes to build; see make prove SUITE=aws")
	}
	return programs.For(t, "aws-ebs-csi-driver")
}

// run starts a driver with nothing in its environment but the variables, in a mount namespace whose /etc is empty: the
// EFS driver writes there. It returns a connection to its socket.
func run(t *testing.T, environment []string, command ...string) *grpc.ClientConn {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a driver in a mount namespace")
	}
	socket := filepath.Join(t.TempDir(), "csi.sock")
	command = append(command, "--endpoint=unix://"+socket, "--v=4")
	process := exec.Command("unshare", append([]string{"--mount", "sh", "-c", `mount -t tmpfs tmpfs /etc && exec "$0" "$@"`}, command...)...)
	process.Env = append(slices.Clone(environment), "PATH="+os.Getenv("PATH"))
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, process.Start())
	ended := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		<-ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the driver's log:\n%s", text)
		}
	})
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	cluster.Eventually(t, time.Minute, "the driver answers", func(ctx context.Context) error {
		select {
		case <-ended:
			return errors.New("it has ended")
		default:
		}
		_, err := csi.NewIdentityClient(connection).Probe(ctx, &csi.ProbeRequest{})
		return err
	})
	return connection
}

// socketOf returns the path of a driver's socket.
func socketOf(connection *grpc.ClientConn) string {
	return strings.TrimPrefix(connection.Target(), "unix://")
}

// TestEFSDriverSanity: the EFS controller keeps the rules of the CSI on the fake EFS, in both versions.
func TestEFSDriverSanity(t *testing.T) {
	for _, version := range []string{"v2.1.11", "v3.4.1"} {
		t.Run(version, func(t *testing.T) {
			driver := programs.For(t, "aws-efs-csi-driver-"+version)
			c := aws.Start(t, aws.Options{Region: "sea-west-1", TLS: true})
			instance, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: "sea-west-1a"})
			require.NoError(t, err)
			fs := c.EFS.AddFileSystem(fileSystem)
			m := c.StartMetadata(t, instance)
			user := c.AddUser(t, "efs", "elasticfilesystem:*")
			connection := run(t, slices.Concat(c.Environment(t, &m), aws.Variables(user)), driver, "--efs-utils-static-files-path="+t.TempDir())
			sanity.Check(t, sanity.Options{
				Socket:     socketOf(connection),
				Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fs.ID, "directoryPerms": "700"},
				Skip:       map[string]string{"Node Service": "it mounts, which the matrix shows on real nodes"},
				Fails: map[string]string{
					"Controller Service [Controller Server] CreateVolume should fail when requesting to create a volume with already existing name and different capacity": "access points have no size",
					"Controller Service [Controller Server] CreateVolume should not fail when creating volume with maximum-length name":                                    "the name becomes a path, of which EFS allows 100 characters; the provisioner's are shorter",
				},
				Least: 15,
			})
			if left := c.EFS.AccessPoints(); len(left) != 0 {
				t.Errorf("the cloud still has %+v", left)
			}
		})
	}
}

// noID is the reason why the EBS driver fails checks with impossible IDs.
const noID = "EC2 refuses what is no ID, with another error than for an ID that does not exist"

// TestEBSDriverSanity: the real EBS controller keeps the rules of the CSI on the fake EC2.
func TestEBSDriverSanity(t *testing.T) {
	driver := ebsProgram(t)
	c := aws.Start(t, aws.Options{Region: "sea-west-1", TLS: true, Settle: 50 * time.Millisecond})
	instance, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: "sea-west-1a"})
	require.NoError(t, err)
	m := c.StartMetadata(t, instance)
	user := c.AddUser(t, "ebs", "ec2:*")
	connection := run(t, slices.Concat(c.Environment(t, &m), aws.Variables(user)), driver, "all")
	sanity.Check(t, sanity.Options{
		Socket: socketOf(connection),
		Skip:   map[string]string{"Node Service": "it mounts, which the matrix shows on real nodes"},
		Fails: map[string]string{
			"Controller Service [Controller Server] ControllerPublishVolume should fail when the node does not exist":                noID,
			"Controller Service [Controller Server] ControllerPublishVolume should fail when the volume does not exist":              noID,
			"Controller Service [Controller Server] ValidateVolumeCapabilities should fail when the requested volume does not exist": noID,
			"ListSnapshots [Controller Server] should return empty when the specified snapshot id does not exist":                    noID,
			"ListSnapshots [Controller Server] should return next token when a limited number of entries are requested":              "EC2 lists no less than five at a time",
			"ModifyVolume [Controller Server] should fail if volume does not exist":                                                  "without parameters to modify, the driver asks for nothing",
		},
		Least: 50,
	})
	if volumes, snapshots := c.EC2.Volumes(), c.EC2.Snapshots(); len(volumes) != 0 || len(snapshots) != 0 {
		t.Errorf("the cloud still has %+v and %+v", volumes, snapshots)
	}
}
