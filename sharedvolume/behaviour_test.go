package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
)

func TestCreateAndDelete(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	sv := w.create(namespace, "logs")
	if sv.Status.Phase != v1alpha1.Pending {
		t.Errorf("a new SharedVolume is %q, want Pending", sv.Status.Phase)
	}

	p := w.ready(sv)
	if got, want := p.volume.Spec.CSI.VolumeHandle, "fs-0123456789abcdef0::fsap-0123456789abcdef0"; got != want {
		t.Errorf("the volume's handle is %q, want %q", got, want)
	}
	want := v1alpha1.SharedVolumeStatus{
		Phase:              v1alpha1.Ready,
		ClaimRef:           corev1.TypedLocalObjectReference{APIGroup: ptr.To(""), Kind: "PersistentVolumeClaim", Name: "pvc-logs"},
		ObservedGeneration: 1,
		Conditions:         sv.Status.Conditions,
	}
	if diff := cmp.Diff(want, sv.Status); diff != "" {
		t.Error(diff)
	}
	if !meta.IsStatusConditionTrue(sv.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("it is not Ready by its conditions: %v", sv.Status.Conditions)
	}
	if diff := cmp.Diff([]string{
		"patch sharedvolumes 200",
		"create persistentvolumeclaims 201",
		"create persistentvolumes 201",
		"patch sharedvolumes/status 200",
	}, w.writes(controllerUser, time.Time{}, namespace, p.volume.Name)); diff != "" {
		t.Errorf("writes on the way to Ready: %s", diff)
	}

	before := time.Now()
	w.do("delete", w.client.Delete(t.Context(), sv))
	w.gone(sv)
	w.gone(p.claim)
	w.gone(p.volume)
	if diff := cmp.Diff([]string{
		"patch sharedvolumes/status 200",
		"delete persistentvolumeclaims 200",
		"delete persistentvolumes 200",
		"patch sharedvolumes 200",
	}, w.writes(controllerUser, before, namespace, p.volume.Name)); diff != "" {
		t.Errorf("writes on the way out: %s", diff)
	}
}

