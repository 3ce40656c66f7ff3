package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
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

// image is the image whose containers run a program. It has a port, a tag and a digest; the node's table has only the
// repository.
const (
	imageRepository = "registry.example.com:5000/test/program"
	image           = imageRepository + ":v1@sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// waitLimit is the time limit for conditions that usually become true in a moment.
const waitLimit = 2 * time.Minute

// testCluster is a cluster whose nodes run this test's executable for image.
type testCluster struct{ *cluster.Cluster }

func sharedCluster(t *testing.T) testCluster {
	t.Helper()
	return testCluster{cluster.Shared(t, cluster.Options{Images: images()})}
}

func images() map[string]string {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return map[string]string{imageRepository: program}
}

// namespace creates a namespace that is ready for pods.
func (c testCluster) namespace(t *testing.T) string {
	t.Helper()
	namespace := c.Namespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	await(t, c, account, "the default service account", func(*corev1.ServiceAccount) error { return nil })
	return namespace
}

// template returns a pod that runs a program. Changes are applied in order.
func template(program string, changes ...func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	grace := int64(5)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "test"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name:                     "main",
				Image:                    image,
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				Env: []corev1.EnvVar{
					{Name: programVariable, Value: program},
					{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
				},
			}},
		},
	}
	for _, change := range changes {
		change(&template.Spec)
	}
	return template
}

// pod creates a pod that runs a program.
func (c testCluster) pod(t *testing.T, namespace, name, program string, changes ...func(*corev1.PodSpec)) *corev1.Pod {
	t.Helper()
	template := template(program, changes...)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = namespace, name
	c.create(t, pod)
	return pod
}

func (c testCluster) create(t *testing.T, object client.Object) {
	t.Helper()
	require.NoErrorf(t, c.Client().Create(t.Context(), object), "create %T %s", object, object.GetName())
}

// await waits until check accepts the object, which it keeps up to date.
func await[T client.Object](t *testing.T, c testCluster, object T, what string, check func(T) error) T {
	t.Helper()
	c.Await(t, waitLimit, what, object, func() error { return check(object) })
	return object
}

// awaitReady waits until the pod is ready and returns its address.
func (c testCluster) awaitReady(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	return await(t, c, pod, "the pod to be ready", isReady).Status.PodIP
}

func isReady(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not ready: %s", pod.Name, toJSON(pod.Status))
}

// awaitServing waits until the pod's program responds, and returns its report about itself.
func (c testCluster) awaitServing(t *testing.T, pod *corev1.Pod) self {
	t.Helper()
	ip := c.awaitReady(t, pod)
	var me self
	cluster.Eventually(t, waitLimit, "the program to respond", func(ctx context.Context) error {
		body, err := ask(ctx, ip, "/self")
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(body), &me)
	})
	return me
}

// awaitEnd waits for the end of a killed process that nobody has waited for: it may still be ending.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	cluster.Eventually(t, waitLimit, fmt.Sprintf("process %d to end", pid), func(context.Context) error {
		return ended(pid)
	})
}

// ended returns an error if the process runs. A zombie does not run.
func ended(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "Z") {
		return nil
	}
	return fmt.Errorf("process %d still runs: %s", pid, stat)
}

func toJSON(value any) string {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
