package sharedvolume

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/hostile"
)

// shownLimit is the maximum number of bytes of a text in a status or an event: kubectl and consoles show it on one screen.
const shownLimit = 4 << 10

// TestHostileFields puts hostile texts into each field that the controllers read, and looks at all statuses and events that they write.
func TestHostileFields(t *testing.T) {
	for _, text := range hostile.Texts() {
		fields := 0
		for name, from := range map[string]func() observed{"settled": settled, "granted": granted, "not listed": notListed, "no grant": closed(func() observed { o := granted(); o.grant = nil; return o }),
			"replaced namespace": replacedNamespace, "foreign volume": foreignVolume, "foreign claim": foreignClaim, "community": community, "users": withUsers, "held": heldClaim, "held volume": heldVolume} {
			o := from()
			fields += hostile.Each(&o, text, func(path string) {
				what := fmt.Sprintf("%s, with a hostile %s", name, path)
				if d := next(o); d.status != nil {
					checkStatus(t, what, o, *d.status)
				}
				if o.grant != nil {
					for _, c := range grantStatus(o.grant, o.namespace).Conditions {
						hostile.Check(t, what+", of the grant", c.Message, shownLimit)
					}
				}
			})
		}
		assert.GreaterOrEqual(t, fields, 300, "fields with hostile texts")
		policy := &v1alpha1.SharedVolumePolicy{Spec: v1alpha1.SharedVolumePolicySpec{Access: v1alpha1.Access(text)}}
		hostile.Check(t, "a hostile policy", grantsRequired(policy).Message, shownLimit)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "pvc-logs"}}
		if r := rejectionOf(claim, errors.New(text)); r != nil {
			checkStatus(t, "a hostile rejection", settled(), *r)
		}
	}
}

// checkStatus checks all texts of a status, and the events about it.
func checkStatus(t *testing.T, what string, o observed, r readiness) {
	t.Helper()
	status := statusOf(o, r)
	for _, text := range []string{status.Message, status.Summary, status.Reason} {
		hostile.Check(t, what+", in the status", text, shownLimit)
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	hostile.Check(t, what+", in the condition", ready.Message, shownLimit)
	if n := notificationOf(nil, *ready); n != nil {
		hostile.Check(t, what+", in the event", n.note, shownLimit)
	}
}

func notListed() observed {
	o := granted()
	o.grant.Spec.FileSystems[0].AccessPointIDs[0] = "fsap-09"
	return o
}

func replacedNamespace() observed {
	o := granted()
	o.grant.Spec.NamespaceUID, o.live = "ns-0", true
	return o
}

func foreignVolume() observed {
	o := settled()
	o.volume.Spec.CSI.Driver = "other.csi.example.com"
	return o
}

func foreignClaim() observed {
	o := settled()
	o.claim.Spec.Selector.MatchLabels[OwnerUIDLabel] = "uid-9"
	return o
}

func withUsers() observed {
	o := settled()
	o.sharedVolume.DeletionTimestamp = &metav1.Time{Time: now}
	o.users, o.usersKnown = []string{"web-1", "web-2"}, true
	return o
}

func heldClaim() observed {
	o := settled()
	o.claim.DeletionTimestamp, o.claim.Finalizers, o.usersKnown = &metav1.Time{Time: now.Add(-stuckTimeout)}, []string{"example.com/never"}, true
	return o
}

func heldVolume() observed {
	o := withUsers()
	o.claim, o.live = nil, true
	o.volume.DeletionTimestamp, o.volume.Finalizers = &metav1.Time{Time: now.Add(-stuckTimeout)}, []string{"example.com/never"}
	return o
}