// Once settled, nothing is written, whatever passes over it there are.
func TestSettledMeansNoWrites(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	sv := w.create(namespace, "logs")
	p := w.ready(sv)
	before := time.Now()
	for i := range 20 {
		poke := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"poke":"%d"}}}`, i))
		for _, object := range []client.Object{sv, p.claim, p.volume} {
			w.do("poke", w.client.Patch(t.Context(), object, poke))
		}
	}
	// A later SharedVolume is worked on after the poked one.
	w.ready(w.create(w.Namespace(t), "marker"))
	if got := w.writes(controllerUser, before, namespace, p.volume.Name); len(got) != 0 {
		t.Errorf("writes about a settled SharedVolume: %q", got)
	}
}

func TestForgedStatusIsReplaced(t *testing.T) {
	w := served(t)
	sv := w.create(w.Namespace(t), "logs")
	w.ready(sv)
	want := sv.Status.DeepCopy()
	w.do("forge", w.client.Status().Patch(t.Context(), sv, client.RawPatch(types.MergePatchType, []byte(
		`{"status":{"phase":"Failed","message":"look here","claimRef":{"name":"other"},"conditions":[]}}`))))
	w.ready(sv)
	want.Conditions[0].LastTransitionTime = sv.Status.Conditions[0].LastTransitionTime
	if diff := cmp.Diff(*want, sv.Status); diff != "" {
		t.Error(diff)
	}
}

func TestForeignClaim(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	foreign := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pvc-logs", Labels: map[string]string{
			sharedvolume.OwnedLabel: "true", sharedvolume.OwnerNamespaceLabel: namespace, sharedvolume.OwnerNameLabel: "logs"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("none-of-that-name"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	w.do("create", w.client.Create(t.Context(), foreign))
	version := foreign.ResourceVersion

	sv := w.create(namespace, "logs")
	w.until(sv, "Conflict")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "PersistentVolumeClaim pvc-logs exists and was not made for this SharedVolume") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	w.get(foreign, namespace, "pvc-logs")
	if foreign.ResourceVersion != version {
		t.Errorf("the foreign claim was changed: %v", foreign.ManagedFields)
	}

	t.Run("deleting lets it be", func(t *testing.T) {
		w := world{w.Cluster, w.client, t}
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.gone(sv)
		w.get(foreign, namespace, "pvc-logs")
		if foreign.ResourceVersion != version || foreign.DeletionTimestamp != nil {
			t.Errorf("the foreign claim was changed: %v", foreign.ManagedFields)
		}
	})
	t.Run("its removal clears the way", func(t *testing.T) {
		w := world{w.Cluster, w.client, t}
		sv := w.create(namespace, "logs")
		w.until(sv, "Conflict")
		w.do("delete", w.client.Delete(t.Context(), foreign))
		w.ready(sv)
		if sv.Status.Message != "" {
			t.Errorf("the message stays: %s", sv.Status.Message)
		}
		w.events(sv, "Warning Conflict 1", "Normal Recovered 1")
	})
}

func TestForeignVolume(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	quota := w.noClaims(namespace)
	sv := w.create(namespace, "logs")
	w.until(sv, "QuotaExceeded")

	// Only an administrator can make volumes, and only now is the name known.
	name := "sharedvolume-" + string(sv.UID)
	foreign := w.volume(name, nil, "fs-9::fsap-9")
	foreign.Spec.CSI.Driver = "ebs.csi.aws.com"
	w.do("create", w.client.Create(t.Context(), foreign))
	t.Cleanup(func() { w.do("delete", client.IgnoreNotFound(w.client.Delete(context.Background(), foreign))) })
	w.do("delete", w.client.Delete(t.Context(), quota))

	w.until(sv, "Conflict")
	if !strings.Contains(sv.Status.Message, name) {
		t.Errorf("the message does not name the volume: %s", sv.Status.Message)
	}
	if got := w.writes(controllerUser, time.Time{}, "none", name); !cmp.Equal(got[:1], []string{"create persistentvolumes 409"}) {
		t.Errorf("writes to the foreign volume: %q", got)
	}
	w.do("delete", w.client.Delete(t.Context(), foreign))
	w.ready(sv)
}

// The community operator named a volume pv-<namespace>-<name>, so that two SharedVolumes of different
// namespaces could get the same one.
func TestNamesThatClash(t *testing.T) {
	w := served(t)
	a := w.Namespace(t)
	ab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a + "-b"}}
	w.do("create", w.client.Create(t.Context(), ab))
	t.Cleanup(func() { w.do("delete", w.client.Delete(context.Background(), ab)) })
	// And an administrator has one of that name.
	taken := w.volume("pv-"+a+"-b-c", nil, "fs-0123456789abcdef0::fsap-0123456789abcdef0")
	taken.Spec.StorageClassName = "none-of-that-name"
	w.do("create", w.client.Create(t.Context(), taken))
	t.Cleanup(func() { w.do("delete", w.client.Delete(context.Background(), taken)) })

	first, second := newVolume(a, "b-c"), newVolume(ab.Name, "c")
	first.Spec.AccessPointID, second.Spec.AccessPointID = "fsap-01", "fsap-02"
	for _, sv := range []*v1alpha1.SharedVolume{first, second} {
		w.do("create", w.client.Create(t.Context(), sv))
	}
	for _, sv := range []*v1alpha1.SharedVolume{first, second} {
		if got, want := w.ready(sv).volume.Spec.CSI.VolumeHandle, sv.Spec.FileSystemID+"::"+sv.Spec.AccessPointID; got != want {
			t.Errorf("%s/%s has %s, want %s", sv.Namespace, sv.Name, got, want)
		}
	}
	w.get(taken, "", taken.Name)
	if taken.Spec.ClaimRef != nil {
		t.Errorf("the administrator's volume was taken: %v", taken.Spec.ClaimRef)
	}
	w.do("delete", w.client.Delete(t.Context(), first))
	w.gone(first)
	w.ready(second)
}

func TestLongNames(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	for _, name := range []string{strings.Repeat("n", 64), strings.Repeat("n", 253), strings.Repeat("n", 252) + "m"} {
		sv := w.create(namespace, name)
		p := w.ready(sv)
		if p.claim.Name != sv.Status.ClaimRef.Name {
			t.Errorf("status names the claim %s, it is %s", sv.Status.ClaimRef.Name, p.claim.Name)
		}
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.gone(sv)
		w.gone(p.volume)
	}
}

func TestRepair(t *testing.T) {
	w := served(t)
	for name, harm := range map[string]func(w world, p pair){
		"claim deleted": func(w world, p pair) {
			w.do("delete", w.client.Delete(t.Context(), p.claim))
		},
		"volume deleted": func(w world, p pair) {
			w.do("delete", w.client.Delete(t.Context(), p.volume))
		},
		"both deleted, claim first": func(w world, p pair) {
			w.do("delete", w.client.Delete(t.Context(), p.claim))
			w.do("delete", w.client.Delete(t.Context(), p.volume))
		},
		"both deleted, volume first": func(w world, p pair) {
			w.do("delete", w.client.Delete(t.Context(), p.volume))
			w.do("delete", client.IgnoreNotFound(w.client.Delete(t.Context(), p.claim)))
		},
		"volume torn away": func(w world, p pair) {
			w.do("strip", w.client.Patch(t.Context(), p.volume.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			w.do("delete", w.client.Delete(t.Context(), p.volume))
		},
		"reservation taken away": func(w world, p pair) {
			w.do("strip", w.client.Patch(t.Context(), p.volume.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`))))
		},
		"labels taken away": func(w world, p pair) {
			for _, object := range []client.Object{p.claim, p.volume} {
				w.do("strip", w.client.Patch(t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
			}
		},
		"finalizer taken away": func(w world, p pair) {
			sv := newVolume(p.claim.Namespace, "logs")
			w.do("strip", w.client.Patch(t.Context(), sv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		},
		"volume to go with its claim": func(w world, p pair) {
			w.do("patch", w.client.Patch(t.Context(), p.volume.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{w.Cluster, w.client, t}
			sv := w.create(w.Namespace(t), "logs")
			before := w.ready(sv)
			harm(w, before)
			cluster.Eventually(t, patience, "all to be as before", func(ctx context.Context) error { return w.likeNew(ctx, sv, before) })

			after := w.ready(sv)
			if got, want := after.volume.Spec.CSI.VolumeHandle, before.volume.Spec.CSI.VolumeHandle; got != want {
				t.Errorf("the volume is %s now, was %s", got, want)
			}
			w.do("delete", w.client.Delete(t.Context(), sv))
			w.gone(sv)
			w.gone(after.claim)
			w.gone(after.volume)
		})
	}
}

// likeNew checks that a SharedVolume has all that it had when it was Ready first.
func (w world) likeNew(ctx context.Context, sv *v1alpha1.SharedVolume, before pair) error {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(sv), sv); err != nil {
		return err
	}
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(before.claim), claim); err != nil {
		return err
	}
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(before.volume), volume); err != nil {
		return err
	}
	type facts struct {
		Claim, Volume   map[string]string
		Finalizers      []string
		Phases          []string
		Going, Reserved bool
		Reclaim         corev1.PersistentVolumeReclaimPolicy
		Bound           string
	}
	got := facts{
		claim.Labels, volume.Labels, sv.Finalizers,
		[]string{string(sv.Status.Phase), string(claim.Status.Phase), string(volume.Status.Phase)},
		claim.DeletionTimestamp != nil || volume.DeletionTimestamp != nil,
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID,
		volume.Spec.PersistentVolumeReclaimPolicy, claim.Spec.VolumeName,
	}
	want := facts{
		before.claim.Labels, before.volume.Labels, []string{sharedvolume.Finalizer},
		[]string{"Ready", "Bound", "Bound"}, false, true, "Retain", before.volume.Name,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s\nstatus: %+v", diff, sv.Status)
	}
	return nil
}

