package sharedvolume

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

const (
	// stuckTimeout is how long a claim may be unbound, or an object may exist after its deletion, before the status says so. A busy
	// cluster needs a while for thousands of claims, and saying so would cost one more status write for each of them.
	stuckTimeout = 3 * time.Minute
	// usersInterval is how often the pods that use a claim are looked up again.
	usersInterval = 10 * time.Second
)

// observed is the observed state that a decision about one SharedVolume is based on.
type observed struct {
	sharedVolume *v1alpha1.SharedVolume
	// fresh is true if no controller has reconciled the SharedVolume before.
	fresh bool
	// claim is the existing claim with the SharedVolume's claim name, whoever created it, or nil.
	claim *corev1.PersistentVolumeClaim
	// volume is the volume with the name that this controller gives, and communityVolume the one with the name that the community
	// operator gave. Anyone may have created them; each is nil if it does not exist.
	volume, communityVolume *corev1.PersistentVolume
	// open is true if no grant is required.
	open bool
	// grant is the SharedVolumeGrant with the namespace's name, or nil. It is shared with the cache: do not change it.
	grant *v1alpha1.SharedVolumeGrant
	// accessPoint is the known state of the access point in AWS.
	accessPoint accessPoint
	// namespace is the SharedVolume's namespace, read from the API server; nil if it does not exist. namespaceKnown is true
	// once it was read.
	namespace      *corev1.Namespace
	namespaceKnown bool
	// live is true if claim and volumes were read from the API server, not from the caches.
	live bool
	// users are the pods that use the claim; usersKnown is true once they were looked up. If usersPending, the list may be
	// incomplete or old, and the SharedVolume is requeued when the pods are listed.
	users                    []string
	usersKnown, usersPending bool
	// slot is true if the SharedVolume holds an in-flight slot; slotKnown is true once it has asked for one.
	slot, slotKnown bool
	// rejection is the status that says why the API server rejected the claim or the volume; nil if it did not.
	rejection *readiness
	now       time.Time
	// record has the memory of earlier passes. No decision depends on it.
	record *record
}

// action is the next action for a SharedVolume. Most are one request.
type action string

const (
	wait            action = "wait"
	acquireSlot     action = "acquire an in-flight slot"
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
	findUsers       action = "look up the pods that use the claim"
	readLive        action = "read the claim and the volume from the API server"
	removeFinalizer action = "remove the finalizer"
)

// decision is the result of next.
type decision struct {
	action action
	// volume is the volume to act on; volumeName is the name of one to create.
	volume     *corev1.PersistentVolume
	volumeName string
	// status is written before the action; nil leaves the status as it is.
	status *readiness
	// slot says what the SharedVolume needs an in-flight slot for while it waits.
	slot slotUse
	// requeueAfter is when to reconcile again if no event comes; 0 is never. backoff asks for an exponential backoff instead.
	requeueAfter time.Duration
	backoff      bool
}

