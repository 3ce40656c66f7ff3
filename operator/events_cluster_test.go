package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// TestEventsAreRecordedOnce covers the whole life of a driver, with an operator that is restarted in each phase. What
// happens once is recorded once.
func TestEventsAreRecordedOnce(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.createUnadopted(nil)
	env.create(env.customResource())
	stop := env.startOperator()
	repairs := 0
	restart := func() {
		env.waitUntilGenerationsAreRecorded()
		stop()
		stop = env.startOperator()
	}
	restartAtWork := func() {
		restart()
		env.waitForRepair()
		repairs++
		cluster.Eventually(t, limit, "an event about the repair", func(context.Context) error {
			if times := env.timesRecorded("RoleUpdated"); times != repairs {
				return fmt.Errorf("%d repairs were recorded, and %d made", times, repairs)
			}
			return nil
		})
	}
	env.waitForConditions(allWell)
	restartAtWork()

	// The cluster has a setting that the driver cannot honor.
	during(env, &configv1.Infrastructure{ObjectMeta: singleton}, func(i *configv1.Infrastructure) {
		i.Status.PlatformStatus.AWS.ResourceTags = []configv1.AWSResourceTag{{Key: "aws:cost", Value: "7"}}
	})
	env.waitForEvent("SettingsLeftOut", "aws:cost")
	restartAtWork()

	// Another client changes the DaemonSet.
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "efs-csi-node"}}
	require.NoError(t, env.Client().Patch(t.Context(), daemonSet, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}`))))
	env.waitForWorkloads("the DaemonSet to be repaired", func(l workloads) error {
		if got := l.node.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String(); got != "10%" {
			return fmt.Errorf("maxUnavailable is %s", got)
		}
		return nil
	})
	env.waitForConditions(allWell)
	restartAtWork()

	// An image is missing.
	env.variables.Delete("PROVISIONER_IMAGE")
	restart()
	env.waitForReason(env.driver.ConditionPrefix+"OperatorDegraded", "MissingImage")
	restart()
	env.patchCustomResource(`{"spec":{"logLevel":"Debug"}}`)
	env.waitUntilObserved()
	env.variables.Store("PROVISIONER_IMAGE", "registry.example/provisioner:1")
	restart()
	env.waitForWorkloads("the log level in the driver's arguments", func(l workloads) error {
		return l.onBoth(func(_ corev1.PodTemplateSpec, c corev1.Container) error { return argument(c, "--v=4") })
	})
	restartAtWork()

	// The driver is removed while a volume is in use.
	env.mountedVolume()
	env.deleteCustomResource()
	env.waitForEvent("VolumesInUse", "web")
	restart()
	env.waitForMetric("berth_uninstall_blocking_pods", 1)
	second := env.createUser("second", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}})
	env.waitForUninstallMessage(env.namespace + "/" + second.Name)
	env.annotate("berth.dev/force-removal", `"true"`)
	env.waitUntilRemoved()
	env.waitForEvent("RemovalForced", "2 pods")
	env.waitForEvent("Removed", "the driver is removed")

	for told, times := range env.recorded() {
		reason, _, _ := strings.Cut(told, ": ")
		want := 1
		switch reason {
		case "RoleUpdated":
			want = repairs
		case "DaemonSetUpdated", "DeploymentUpdated":
			// library-go records in an annotation of a workload that a generation has rolled out, by an update
			// of its own if there is no other, and emits events for some of these.
			continue
		}
		assert.Equalf(t, want, times, "how often it was recorded, want as often as it happened: %s", told)
	}
}

// waitUntilGenerationsAreRecorded waits until the ClusterCSIDriver's status has the generations of the driver's
// workloads: from these a restarted operator knows which updates have events.
func (env *testEnv) waitUntilGenerationsAreRecorded() {
	env.t.Helper()
	custom := env.customResource()
	env.waitForWorkloads("their generations to be recorded", func(l workloads) error {
		if err := env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		recorded := map[string]int64{}
		for _, g := range custom.Status.Generations {
			recorded[g.Name] = g.LastGeneration
		}
		for _, live := range []client.Object{l.controller, l.node} {
			if recorded[live.GetName()] != live.GetGeneration() {
				return fmt.Errorf("%s has generation %d, recorded is %d", live.GetName(), live.GetGeneration(), recorded[live.GetName()])
			}
		}
		return nil
	})
}

// timesRecorded returns how often the operator recorded events with a reason.
func (env *testEnv) timesRecorded(reason string) int {
	env.t.Helper()
	times := 0
	for told, count := range env.recorded() {
		if strings.HasPrefix(told, reason+": ") {
			times += count
		}
	}
	return times
}

// recorded returns how often the operator recorded what: "reason: message".
func (env *testEnv) recorded() map[string]int {
	env.t.Helper()
	list := &corev1.EventList{}
	require.NoError(env.t, env.Client().List(env.t.Context(), list, client.InNamespace(env.namespace)))
	told := map[string]int{}
	for _, event := range list.Items {
		if strings.HasPrefix(event.Source.Component, "operator") {
			told[event.Reason+": "+event.Message] += int(event.Count)
		}
	}
	assert.NotEmpty(env.t, told, "events")
	return told
}

// waitForUninstallMessage waits until the message of the uninstall condition contains a text.
func (env *testEnv) waitForUninstallMessage(text string) operatorv1.OperatorCondition {
	env.t.Helper()
	custom := env.customResource()
	found := operatorv1.OperatorCondition{}
	env.Await(env.t, limit, "the uninstall condition to say "+text, custom, func() error {
		found = condition(custom, env.driver.ConditionPrefix+"UninstallProgressing")
		if !strings.Contains(found.Message, text) {
			return fmt.Errorf("it says %q", found.Message)
		}
		return nil
	})
	return found
}
