package sharedvolume

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

const (
	// stallTime is how long a claim may stay unbound, or an object may stay after its deletion, until
	// the status says so. A busy cluster needs a while for some thousands at once, and each of them
	// would pay for one more status write.
	stuckTimeout = 3 * time.Minute
	// usersTime is how often the pods that hold a claim are looked up again.
	usersInterval = 10 * time.Second
)

// observed is all that a decision about one SharedVolume rests on.
type observed struct {
	sharedVolume *v1alpha1.SharedVolume
	// fresh says that nobody had worked on the SharedVolume before.
	fresh bool
	// claim is the object under the claim's name, whoever made it; nil if there is none.
	claim *corev1.PersistentVolumeClaim
	// volume and communityVolume are the objects under the name that a new volume gets and under the
	// one that the community operator gave, whoever made them; nil if there is none.
	volume, communityVolume *corev1.PersistentVolume
	// open says that no grant is needed.
	open bool
	// grant is the SharedVolumeGrant that has the namespace's name; nil if there is none. It is shared, and
	// not to be changed.
	grant *v1alpha1.SharedVolumeGrant
	// namespace is the SharedVolume's, as the API server has it; nil if it is gone. namespaceKnown says that
	// it was read.
	namespace      *corev1.Namespace
	namespaceKnown bool
	// live says that claim and volumes were read from the API server, not from a cache.
	live bool
	// users are pods that hold the claim; usersKnown says that they were looked up. If usersPending, these
	// may not be all, or not any more, and the SharedVolume is woken when they are known.
	users                    []string
	usersKnown, usersPending bool
	// turn says that the binder may be handed one more claim of the namespace; turnKnown says that this
	// was asked.
	slot, slotKnown bool
	// refused is why the API server would not create the claim or the volume.
	rejection *readiness
	// remembered says that some of the above was written so recently that the caches lack it.
	expecting bool
	now        time.Time
}

// action is one thing to do about a SharedVolume; most are one request.
type action string

const (
	wait            action = "wait"
	acquireSlot        action = "take a turn"
	readNamespace   action = "read the namespace from the API server"
	addFinalizer    action = "add the finalizer"
	createClaim     action = "create the claim"
	labelClaim      action = "label the claim"
	deleteClaim     action = "delete the claim"
	createVolume    action = "create the volume"
	labelVolume     action = "label the volume"
	retainVolume    action = "set the volume's reclaim policy to Retain"
	reserveVolume   action = "reserve the volume for the claim"
	deleteVolume    action = "delete the volume"
	findUsers     action = "look up the pods that use the claim"
	readLive        action = "read the claim and the volume from the API server"
	removeFinalizer action = "remove the finalizer"
)

// step is what to do next.
type decision struct {
	action action
	// volume is the volume to act on; volumeName is the name of one to create.
	volume     *corev1.PersistentVolume
	volumeName string
	// show is what the status must say before that; nil leaves the status as it is.
	status *readiness
	// turn is what becomes of the SharedVolume's turn when there is nothing to do but wait.
	slot slotUse
	// again is when to look again, where no watch will tell; 0 is never. retry asks for a time that
	// grows each time.
	requeueAfter time.Duration
	backoff bool
}

// next decides the next step.
func next(o observed) decision {
	if o.sharedVolume.DeletionTimestamp != nil {
		return nextDeletion(o)
	}
	if problem := problemOf(o.sharedVolume.Spec); problem != "" {
		return decision{action: wait, status: failed(reasonInvalidSpec, "%s", problem)}
	}
	if !o.open && !hasVolume(o) {
		if s, wanting := nextGrant(o); wanting {
			return s
		}
	}
	if o.claim == nil && !o.slot {
		return nextSlot(o)
	}
	if !slices.Contains(o.sharedVolume.Finalizers, Finalizer) {
		return decision{action: addFinalizer}
	}
	if o.rejection != nil {
		return decision{action: wait, status: o.rejection, backoff: true}
	}
	return nextClaim(o)
}

// IDs as the CRD allows them, with its limit of 128 characters.
var (
	fileSystemID  = regexp.MustCompile(`^fs-[0-9a-f]{1,125}$`)
	accessPointID = regexp.MustCompile(`^fsap-[0-9a-f]{1,123}$`)
)

// problemOf says what is wrong with a spec. The CRD allows none but a missing one, yet objects may
// have been stored under another CRD.
func problemOf(spec v1alpha1.SharedVolumeSpec) string {
	switch {
	case !fileSystemID.MatchString(spec.FileSystemID):
		return fmt.Sprintf("spec.fileSystemID is %.64q, want an ID of at most 128 characters such as fs-0123456789abcdef0", spec.FileSystemID)
	case !accessPointID.MatchString(spec.AccessPointID):
		return fmt.Sprintf("spec.accessPointID is %.64q, want an ID of at most 128 characters such as fsap-0123456789abcdef0", spec.AccessPointID)
	default:
		return ""
	}
}

