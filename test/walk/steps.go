package walk

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/journey"
)

// immutableChanges changes objects, by their kind, in fields that can never be changed back.
var immutableChanges = map[string]func(object map[string]any){
	"CSIDriver": func(object map[string]any) {
		spec := object["spec"].(map[string]any)
		spec["attachRequired"] = spec["attachRequired"] != true
	},
	"RoleBinding":        bindAnotherRole,
	"ClusterRoleBinding": bindAnotherRole,
}

func bindAnotherRole(object map[string]any) {
	object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
}

// MakeUnfit changes an object in a field that can never be changed back, so that an operator has to replace the object. It
// reports whether the object's kind has such a field.
func MakeUnfit(object *unstructured.Unstructured) bool {
	change := immutableChanges[object.GetKind()]
	if change != nil {
		change(object.Object)
	}
	return change != nil
}

// UIDs returns the UIDs of the existing objects among those given, by kind and name.
func UIDs(t testing.TB, c *cluster.Cluster, objects ...*unstructured.Unstructured) map[string]string {
	t.Helper()
	uids := map[string]string{}
	for _, object := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		err := c.Client().Get(t.Context(), client.ObjectKeyFromObject(object), live)
		require.NoError(t, client.IgnoreNotFound(err))
		if err == nil {
			uids[object.GetKind()+" "+object.GetName()] = string(live.GetUID())
		}
	}
	return uids
}

// LoseObjects takes away objects of a driver or an operator, and waits until all are there again.
func LoseObjects(t testing.TB, c *cluster.Cluster, objects ...*unstructured.Unstructured) {
	t.Helper()
	before := UIDs(t, c, objects...)
	for _, object := range objects {
		if (drivers.Manifest{Object: object}).Kept() {
			delete(before, object.GetKind()+" "+object.GetName())
			continue // it stays in the cluster
		}
		require.NoError(t, c.Client().Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	cluster.Eventually(t, limit, "the objects to be made again", func(context.Context) error {
		now := UIDs(t, c, objects...)
		for name, uid := range before {
			if now[name] == "" || now[name] == uid {
				return fmt.Errorf("%s has UID %q, as before or none", name, now[name])
			}
		}
		return nil
	})
}

// ReplaceLeader runs a second pod of a driver's operator, which has to wait for the first one's lock, and ends the first as a
// node does that shuts down: the pod stays. It returns the second pod, which then holds the lock.
func (a Account) ReplaceLeader(t testing.TB, lock string) *corev1.Pod {
	t.Helper()
	leader, err := journey.LockHolder(t.Context(), a.Cluster.Client(), a.Namespace, lock)
	require.NoError(t, err)
	second := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: leader.Namespace, Name: "second-" + a.Name},
		Spec:       leader.Spec,
	}
	second.Spec.NodeName = ""
	require.NoError(t, a.Cluster.Client().Create(t.Context(), second))
	a.AwaitRequest(t, "ask whether the leader's node is lost", func(request cluster.AuditEvent) bool {
		return request.Verb == "get" && request.Resource == "nodes" && request.Name == leader.Spec.NodeName
	})
	leader.Status.Phase, leader.Status.Reason = corev1.PodFailed, "Terminated"
	require.NoError(t, a.Cluster.Client().Status().Update(t.Context(), leader))
	a.AwaitRequest(t, "delete the lock of the pod that has ended", func(request cluster.AuditEvent) bool {
		return request.Verb == "delete" && request.Resource == "configmaps" && request.Name == lock
	})
	cluster.Eventually(t, limit, "another pod to hold the lock", func(ctx context.Context) error {
		holder, err := journey.LockHolder(ctx, a.Cluster.Client(), a.Namespace, lock)
		if err == nil && holder.UID == leader.UID {
			err = fmt.Errorf("pod %s, which has ended, holds it", holder.Name)
		}
		return err
	})
	return second
}

// AwaitNewGenerations calls change, of which the pods of workloads must learn, and waits until all workloads have a new generation.
func AwaitNewGenerations(t testing.TB, c *cluster.Cluster, objects []*unstructured.Unstructured, change func()) {
	t.Helper()
	var workloads []*unstructured.Unstructured
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
			workloads = append(workloads, object)
		}
	}
	generations := func() map[string]int64 {
		found := map[string]int64{}
		for _, object := range workloads {
			require.NoError(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object))
			found[object.GetKind()+" "+object.GetName()] = object.GetGeneration()
		}
		return found
	}
	before := generations()
	change()
	cluster.Eventually(t, limit, "the pods to be told of the change", func(context.Context) error {
		for name, generation := range generations() {
			if generation == before[name] {
				return fmt.Errorf("%s still has generation %d", name, generation)
			}
		}
		return nil
	})
}
