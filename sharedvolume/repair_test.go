package sharedvolume_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestRepair(t *testing.T) {
	env := served(t)
	for name, harm := range map[string]func(env testEnv, p pair){
		"claim deleted": func(env testEnv, p pair) {
			env.do("delete", env.client.Delete(t.Context(), p.claim))
		},
		"volume deleted": func(env testEnv, p pair) {
			env.do("delete", env.client.Delete(t.Context(), p.volume))
		},
		"both deleted, claim first": func(env testEnv, p pair) {
			env.do("delete", env.client.Delete(t.Context(), p.claim))
			env.do("delete", env.client.Delete(t.Context(), p.volume))
		},
		"both deleted, volume first": func(env testEnv, p pair) {
			env.do("delete", env.client.Delete(t.Context(), p.volume))
			env.do("delete", client.IgnoreNotFound(env.client.Delete(t.Context(), p.claim)))
		},
		"volume torn away": func(env testEnv, p pair) {
			env.do("strip", env.client.Patch(t.Context(), p.volume.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			env.do("delete", env.client.Delete(t.Context(), p.volume))
		},
		"reservation removed": func(env testEnv, p pair) {
			env.do("strip", env.client.Patch(t.Context(), p.volume.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`))))
		},
		"labels removed": func(env testEnv, p pair) {
			p.claim.Annotations["example.com/note"] = "a tenant's"
			env.do("annotate", env.client.Update(t.Context(), p.claim))
			for _, object := range []client.Object{p.claim, p.volume} {
				env.do("strip", env.client.Patch(t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
			}
		},
		"finalizer removed": func(env testEnv, p pair) {
			sv := newVolume(p.claim.Namespace, "logs")
			env.do("strip", env.client.Patch(t.Context(), sv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		},
		"volume to go with its claim": func(env testEnv, p pair) {
			env.do("patch", env.client.Patch(t.Context(), p.volume.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := env.in(t)
			sv := env.create(env.Namespace(t), "logs")
			before := env.ready(sv)
			harm(env, before)
			cluster.Eventually(t, waitLimit, "all to be as before", func(ctx context.Context) error { return env.isRestored(ctx, sv, before) })

			after := env.ready(sv)
			assert.Equal(t, before.volume.Spec.CSI.VolumeHandle, after.volume.Spec.CSI.VolumeHandle, "handle of the volume")
			env.do("delete", env.client.Delete(t.Context(), sv))
			env.gone(sv)
			env.gone(after.claim)
			env.gone(after.volume)
		})
	}
}

// isRestored checks that a SharedVolume has the same state as when it first became Ready.
func (env testEnv) isRestored(ctx context.Context, sv *v1alpha1.SharedVolume, before pair) error {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(sv), sv); err != nil {
		return err
	}
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(before.claim), claim); err != nil {
		return err
	}
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(before.volume), volume); err != nil {
		return err
	}
	type facts struct {
		Claim, Volume   map[string]string
		Annotations     map[string]string
		Finalizers      []string
		Phases          []string
		Going, Reserved bool
		Reclaim         corev1.PersistentVolumeReclaimPolicy
		Bound           string
	}
	got := facts{
		claim.Labels, volume.Labels, claim.Annotations, sv.Finalizers,
		[]string{string(sv.Status.Phase), string(claim.Status.Phase), string(volume.Status.Phase)},
		claim.DeletionTimestamp != nil || volume.DeletionTimestamp != nil,
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID,
		volume.Spec.PersistentVolumeReclaimPolicy, claim.Spec.VolumeName,
	}
	want := facts{
		before.claim.Labels, before.volume.Labels, before.claim.Annotations, []string{sharedvolume.Finalizer},
		[]string{"Ready", "Bound", "Bound"}, false, true, "Retain", before.volume.Name,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s\nstatus: %+v", diff, sv.Status)
	}
	return nil
}

func TestDeletedVolumeIsReplacedOnceFree(t *testing.T) {
	env := served(t)
	sv := env.create(env.Namespace(t), "logs")
	before := env.ready(sv)
	pod := env.pod(sv.Namespace, "web-0", before.claim.Name)
	env.do("delete", env.client.Delete(t.Context(), before.volume))
	env.until(sv, "VolumeTerminating")
	assert.Contains(t, sv.Status.Message, "pod web-0 still uses it")
	env.get(before.claim, sv.Namespace, before.claim.Name)
	assert.Nil(t, before.claim.DeletionTimestamp, "the claim is deleted under the feet of a pod")
	env.do("delete", env.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.gone(before.claim)
	env.gone(before.volume)
	env.ready(sv)
}
