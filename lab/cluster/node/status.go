package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observation is the observed state of a pod.
type observation struct {
	hostIP, podIP string
	// startTime is when the node accepted the pod.
	startTime metav1.Time
	// volumesReady says that all of the pod's volumes exist.
	volumesReady bool
	// ended says that the node has stopped the pod for good.
	ended bool
	// init and main are in the order of the pod's containers.
	init, main []corev1.ContainerStatus
}

// podStatus returns the status of a pod as a kubelet would report it. It keeps others' fields, such as the scheduler's
// condition.
func podStatus(pod *corev1.Pod, seen observation, now metav1.Time) corev1.PodStatus {
	if seen.ended {
		seen.init, seen.main = endedContainers(seen.init, now), endedContainers(seen.main, now)
	}
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	status.Phase = podPhase(pod, seen)
	status.HostIP, status.HostIPs = seen.hostIP, []corev1.HostIP{{IP: seen.hostIP}}
	status.PodIP, status.PodIPs = seen.podIP, []corev1.PodIP{{IP: seen.podIP}}
	if seen.podIP == "" {
		status.PodIPs = nil
	}
	status.StartTime = &seen.startTime
	status.InitContainerStatuses, status.ContainerStatuses = seen.init, seen.main

	initialized := initializedCondition(pod, seen, status.Phase)
	containersReady := containersReadyCondition(seen, status.Phase)
	for _, condition := range []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: conditionStatus(seen.volumesReady && !seen.ended)},
		initialized,
		containersReady,
		readyCondition(pod, containersReady),
	} {
		condition.ObservedGeneration = pod.Generation
		setCondition(&status.Conditions, condition, now)
	}
	return status
}

// endedContainers returns the status of each container, and adds a termination where the container did not end by
// itself.
func endedContainers(containers []corev1.ContainerStatus, now metav1.Time) []corev1.ContainerStatus {
	containers = slices.Clone(containers)
	for i := range containers {
		c := &containers[i]
		c.Ready, c.Started = false, new(bool)
		switch {
		case c.State.Terminated != nil:
		case c.State.Running != nil:
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: c.State.Running.StartedAt, FinishedAt: now, ContainerID: c.ContainerID,
			}}
		default:
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exitCodeUnknown, Reason: reasonUnknown, Message: "the pod was stopped before the container ran",
			}}
		}
	}
	return containers
}

// A kubelet reports exitCodeUnknown and reasonUnknown for a container whose end it did not see.
const (
	exitCodeUnknown = 137
	reasonUnknown   = "ContainerStatusUnknown"
)

// podPhase derives the phase from the containers and the restart policy.
func podPhase(pod *corev1.Pod, seen observation) corev1.PodPhase {
	policy := pod.Spec.RestartPolicy
	var waiting, running, succeeded, failed int
	for _, c := range seen.main {
		switch {
		case c.State.Running != nil:
			running++
		case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
			succeeded++
		case c.State.Terminated != nil:
			failed++
		case c.LastTerminationState.Terminated != nil: // It waits for its restart.
			running++
		default:
			waiting++
		}
	}
	switch {
	case seen.ended && failed == 0:
		return corev1.PodSucceeded
	case seen.ended:
		return corev1.PodFailed
	case policy == corev1.RestartPolicyNever && slices.ContainsFunc(seen.init, hasFailed):
		return corev1.PodFailed
	case waiting > 0:
		return corev1.PodPending
	case running > 0 || policy == corev1.RestartPolicyAlways:
		return corev1.PodRunning
	case failed == 0:
		return corev1.PodSucceeded
	case policy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	}
	return corev1.PodRunning
}

func hasFailed(c corev1.ContainerStatus) bool {
	return c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
}

func initializedCondition(pod *corev1.Pod, seen observation, phase corev1.PodPhase) corev1.PodCondition {
	var incomplete []string
	for i, c := range seen.init {
		done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		if isSidecar(&pod.Spec.InitContainers[i]) {
			done = isTrue(c.Started)
		}
		if !done {
			incomplete = append(incomplete, c.Name)
		}
	}
	if len(incomplete) == 0 || phase == corev1.PodSucceeded {
		return corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{
		Type: corev1.PodInitialized, Status: corev1.ConditionFalse, Reason: "ContainersNotInitialized",
		Message: fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(incomplete, " ")),
	}
}

func containersReadyCondition(seen observation, phase corev1.PodPhase) corev1.PodCondition {
	condition := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	var unready []string
	for _, c := range seen.main {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	switch {
	case phase == corev1.PodSucceeded:
		condition.Reason = "PodCompleted"
	case phase == corev1.PodFailed:
		condition.Reason = "PodFailed"
	case len(unready) > 0:
		condition.Reason = "ContainersNotReady"
		condition.Message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	default:
		condition.Status = corev1.ConditionTrue
	}
	return condition
}

func readyCondition(pod *corev1.Pod, containersReady corev1.PodCondition) corev1.PodCondition {
	condition := containersReady
	condition.Type = corev1.PodReady
	if containersReady.Status != corev1.ConditionTrue {
		return condition
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if other := findCondition(pod.Status.Conditions, gate.ConditionType); other == nil || other.Status != corev1.ConditionTrue {
			condition.Status, condition.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
			condition.Message = fmt.Sprintf("the status of pod readiness gate %q is not \"True\"", gate.ConditionType)
		}
	}
	return condition
}

func findCondition(conditions []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// setCondition replaces the condition of this type. Its transition time changes only with its status.
func setCondition(conditions *[]corev1.PodCondition, condition corev1.PodCondition, now metav1.Time) {
	condition.LastTransitionTime = now
	existing := findCondition(*conditions, condition.Type)
	if existing == nil {
		*conditions = append(*conditions, condition)
		return
	}
	if existing.Status == condition.Status {
		condition.LastTransitionTime = existing.LastTransitionTime
	}
	*existing = condition
}

func conditionStatus(is bool) corev1.ConditionStatus {
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// isSidecar reports whether an init container keeps running beside the others.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// firstStatus returns the status of a container that has not started yet. If the API server has the status of an earlier run,
// from before this node was started, that run has ended without being seen and counts as a restart.
func firstStatus(spec *corev1.Container, known []corev1.ContainerStatus) corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name:    spec.Name,
		Image:   spec.Image,
		Started: new(bool),
		State:   waitingState("ContainerCreating", ""),
	}
	i := slices.IndexFunc(known, func(c corev1.ContainerStatus) bool { return c.Name == spec.Name })
	if i < 0 {
		return status
	}
	last := known[i]
	status.RestartCount, status.LastTerminationState = last.RestartCount, last.LastTerminationState
	if last.State.Running != nil || last.State.Terminated != nil {
		status.RestartCount++
		status.LastTerminationState = corev1.ContainerState{Terminated: cmp.Or(last.State.Terminated, &corev1.ContainerStateTerminated{
			ExitCode: exitCodeUnknown, Reason: reasonUnknown, Message: "the node was stopped while the container ran", ContainerID: last.ContainerID,
		})}
	}
	return status
}

func waitingState(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}
