package realnode_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-csi/berth/lab/cluster"
)

// TestMountsPropagate: a privileged container's mount below a volume with bidirectional propagation appears in another
// pod on the node, as with the node part of a CSI driver.
func TestMountsPropagate(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	namespace := c.Namespace(t)
	volume := func(propagation corev1.MountPropagationMode) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) {
			kind := corev1.HostPathDirectoryOrCreate
			spec.Volumes = []corev1.Volume{{Name: "plugins", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/" + namespace, Type: &kind},
			}}}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "plugins", MountPath: "/plugins", MountPropagation: &propagation}}
		}
	}
	privileged := func(spec *corev1.PodSpec) {
		yes := true
		spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	}
	// The reader is there first: the mount comes to it.
	reader := c.run(t, pod(namespace, "reader", cluster.RealNode(0), []string{"serve"}, volume(corev1.MountPropagationHostToContainer)))
	elsewhere := c.run(t, pod(namespace, "elsewhere", cluster.RealNode(1), []string{"serve"}, volume(corev1.MountPropagationHostToContainer)))
	c.run(t, pod(namespace, "driver", cluster.RealNode(0), []string{"mount", "/plugins"}, volume(corev1.MountPropagationBidirectional), privileged, probed))
	assert.Equal(t, "written by the one that mounted it", c.exec(t, reader, "read", "/plugins/mounted/file"), "another pod on the node reads")
	// The folder of the same name on the other node is another one.
	output, err := c.Kubectl(t.Context(), append([]string{"--namespace", namespace, "exec", elsewhere.Name, "--"}, inImage(t, "read", "/plugins/mounted/file")...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "no such file") {
		t.Errorf("on the other node: %v, %q, want that there is no such file", err, output)
	}
	for _, path := range []string{"/var/lib/kubelet/plugins/" + namespace, "/var/lib/kubelet/plugins/" + namespace + "/mounted/file"} {
		_, err := os.Stat(path)
		assert.Errorf(t, err, "%s is on the machine, too", path)
	}
}

// TestMountOn: nodes share the files of a folder that is mounted on them, and a container that is there already sees it.
func TestMountOn(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	namespace, folder := c.Namespace(t), t.TempDir()
	path := "/var/lib/" + namespace
	require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), []byte("shared"), 0o644))
	kind, propagation := corev1.HostPathDirectoryOrCreate, corev1.MountPropagationHostToContainer
	for i := range 2 {
		running := c.run(t, pod(namespace, fmt.Sprintf("reader-%d", i), cluster.RealNode(i), []string{"serve"}, func(spec *corev1.PodSpec) {
			spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared", MountPropagation: &propagation}}
		}))
		require.NoError(t, c.MountOn(cluster.RealNode(i), folder, path))
		assert.Equalf(t, "shared", c.exec(t, running, "read", "/shared/file"), "on node %s the file has", running.Spec.NodeName)
	}
	_, err := os.Stat(path)
	assert.Errorf(t, err, "%s is on the machine, too", path)
}

// probed makes a pod ready only when serve serves.
func probed(spec *corev1.PodSpec) {
	spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: health}
}

// health is serve's health check.
var health = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(servePort)}}

func TestPodsOnTwoNodesTalk(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	namespace := c.Namespace(t)
	first := c.run(t, pod(namespace, "first", cluster.RealNode(0), []string{"serve"}, probed))
	second := c.run(t, pod(namespace, "second", cluster.RealNode(1), []string{"serve"}, probed))
	require.NotEqual(t, second.Status.HostIP, first.Status.HostIP, "both are on one node")
	for from, to := range map[*corev1.Pod]*corev1.Pod{first: second, second: first} {
		url := fmt.Sprintf("http://%s", net.JoinHostPort(to.Status.PodIP, strconv.Itoa(servePort)))
		assert.Equalf(t, to.Name, c.exec(t, from, "get", url), "%s asks %s at %s for its name", from.Name, to.Name, url)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	pod := c.run(t, pod(c.Namespace(t), "pod", cluster.RealNode(1), []string{"serve"}, probed))
	output, err := c.Kubectl(t.Context(), "--namespace", pod.Namespace, "logs", pod.Name).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "serving as pod\n", string(output), "the log")
}

func TestLivenessProbeRestartsContainer(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	pod := c.run(t, pod(c.Namespace(t), "pod", cluster.RealNode(0), []string{"serve"}, probed, func(spec *corev1.PodSpec) {
		spec.Containers[0].LivenessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: health}
		// One failure restarts the container. So liveness is only probed from when the server listens.
		spec.Containers[0].StartupProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: int32(waitLimit.Seconds()), ProbeHandler: health}
	}))
	require.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, "restarts while it was healthy")
	c.exec(t, pod, "get", fmt.Sprintf("http://127.0.0.1:%d/sicken", servePort))
	c.Await(t, waitLimit, "a restart", pod, func() error {
		if status := pod.Status.ContainerStatuses[0]; status.RestartCount == 0 || !status.Ready {
			return fmt.Errorf("status: %+v", status)
		}
		return nil
	})
}

