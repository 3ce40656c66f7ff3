package sharedvolume

import (
	"context"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// example returns a SharedVolume that has its finalizer.
func example() *v1alpha1.SharedVolume {
	return &v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "logs", UID: "uid-1", Generation: 1, Finalizers: []string{Finalizer}},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: "fs-01", AccessPointID: "fsap-02"},
	}
}

// settled returns the state of a settled SharedVolume that requires no grant.
func settled() observed {
	sv := example()
	claim := desiredClaim(sv)
	claim.UID, claim.CreationTimestamp = "claim-uid", metav1.NewTime(now)
	volume := desiredVolume(sv, volumeName(sv), claim)
	volume.CreationTimestamp = metav1.NewTime(now)
	claim.Spec.VolumeName = volume.Name
	claim.Status.Phase = corev1.ClaimBound
	return observed{sharedVolume: sv, claim: claim, volume: volume, now: now, open: true}
}

// closed makes the state require a grant.
func closed(from func() observed) func() observed {
	return func() observed {
		o := from()
		o.open = false
		return o
	}
}

// granted returns the state of a new SharedVolume with a grant.
func granted() observed {
	o := closed(settled)()
	o.sharedVolume.Finalizers, o.claim, o.volume = nil, nil, nil
	o.grant = exampleGrant()
	o.namespace, o.namespaceKnown = exampleNamespace(), true
	return o
}

func exampleGrant() *v1alpha1.SharedVolumeGrant {
	return &v1alpha1.SharedVolumeGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "team", Generation: 1, CreationTimestamp: metav1.NewTime(now)},
		Spec:       v1alpha1.SharedVolumeGrantSpec{FileSystems: []v1alpha1.FileSystemGrant{{FileSystemID: "fs-01", AccessPointIDs: []string{"fsap-02"}}}},
	}
}

func exampleNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "ns-1", CreationTimestamp: metav1.NewTime(now)}}
}

// community returns the state of a SharedVolume that the community operator created.
func community() observed {
	o := settled()
	labels := map[string]string{OwnedLabel: "true", OwnerNamespaceLabel: "team", OwnerNameLabel: "logs"}
	class := "efs-sc"
	o.claim.Labels, o.claim.Spec.Selector, o.claim.Spec.StorageClassName = labels, nil, &class
	o.claim.Spec.VolumeName = "pv-team-logs"
	o.communityVolume, o.volume = o.volume, nil
	o.communityVolume.Name, o.communityVolume.Labels, o.communityVolume.Spec.StorageClassName = "pv-team-logs", labels, class
	return o
}