// next returns the next decision. It is a pure function.
func next(o observed) decision {
	if o.sharedVolume.DeletionTimestamp != nil {
		return nextDeletion(o)
	}
	if problem := problemOf(o.sharedVolume.Spec); problem != "" {
		return decision{action: wait, status: failed(reasonInvalidSpec, "%s", problem)}
	}
	if !o.open && !hasVolume(o) {
		if d, required := nextGrant(o); required {
			return d
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

// problemOf returns the problem of a spec, or "". The CRD rejects every invalid spec, but accepts a missing one. And an object may have
// been stored under another CRD.
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

// hasVolume reports whether the SharedVolume has its volume already, and so no longer requires a grant. It relies only
// on fields that no tenant can write: a volume's name, labels and reservation, and creation times.
//
// The controller puts the UID of the SharedVolume into the volume's name. The community operator used names that it may also have used
// for another SharedVolume, in an earlier namespace. A volume with such a name counts only if it is bound to the existing claim, or was
// not created before the SharedVolume.
//
// A volume that is being deleted does not count, unless its claim still has to be deleted.
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

// nextGrant decides for a SharedVolume that requires a grant. It returns false if the SharedVolume has a grant.
func nextGrant(o observed) (decision, bool) {
	listed := lists(o.grant, o.sharedVolume.Spec)
	switch {
	case listed && !o.namespaceKnown:
		return decision{action: readNamespace}, true
	case listed && o.namespace != nil && effectOf(o.grant, o.namespace).effective:
		return decision{}, false
	case !o.live && slices.Contains(o.sharedVolume.Finalizers, Finalizer):
		return decision{action: readLive}, true // Somebody may have removed the labels by which the cache finds its volume.
	default:
		return decision{action: wait, status: notGranted(o)}, true
	}
}

// nextSlot decides before the claim is created. A SharedVolume that waits for a slot is requeued when it gets one.
func nextSlot(o observed) decision {
	switch {
	case !o.slotKnown:
		return decision{action: acquireSlot}
	case meta.IsStatusConditionTrue(o.sharedVolume.Status.Conditions, v1alpha1.ConditionReady):
		return decision{action: wait, slot: awaitSlot, status: &waiting} // Somebody deleted the claim.
	default:
		return decision{action: wait, slot: awaitSlot}
	}
}

// nextClaim decides while the claim does not match the desired state.
func nextClaim(o observed) decision {
	claim := o.claim
	switch {
	case claim == nil:
		return decision{action: createClaim}
	case claim.DeletionTimestamp != nil:
		return replaceClaim(o)
	case !ownsClaim(o.sharedVolume, claim):
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolumeClaim %s exists and was not created for this SharedVolume; delete it, or use a SharedVolume of another name", claim.Name)}
	case lacksMeta(o.sharedVolume, claim):
		return decision{action: labelClaim}
	}
	return nextVolume(o)
}

// nextVolume decides while the claim matches the desired state and the volume does not.
func nextVolume(o observed) decision {
	claim := o.claim
	name, volume := chosenVolume(o)
	switch {
	case name == "":
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolumeClaim %s is bound to PersistentVolume %s, which was not created for this SharedVolume; delete the claim", claim.Name, claim.Spec.VolumeName)}
	case volume == nil:
		return decision{action: createVolume, volumeName: name}
	case !ownsVolume(o, volume):
		fix := "an administrator has to remove it"
		if name == claim.Spec.VolumeName {
			fix = fmt.Sprintf("delete PersistentVolumeClaim %s, which names it; it is then recreated with another volume", claim.Name)
		}
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolume %s was not created for this SharedVolume: %s; %s", name, mismatch(o, volume), fix)}
	case !mounts(volume, o.sharedVolume.Spec):
		return decision{action: wait, backoff: true, status: failed(reasonConflict,
			"PersistentVolume %s mounts %q, but spec asks for %q; neither can be changed: delete the SharedVolume, and recreate it with the IDs you want", name, source(volume), handle(o.sharedVolume.Spec))}
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
	if remaining := stuckTimeout - o.now.Sub(since); remaining > 0 {
		return decision{action: wait, requeueAfter: remaining, slot: bindWithSlot, status: &waiting}
	}
	switch {
	case claim.Spec.Selector == nil: // the community operator created it
	case claim.Spec.Resources.Requests == nil:
		return decision{action: readLive} // The cache has only part of the claim.
	case !asCreated(o.sharedVolume, claim):
		return decision{action: wait, status: failed(reasonConflict,
			"PersistentVolumeClaim %s cannot be bound, because it differs from the one that this SharedVolume creates; delete it, and it is created again", claim.Name)}
	}
	return decision{action: wait, status: pending(reasonNotBound,
		"PersistentVolumeClaim %s and PersistentVolume %s are not bound to each other after %v; kube-controller-manager does that: is it running?", claim.Name, volume.Name, stuckTimeout)}
}

// replaceClaim decides about a claim that is being deleted. The claim is recreated once it is gone, usually a moment later. The status
// mentions the deletion only if pods or finalizers keep the claim.
func replaceClaim(o observed) decision {
	claim := o.claim
	switch {
	case !o.usersKnown:
		return decision{action: findUsers}
	case len(o.users) == 0 && o.now.Sub(claim.DeletionTimestamp.Time) < usersInterval:
		return decision{action: wait, requeueAfter: usersInterval}
	case len(o.users) == 0:
		return decision{action: wait, requeueAfter: usersInterval, status: pending(reasonClaimTerminating,
			"PersistentVolumeClaim %s is being deleted, and is recreated once it is gone; it has the finalizers %v", claim.Name, claim.Finalizers)}
	default:
		return decision{action: wait, requeueAfter: usersInterval, status: pending(reasonClaimTerminating,
			"PersistentVolumeClaim %s is being deleted, and is recreated once it is gone%s", claim.Name, usedBy(o.users))}
	}
}

// replaceVolume decides about a volume that somebody deleted. It exists until its claim is gone, so the claim has to be
// recreated, too. That waits until no pod uses the claim: running pods keep the mount, but no new pod could start with a claim
// that is being deleted.
func replaceVolume(o observed, volume *corev1.PersistentVolume) decision {
	switch {
	case o.claim.Spec.VolumeName != volume.Name:
		return decision{action: wait, status: pending(reasonVolumeTerminating,
			"PersistentVolume %s is being deleted, and is recreated once it is gone", volume.Name)}
	case !o.usersKnown:
		return decision{action: findUsers}
	case len(o.users) == 0 && o.usersPending && o.now.Sub(volume.DeletionTimestamp.Time) < stuckTimeout:
		return decision{action: wait, requeueAfter: stuckTimeout}
	case len(o.users) == 0 && o.usersPending:
		return decision{action: wait, requeueAfter: stuckTimeout, status: pending(reasonVolumeTerminating,
			"PersistentVolume %s was deleted; it and its claim are recreated once all pods of the namespace have been listed, which takes long: are there very many, or very large ones?", volume.Name)}
	case len(o.users) == 0 && !o.live:
		return decision{action: readLive} // The claim may be deleted already.
	case len(o.users) == 0:
		return decision{action: deleteClaim}
	}
	return decision{action: wait, requeueAfter: usersInterval, status: pending(reasonVolumeTerminating,
		"PersistentVolume %s was deleted; it and its claim are recreated once no pod uses the claim%s", volume.Name, usedBy(o.users))}
}

// nextDeletion decides for a SharedVolume that is being deleted: it deletes first the claim, then the volume, and removes the
// finalizer only when the API server, not a cache, shows that both are gone.
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

// ownsClaim reports whether a claim was created for a SharedVolume. It relies on fields that are immutable: the selector, or
// the volume that a claim of the community operator names.
func ownsClaim(sv *v1alpha1.SharedVolume, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Spec.Selector != nil {
		return claim.Spec.Selector.MatchLabels[OwnerUIDLabel] == string(sv.UID)
	}
	return claim.Spec.VolumeName == communityVolumeName(sv) && hasCommunityLabels(sv, claim)
}

// asCreated reports whether a claim has the spec that the controller would create. Somebody in the namespace may have created the claim
// first.
func asCreated(sv *v1alpha1.SharedVolume, claim *corev1.PersistentVolumeClaim) bool {
	want := desiredClaim(sv).Spec
	want.VolumeName = claim.Spec.VolumeName // set by the binder
	return equality.Semantic.DeepEqual(claim.Spec, want)
}

// hasCommunityLabels reports whether an object has the labels that the community operator put on a claim or volume of the
// SharedVolume, and not the UID of a later owner.
func hasCommunityLabels(sv *v1alpha1.SharedVolume, object metav1.Object) bool {
	labels := object.GetLabels()
	uid := labels[OwnerUIDLabel]
	return labels[OwnerNamespaceLabel] == sv.Namespace && labels[OwnerNameLabel] == sv.Name &&
		(uid == "" || uid == string(sv.UID))
}

// ownsVolume reports whether a volume belongs to the SharedVolume: it has one of the two names and the labels or the access
// point that go with it, and it is not reserved for another claim.
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

// mismatch explains why ownsVolume returns false.
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

// ownVolumes returns the volumes to delete with a SharedVolume. A volume with the community operator's name never belonged to this
// SharedVolume if it does not mount what spec asks for.
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

// chosenVolume returns the name of the volume for the claim, and the volume of that name if it exists. The name is "" if the claim names
// a volume that has neither the controller's nor the community operator's name for it.
func chosenVolume(o observed) (string, *corev1.PersistentVolume) {
	own, community := volumeName(o.sharedVolume), communityVolumeName(o.sharedVolume)
	switch o.claim.Spec.VolumeName {
	case own:
		return own, o.volume
	case community:
		return community, o.communityVolume
	case "":
		// The claim is new. A volume that the community operator left is adopted.
		if v := o.communityVolume; v != nil && v.DeletionTimestamp == nil && ownsVolume(o, v) && mounts(v, o.sharedVolume.Spec) {
			return community, v
		}
		return own, o.volume
	default:
		return "", nil
	}
}

// needsReservation reports whether the volume must be reserved for the claim: it has no reservation, or one for an earlier claim of the
// same name. The binder takes care of a volume that the claim names, and of one that is reserved by name alone, unless it has already
// marked the claim as Lost.
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

// bound reports whether claim and volume are bound to each other.
func bound(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == volume.Name &&
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID
}

// lacksMeta reports whether an object that this controller created has lost labels or annotations. Objects of the community
// operator never had all of them, and are not changed.
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

// readiness is the status of a SharedVolume.
type readiness struct {
	phase  v1alpha1.Phase
	reason string
	// message is for the status, empty without a problem; detail is for the condition, which always has a message.
	message, detail string
	// summary is the message for a table, if it is not simply the beginning of message.
	summary string
}

// waiting is the readiness of a SharedVolume whose claim will be bound in a moment. While a SharedVolume has the status that the
// CRD sets by default, this costs no write.
var waiting = readiness{
	phase:  v1alpha1.Pending,
	reason: reasonPending,
	detail: "Waiting for the claim and its volume to be bound to each other",
}

func ready(volume string) *readiness {
	return &readiness{phase: v1alpha1.Ready, reason: reasonBound, detail: shown("The claim is bound to PersistentVolume " + volume)}
}

func pending(reason, format string, args ...any) *readiness {
	return newReadiness(v1alpha1.Pending, reason, format, args...)
}

func failed(reason, format string, args ...any) *readiness {
	return newReadiness(v1alpha1.Failed, reason, format, args...)
}

func newReadiness(phase v1alpha1.Phase, reason, format string, args ...any) *readiness {
	message := shown(fmt.Sprintf(format, args...))
	return &readiness{phase: phase, reason: reason, message: message, detail: message}
}

// accessPoint is the known state of an access point in AWS.
type accessPoint struct {
	// known is false until the access point has been looked up. The reason is "" if its state cannot be known, or if the namespace may
	// not know it.
	known, present  bool
	reason, message string
}

// notGranted returns the readiness of a SharedVolume that lacks a grant. Its users cannot read grants, so the message says all that an
// administrator needs.
func notGranted(o observed) *readiness {
	sv := o.sharedVolume
	lead := fmt.Sprintf("Namespace %s may not use access point %s of file system %s: ", sv.Namespace, sv.Spec.AccessPointID, sv.Spec.FileSystemID)
	switch {
	case o.grant == nil:
		return grantable(sv, lead+"there is no SharedVolumeGrant "+sv.Namespace)
	case !lists(o.grant, sv.Spec):
		return grantable(sv, lead+fmt.Sprintf("SharedVolumeGrant %s does not list it", o.grant.Name))
	default:
		return failed(reasonNotGranted, "%sSharedVolumeGrant %s lists it, but not for this namespace. %s", lead, o.grant.Name, effectOf(o.grant, o.namespace).message)
	}
}

// grantable returns the readiness of a SharedVolume for which an administrator can grant the access point with one command.
func grantable(sv *v1alpha1.SharedVolume, lacks string) *readiness {
	command := escape.Command("berth grant %s %s %s", sv.Namespace, sv.Spec.FileSystemID, sv.Spec.AccessPointID)
	r := failed(reasonNotGranted, "%s. A cluster administrator can grant it: %s", lacks, command)
	for _, summary := range []string{"to grant it: " + command, command} {
		if len(summary) <= maxSummary {
			r.summary = summary // A table never cuts a command.
			return r
		}
	}
	r.summary = "the condition Ready has the command that grants it"
	return r
}

// deleting returns the readiness of a SharedVolume that waits for the deletion of an object. The readiness is the same for claim and
// volume unless one of them is stuck, so that a deletion costs one status write.
func deleting(o observed, object client.Object, kind string) *readiness {
	if len(o.users) > 0 {
		return newReadiness(v1alpha1.Deleting, reasonClaimInUse,
			"%s %s is being deleted%s", kind, object.GetName(), usedBy(o.users))
	}
	if since := object.GetDeletionTimestamp(); since != nil && o.now.Sub(since.Time) >= stuckTimeout {
		return newReadiness(v1alpha1.Deleting, reasonDeleting,
			"%s %s still exists %v after its deletion; it has the finalizers %v", kind, object.GetName(), stuckTimeout, object.GetFinalizers())
	}
	return &readiness{phase: v1alpha1.Deleting, reason: reasonDeleting, detail: "The claim and its volume are being deleted"}
}

// maxNamedUsers is how many pods a message names.
const maxNamedUsers = 5

// usedBy returns the end of a message, which names the pods that use a claim.
func usedBy(users []string) string {
	switch n := len(users); {
	case n == 0:
		return ""
	case n == 1:
		return "; pod " + users[0] + " still uses it"
	case n <= maxNamedUsers:
		return "; pods " + strings.Join(users, ", ") + " still use it"
	default:
		return fmt.Sprintf("; pods %s and more still use it", strings.Join(users[:maxNamedUsers], ", "))
	}
}
