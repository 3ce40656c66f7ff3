package clusterstorage

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/realnode"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/release"
)

// TestRunByHand: the cluster storage operator runs out of the cluster as the page says, and needs no more permissions than its role
// has.
func TestRunByHand(t *testing.T) {
	t.Parallel()
	cluster.NeedRealNodes(t) // their network
	images := programs(t)
	w := newEnvironment(t, configv1.AWSPlatformType, cluster.Options{Images: images})
	w.install(release.Payload{Version: version, Stopped: true})
	w.runByHand(images[release.OperatorImage])
	w.awaitSettled(version)
	w.checkForbidden()
}

// runByHand runs the page's command until the test ends, in a network of its own that reaches only the API server:
// others may have its port on this machine.
func (w *environment) runByHand(operator string) {
	w.t.Helper()
	network, err := realnode.NewNetwork(1)
	require.NoError(w.t, err)
	w.t.Cleanup(network.Close)
	api, err := url.Parse(w.Config().Host)
	require.NoError(w.t, err)
	require.NoError(w.t, network.Forward(api.Host, api.Host))
	home := w.t.TempDir()
	w.WriteKubeconfig(w.t, w.account().Namespace, w.account().Name, filepath.Join(home, ".kube", "config"))
	var output bytes.Buffer
	command := page.BlocksFor(w.t, "../..", platformsPage, "## Run it by hand")[0]
	cmd := exec.Command("bash", "-c", "exec "+command.Text)
	cmd.Env = append(w.variables(), "HOME="+home, "PATH="+filepath.Dir(operator)+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(w.t, network.Places()[0].Start(cmd))
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			w.t.Errorf("the operator ended with %v:\n%s", err, output.Bytes())
		}
		new(page.Reader).MustShow(w.t, platformsPage, command.Heading, page.Step{Command: command.Text, Output: command.Output}, output.String())
	})
}

// variables returns the variables of the operator's Deployment, except those that only a pod has.
func (w *environment) variables() (all []string) {
	w.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: clusterstorage.Namespace, Name: clusterstorage.Name}}
	w.get(deployment)
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.ValueFrom == nil {
			all = append(all, variable.Name+"="+variable.Value)
		}
	}
	return all
}
