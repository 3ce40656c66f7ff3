package manila

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
)

// nodePlugin returns the pod of the DaemonSet that registers the driver on each node.
func nodePlugin(t *testing.T) corev1.PodSpec {
	t.Helper()
	manifests, err := Driver.Manifests(drivers.Values{Namespace: Driver.Namespace, Image: func(env string) string { return env }})
	require.NoError(t, err)
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		set := &appsv1.DaemonSet{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, set))
		if set.Name == "openstack-manila-csi-nodeplugin" {
			return set.Spec.Template.Spec
		}
	}
	t.Fatal("there is no DaemonSet openstack-manila-csi-nodeplugin")
	return corev1.PodSpec{}
}

// TestConfigDrive: on a cloud without a metadata service, the driver reads the node's ID from a disk. Only a privileged
// container may open disks and mount one. No other container of the pod is privileged.
func TestConfigDrive(t *testing.T) {
	pod := nodePlugin(t)
	var privileged []string
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged {
			privileged = append(privileged, c.Name)
		}
	}
	assert.Empty(t, cmp.Diff([]string{"csi-driver"}, privileged), "privileged containers (-want +got)")
}

// TestWaitForNFSPlugin: the driver starts once the socket is there that it forwards calls to. The test runs the command of
// the init container, with another folder for the socket.
func TestWaitForNFSPlugin(t *testing.T) {
	pod := nodePlugin(t)
	require.Lenf(t, pod.InitContainers, 1, "the pod has %d init containers, want one that waits for the NFS plugin", len(pod.InitContainers))
	const flag = "--fwdendpoint=unix://"
	driver := pod.Containers[0]
	at := slices.IndexFunc(driver.Args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	if at < 0 {
		t.Fatalf("container %s has arguments %q, want one with %s", driver.Name, driver.Args, flag)
	}
	wait, socket := pod.InitContainers[0], strings.TrimPrefix(driver.Args[at], flag)
	for _, mount := range wait.VolumeMounts {
		assert.Containsf(t, driver.VolumeMounts, mount, "container %s mounts %+v, and container %s does not", wait.Name, mount, driver.Name)
	}
	here := filepath.Join(t.TempDir(), "s")
	command := slices.Clone(wait.Command)
	command[2] = strings.ReplaceAll(command[2], socket, here)
	require.NotEqualf(t, wait.Command[2], command[2], "container %s does not wait for %s", wait.Name, socket)

	early, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := exec.CommandContext(early, command[0], command[1:]...).Run(); early.Err() == nil {
		t.Errorf("without a socket the wait has ended: %v", err)
	}
	listener, err := net.Listen("unix", here)
	require.NoError(t, err)
	defer listener.Close()
	if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Errorf("with a socket the wait fails: %v\n%s", err, out)
	}
}