func TestMadeAnewWithOtherIDs(t *testing.T) {
	w := served(t)
	sv := w.create(w.Namespace(t), "logs")
	before := w.ready(sv)
	w.do("delete", w.client.Delete(t.Context(), sv))
	w.gone(sv)
	again := newVolume(sv.Namespace, "logs")
	again.Spec.AccessPointID = "fsap-77"
	w.do("create", w.client.Create(t.Context(), again))
	after := w.ready(again)
	if got, want := after.volume.Spec.CSI.VolumeHandle, "fs-0123456789abcdef0::fsap-77"; got != want || after.volume.UID == before.volume.UID {
		t.Errorf("the new SharedVolume has %s, want %s", got, want)
	}
}

func TestImmutable(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	sv := w.create(namespace, "logs")
	for _, patch := range []string{
		`{"spec":{"fileSystemID":"fs-02"}}`,
		`{"spec":{"accessPointID":"fsap-02"}}`,
		`{"spec":null}`,
	} {
		err := w.client.Patch(t.Context(), sv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		if err == nil || !strings.Contains(err.Error(), "spec is immutable: to use another access point, create another SharedVolume") {
			t.Errorf("%s: the answer is %v", patch, err)
		}
	}
	for _, spec := range []v1alpha1.SharedVolumeSpec{
		{FileSystemID: "fs-0", AccessPointID: "fsap-g"},
		{FileSystemID: "fs-0:/../x", AccessPointID: "fsap-0"},
		{FileSystemID: "fs-0\n", AccessPointID: "fsap-0"},
		{FileSystemID: "fs-" + strings.Repeat("0", 126), AccessPointID: "fsap-0"},
		{FileSystemID: "fs-0"},
	} {
		bad := newVolume(namespace, "bad")
		bad.Spec = spec
		if err := w.client.Create(t.Context(), bad); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
}

func TestWithoutSpec(t *testing.T) {
	w := served(t)
	sv := newVolume(w.Namespace(t), "logs")
	spec := sv.Spec
	sv.Spec = v1alpha1.SharedVolumeSpec{}
	w.do("create", w.client.Create(t.Context(), sv))
	w.until(sv, "InvalidSpec")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "spec.fileSystemID") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	if diff := cmp.Diff([]string{"patch sharedvolumes/status 200"}, w.writesBut(sv.Namespace, "events")); diff != "" {
		t.Error(diff)
	}
	sv.Spec = spec
	w.do("update", w.client.Update(t.Context(), sv))
	w.ready(sv)
}

func TestNamespaceDeletion(t *testing.T) {
	w := served(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "deleted-"}}
	w.do("create", w.client.Create(t.Context(), namespace))
	var volumes []*corev1.PersistentVolume
	for i := range 5 {
		volumes = append(volumes, w.ready(w.create(namespace.Name, fmt.Sprintf("logs-%d", i))).volume)
	}
	w.create(namespace.Name, "just-now")
	w.do("delete", w.client.Delete(t.Context(), namespace))
	w.gone(namespace)
	for _, volume := range volumes {
		w.gone(volume)
	}
	w.noVolumes(namespace.Name)
}