// hasVolume tells whether the SharedVolume has its volume already, and so needs no grant any more. It goes by
// what no tenant can write: a volume, its name, labels and reservation, and creation times.
//
// A volume of the controller's has the UID of the SharedVolume in its name. One of the community operator's
// has only names that another SharedVolume may have had, in an earlier namespace. It counts if it is bound
// to the claim that is there, or was made when this very SharedVolume was there.
//
// A volume that is being deleted is as good as none, unless there is a claim to be freed first.
func hasVolume(o observed) bool {
	has := func(volume *corev1.PersistentVolume) bool {
		return volume != nil && ownsVolume(o, volume) && mounts(volume, o.sharedVolume.Spec) && (volume.DeletionTimestamp == nil || o.claim != nil)
	}
	if has(o.volume) {
		return true
	}
	return has(o.communityVolume) &&
		(o.claim != nil && bound(o.claim, o.communityVolume) || !o.communityVolume.CreationTimestamp.Before(&o.sharedVolume.CreationTimestamp))
}

// nextGrant decides for a SharedVolume that needs a grant. It returns false if it has one.
func nextGrant(o observed) (decision, bool) {
	listed := lists(o.grant, o.sharedVolume.Spec)
	switch {
	case listed && !o.namespaceKnown:
		return decision{action: readNamespace}, true
	case listed && o.namespace != nil && effectOf(o.grant, o.namespace).effective:
		return decision{}, false
	case !o.live && slices.Contains(o.sharedVolume.Finalizers, Finalizer):
		return decision{action: readLive}, true // It may have had a volume, and somebody hidden that from the cache.
	default:
		return decision{action: wait, status: notGranted(o)}, true
	}
}

// nextTurn decides before the claim is made. One that waits in line is told when its turn has come.
func nextSlot(o observed) decision {
	switch {
	case !o.slotKnown:
		return decision{action: acquireSlot}
	case meta.IsStatusConditionTrue(o.sharedVolume.Status.Conditions, v1alpha1.ConditionReady):
		return decision{action: wait, slot: awaitSlot, status: &waiting} // Somebody took the claim away.
	default:
		return decision{action: wait, slot: awaitSlot}
	}
}

// nextClaim decides while the claim is not as it should be.
func nextClaim(o observed) decision {
	claim := o.claim
	switch {
	case claim == nil:
		return decision{action: createClaim}
	case claim.DeletionTimestamp != nil:
		return replaceClaim(o)
	case !ownsClaim(o.sharedVolume, claim):
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolumeClaim %s exists and was not made for this SharedVolume; delete it, or use a SharedVolume of another name", claim.Name)}
	case lacksMeta(o.sharedVolume, claim):
		return decision{action: labelClaim}
	}
	return nextVolume(o)
}

// nextVolume decides while the claim is as it should be and the volume is not.
func nextVolume(o observed) decision {
	claim := o.claim
	name, volume := chosenVolume(o)
	switch {
	case name == "":
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolumeClaim %s is bound to PersistentVolume %s, which was not made for this SharedVolume; delete the claim", claim.Name, claim.Spec.VolumeName)}
	case volume == nil:
		return decision{action: createVolume, volumeName: name}
	case !ownsVolume(o, volume):
		cure := "an administrator has to take it out of the way"
		if name == claim.Spec.VolumeName {
			cure = fmt.Sprintf("delete PersistentVolumeClaim %s, which names it, and a claim with another volume is made", claim.Name)
		}
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolume %s was not made for this SharedVolume: %s; %s", name, mismatch(o, volume), cure)}
	case !mounts(volume, o.sharedVolume.Spec):
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolume %s mounts %q, spec asks for %q; neither is changed: delete the SharedVolume, and create it anew with the IDs you want", name, source(volume), handle(o.sharedVolume.Spec))}
	case volume.DeletionTimestamp != nil:
		return replaceVolume(o, volume)
	case volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return decision{action: retainVolume, volume: volume}
	case name == volumeName(o.sharedVolume) && lacksMeta(o.sharedVolume, volume):
		return decision{action: labelVolume, volume: volume}
	case needsReservation(claim, volume):
		return decision{action: reserveVolume, volume: volume}
	case bound(claim, volume):
		return decision{action: wait, status: ready(volume.Name)}
	}
	since := claim.CreationTimestamp.Time
	if volume.CreationTimestamp.After(since) {
		since = volume.CreationTimestamp.Time
	}
	if left := stuckTimeout - o.now.Sub(since); left > 0 {
		return decision{action: wait, requeueAfter: left, slot: bindWithSlot, status: &waiting}
	}
	return decision{action: wait, status: pending(reasonNotBound,
		"PersistentVolumeClaim %s and PersistentVolume %s are not bound to each other after %v; kube-controller-manager does that: is it running?", claim.Name, volume.Name, stuckTimeout)}
}

