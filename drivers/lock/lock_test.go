package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/lock"
	"github.com/berth-csi/berth/lab/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

func TestEnded(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		phase   corev1.PodPhase
		deleted time.Duration // since the deletion timestamp; 0 if it has none
		want    bool
	}{
		"pending":                             {phase: corev1.PodPending},
		"running":                             {phase: corev1.PodRunning},
		"without a phase":                     {},
		"unknown":                             {phase: corev1.PodUnknown},
		"succeeded":                           {phase: corev1.PodSucceeded, want: true},
		"failed":                              {phase: corev1.PodFailed, want: true},
		"failed, and being deleted":           {phase: corev1.PodFailed, deleted: time.Second, want: true},
		"running, and within its grace":       {phase: corev1.PodRunning, deleted: -30 * time.Second},
		"running, with a token that is valid": {phase: corev1.PodRunning, deleted: time.Minute},
		"running, without a valid token":      {phase: corev1.PodRunning, deleted: lock.TokenExpiry + time.Second, want: true},
		"pending, without a valid token":      {phase: corev1.PodPending, deleted: lock.TokenExpiry + time.Second, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: tc.phase}}
			if tc.deleted != 0 {
				pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-tc.deleted)}
			}
			assert.Equal(t, tc.want, lock.Ended(pod, now), "it has ended")
		})
	}
}

func TestHolder(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	pods := map[string]*corev1.Pod{}
	for name, phase := range map[string]corev1.PodPhase{"running": corev1.PodRunning, "succeeded": corev1.PodSucceeded, "failed": corev1.PodFailed} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			// Without a node, nobody else writes the pod's status.
			Spec: corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "main", Image: "registry.example/main"}}}}
		require.NoError(t, c.Client().Create(t.Context(), pod))
		pod.Status.Phase = phase
		require.NoError(t, c.Client().Status().Update(t.Context(), pod))
		pods[name] = pod
	}
	ownedBy := func(kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: uid}}
	}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"running":    {ownedBy("Pod", "running", pods["running"].UID), "running"},
		"succeeded":  {ownedBy("Pod", "succeeded", pods["succeeded"].UID), ""},
		"failed":     {ownedBy("Pod", "failed", pods["failed"].UID), ""},
		"recreated":  {ownedBy("Pod", "running", "another"), ""},
		"deleted":    {ownedBy("Pod", "deleted", "deleted"), ""},
		"other-kind": {ownedBy("ConfigMap", "running", pods["running"].UID), ""},
		"no-owner":   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: tc.owners}}
			require.NoError(t, c.Client().Create(t.Context(), held))
			checkHolder(t, c.Client(), client.ObjectKeyFromObject(held), tc.want)
		})
	}
	t.Run("no lock", func(t *testing.T) {
		checkHolder(t, c.Client(), client.ObjectKey{Namespace: namespace, Name: "none"}, "")
	})
}

func checkHolder(t *testing.T, c client.Client, key client.ObjectKey, want string) {
	t.Helper()
	pod, err := lock.Holder(t.Context(), c, key)
	got := ""
	if pod != nil {
		got = pod.Name
	}
	require.NoError(t, err)
	assert.Equal(t, want, got, "holder")
}