// TestServiceAccount: a pod finds the API server and its token where every client looks for them.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	pod := c.run(t, pod(c.Namespace(t), "pod", cluster.RealNode(1), []string{"serve"}))
	want := "https://10.217.0.1:443 system:serviceaccount:" + pod.Namespace + ":default\n"
	assert.EqualValues(t, want, c.exec(t, pod, "whoami"), "the API server and the user")
}

// TestNothingElseIsReachable: from a node and from its pods, nothing can be reached except nodes, pods, the API server
// and the addresses in the options.
func TestNothingElseIsReachable(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	namespace := c.Namespace(t)
	// A server of the machine, on all of its addresses.
	server, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Addr().String())
	require.NoError(t, err)
	refused := []string{
		net.JoinHostPort("127.0.0.1", port),
		metadataServer().Listener.Addr().String(),
		strings.TrimPrefix(c.Config().Host, "https://"), // where the API server listens on the machine
		"169.254.170.2:80",                              // another metadata server of AWS
		"169.254.169.254:443",
		"192.0.2.1:443", "8.8.8.8:53",
		"10.217.0.10:53", // a Service that does not exist
	}
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, address := range own {
		if ip := address.(*net.IPNet).IP; ip.To4() != nil && !ip.IsLoopback() {
			refused = append(refused, net.JoinHostPort(ip.String(), port))
		}
	}
	reached := []string{"10.217.0.1:443", metadata}
	onHost := func(spec *corev1.PodSpec) { spec.HostNetwork = true }
	for name, change := range map[string]func(*corev1.PodSpec){"pod": func(*corev1.PodSpec) {}, "node": onHost} {
		pod := c.run(t, pod(namespace, name, cluster.RealNode(0), []string{"serve"}, change))
		for line := range strings.Lines(c.exec(t, pod, append([]string{"dial"}, refused...)...)) {
			if strings.Contains(line, "connected") || strings.Contains(line, "timeout") {
				t.Errorf("from the %s: %s", name, line)
			}
		}
		for line := range strings.Lines(c.exec(t, pod, append([]string{"dial"}, reached...)...)) {
			assert.Containsf(t, line, "connected", "from the %s", name)
		}
		assert.EqualValuesf(t, "metadata", c.exec(t, pod, "get", "http://"+metadata), "from the %s, http://%s answers", name, metadata)
		if name == "node" {
			routes := c.exec(t, pod, "read", "/proc/net/route")
			for line := range strings.Lines(routes) {
				assert.NotEqualf(t, "00000000", strings.Fields(line)[1], "the node has a default route: %s", line)
			}
		}
	}
}

// TestUnknownImage: an image that the cluster does not have is not looked for anywhere else.
func TestUnknownImage(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	pod := pod(c.Namespace(t), "pod", cluster.RealNode(0), []string{"serve"}, func(spec *corev1.PodSpec) {
		spec.Containers[0].Image = "quay.io/nobody/nothing:v1"
	})
	c.create(t, pod)
	c.Await(t, waitLimit, "ErrImagePull", pod, func() error {
		for _, status := range pod.Status.ContainerStatuses {
			if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "ErrImagePull" {
				assert.Contains(t, waiting.Message, "quay.io/nobody/nothing:v1: not found", "message")
				return nil
			}
		}
		return fmt.Errorf("status: %+v", pod.Status)
	})
}

// TestImageArchive: a whole image runs with its own files.
func TestImageArchive(t *testing.T) {
	cluster.NeedRealNodes(t)
	t.Parallel()
	const repository = "registry.example.com/test/archive"
	c := testCluster{cluster.Start(t, cluster.Options{
		RealNodes: 1, ImageArchives: map[string]string{repository: archive(t, repository)},
	})}
	pod := c.run(t, pod(c.Namespace(t), "pod", cluster.RealNode(0), []string{"serve"}, func(spec *corev1.PodSpec) {
		spec.Containers[0].Image = repository + ":v2"
		spec.Containers[0].Command = []string{"/sbin/program"}
	}))
	output, err := c.Kubectl(t.Context(), "--namespace", pod.Namespace, "exec", pod.Name, "--", "/sbin/program", programArgument, "read", "/etc/motd").CombinedOutput()
	assert.Equalf(t, "from the archive", string(output), "%v", err)
}

// archive writes an image with this test's executable and another file, as "docker save" does.
func archive(t *testing.T, repository string) string {
	t.Helper()
	program, err := os.ReadFile(executable(t))
	require.NoError(t, err)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for name, content := range map[string]string{"sbin/program": string(program), "etc/motd": "from the archive"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}))
		_, err := io.WriteString(w, content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	tag, err := name.NewTag(repository + ":v1")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, tarball.WriteToFile(path, tag, image))
	return path
}
