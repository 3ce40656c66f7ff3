package sharedvolume

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Reasons of the condition Ready. They are part of the API.
const (
	reasonNotYetSeen        = "NotYetSeen" // set by the CRD's default
	reasonBound             = "Bound"
	reasonPending           = "Pending"
	reasonNotBound          = "NotBound"
	reasonInvalidSpec       = "InvalidSpec"
	reasonNotGranted        = "NotGranted"
	reasonConflict          = "Conflict"
	reasonClaimTerminating  = "ClaimTerminating"
	reasonVolumeTerminating = "VolumeTerminating"
	reasonQuotaExceeded     = "QuotaExceeded"
	reasonNamespaceDeleted  = "NamespaceTerminating"
	reasonRefused           = "Refused"
	reasonDeleting          = "Deleting"
	reasonClaimInUse        = "ClaimInUse"
)

// maxMessage is the maximum number of characters of a message. Messages quote errors of the API server and other objects, which
// may be of any length.
const maxMessage = 512

// maxSummary is the maximum number of characters of a summary, which is a column of a table.
const maxSummary = 120

// shown returns a message as it is written into an object: whoever reads it there sees all its characters.
func shown(message string) string { return shortened(escape.Line(message), maxMessage) }

// shortened returns a text of at most limit characters: all of it, or its beginning.
func shortened(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

// setColumns sets the fields that kubectl shows as columns, from the other fields. A problem of readiness takes precedence over a problem
// in AWS.
func setColumns(status *v1alpha1.SharedVolumeStatus, r readiness, claim string) {
	status.Reason, status.Summary = r.reason, cmp.Or(r.summary, r.message)
	if r.phase == v1alpha1.Ready {
		status.Reason = string(v1alpha1.Ready)
		if found := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFileSystemAvailable); found != nil && found.Status == metav1.ConditionFalse {
			status.Reason, status.Summary = found.Reason, found.Message
		}
	}
	if rest, is := strings.CutPrefix(status.Summary, "PersistentVolumeClaim "+claim+" "); is {
		status.Summary = "The claim " + rest
	}
	status.Summary = shortened(status.Summary, maxSummary)
}

// setAvailable sets the condition about the access point in AWS, or removes it if the SharedVolume is not Ready or nothing can be known.
// Until the access point has been looked up, the condition stays as it is.
func setAvailable(conditions *[]metav1.Condition, found accessPoint, phase v1alpha1.Phase, generation int64, now time.Time) {
	switch {
	case phase != v1alpha1.Ready || found.known && found.reason == "":
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionFileSystemAvailable)
	case found.known:
		condition := metav1.Condition{
			Type: v1alpha1.ConditionFileSystemAvailable, Status: metav1.ConditionFalse, ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(now), Reason: found.reason, Message: shown(found.message),
		}
		if found.present {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(conditions, condition)
	}
}

// statusOf returns the status for a readiness. It keeps from the present status only conditions of others and the time of the
// last transition.
func statusOf(o observed, r readiness) v1alpha1.SharedVolumeStatus {
	sv := o.sharedVolume
	before := meta.FindStatusCondition(sv.Status.Conditions, v1alpha1.ConditionReady)
	if r == waiting && before != nil && before.Reason == reasonNotYetSeen {
		return *sv.Status.DeepCopy()
	}
	status := v1alpha1.SharedVolumeStatus{
		Phase:              r.phase,
		Message:            r.message,
		ObservedGeneration: sv.Generation,
		Conditions:         sv.Status.DeepCopy().Conditions,
	}
	if r == waiting {
		// Keep the generation: in the status that an earlier CRD set by default, it is 0, and writing another one would cost a write.
		status.ObservedGeneration = sv.Status.ObservedGeneration
	}
	condition := metav1.Condition{
		Type:               v1alpha1.ConditionReady,
		Status:             metav1.ConditionFalse,
		ObservedGeneration: status.ObservedGeneration,
		LastTransitionTime: metav1.NewTime(o.now),
		Reason:             r.reason,
		Message:            r.detail,
	}
	if r.phase == v1alpha1.Ready {
		condition.Status = metav1.ConditionTrue
	}
	if ready := meta.FindStatusCondition(status.Conditions, condition.Type); ready != nil && ready.LastTransitionTime.Unix() == 0 && r != waiting {
		// The condition that an earlier CRD set by default has no time. It gets one only in a write that happens anyway.
		ready.LastTransitionTime = sv.CreationTimestamp
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	setAvailable(&status.Conditions, o.accessPoint, r.phase, status.ObservedGeneration, o.now)
	setColumns(&status, r, ClaimName(sv.Name))
	if r.phase != v1alpha1.Deleting && o.claim != nil && ownsClaim(sv, o.claim) {
		if _, volume := chosenVolume(o); volume != nil && bound(o.claim, volume) {
			apiGroup := ""
			status.ClaimRef = corev1.TypedLocalObjectReference{APIGroup: &apiGroup, Kind: "PersistentVolumeClaim", Name: o.claim.Name}
		}
	}
	return status
}

// absenceOf returns the event for an access point that is absent or cannot be reached, from the conditions about it before and
// after, or nil.
func absenceOf(from, to *metav1.Condition) *notification {
	if to == nil || to.Status != metav1.ConditionFalse || from != nil && from.Reason == to.Reason {
		return nil
	}
	return &notification{corev1.EventTypeWarning, to.Reason, to.Message}
}

// notification is an event for people.
type notification struct{ eventType, reason, note string }

// notificationOf returns the event for the change from one condition to another, or nil. No event reports that a SharedVolume becomes
// Ready or is deleted, because its status shows that. In a namespace that is being deleted, no event can be created.
func notificationOf(from *metav1.Condition, to metav1.Condition) *notification {
	ordinary := map[string]bool{reasonNotYetSeen: true, reasonPending: true, reasonBound: true, reasonDeleting: true, reasonNamespaceDeleted: true}
	switch {
	case from != nil && from.Reason == to.Reason:
		return nil
	case !ordinary[to.Reason]:
		return &notification{corev1.EventTypeWarning, to.Reason, to.Message}
	case from == nil || to.Reason == reasonDeleting || to.Reason == reasonNamespaceDeleted:
		return nil
	case !ordinary[from.Reason]:
		return &notification{corev1.EventTypeNormal, "Recovered", "The problem is solved: " + from.Reason}
	case from.Reason == reasonBound:
		return &notification{corev1.EventTypeWarning, "Repairing", "The claim or its volume was deleted and is being recreated"}
	default:
		return nil
	}
}
