package operator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/tenant"
)

// TestTenantBlocksRemoval: pods of a tenant that cannot have a volume of the driver mounted do not block its removal.
func TestTenantBlocksRemoval(t *testing.T) {
	t.Parallel()
	data := func(source corev1.VolumeSource) []corev1.Volume {
		return []corev1.Volume{{Name: "data", VolumeSource: source}}
	}
	claimed := data(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
	bound := func(env *testEnv, who *tenant.Tenant, project string) { env.boundClaim(who, project) }
	for _, attack := range []struct {
		name    string
		prepare func(env *testEnv, who *tenant.Tenant, project string) // makes the claim "data"
		pod     func(env *testEnv) corev1.PodSpec
	}{
		{"a pod that is on no node names the claim", bound, func(*testEnv) corev1.PodSpec {
			return corev1.PodSpec{Volumes: claimed, SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}}}
		}},
		{"a pod names a node that does not exist", bound, func(*testEnv) corev1.PodSpec {
			return corev1.PodSpec{Volumes: claimed, NodeName: "no-such-node"}
		}},
		{"a claim names a volume that is bound to another's claim",
			func(env *testEnv, who *tenant.Tenant, project string) {
				others := env.mountedVolume() // of a volume that has the name of the namespace
				require.NoError(env.t, env.Client().Delete(env.t.Context(), others))
				env.createdBy(who, env.claimOf(project, env.namespace))
			},
			func(*testEnv) corev1.PodSpec { return corev1.PodSpec{Volumes: claimed, NodeName: "worker-0"} }},
		{"a pod has an inline volume that the CSIDriver forbids", func(*testEnv, *tenant.Tenant, string) {}, func(env *testEnv) corev1.PodSpec {
			return corev1.PodSpec{Volumes: []corev1.Volume{env.inlineVolume()}, NodeName: "worker-0"}
		}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			env := newTestEnv(t)
			env.installDriver()
			who := tenant.New(t, env.Cluster)
			project := who.Project(t, "")
			attack.prepare(env, who, project)
			pod := &corev1.Pod{
				// The finalizer keeps the pod from being garbage-collected if its node does not exist.
				ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "blocker", Finalizers: []string{"example.com/hold"}},
				Spec:       attack.pod(env),
			}
			pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.com/app:1"}}
			env.createdBy(who, pod)
			t.Cleanup(func() {
				free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
				assert.NoError(t, client.IgnoreNotFound(env.Client().Patch(context.Background(), pod, free)))
			})
			if pod.Spec.NodeName == "worker-0" {
				env.waitUntilRunning(pod)
			}
			env.deleteCustomResource()
			env.waitUntilRemoved()
			// Kubernetes may have ended the pod by now, but the removal has not waited for that.
			events := &corev1.EventList{}
			require.NoError(t, env.Client().List(t.Context(), events, client.InNamespace(env.namespace)))
			for _, event := range events.Items {
				assert.NotEqualf(t, "VolumesInUse", event.Reason, "the removal waited: %s", event.Message)
			}
		})
	}
}

// createdBy creates objects as a tenant.
func (env *testEnv) createdBy(who *tenant.Tenant, object client.Object) {
	env.t.Helper()
	require.NoErrorf(env.t, who.Client.Create(env.t.Context(), object), "create %T %s", object, object.GetName())
}

// claimOf returns the claim "data" of a project, which names a volume.
func (env *testEnv) claimOf(project, volume string) *corev1.PersistentVolumeClaim {
	env.t.Helper()
	spec := &corev1.PersistentVolume{}
	require.NoError(env.t, env.Client().Get(env.t.Context(), client.ObjectKey{Name: volume}, spec))
	class := ""
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volume, AccessModes: spec.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: spec.Spec.Capacity}},
	}
}

// boundClaim creates a claim as a tenant, and waits until a volume of the driver is bound to it.
func (env *testEnv) boundClaim(who *tenant.Tenant, project string) {
	env.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "data"}}
	claim.Spec = env.createVolumeFor(project, "volume-of-"+project, claim.Name)
	env.createdBy(who, claim)
	env.waitUntilBound(claim)
}