func TestNext(t *testing.T) {
	deleted := &metav1.Time{Time: now}
	for _, test := range []struct {
		name string
		from func() observed
		do   func(*observed)
		want string // the action, and the phase, reason and message shown
		says string // part of the message
	}{
		// On the way to Ready.
		{"nothing yet", settled, func(o *observed) { o.sharedVolume.Finalizers, o.claim, o.volume = nil, nil, nil }, "acquire an in-flight slot", ""},
		{"not its turn", settled, func(o *observed) {
			o.sharedVolume.Finalizers, o.claim, o.volume, o.slotKnown = nil, nil, nil, true
		}, "wait", ""},
		{"turn", settled, func(o *observed) {
			o.sharedVolume.Finalizers, o.claim, o.volume, o.slot = nil, nil, nil, true
		}, "add the finalizer", ""},
		{"finalizer", settled, func(o *observed) { o.claim, o.volume, o.slot = nil, nil, true }, "create the claim", ""},
		{"claim", settled, func(o *observed) { o.volume, o.claim.Spec.VolumeName = nil, "" }, "create the volume", ""},
		{"both, not bound", settled, func(o *observed) { o.claim.Spec.VolumeName, o.claim.Status.Phase = "", corev1.ClaimPending }, "wait: Pending Pending", ""},
		{"bound, in the volume only", settled, func(o *observed) { o.claim.Spec.VolumeName = "" }, "wait: Pending Pending", ""},
		{"bound", settled, func(*observed) {}, "wait: Ready Bound", ""},
		{"not bound for long", settled, func(o *observed) {
			o.claim.Status.Phase = corev1.ClaimPending
			o.now = now.Add(stuckTimeout)
		}, "wait: Pending NotBound", "kube-controller-manager"},
		{"not bound for long, from the cache", settled, func(o *observed) {
			o.claim.Status.Phase = corev1.ClaimPending
			o.now = now.Add(stuckTimeout)
			trim(o.claim)
		}, "read the claim and the volume from the API server", ""},
		{"another claim", settled, func(o *observed) {
			o.claim.Status.Phase = corev1.ClaimPending
			o.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
			o.now = now.Add(stuckTimeout)
		}, "wait: Failed Conflict", "delete it"},
		{"a claim of the community operator, not bound for long", community, func(o *observed) {
			o.claim.Status.Phase = corev1.ClaimPending
			o.claim.Spec.Resources.Requests = nil
			o.now = now.Add(stuckTimeout)
		}, "wait: Pending NotBound", "kube-controller-manager"},
		{"no spec", settled, func(o *observed) { o.sharedVolume.Spec = v1alpha1.SharedVolumeSpec{} }, "wait: Failed InvalidSpec", `spec.fileSystemID is ""`},
		{"no spec, nothing made", settled, func(o *observed) {
			o.sharedVolume.Spec, o.sharedVolume.Finalizers, o.claim, o.volume = v1alpha1.SharedVolumeSpec{}, nil, nil, nil
		}, "wait: Failed InvalidSpec", ""},
		{"refused", settled, func(o *observed) {
			o.claim, o.volume, o.slot, o.rejection = nil, nil, true, failed(reasonQuotaExceeded, "no room")
		}, "wait: Failed QuotaExceeded", "no room"},

		// Where a grant is needed.
		{"granted", granted, func(*observed) {}, "acquire an in-flight slot", ""},
		{"listed, namespace not known", granted, func(o *observed) { o.namespace, o.namespaceKnown = nil, false }, "read the namespace from the API server", ""},
		{"namespace gone", granted, func(o *observed) { o.namespace = nil }, "wait: Failed NotGranted", "Namespace team does not exist"},
		{"for an earlier namespace", granted, func(o *observed) { o.grant.Status.NamespaceUID = "ns-0" }, "wait: Failed NotGranted", "lists it, but not for this namespace"},
		{"for a namespace that came later", granted, func(o *observed) { o.namespace.CreationTimestamp.Time = now.Add(time.Second) }, "wait: Failed NotGranted", "was created after the grant"},
		{"no grant", granted, func(o *observed) { o.grant, o.namespaceKnown = nil, false }, "wait: Failed NotGranted", "there is no SharedVolumeGrant team"},
		{"not listed", granted, func(o *observed) { o.sharedVolume.Spec.AccessPointID = "fsap-03" }, "wait: Failed NotGranted", "SharedVolumeGrant team does not list it"},
		{"no grant, a finalizer", closed(settled), func(o *observed) { o.claim, o.volume = nil, nil }, "read the claim and the volume from the API server", ""},
		{"no grant, a finalizer and nothing else", closed(settled), func(o *observed) { o.claim, o.volume, o.live = nil, nil, true }, "wait: Failed NotGranted", "there is no SharedVolumeGrant team"},
		{"no grant, a claim", closed(settled), func(o *observed) { o.volume, o.live = nil, true }, "wait: Failed NotGranted", "SharedVolumeGrant"},
		{"no grant, a volume", closed(settled), func(*observed) {}, "wait: Ready Bound", ""},
		{"no grant, a volume, the claim deleted", closed(settled), func(o *observed) { o.claim = nil }, "acquire an in-flight slot", ""},
		{"no grant, a volume of something else", closed(settled), func(o *observed) { o.volume.Spec.CSI.VolumeHandle, o.live = "fs-9::fsap-9", true }, "wait: Failed NotGranted", "SharedVolumeGrant"},
		{"no grant, a volume of another claim", closed(settled), func(o *observed) { o.volume.Spec.ClaimRef.Namespace, o.live = "other", true }, "wait: Failed NotGranted", "SharedVolumeGrant"},
		{"no grant, a volume that goes", closed(settled), func(o *observed) { o.volume.DeletionTimestamp = deleted }, "look up the pods that use the claim", ""},
		{"no grant, a volume that goes, the claim gone", closed(settled), func(o *observed) { o.volume.DeletionTimestamp, o.claim, o.live = deleted, nil, true }, "wait: Failed NotGranted", "SharedVolumeGrant"},
		{"no grant, no spec", closed(settled), func(o *observed) { o.sharedVolume.Spec = v1alpha1.SharedVolumeSpec{} }, "wait: Failed InvalidSpec", ""},
		{"no grant, deleted", closed(settled), func(o *observed) { o.sharedVolume.DeletionTimestamp = deleted }, "look up the pods that use the claim", ""},
		{"no grant, deleted, nothing left", closed(settled), func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim, o.volume, o.live = deleted, nil, nil, true
		}, "remove the finalizer", ""},
		{"no grant, community", closed(community), func(*observed) {}, "wait: Ready Bound", ""},
		{"no grant, community, claim deleted", closed(community), func(o *observed) { o.claim = nil }, "acquire an in-flight slot", ""},
		{"no grant, community, volume of an earlier SharedVolume", closed(community), func(o *observed) {
			o.sharedVolume.CreationTimestamp, o.claim, o.live = metav1.NewTime(now.Add(time.Second)), nil, true
		}, "wait: Failed NotGranted", "SharedVolumeGrant"},
		{"no grant, community, volume of an earlier SharedVolume, claim forged", closed(community), func(o *observed) {
			o.sharedVolume.CreationTimestamp, o.claim.UID, o.live = metav1.NewTime(now.Add(time.Second)), "claim-2", true
		}, "wait: Failed NotGranted", "SharedVolumeGrant"},
		{"no grant, community, restored from a backup", closed(community), func(o *observed) {
			o.sharedVolume.CreationTimestamp = metav1.NewTime(now.Add(time.Second))
		}, "wait: Ready Bound", ""},

		// Other people's objects stay theirs.
		{"foreign claim", settled, func(o *observed) { o.claim.Spec.Selector = nil }, "wait: Failed Conflict", "PersistentVolumeClaim pvc-logs exists"},
		{"claim of a predecessor", settled, func(o *observed) { o.sharedVolume.UID = "uid-2" }, "wait: Failed Conflict", "PersistentVolumeClaim pvc-logs exists"},
		{"foreign claim with forged labels", community, func(o *observed) { o.claim.Spec.VolumeName = "pv-other" }, "wait: Failed Conflict", "PersistentVolumeClaim pvc-logs exists"},
		{"claim bound elsewhere", settled, func(o *observed) { o.claim.Spec.VolumeName = "other" }, "wait: Failed Conflict", "PersistentVolume other"},
		{"volume reserved for another", settled, func(o *observed) { o.volume.Spec.ClaimRef.Namespace = "other" }, "wait: Failed Conflict", "PersistentVolumeClaim other/pvc-logs"},
		{"volume of another driver", settled, func(o *observed) { o.volume.Spec.CSI.Driver = "ebs" }, "wait: Failed Conflict", "not a volume of efs.csi.aws.com"},
		{"volume of no driver", settled, func(o *observed) { o.volume.Spec.CSI = nil }, "wait: Failed Conflict", "not a volume of efs.csi.aws.com"},
		{"volume mounts something else", settled, func(o *observed) { o.volume.Spec.CSI.VolumeHandle = "fs-9::fsap-9" }, "wait: Failed Conflict", `mounts "fs-9::fsap-9"`},

		// Deleted objects come back.
		{"claim deleted", settled, func(o *observed) { o.claim = nil }, "acquire an in-flight slot", ""},
		{"claim deleted, turn", settled, func(o *observed) { o.claim, o.slot = nil, true }, "create the claim", ""},
		{"claim deleted, not its turn", settled, func(o *observed) { o.claim, o.slotKnown = nil, true }, "wait", ""},
		{"claim deleted, not its turn, said to be ready", settled, func(o *observed) {
			o.sharedVolume.Status = statusOf(*o, *ready("v"))
			o.claim, o.slotKnown = nil, true
		}, "wait: Pending Pending", ""},
		{"claim recreated", settled, func(o *observed) {
			o.claim.UID, o.claim.Spec.VolumeName, o.claim.Status.Phase = "claim-2", "", corev1.ClaimPending
		}, "reserve the volume for the claim", ""},
		{"claim lost its volume", settled, func(o *observed) { o.volume, o.claim.Status.Phase = nil, corev1.ClaimLost }, "create the volume", ""},
		{"claim lost, volume reserved by name", settled, func(o *observed) { o.volume.Spec.ClaimRef.UID, o.claim.Status.Phase = "", corev1.ClaimLost }, "reserve the volume for the claim", ""},
		{"reservation gone", settled, func(o *observed) {
			o.volume.Spec.ClaimRef, o.claim.Spec.VolumeName, o.claim.Status.Phase = nil, "", corev1.ClaimPending
		}, "reserve the volume for the claim", ""},
		{"claim going", settled, func(o *observed) { o.claim.DeletionTimestamp = deleted }, "look up the pods that use the claim", ""},
		{"claim going, free", settled, func(o *observed) { o.claim.DeletionTimestamp, o.usersKnown = deleted, true }, "wait", ""},
		{"claim going, stuck", settled, func(o *observed) {
			o.claim.DeletionTimestamp, o.claim.Finalizers, o.usersKnown, o.now = deleted, []string{"example.com/keep"}, true, now.Add(usersInterval)
		}, "wait: Pending ClaimTerminating", "example.com/keep"},
		{"claim going, in use", settled, func(o *observed) {
			o.claim.DeletionTimestamp, o.usersKnown, o.users = deleted, true, []string{"web-0"}
		}, "wait: Pending ClaimTerminating", "pod web-0 still uses it"},
		{"volume going", settled, func(o *observed) { o.volume.DeletionTimestamp = deleted }, "look up the pods that use the claim", ""},
		{"volume going, free", settled, func(o *observed) { o.volume.DeletionTimestamp, o.usersKnown = deleted, true }, "read the claim and the volume from the API server", ""},
		{"volume going, pods not listed yet", settled, func(o *observed) { o.volume.DeletionTimestamp, o.usersKnown, o.usersPending = deleted, true, true }, "wait", ""},
		{"volume going, pods not listed for long", settled, func(o *observed) {
			o.volume.DeletionTimestamp, o.usersKnown, o.usersPending, o.now = deleted, true, true, now.Add(stuckTimeout)
		}, "wait: Pending VolumeTerminating", "are there very many"},
		{"volume going, free indeed", settled, func(o *observed) { o.volume.DeletionTimestamp, o.usersKnown, o.live = deleted, true, true }, "delete the claim", ""},
		{"volume going, in use", settled, func(o *observed) {
			o.volume.DeletionTimestamp, o.usersKnown, o.users = deleted, true, []string{"a", "b", "c", "d", "e", "f"}
		}, "wait: Pending VolumeTerminating", "pods a, b, c, d, e and more still use it"},
		{"volume of an earlier claim going", settled, func(o *observed) {
			o.volume.DeletionTimestamp, o.claim.Spec.VolumeName, o.claim.Status.Phase = deleted, "", corev1.ClaimPending
		}, "wait: Pending VolumeTerminating", "recreated once it is gone"},
		{"claim's labels gone", settled, func(o *observed) { o.claim.Labels = nil }, "label the claim", ""},
		{"volume's labels gone", settled, func(o *observed) { o.volume.Labels = nil }, "label the volume", ""},
		{"volume to be deleted with its claim", settled, func(o *observed) {
			o.volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}, "set the volume's reclaim policy to Retain", ""},

		// The community operator's objects keep working.
		{"community", community, func(*observed) {}, "wait: Ready Bound", ""},
		{"community, old handle", community, func(o *observed) {
			o.communityVolume.Spec.CSI.VolumeHandle, o.communityVolume.Spec.MountOptions = "fs-01", []string{"accesspoint=fsap-02"}
		}, "wait: Ready Bound", ""},
		{"community, not bound yet", community, func(o *observed) {
			o.communityVolume.Spec.ClaimRef, o.claim.Status.Phase = nil, corev1.ClaimPending
		}, "wait: Pending Pending", ""},
		{"community, claim recreated", community, func(o *observed) {
			o.claim = desiredClaim(o.sharedVolume)
			o.claim.UID = "claim-2"
		}, "reserve the volume for the claim", ""},
		{"community, volume gone", community, func(o *observed) { o.communityVolume, o.claim.Status.Phase = nil, corev1.ClaimLost }, "create the volume", ""},
		{"community, volume mounts something else", community, func(o *observed) {
			o.communityVolume.Spec.CSI.VolumeHandle = "fs-9::fsap-9"
		}, "wait: Failed Conflict", `mounts "fs-9::fsap-9"`},
		{"community, volume of the other SharedVolume of that name", community, func(o *observed) {
			o.communityVolume.Labels = map[string]string{OwnerNamespaceLabel: "team-logs", OwnerNameLabel: "x"}
		}, "wait: Failed Conflict", "its labels name SharedVolume team-logs/x; delete PersistentVolumeClaim pvc-logs"},
		{"new claim, community's volume of another", community, func(o *observed) {
			o.claim = desiredClaim(o.sharedVolume)
			o.communityVolume.Labels = map[string]string{OwnerNamespaceLabel: "team-logs", OwnerNameLabel: "x"}
		}, "create the volume", ""},
		{"new claim, community's volume going", community, func(o *observed) {
			o.claim = desiredClaim(o.sharedVolume)
			o.communityVolume.DeletionTimestamp = deleted
		}, "create the volume", ""},

		// Deletion.
		{"deleted", settled, func(o *observed) { o.sharedVolume.DeletionTimestamp = deleted }, "look up the pods that use the claim", ""},
		{"deleted, free", settled, func(o *observed) { o.sharedVolume.DeletionTimestamp, o.usersKnown = deleted, true }, "delete the claim: Deleting Deleting", ""},
		{"deleted, in use", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.usersKnown, o.users = deleted, true, []string{"web-0", "web-1"}
		}, "delete the claim: Deleting ClaimInUse", "pods web-0, web-1 still use it"},
		{"deleted, claim going", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim.DeletionTimestamp, o.usersKnown = deleted, deleted, true
		}, "wait: Deleting Deleting", ""},
		{"deleted, claim stuck", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim.DeletionTimestamp, o.usersKnown = deleted, deleted, true
			o.claim.Finalizers, o.now = []string{"example.com/keep"}, now.Add(stuckTimeout)
		}, "wait: Deleting Deleting", "example.com/keep"},
		{"deleted, claim gone says the cache", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim = deleted, nil
		}, "read the claim and the volume from the API server", ""},
		{"deleted, claim gone", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim, o.live = deleted, nil, true
		}, "delete the volume: Deleting Deleting", ""},
		{"deleted, claim gone, volume of the community", community, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim, o.live = deleted, nil, true
		}, "delete the volume: Deleting Deleting", ""},
		{"deleted, volume going", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim, o.live, o.volume.DeletionTimestamp = deleted, nil, true, deleted
		}, "wait: Deleting Deleting", ""},
		{"deleted, both gone says the cache", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim, o.volume = deleted, nil, nil
		}, "read the claim and the volume from the API server", ""},
		{"deleted, both gone", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim, o.volume, o.live = deleted, nil, nil, true
		}, "remove the finalizer", ""},
		{"deleted, only foreign objects", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.live = deleted, true
			o.claim.Spec.Selector = nil
			o.communityVolume = community().communityVolume
			o.communityVolume.Spec.CSI.VolumeHandle = "fs-9::fsap-9"
			o.volume = nil
		}, "remove the finalizer", ""},
		{"deleted, volume given to a foreign claim", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.live, o.claim.Spec.Selector = deleted, true, nil
		}, "remove the finalizer", ""},
		{"deleted, no spec", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp, o.claim, o.live, o.sharedVolume.Spec = deleted, nil, true, v1alpha1.SharedVolumeSpec{}
		}, "delete the volume: Deleting Deleting", ""},
		{"deleted, volume to be deleted with its claim", settled, func(o *observed) {
			o.sharedVolume.DeletionTimestamp = deleted
			o.volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}, "set the volume's reclaim policy to Retain", ""},
		{"deleted, finalizer gone", settled, func(o *observed) { o.sharedVolume.DeletionTimestamp, o.sharedVolume.Finalizers = deleted, nil }, "wait", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := test.from()
			test.do(&o)
			d := next(o)
			got, message := string(d.action), ""
			if d.status != nil {
				got += ": " + string(d.status.phase) + " " + d.status.reason
				message = d.status.message
			}
			if got != test.want || !strings.Contains(message, test.says) || (test.says == "") != (message == "") && d.status != nil && d.status.reason != reasonInvalidSpec {
				t.Errorf("next is %q, message %q;\nwant    %q, message with %q", got, message, test.want, test.says)
			}
			assert.Equalf(t, d.action != wait, performs(d.action), "perform handles every action but wait; %q", d.action)
		})
	}
}

