package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/node"
)

func TestRolloutReplacesTheProcess(t *testing.T) {
	c := sharedCluster(t)
	deployment := c.deployment(t, c.namespace(t), webPort, func(spec *corev1.PodSpec) {
		setVariable(spec, "VERSION", "1")
		setVariable(spec, "WITH_CHILD", "yes")
		spec.Containers[0].ReadinessProbe = httpProbe("/ready")
	})
	old := c.podOf(t, deployment)
	first := c.awaitServing(t, old)

	change := client.MergeFrom(deployment.DeepCopy())
	setVariable(&deployment.Spec.Template.Spec, "VERSION", "2")
	require.NoError(t, c.Client().Patch(t.Context(), deployment, change))
	cluster.Eventually(t, waitLimit, "the old pod to go", c.Gone(old))
	assert.NoError(t, ended(first.PID))
	awaitEnd(t, first.Child)
	second := c.awaitServing(t, c.podOf(t, deployment))
	assert.Contains(t, second.Env, "VERSION=2", "the environment of the new process")
}

func TestDeletionStopsTheProgram(t *testing.T) {
	c := sharedCluster(t)
	tests := map[string]struct {
		stubborn string
		grace    int64 // seconds
		atLeast  time.Duration
	}{
		"that obeys":   {grace: 120},
		"that resists": {grace: 2, stubborn: "yes", atLeast: 2 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := c.pod(t, c.namespace(t), "program", "serve", func(spec *corev1.PodSpec) {
				setVariable(spec, "STUBBORN", test.stubborn)
				spec.TerminationGracePeriodSeconds = &test.grace
			})
			me := c.awaitServing(t, pod)
			logs := c.Kubectl(t.Context(), "logs", "--follow", "--namespace", pod.Namespace, pod.Name)
			output, err := logs.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, logs.Start())
			lines := bufio.NewReader(output)
			line, err := lines.ReadString('\n')
			require.Equalf(t, "serving\n", line, "the beginning of the log: %v", err)
			asked := time.Now()
			require.NoError(t, c.Client().Delete(t.Context(), pod))
			cluster.Eventually(t, waitLimit, "the pod to go", c.Gone(pod))
			assert.GreaterOrEqual(t, time.Since(asked), test.atLeast, "the pod was gone before the grace period had passed")
			assert.NoError(t, ended(me.PID))
			rest, err := io.ReadAll(lines)
			assert.NoError(t, errors.Join(err, logs.Wait()))
			assert.Equal(t, "told to terminate\n", string(rest), "the end of the log")
		})
	}
}

func TestForcedDeletionStopsTheProgram(t *testing.T) {
	c := sharedCluster(t)
	pod := c.pod(t, c.namespace(t), "program", "serve", func(spec *corev1.PodSpec) {
		setVariable(spec, "STUBBORN", "yes")
		spec.TerminationGracePeriodSeconds = new(int64(120))
	})
	me := c.awaitServing(t, pod)
	require.NoError(t, c.Client().Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	awaitEnd(t, me.PID)
}

// The variables that configure a node in its own process.
const (
	nodeKubeconfig = "TEST_NODE_KUBECONFIG"
	nodeDir        = "TEST_NODE_DIR"
	nodeSubnet     = "TEST_NODE_SUBNET"
)

// ownNodes counts the nodes that have their own process.
var ownNodes atomic.Uint32

func init() { programs["node"] = runNode }

// runNode runs a node until it is told to terminate. It prints when it is ready.
func runNode() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(nodeKubeconfig))
	if err != nil {
		return err
	}
	return node.Run(ctx, config, node.Options{
		Name:   filepath.Base(os.Getenv(nodeDir)),
		Dir:    os.Getenv(nodeDir),
		Images: images(),
		Kept:   []string{os.Getenv(nodeDir)},
		Taints: []corev1.Taint{{Key: "test", Effect: corev1.TaintEffectNoSchedule}},
		Subnet: os.Getenv(nodeSubnet),
		Ready:  func() { fmt.Println("ready") },
	})
}