// replaceClaim decides about a claim that is being deleted. It is made anew once it is gone, which
// takes a moment, and is worth no word, unless something holds it.
func replaceClaim(o observed) decision {
	claim := o.claim
	switch {
	case !o.usersKnown:
		return decision{action: findUsers}
	case len(o.users) == 0 && o.now.Sub(claim.DeletionTimestamp.Time) < usersInterval:
		return decision{action: wait, requeueAfter: usersInterval}
	case len(o.users) == 0:
		return decision{action: wait, requeueAfter: usersInterval, status: pending(reasonClaimTerminating,
			"PersistentVolumeClaim %s is being deleted and is made anew once it is gone; it has the finalizers %v", claim.Name, claim.Finalizers)}
	default:
		return decision{action: wait, requeueAfter: usersInterval, status: pending(reasonClaimTerminating,
			"PersistentVolumeClaim %s is being deleted and is made anew once it is gone%s", claim.Name, usedBy(o.users))}
	}
}

// replaceVolume decides about a volume that somebody deleted. It goes once its claim is gone, so the
// claim has to be made anew too; but not under the feet of pods: those that run keep what they
// mounted, and a claim that is being deleted would let no new pod start.
func replaceVolume(o observed, volume *corev1.PersistentVolume) decision {
	switch {
	case o.claim.Spec.VolumeName != volume.Name:
		return decision{action: wait, status: pending(reasonVolumeTerminating,
			"PersistentVolume %s is being deleted and is made anew once it is gone", volume.Name)}
	case !o.usersKnown:
		return decision{action: findUsers}
	case len(o.users) == 0 && o.usersPending && o.now.Sub(volume.DeletionTimestamp.Time) < stuckTimeout:
		return decision{action: wait, requeueAfter: stuckTimeout}
	case len(o.users) == 0 && o.usersPending:
		return decision{action: wait, requeueAfter: stuckTimeout, status: pending(reasonVolumeTerminating,
			"PersistentVolume %s was deleted; it and its claim are made anew once all pods of the namespace were looked at, which takes long: are there very many, or very large ones?", volume.Name)}
	case len(o.users) == 0 && !o.live:
		return decision{action: readLive} // The claim may be on its way out already.
	case len(o.users) == 0:
		return decision{action: deleteClaim}
	}
	return decision{action: wait, requeueAfter: usersInterval, status: pending(reasonVolumeTerminating,
		"PersistentVolume %s was deleted; it and its claim are made anew once the claim is free%s", volume.Name, usedBy(o.users))}
}

// nextDeletion decides for a SharedVolume that is being deleted: first the claim, then the volume,
// and the finalizer only when the API server itself says that both are gone.
func nextDeletion(o observed) decision {
	sv := o.sharedVolume
	if !slices.Contains(sv.Finalizers, Finalizer) {
		return decision{action: wait}
	}
	volumes := ownVolumes(o)
	if claim := o.claim; claim != nil && ownsClaim(sv, claim) {
		for _, volume := range volumes {
			if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
				return decision{action: retainVolume, volume: volume}
			}
		}
		switch {
		case !o.usersKnown:
			return decision{action: findUsers}
		case claim.DeletionTimestamp == nil:
			return decision{action: deleteClaim, status: deleting(o, claim, "PersistentVolumeClaim")}
		default:
			return decision{action: wait, status: deleting(o, claim, "PersistentVolumeClaim"), requeueAfter: usersInterval}
		}
	}
	if !o.live {
		return decision{action: readLive}
	}
	for _, volume := range volumes {
		if volume.DeletionTimestamp == nil {
			return decision{action: deleteVolume, volume: volume, status: deleting(o, volume, "PersistentVolume")}
		}
	}
	if len(volumes) > 0 {
		return decision{action: wait, status: deleting(o, volumes[0], "PersistentVolume"), requeueAfter: stuckTimeout}
	}
	return decision{action: removeFinalizer}
}

// ownsClaim tells whether a claim was made for a SharedVolume. What it goes by cannot be changed
// after a claim's creation: the selector, or the volume that a claim of the community operator names.
func ownsClaim(sv *v1alpha1.SharedVolume, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Spec.Selector != nil {
		return claim.Spec.Selector.MatchLabels[OwnerUIDLabel] == string(sv.UID)
	}
	return claim.Spec.VolumeName == communityVolumeName(sv) && hasCommunityLabels(sv, claim)
}