// performs reports whether perform has a case for an action. Without a client, that fails or panics.
func performs(a action) (handled bool) {
	defer func() {
		if recover() != nil {
			handled = true
		}
	}()
	err := new(reconciler).perform(context.Background(), &observed{}, decision{action: a})
	return err == nil || !strings.Contains(err.Error(), "unknown action")
}

func TestAbsenceOf(t *testing.T) {
	found, lost, unreached := &metav1.Condition{Status: "True", Reason: "Found"}, &metav1.Condition{Status: "False", Reason: "FileSystemNotFound"},
		&metav1.Condition{Status: "False", Reason: "MountTargetMissing"}
	for _, test := range []struct {
		from, to *metav1.Condition
		want     string
	}{
		{nil, nil, ""}, {nil, found, ""}, {nil, lost, "FileSystemNotFound"}, {found, lost, "FileSystemNotFound"},
		{lost, lost, ""}, {lost, unreached, "MountTargetMissing"}, {lost, found, ""}, {lost, nil, ""},
	} {
		got := ""
		if n := absenceOf(test.from, test.to); n != nil {
			got = n.reason
		}
		assert.EqualValuesf(t, test.want, got, "from %v to %v", test.from, test.to)
	}
}

func TestNotificationOf(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"", reasonPending, ""},
		{reasonNotYetSeen, reasonPending, ""},
		{reasonNotYetSeen, reasonBound, ""},
		{reasonPending, reasonBound, ""}, // as everybody expects
		{reasonBound, reasonDeleting, ""},
		{reasonPending, reasonConflict, "Warning Conflict"},
		{reasonPending, reasonNotGranted, "Warning NotGranted"},
		{reasonNotGranted, reasonNotGranted, ""},
		{reasonNotGranted, reasonPending, "Normal Recovered"},
		{"", reasonInvalidSpec, "Warning InvalidSpec"},
		{reasonConflict, reasonConflict, ""}, // told already
		{reasonConflict, reasonBound, "Normal Recovered"},
		{reasonConflict, reasonPending, "Normal Recovered"},
		{reasonConflict, reasonDeleting, ""},
		{reasonBound, reasonNamespaceDeleted, ""},
		{reasonBound, reasonPending, "Warning Repairing"},
		{reasonBound, reasonClaimTerminating, "Warning ClaimTerminating"},
		{reasonDeleting, reasonClaimInUse, "Warning ClaimInUse"},
	} {
		var from *metav1.Condition
		if test.from != "" {
			from = &metav1.Condition{Reason: test.from}
		}
		got := ""
		if notice := notificationOf(from, metav1.Condition{Reason: test.to}); notice != nil {
			got = notice.eventType + " " + notice.reason
		}
		assert.EqualValuesf(t, test.want, got, "from %q to %q", test.from, test.to)
	}
}