func TestQuota(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	quota := w.noClaims(namespace)
	sv := w.create(namespace, "logs")
	w.until(sv, "QuotaExceeded")
	if sv.Status.Phase != v1alpha1.Failed || !strings.Contains(sv.Status.Message, "exceeded quota: none") {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	w.noVolumes(namespace)
	w.do("delete", w.client.Delete(t.Context(), quota))
	w.ready(sv)
}

func TestDeletionWaitsForPods(t *testing.T) {
	w := served(t)
	sv := w.create(w.Namespace(t), "logs")
	p := w.ready(sv)
	pod := w.pod(sv.Namespace, "web-0", p.claim.Name)

	w.do("delete", w.client.Delete(t.Context(), sv))
	w.until(sv, "ClaimInUse")
	if want := "PersistentVolumeClaim pvc-logs is being deleted; pod web-0 still uses it"; sv.Status.Phase != v1alpha1.Deleting || sv.Status.Message != want {
		t.Errorf("it is %s: %s", sv.Status.Phase, sv.Status.Message)
	}
	w.get(p.volume, "", p.volume.Name)
	if p.volume.DeletionTimestamp != nil {
		t.Error("the volume is being deleted before the claim is gone")
	}
	w.do("delete", w.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	w.gone(sv)
	w.gone(p.volume)
	w.events(sv, "Warning ClaimInUse 1")
}

func TestDeletedVolumeIsReplacedOnceFree(t *testing.T) {
	w := served(t)
	sv := w.create(w.Namespace(t), "logs")
	before := w.ready(sv)
	pod := w.pod(sv.Namespace, "web-0", before.claim.Name)
	w.do("delete", w.client.Delete(t.Context(), before.volume))
	w.until(sv, "VolumeTerminating")
	if !strings.Contains(sv.Status.Message, "pod web-0 still uses it") {
		t.Errorf("the message is %s", sv.Status.Message)
	}
	w.get(before.claim, sv.Namespace, before.claim.Name)
	if before.claim.DeletionTimestamp != nil {
		t.Error("the claim is deleted under the feet of a pod")
	}
	w.do("delete", w.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	w.gone(before.claim)
	w.gone(before.volume)
	w.ready(sv)
}

// events waits for the events about an object: type, reason and count of each, in order.
func (w world) events(object client.Object, want ...string) {
	w.t.Helper()
	cluster.Eventually(w.t, patience, "the events", func(ctx context.Context) error {
		var events corev1.EventList
		if err := w.client.List(ctx, &events, client.InNamespace(object.GetNamespace())); err != nil {
			return err
		}
		slices.SortFunc(events.Items, func(a, b corev1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		var got []string
		for _, event := range events.Items {
			if event.InvolvedObject.UID == object.GetUID() {
				got = append(got, fmt.Sprintf("%s %s %d", event.Type, event.Reason, max(event.Count, 1)))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// writesBut returns what the controller wrote in a namespace to all resources but one.
func (w world) writesBut(namespace, resource string) []string {
	w.t.Helper()
	var found []string
	for _, write := range w.writes(controllerUser, time.Time{}, namespace) {
		if !strings.Contains(write, resource) {
			found = append(found, write)
		}
	}
	return found
}

// noClaims allows a namespace no claims.
func (w world) noClaims(namespace string) *corev1.ResourceQuota {
	w.t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")}},
	}
	w.do("create", w.client.Create(w.t.Context(), quota))
	w.eventually("the quota to be in force", quota, func() error {
		if len(quota.Status.Hard) == 0 {
			return fmt.Errorf("its status is empty")
		}
		return nil
	})
	return quota
}

// noVolumes checks that no volume is left of a namespace.
func (w world) noVolumes(namespace string) {
	w.t.Helper()
	var volumes corev1.PersistentVolumeList
	w.do("list", w.client.List(w.t.Context(), &volumes, client.MatchingLabels{sharedvolume.OwnerNamespaceLabel: namespace}))
	for _, volume := range volumes.Items {
		w.t.Errorf("volume %s is left", volume.Name)
	}
}

// volume returns a volume as somebody else may make it.
func (w world) volume(name string, labels map[string]string, handle string, options ...string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			MountOptions:                  options,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: sharedvolume.DriverName, VolumeHandle: handle}},
		},
	}
}

// pod creates a pod that mounts a claim, on a node that nobody looks after.
func (w world) pod(namespace, name, claim string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName:   "unattended",
			Containers: []corev1.Container{{Name: "main", Image: "example.com/web"}},
			Volumes: []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
	// A namespace's default service account takes a moment.
	cluster.Eventually(w.t, patience, "a pod", func(ctx context.Context) error { return w.client.Create(ctx, pod) })
	return pod
}
