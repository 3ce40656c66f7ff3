package clusterstorage

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/openstack"
	"github.com/berth-csi/berth/test/release"
)

// mustHaveOnePodOnEachNode fails the test if two pods of a DaemonSet were on a node at the same time. A node driver that ends
// deletes its socket, and would delete that of the other.
func mustHaveOnePodOnEachNode(t *testing.T, before []corev1.Pod, events []watch.Event, rollsOut bool) {
	type place struct{ set, node string }
	pods := map[place]map[types.UID]string{}
	changed := 0
	see := func(pod *corev1.Pod, gone bool) {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" {
			return
		}
		at := place{pod.Namespace + "/" + owner.Name, pod.Spec.NodeName}
		if pods[at] == nil {
			pods[at] = map[types.UID]string{}
		}
		if gone {
			if pods[at][pod.UID] != "" {
				changed++
			}
			delete(pods[at], pod.UID)
			return
		}
		if pods[at][pod.UID] = pod.Name; len(pods[at]) > 1 {
			t.Errorf("node %s had several pods of DaemonSet %s at a time: %v", at.node, at.set, pods[at])
		}
	}
	for i := range before {
		see(&before[i], false)
	}
	for _, event := range events {
		pod := event.Object.(*corev1.Pod)
		// The containers of a pod in these phases have ended, and the DaemonSet controller does not wait until it is gone.
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		see(pod, event.Type == watch.Deleted || ended)
	}
	if changed == 0 && rollsOut {
		t.Error("no pod of a DaemonSet was replaced")
	}
}

// ownKey is a key that an administrator has added to each Secret whose keys are replaced.
const ownKey = "of-an-administrator"

// addOwnKeys adds it.
func (f *former) addOwnKeys() {
	f.t.Helper()
	for _, retired := range f.driver.History.Keys {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.driver.Namespace, Name: retired.Secret}}
		if err := f.Client().Get(f.t.Context(), client.ObjectKeyFromObject(secret), secret); err == nil {
			f.patch(secret, `{"stringData":{"`+ownKey+`":"mine"}}`)
		} else if !apierrors.IsNotFound(err) {
			f.t.Fatal(err)
		}
	}
}

// mustReplaceKeys waits until the new operator has replaced the keys of the former one, where there are any.
func (j *recording) mustReplaceKeys() {
	j.f.t.Helper()
	for _, before := range j.secrets {
		retired := j.f.driver.History.KeysOf(before.Name)
		if retired == nil || !retired.In(&before) {
			continue
		}
		cluster.Eventually(j.f.t, limit, "the keys of Secret "+before.Name+" to be replaced", func(context.Context) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name}}
			if j.f.get(secret); retired.In(secret) || secret.Labels[drivers.ManagedByLabel] == "" {
				return fmt.Errorf("its annotations are %v, and its labels %v", secret.Annotations, secret.Labels)
			}
			return nil
		})
	}
}

// mustKeepSecrets fails the test if a Secret of the driver has lost something that volumes may need: anything but keys that are
// replaced. Those are replaced at once, and when no pod is left that needs them.
func (j *recording) mustKeepSecrets(t *testing.T, events, pods []watch.Event) {
	for _, before := range j.secrets {
		retired := j.f.driver.History.KeysOf(before.Name)
		replaces := retired != nil && retired.In(&before)
		last := &before
		for _, event := range events {
			secret := event.Object.(*corev1.Secret)
			if secret.Name != before.Name || secret.Namespace != before.Namespace {
				continue
			}
			if replaces {
				j.mustReplaceAtOnce(t, retired, last, secret, pods)
			}
			last = secret
		}
		for key, value := range before.Data {
			if replaces && slices.Contains(retired.Keys, key) {
				continue
			}
			if string(last.Data[key]) != string(value) {
				t.Errorf("key %s of Secret %s is %q, want %q as before", key, last.Name, last.Data[key], value)
			}
		}
		if replaces && (retired.In(last) || string(last.Data[ownKey]) != "mine") {
			t.Errorf("Secret %s has the keys %v, and the mark of the former operator: %t; want what an administrator has added, and no mark", last.Name, keys(last), retired.In(last))
		}
	}
}