func TestDesiredObjects(t *testing.T) {
	sv := example()
	class, filesystem := "", corev1.PersistentVolumeFilesystem
	meta := metav1.ObjectMeta{Labels: map[string]string{
		"openshift.io/aws-efs-operator-owned":                         "true",
		"openshift.io/aws-efs-operator-shared-volume-owner-namespace": "team",
		"openshift.io/aws-efs-operator-shared-volume-owner-name":      "logs",
		"openshift.io/aws-efs-operator-shared-volume-owner-uid":       "uid-1",
	}}
	wantClaim := &corev1.PersistentVolumeClaim{
		ObjectMeta: *meta.DeepCopy(),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{"ReadWriteMany"},
			Resources:        corev1.VolumeResourceRequirements{Requests: size},
			Selector:         &metav1.LabelSelector{MatchLabels: map[string]string{"openshift.io/aws-efs-operator-shared-volume-owner-uid": "uid-1"}},
			StorageClassName: &class,
			VolumeMode:       &filesystem,
		},
	}
	wantClaim.Namespace, wantClaim.Name = "team", "pvc-logs"
	wantClaim.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "aws-efs.managed.openshift.io/v1alpha1", Kind: "SharedVolume", Name: "logs", UID: "uid-1"}}
	claim := desiredClaim(sv)
	assert.Empty(t, gocmp.Diff(wantClaim, claim), "-want +got")
	claim.UID = "claim-uid"
	wantVolume := &corev1.PersistentVolume{
		ObjectMeta: *meta.DeepCopy(),
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{"ReadWriteMany"},
			Capacity:                      size,
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "team", Name: "pvc-logs", UID: "claim-uid"},
			PersistentVolumeReclaimPolicy: "Retain",
			VolumeMode:                    &filesystem,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "efs.csi.aws.com", VolumeHandle: "fs-01::fsap-02"}},
		},
	}
	wantVolume.Name = "sharedvolume-uid-1"
	assert.Empty(t, gocmp.Diff(wantVolume, desiredVolume(sv, volumeName(sv), claim), cmpopts.EquateEmpty()), "-want +got")
}
