package node_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("web")}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
}

func webPort(spec *corev1.PodSpec) {
	spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
}

func TestReadinessMakesADeploymentAvailable(t *testing.T) {
	c := sharedCluster(t)
	deployment := c.deployment(t, c.namespace(t), webPort, func(spec *corev1.PodSpec) {
		spec.Containers[0].ReadinessProbe = httpProbe("/ready")
		setVariable(spec, "UNREADY", "yes")
	})
	pod := c.podOf(t, deployment)
	await(t, c, pod, "the program to run", isRunning)
	await(t, c, deployment, "the Deployment to be unavailable", isAvailable(corev1.ConditionFalse))

	for _, ready := range []bool{true, false} {
		cluster.Eventually(t, waitLimit, "the program to be told", func(ctx context.Context) error {
			_, err := send(ctx, http.MethodPost, pod.Status.PodIP, fmt.Sprintf("/ready?value=%v", ready))
			return err
		})
		want := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[ready]
		await(t, c, deployment, "the Deployment's Available condition to be "+string(want), isAvailable(want))
	}
	await(t, c, pod, "the pod", isRunning)
	assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, "restarts of a program that is not ready")
}

func TestNotReadyUntilTheFirstGoodAnswer(t *testing.T) {
	c := sharedCluster(t)
	pod := c.pod(t, c.namespace(t), "program", "serve", webPort, func(spec *corev1.PodSpec) {
		spec.Containers[0].ReadinessProbe = httpProbe("/ready")
		spec.Containers[0].ReadinessProbe.FailureThreshold = 1000
		setVariable(spec, "UNREADY", "yes")
	})
	await(t, c, pod, "the program to have started", func(pod *corev1.Pod) error {
		if err := isRunning(pod); err != nil {
			return err
		}
		if status := pod.Status.ContainerStatuses[0]; status.Ready || status.Started == nil || !*status.Started {
			return fmt.Errorf("got %s, want it started and not ready", toJSON(status))
		}
		return nil
	})
}

func TestFailedLivenessRestartsTheProgram(t *testing.T) {
	c := sharedCluster(t)
	pod := c.pod(t, c.namespace(t), "program", "serve", webPort, func(spec *corev1.PodSpec) {
		spec.Containers[0].StartupProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
			PeriodSeconds: 1, FailureThreshold: 30,
		}
		spec.Containers[0].LivenessProbe = httpProbe("/healthy")
		spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/var/run/secrets/kubernetes.io/serviceaccount/token"}}},
		}
	})
	first := c.awaitServing(t, pod)
	_, err := send(t.Context(), http.MethodPost, pod.Status.PodIP, "/healthy?value=false")
	require.NoError(t, err)
	awaitEnd(t, first.PID)
	await(t, c, pod, "the restart", restarted(1))
	assert.NotEqual(t, first.PID, c.awaitServing(t, pod).PID, "the first process still serves")
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 0 {
		t.Errorf("last termination: got %s, want exit code 0, as the program terminates gracefully", toJSON(last))
	}
}

func TestCrashedProgramIsRestarted(t *testing.T) {
	c := sharedCluster(t)
	pod := c.pod(t, c.namespace(t), "program", "fail")
	await(t, c, pod, "two restarts", restarted(2))
	await(t, c, pod, "the back-off", func(pod *corev1.Pod) error {
		status := pod.Status.ContainerStatuses[0]
		if waiting := status.State.Waiting; waiting == nil || waiting.Reason != "CrashLoopBackOff" {
			return fmt.Errorf("got %s, want it waiting with reason CrashLoopBackOff", toJSON(status.State))
		}
		last := status.LastTerminationState.Terminated
		if last == nil || last.ExitCode != 3 || last.Reason != "Error" || last.Message != "the sky is falling\n" {
			return fmt.Errorf("last termination: got %s, want exit code 3, reason Error and the program's last output", toJSON(last))
		}
		if pod.Status.Phase != corev1.PodRunning || isReady(pod) == nil {
			return fmt.Errorf("got phase %s, want Running and not ready", pod.Status.Phase)
		}
		return nil
	})
}

func TestJobCompletes(t *testing.T) {
	c := sharedCluster(t)
	namespace := c.namespace(t)
	tests := map[string]struct {
		program string
		want    batchv1.JobConditionType
	}{
		"succeeds": {"succeed", batchv1.JobComplete},
		"fails":    {"fail", batchv1.JobFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: batchv1.JobSpec{BackoffLimit: new(int32)}}
			job.Spec.Template = template("succeed", func(spec *corev1.PodSpec) {
				spec.RestartPolicy = corev1.RestartPolicyNever
				spec.InitContainers = []corev1.Container{*spec.Containers[0].DeepCopy()}
				spec.InitContainers[0].Name = "before"
				setVariable(spec, programVariable, test.program)
			})
			c.create(t, job)
			await(t, c, job, "the Job to end", func(job *batchv1.Job) error {
				for _, condition := range job.Status.Conditions {
					if condition.Type == test.want && condition.Status == corev1.ConditionTrue {
						return nil
					}
				}
				return fmt.Errorf("got %s, want condition %s", toJSON(job.Status), test.want)
			})
		})
	}
}

// deployment creates a Deployment of one serving pod.
func (c testCluster) deployment(t *testing.T, namespace string, changes ...func(*corev1.PodSpec)) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "program"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "test"}},
			Template: template("serve", changes...),
		},
	}
	c.create(t, deployment)
	return deployment
}

// podOf waits for the only pod in the Deployment's namespace.
func (c testCluster) podOf(t *testing.T, deployment *appsv1.Deployment) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	cluster.Eventually(t, waitLimit, "one pod", func(ctx context.Context) error {
		if err := c.Client().List(ctx, &pods, client.InNamespace(deployment.Namespace)); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("found %d pods", len(pods.Items))
		}
		return nil
	})
	return &pods.Items[0]
}

func setVariable(spec *corev1.PodSpec, name, value string) {
	main := &spec.Containers[0]
	main.Env = append(main.Env, corev1.EnvVar{Name: name, Value: value})
}

func isAvailable(want corev1.ConditionStatus) func(*appsv1.Deployment) error {
	return func(deployment *appsv1.Deployment) error {
		for _, condition := range deployment.Status.Conditions {
			if condition.Type == appsv1.DeploymentAvailable && condition.Status == want {
				return nil
			}
		}
		return fmt.Errorf("got %s, want Available %s", toJSON(deployment.Status), want)
	}
}

func isRunning(pod *corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
		return fmt.Errorf("the container does not run: %s", toJSON(pod.Status.ContainerStatuses))
	}
	return nil
}

func restarted(times int32) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount < times {
			return fmt.Errorf("got %s, want %d restarts", toJSON(pod.Status.ContainerStatuses), times)
		}
		return nil
	}
}