// mustReplaceAtOnce fails the test if a change of a Secret leaves keys of both operators in it, or comes before the last pod of the
// former driver is gone.
func (j *recording) mustReplaceAtOnce(t *testing.T, retired *drivers.RetiredKeys, was, is *corev1.Secret, pods []watch.Event) {
	old := slices.ContainsFunc(keys(is), func(key string) bool { return slices.Contains(retired.Keys, key) })
	if old != retired.In(is) || old != (len(is.Data["os-useClouds"]) == 0) {
		t.Errorf("at one time Secret %s had the keys %v", is.Name, keys(is))
	}
	if !retired.In(was) || retired.In(is) {
		return
	}
	needs := func(pod *corev1.Pod) bool {
		return pod.Namespace == is.Namespace && slices.Contains(retired.Accounts, pod.Spec.ServiceAccountName)
	}
	left := map[types.UID]string{}
	for i := range j.podsBefore {
		if pod := &j.podsBefore[i]; needs(pod) {
			left[pod.UID] = pod.Name
		}
	}
	if len(left) == 0 {
		t.Errorf("there was no pod of the former driver that reads Secret %s", is.Name)
	}
	for _, event := range pods {
		pod := event.Object.(*corev1.Pod)
		if event.Type == watch.Deleted && revision(t, pod) < revision(t, is) {
			delete(left, pod.UID)
		}
	}
	for _, name := range left {
		t.Errorf("when the keys of Secret %s were replaced, pod %s was there, which needs them", is.Name, name)
	}
}

// revision is that of etcd. The API server has one for all resources.
func revision(t *testing.T, object client.Object) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func keys(secret *corev1.Secret) (found []string) {
	for key := range secret.Data {
		found = append(found, key)
	}
	slices.Sort(found)
	return found
}

// TestAdoptionFailures: when a driver is handed over, a node is lost, and the backend cannot be reached. The driver is updated on
// all other nodes, and what the pod of the lost node may still need stays.
func TestAdoptionFailures(t *testing.T) {
	t.Parallel()
	at := slices.IndexFunc(succeedable(), func(d drivers.Driver) bool { return d.Backend != nil && len(d.History.Keys) > 0 })
	f := newFormer(t, succeedable()[at], programs(t))
	f.addOwnKeys()
	f.useVolumes()
	f.cloud.SetManila(openstack.Down)
	lost := f.loseNode()
	recorded := f.record()
	f.install(release.Payload{Version: version})

	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: f.driver.CSIName}}
	mustSay := func(t *testing.T, suffix string, status operatorv1.ConditionStatus, text string) {
		t.Helper()
		cluster.Eventually(t, limit, "a condition that says: "+text, func(ctx context.Context) error {
			if err := f.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
				return err
			}
			for _, c := range custom.Status.Conditions {
				if c.Type == f.driver.ConditionPrefix+suffix && c.Status == status && strings.Contains(c.Message, text) {
					return nil
				}
			}
			return fmt.Errorf("the conditions are %+v", custom.Status.Conditions)
		})
	}
	t.Run("F15: the backend cannot be reached", func(t *testing.T) {
		mustSay(t, "BackendAnswers", operatorv1.ConditionFalse, "what is installed stays as it is")
		if c := f.available(t.Context()); c.Status != operatorv1.ConditionTrue {
			t.Errorf("Storage says %+v, want that the driver serves volumes", c)
		}
	})
	f.awaitDriver(func(s appsv1.DaemonSetStatus) bool {
		others := s.DesiredNumberScheduled - 1
		return others > 0 && s.UpdatedNumberScheduled == others && s.NumberReady == others
	})
	t.Run("F14: a node is lost", func(t *testing.T) {
		phase, err := f.phase(t.Context())
		if err != nil || phase != migrate.Applying && phase != migrate.Completed {
			t.Errorf("the phase of the hand-over is %q, %v; want it begun", phase, err)
		}
	})
	t.Run("F5: the lost pod may need its keys", func(t *testing.T) {
		mustSay(t, "DriverLeftoversRemoved", operatorv1.ConditionFalse, lost)
		for _, before := range recorded.secrets {
			if retired := f.driver.History.KeysOf(before.Name); retired != nil {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name}}
				if f.get(secret); secret.ResourceVersion != before.ResourceVersion {
					t.Errorf("Secret %s has changed: it has the keys %v", secret.Name, keys(secret))
				}
			}
		}
	})
	f.cloud.SetManila(openstack.Up)
	f.removeNode(lost)
	f.awaitComplete()
	recorded.mustHold()
	f.mustBeHandedOver()
}

