package handover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// awaitKeys waits until the new operator has replaced the keys of the former one, where there are any.
func (r *Recording) awaitKeys(t testing.TB) {
	t.Helper()
	for _, before := range r.secrets {
		retired := r.of.Driver.History.KeysOf(before.Name)
		if retired == nil || !retired.In(&before) {
			continue
		}
		cluster.Eventually(t, limit, "the keys of Secret "+before.Name+" to be replaced", func(ctx context.Context) error {
			secret := &corev1.Secret{}
			if err := r.on.Client().Get(ctx, client.ObjectKeyFromObject(&before), secret); err != nil {
				return err
			}
			if retired.In(secret) || secret.Labels[drivers.ManagedByLabel] == "" {
				return fmt.Errorf("its annotations are %v, and its labels %v", secret.Annotations, secret.Labels)
			}
			return nil
		})
	}
}

// mustKeepSecrets fails the test if a Secret of the driver has lost something that volumes may need: anything except
// replaced keys. Keys are replaced at once, when no pod needs them any more.
func (r *Recording) mustKeepSecrets(t *testing.T, events, pods []watch.Event) {
	for _, before := range r.secrets {
		retired := r.of.Driver.History.KeysOf(before.Name)
		replaces := retired != nil && retired.In(&before)
		last := &before
		for _, event := range events {
			secret := event.Object.(*corev1.Secret)
			if secret.Name != before.Name || secret.Namespace != before.Namespace {
				continue
			}
			if replaces {
				r.mustReplaceAtOnce(t, retired, last, secret, pods)
			}
			last = secret
		}
		for key, value := range before.Data {
			if replaces && slices.Contains(retired.Keys, key) {
				continue
			}
			assert.Equalf(t, string(value), string(last.Data[key]), "key %s of Secret %s", key, last.Name)
		}
		if replaces && retired.In(last) {
			t.Errorf("Secret %s has the keys %v, and the mark of the former operator; want no mark", last.Name, Keys(last))
		}
	}
}

// mustReplaceAtOnce fails the test if a change of a Secret leaves keys of both operators in it, or comes before the last pod of the
// former driver is gone.
func (r *Recording) mustReplaceAtOnce(t *testing.T, retired *drivers.RetiredKeys, was, is *corev1.Secret, pods []watch.Event) {
	old := slices.ContainsFunc(Keys(is), func(key string) bool { return slices.Contains(retired.Keys, key) })
	if old != retired.In(is) || old != (len(is.Data["os-useClouds"]) == 0) {
		t.Errorf("at one time Secret %s had the keys %v", is.Name, Keys(is))
	}
	if !retired.In(was) || retired.In(is) {
		return
	}
	needs := func(pod *corev1.Pod) bool {
		return pod.Namespace == is.Namespace && slices.Contains(retired.Accounts, pod.Spec.ServiceAccountName)
	}
	left := map[types.UID]string{}
	for i := range r.podsBefore {
		if pod := &r.podsBefore[i]; needs(pod) {
			left[pod.UID] = pod.Name
		}
	}
	assert.NotEmptyf(t, left, "there was no pod of the former driver that reads Secret %s", is.Name)
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

// revision returns etcd's revision. The API server has one for all resources.
func revision(t *testing.T, object client.Object) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	require.NoError(t, err)
	return n
}

// Keys returns the keys of a Secret, sorted.
func Keys(secret *corev1.Secret) []string { return slices.Sorted(maps.Keys(secret.Data)) }
