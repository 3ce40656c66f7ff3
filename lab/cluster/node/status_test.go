package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	earlier = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	now     = metav1.NewTime(earlier.Add(time.Minute))
)

func running(name string, ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: ready, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: earlier}}}
}

func terminated(name string, exitCode int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode}}}
}

func waiting(name string, before *corev1.ContainerStateTerminated) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: waitingState("Reason", ""), LastTerminationState: corev1.ContainerState{Terminated: before}}
}

func TestPodPhaseAndConditions(t *testing.T) {
	type outcome struct {
		Phase                                           corev1.PodPhase
		Initialized, ContainersReady, Ready, ReadyCause string
	}
	failed := &corev1.ContainerStateTerminated{ExitCode: 1}
	sidecar := corev1.Container{Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
	tests := map[string]struct {
		policy corev1.RestartPolicy
		inits  []corev1.Container
		gates  []corev1.PodReadinessGate
		seen   observation
		want   outcome
	}{
		"not started": {
			seen: observation{main: []corev1.ContainerStatus{waiting("a", nil)}},
			want: outcome{corev1.PodPending, "True", "False", "False", "ContainersNotReady"},
		},
		"one of two runs": {
			seen: observation{main: []corev1.ContainerStatus{running("a", true), waiting("b", nil)}},
			want: outcome{corev1.PodPending, "True", "False", "False", "ContainersNotReady"},
		},
		"runs and is ready": {
			seen: observation{main: []corev1.ContainerStatus{running("a", true)}},
			want: outcome{corev1.PodRunning, "True", "True", "True", ""},
		},
		"runs and is not ready": {
			seen: observation{main: []corev1.ContainerStatus{running("a", true), running("b", false)}},
			want: outcome{corev1.PodRunning, "True", "False", "False", "ContainersNotReady"},
		},
		"runs and waits for a readiness gate": {
			gates: []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}},
			seen:  observation{main: []corev1.ContainerStatus{running("a", true)}},
			want:  outcome{corev1.PodRunning, "True", "True", "False", "ReadinessGatesNotReady"},
		},
		"waits to be restarted": {
			seen: observation{main: []corev1.ContainerStatus{waiting("a", failed)}},
			want: outcome{corev1.PodRunning, "True", "False", "False", "ContainersNotReady"},
		},
		"ended and is about to be restarted": {
			seen: observation{main: []corev1.ContainerStatus{terminated("a", 0)}},
			want: outcome{corev1.PodRunning, "True", "False", "False", "ContainersNotReady"},
		},
		"init container runs": {
			inits: []corev1.Container{{Name: "i"}},
			seen:  observation{init: []corev1.ContainerStatus{running("i", false)}, main: []corev1.ContainerStatus{waiting("a", nil)}},
			want:  outcome{corev1.PodPending, "False", "False", "False", "ContainersNotReady"},
		},
		"init container failed for good": {
			policy: corev1.RestartPolicyNever,
			inits:  []corev1.Container{{Name: "i"}},
			seen:   observation{init: []corev1.ContainerStatus{terminated("i", 1)}, main: []corev1.ContainerStatus{waiting("a", nil)}},
			want:   outcome{corev1.PodFailed, "False", "False", "False", "PodFailed"},
		},
		"sidecar runs": {
			inits: []corev1.Container{sidecar},
			seen:  observation{init: []corev1.ContainerStatus{running("sidecar", true)}, main: []corev1.ContainerStatus{running("a", true)}},
			want:  outcome{corev1.PodRunning, "True", "True", "True", ""},
		},
		"completed": {
			policy: corev1.RestartPolicyOnFailure,
			seen:   observation{main: []corev1.ContainerStatus{terminated("a", 0), terminated("b", 0)}},
			want:   outcome{corev1.PodSucceeded, "True", "False", "False", "PodCompleted"},
		},
		"failed and never restarted": {
			policy: corev1.RestartPolicyNever,
			seen:   observation{main: []corev1.ContainerStatus{terminated("a", 0), terminated("b", 1)}},
			want:   outcome{corev1.PodFailed, "True", "False", "False", "PodFailed"},
		},
		"failed and restarted": {
			policy: corev1.RestartPolicyOnFailure,
			seen:   observation{main: []corev1.ContainerStatus{terminated("a", 0), terminated("b", 1)}},
			want:   outcome{corev1.PodRunning, "True", "False", "False", "ContainersNotReady"},
		},
		"stopped while it ran": {
			seen: observation{ended: true, main: []corev1.ContainerStatus{running("a", true)}},
			want: outcome{corev1.PodSucceeded, "True", "False", "False", "PodCompleted"},
		},
		"stopped before it ran": {
			seen: observation{ended: true, main: []corev1.ContainerStatus{waiting("a", nil)}},
			want: outcome{corev1.PodFailed, "True", "False", "False", "PodFailed"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, InitContainers: test.inits, ReadinessGates: test.gates}}
			if test.policy != "" {
				pod.Spec.RestartPolicy = test.policy
			}
			status := podStatus(pod, test.seen, now)
			got := outcome{Phase: status.Phase}
			for kind, field := range map[corev1.PodConditionType]*string{corev1.PodInitialized: &got.Initialized, corev1.ContainersReady: &got.ContainersReady, corev1.PodReady: &got.Ready} {
				*field = string(findCondition(status.Conditions, kind).Status)
			}
			got.ReadyCause = findCondition(status.Conditions, corev1.PodReady).Reason
			assert.Empty(t, cmp.Diff(test.want, got), "(-want +got)")
			if test.seen.ended && status.ContainerStatuses[0].State.Terminated == nil {
				t.Errorf("a container of a stopped pod is %+v", status.ContainerStatuses[0].State)
			}
		})
	}
}

func TestPodStatusKeepsWhatOthersWrote(t *testing.T) {
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: earlier}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: earlier}
	pod := &corev1.Pod{Status: corev1.PodStatus{QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{scheduled, ready}}}

	status := podStatus(pod, observation{main: []corev1.ContainerStatus{running("a", true)}}, now)
	assert.Empty(t, cmp.Diff(scheduled, *findCondition(status.Conditions, corev1.PodScheduled)), "the scheduler's condition (-want +got)")
	assert.Equal(t, earlier, findCondition(status.Conditions, corev1.PodReady).LastTransitionTime, "the pod is ready since")
	assert.Equal(t, corev1.PodQOSBurstable, status.QOSClass, "the QoS class")
	status = podStatus(pod, observation{main: []corev1.ContainerStatus{running("a", false)}}, now)
	assert.Equal(t, now, findCondition(status.Conditions, corev1.PodReady).LastTransitionTime, "the pod is not ready since")
}

func TestRestartsBeforeTheNodeCameCount(t *testing.T) {
	spec := &corev1.Container{Name: "a"}
	ran := running("a", true)
	ran.RestartCount = 2
	got := firstStatus(spec, []corev1.ContainerStatus{ran})
	if got.RestartCount != 3 || got.LastTerminationState.Terminated == nil || got.State.Waiting == nil {
		t.Errorf("got %+v, want a third restart after a run whose end was not seen", got)
	}
	assert.Zero(t, firstStatus(spec, []corev1.ContainerStatus{waiting("a", nil)}).RestartCount, "restarts of a container that never ran")
}