// awaitDriver waits until the new operator has brought each DaemonSet of the driver to a status.
func (f *former) awaitDriver(reached func(appsv1.DaemonSetStatus) bool) {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "the new operator to update the driver", func(ctx context.Context) error {
		sets := &appsv1.DaemonSetList{}
		if err := f.Client().List(ctx, sets, client.InNamespace(f.driver.Namespace)); err != nil {
			return err
		}
		for _, set := range sets.Items {
			if set.Labels[drivers.ManagedByLabel] == "" || set.Status.ObservedGeneration < set.Generation || !reached(set.Status) {
				return fmt.Errorf("DaemonSet %s of generation %d has the status %+v; Storage says %+v%s", set.Name, set.Generation, set.Status, f.available(ctx), f.conditions(ctx))
			}
		}
		return nil
	})
}

// within returns the same for a subtest.
func (f *former) within(t *testing.T) *former {
	e, g := *f.environment, *f
	e.t, g.environment = t, &e
	return &g
}

// loseNode adds a node, and has its kubelet end when the driver's pods are bound to it.
func (f *former) loseNode() string {
	f.t.Helper()
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("100")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost", Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH, "node-role.kubernetes.io/worker": ""}}}
	f.create(node)
	ready := func(status corev1.ConditionStatus) {
		f.t.Helper()
		cluster.Eventually(f.t, limit, "the status of the node", func(ctx context.Context) error {
			f.get(node)
			node.Status.Capacity, node.Status.Allocatable = capacity, capacity
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
			return f.Client().Status().Update(ctx, node)
		})
	}
	ready(corev1.ConditionTrue)
	sets := &appsv1.DaemonSetList{}
	if err := f.Client().List(f.t.Context(), sets, client.InNamespace(f.driver.Namespace)); err != nil {
		f.t.Fatal(err)
	}
	cluster.Eventually(f.t, limit, "pods of the driver on the node", func(ctx context.Context) error {
		pods, err := f.podsOn(ctx, node.Name)
		if err == nil && len(pods) < len(sets.Items) {
			err = fmt.Errorf("there are %d, want %d", len(pods), len(sets.Items))
		}
		return err
	})
	ready(corev1.ConditionFalse)
	return node.Name
}

// podsOn returns the pods of the driver on a node.
func (f *former) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := f.Client().List(ctx, pods, client.InNamespace(f.driver.Namespace))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName != node }), err
}

// removeNode deletes a node and its pods, as an administrator and the garbage collector do.
func (f *former) removeNode(name string) {
	f.t.Helper()
	if err := f.Client().Delete(f.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		f.t.Fatal(err)
	}
	cluster.Eventually(f.t, limit, "the pods of the node to be gone", func(ctx context.Context) error {
		pods, err := f.podsOn(ctx, name)
		if err != nil || len(pods) == 0 {
			return err
		}
		for i := range pods {
			if err := client.IgnoreNotFound(f.Client().Delete(ctx, &pods[i], client.GracePeriodSeconds(0))); err != nil {
				return err
			}
		}
		return fmt.Errorf("there are still %d", len(pods))
	})
}
