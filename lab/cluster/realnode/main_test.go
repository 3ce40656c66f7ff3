package realnode_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

func TestMain(m *testing.M) {
	cluster.Init()
	beProgram()
	cluster.Main(m)
}

// programImage is an image with this test's executable, of a registry that does not exist.
const programImage = "registry.example.com/test/program"

// metadata is the address of a cloud's metadata server. In the test's nodes, it leads to a server of this test.
const metadata = "169.254.169.254:80"

// waitLimit is the time limit for conditions that usually become true in seconds.
const waitLimit = 3 * time.Minute

// testCluster is a cluster with two real nodes that run this test's executable.
type testCluster struct{ *cluster.Cluster }

// metadataServer answers every request with "metadata".
var metadataServer = sync.OnceValue(func() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metadata") }))
})

func sharedCluster(t *testing.T) testCluster {
	t.Helper()
	cluster.NeedRealNodes(t)
	return testCluster{cluster.Shared(t, cluster.Options{
		RealNodes: 2,
		Images:    map[string]string{programImage: executable(t)},
		Reachable: map[string]string{metadata: metadataServer().Listener.Addr().String()},
	})}
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// inImage returns the command of a program in the image of this test's executable.
func inImage(t *testing.T, arguments ...string) []string {
	return slices.Concat([]string{filepath.Join("/usr/bin", filepath.Base(executable(t))), programArgument}, arguments)
}

// pod returns a pod on a node that runs a program. Changes are applied in order.
func pod(namespace, name, node string, program []string, changes ...func(*corev1.PodSpec)) *corev1.Pod {
	grace := int64(2)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: node},
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "main", Image: programImage + ":v1", Args: append([]string{programArgument}, program...),
			}},
		},
	}
	for _, change := range changes {
		change(&pod.Spec)
	}
	return pod
}

// run creates a pod and waits until it is ready. It is deleted when the test ends.
func (c testCluster) run(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	c.create(t, pod)
	c.Await(t, waitLimit, "pod "+pod.Name+" to be ready", pod, func() error {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("status: %+v", pod.Status)
	})
	return pod
}

func (c testCluster) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.NoError(t, c.Client().Create(t.Context(), pod))
	t.Cleanup(func() { c.Client().Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
}

// exec runs a program in a pod's container, like a user of kubectl, and returns its output.
func (c testCluster) exec(t *testing.T, pod *corev1.Pod, program ...string) string {
	t.Helper()
	arguments := append([]string{"--namespace", pod.Namespace, "exec", pod.Name, "--"}, inImage(t, program...)...)
	output, err := c.Kubectl(t.Context(), arguments...).CombinedOutput()
	require.NoErrorf(t, err, "run %q in pod %s\n%s", program, pod.Name, output)
	return string(output)
}

// programArgument is the first argument of this test's executable when it is the program of a container. The second
// one is the name of a program, and the others are that program's.
const programArgument = "(program)"

var programs = map[string]func(arguments ...string) error{
	"serve":  serve,
	"mount":  mountMemory,
	"read":   read,
	"get":    get,
	"whoami": func(...string) error { return whoAmI() },
	"dial":   dial,
}

func beProgram() {
	if len(os.Args) < 3 || os.Args[1] != programArgument {
		return
	}
	if err := programs[os.Args[2]](os.Args[3:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// servePort is where serve listens, in the network of its pod.
const servePort = 8080

// serve answers with its host's name. Its health check fails from a request for /sicken on.
func serve(...string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Println("serving as", name)
	var mu sync.Mutex
	sick := false
	return http.ListenAndServe(fmt.Sprintf(":%d", servePort), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/sicken" {
			sick = true
		}
		if r.URL.Path == "/healthz" && sick {
			http.Error(w, "sick", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, name)
	}))
}

// read prints files.
func read(paths ...string) error {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		os.Stdout.Write(content)
	}
	return nil
}

// dial prints for each address whether it can be connected to.
func dial(addresses ...string) error {
	for _, address := range addresses {
		conn, err := net.DialTimeout("tcp", address, 3*time.Second)
		if err != nil {
			fmt.Printf("%s: %v\n", address, err)
			continue
		}
		conn.Close()
		fmt.Printf("%s: connected\n", address)
	}
	return nil
}