// hasCommunityLabels tells whether an object has the labels by which the community operator knew a
// claim or volume of a SharedVolume, and no later owner's.
func hasCommunityLabels(sv *v1alpha1.SharedVolume, object metav1.Object) bool {
	labels := object.GetLabels()
	uid := labels[OwnerUIDLabel]
	return labels[OwnerNamespaceLabel] == sv.Namespace && labels[OwnerNameLabel] == sv.Name &&
		(uid == "" || uid == string(sv.UID))
}

// ownsVolume tells whether a volume is the SharedVolume's: it is one of ours by name and by what
// goes with the name, and it is reserved for no other claim.
func ownsVolume(o observed, volume *corev1.PersistentVolume) bool {
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != DriverName {
		return false
	}
	if ref := volume.Spec.ClaimRef; ref != nil {
		if ref.Namespace != o.sharedVolume.Namespace || ref.Name != ClaimName(o.sharedVolume.Name) {
			return false
		}
		if o.claim != nil && ref.UID == o.claim.UID && !ownsClaim(o.sharedVolume, o.claim) {
			return false
		}
	}
	switch volume.Name {
	case volumeName(o.sharedVolume):
		return volume.Labels[OwnerUIDLabel] == string(o.sharedVolume.UID) || mounts(volume, o.sharedVolume.Spec)
	case communityVolumeName(o.sharedVolume):
		return hasCommunityLabels(o.sharedVolume, volume)
	default:
		return false
	}
}

// stranger says why ownsVolume is false.
func mismatch(o observed, volume *corev1.PersistentVolume) string {
	switch ref := volume.Spec.ClaimRef; {
	case volume.Spec.CSI == nil || volume.Spec.CSI.Driver != DriverName:
		return "it is not a volume of " + DriverName
	case ref != nil && (ref.Namespace != o.sharedVolume.Namespace || ref.Name != ClaimName(o.sharedVolume.Name)):
		return fmt.Sprintf("it is reserved for PersistentVolumeClaim %s/%s", ref.Namespace, ref.Name)
	default:
		return fmt.Sprintf("its labels name SharedVolume %v", ownerOf(volume))
	}
}

// ownVolumes returns the volumes to delete with a SharedVolume. One of the community's name that
// mounts something else than spec asks for was never this SharedVolume's.
func ownVolumes(o observed) []*corev1.PersistentVolume {
	var own []*corev1.PersistentVolume
	if o.volume != nil && ownsVolume(o, o.volume) {
		own = append(own, o.volume)
	}
	if o.communityVolume != nil && ownsVolume(o, o.communityVolume) && mounts(o.communityVolume, o.sharedVolume.Spec) {
		own = append(own, o.communityVolume)
	}
	return own
}

// chosenVolume returns the name of the volume that belongs to the claim, and the volume of that name
// if there is one. The name is "" if the claim is bound to a volume that cannot be ours.
func chosenVolume(o observed) (string, *corev1.PersistentVolume) {
	own, community := volumeName(o.sharedVolume), communityVolumeName(o.sharedVolume)
	switch o.claim.Spec.VolumeName {
	case own:
		return own, o.volume
	case community:
		return community, o.communityVolume
	case "":
		// The claim is new. A volume that the community operator left goes on being used.
		if v := o.communityVolume; v != nil && v.DeletionTimestamp == nil && ownsVolume(o, v) && mounts(v, o.sharedVolume.Spec) {
			return community, v
		}
		return own, o.volume
	default:
		return "", nil
	}
}

// needsReservation tells whether the volume must be reserved for the claim, because it is open, or
// still reserved for an earlier claim of the same name. A volume that the claim names itself, and one
// reserved by name alone, the binder settles; but not once it has given the claim up as lost.
func needsReservation(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	switch {
	case ref == nil:
		return claim.Spec.VolumeName != volume.Name
	case ref.UID == "":
		return claim.Status.Phase == corev1.ClaimLost
	default:
		return ref.UID != claim.UID
	}
}

// bound tells whether claim and volume are bound to each other.
func bound(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == volume.Name &&
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID
}

// lacksMeta tells whether an object that we made has lost labels or annotations that it needs. An
// object that the community operator made never had some of them, and is left alone.
func lacksMeta(sv *v1alpha1.SharedVolume, object metav1.Object) bool {
	if claim, ok := object.(*corev1.PersistentVolumeClaim); ok && claim.Spec.Selector == nil {
		return false
	}
	labels, annotations := ownerMeta(sv)
	return lacks(object.GetLabels(), labels) || lacks(object.GetAnnotations(), annotations)
}

func lacks(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return true
		}
	}
	return false
}