func TestNoProcessOutlivesItsNode(t *testing.T) {
	c := sharedCluster(t)
	tests := map[string]struct {
		signal syscall.Signal
		uid    uint32
	}{
		"that is told to terminate":              {signal: syscall.SIGTERM},
		"that is killed":                         {signal: syscall.SIGKILL},
		"of an unprivileged user":                {signal: syscall.SIGTERM, uid: 65534},
		"of an unprivileged user that is killed": {signal: syscall.SIGKILL, uid: 65534},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := c.startNode(t, test.uid)
			pod := c.pod(t, c.namespace(t), "program", "serve", func(spec *corev1.PodSpec) {
				spec.NodeName = own.name
				if test.signal == syscall.SIGTERM { // A killed node cannot stop the children of its programs.
					setVariable(spec, "WITH_CHILD", "yes")
				}
			})
			me := c.awaitServing(t, pod)
			answer, err := ask(t.Context(), pod.Status.PodIP, "/file?path=/var/run/secrets/kubernetes.io/serviceaccount/namespace")
			require.NoError(t, err)
			assert.Equal(t, pod.Namespace, answer, "the service account's namespace")
			if answer, err := ask(t.Context(), pod.Status.PodIP, "/file?path="+own.kept); err != nil || answer != "kept" {
				t.Errorf("a file below /tmp in a folder that is kept: got %q, %v", answer, err)
			}

			require.NoError(t, own.cmd.Process.Signal(test.signal))
			err = own.cmd.Wait()
			if test.signal == syscall.SIGKILL {
				awaitEnd(t, me.PID)
				return
			}
			assert.NoError(t, err, "the node ended")
			assert.NoError(t, ended(me.PID))
			awaitEnd(t, me.Child)
		})
	}
}

type ownNode struct {
	cmd  *exec.Cmd
	name string
	kept string // a file in the node's folder
}

// startNode starts a node in its own process, as another user if uid is not 0, and waits until it is ready. A test
// without privileges cannot become another user, and need not.
func (c testCluster) startNode(t *testing.T, uid uint32) ownNode {
	t.Helper()
	dir, err := os.MkdirTemp("", "node-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	// The other user may read neither the test's executable nor the kubeconfig in their folders.
	program, kubeconfig, kept := filepath.Join(dir, "program"), filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "kept")
	copyFile(t, images()[imageRepository], program)
	copyFile(t, c.Kubeconfig(), kubeconfig)
	require.NoError(t, os.WriteFile(kept, []byte("kept"), 0o644))
	cmd := exec.Command(program)
	if uid != 0 && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		for _, path := range []string{dir, program, kubeconfig} {
			require.NoError(t, os.Chown(path, int(uid), int(uid)))
		}
	}
	cmd.Env = append(os.Environ(), programVariable+"=node", nodeKubeconfig+"="+kubeconfig, nodeDir+"="+dir, nodeSubnet+"="+c.subnet(t))
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.Equalf(t, "ready\n", line, "what the node printed: %v", err)
	return ownNode{cmd, filepath.Base(dir), kept}
}

// subnet returns a subnet of the cluster that no other running node has, or two would give pods the same address. The
// shared cluster's own nodes have lower numbers.
func (c testCluster) subnet(t *testing.T) string {
	t.Helper()
	api, err := url.Parse(c.Config().Host)
	require.NoError(t, err)
	octets := strings.Split(api.Hostname(), ".")
	return fmt.Sprintf("%s.%s.%d", octets[0], octets[1], 200+ownNodes.Add(1)%50)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		// A process that another test forks now would keep the copy open for writing until it executes its own
		// program. Until then the copy could not be executed: "text file busy".
		syscall.ForkLock.RLock()
		err = os.WriteFile(to, content, 0o700)
		syscall.ForkLock.RUnlock()
	}
	require.NoError(t, err)
}
