package subscription

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
)

// recreation identifies the Subscription that a switch creates when it replaces the operator. Meanwhile somebody else
// may create one of the same name. It is kept in the notes of the journal, because the cluster shows it nowhere.
type recreation struct {
	// nonce is written before the Subscription is created, which has it as an annotation.
	nonce string
	// uid is that of the Subscription, written once it exists.
	uid types.UID
}

// The keys of the notes.
const (
	nonceKey = "recreated-nonce"
	uidKey   = "recreated-uid"
)

// nonceAnnotation is on a Subscription that a switch has recreated, with the nonce of its journal.
const nonceAnnotation = "berth.dev/switch-renewal"

// nonceLength is the number of digits of a nonce.
const nonceLength = 32

func newNonce() string {
	bytes := make([]byte, nonceLength/2)
	_, _ = rand.Read(bytes) // never fails
	return hex.EncodeToString(bytes)
}

// recreation returns what the journal says of the Subscription that this switch has recreated.
func (s *state) recreation() recreation {
	return recreation{s.journal.Notes[nonceKey], types.UID(s.journal.Notes[uidKey])}
}

// ValidateNotes checks the notes of a journal.
func (p *Plan) ValidateNotes(notes map[string]string) error {
	for key := range notes {
		if key != nonceKey && key != uidKey {
			return fmt.Errorf("unknown key %q", key)
		}
	}
	nonce, uid := notes[nonceKey], types.UID(notes[uidKey])
	if _, err := hex.DecodeString(nonce); err != nil || nonce != "" && len(nonce) != nonceLength {
		return fmt.Errorf("%s is %q, want %d hexadecimal digits", nonceKey, nonce, nonceLength)
	}
	switch {
	case uid == "":
		return nil
	case nonce == "":
		return fmt.Errorf("%s is set without %s", uidKey, nonceKey)
	}
	return migrate.ValidateUID(uidKey, uid)
}

// isRecreated reports whether this switch has recreated the Subscription and has recorded its UID.
func (s *state) isRecreated() bool { return s.plan.Strategy == Replace && s.recreation().uid != "" }

// isUnrecorded reports whether the Subscription is the one that this switch has recreated, with its UID not yet
// recorded. Whoever may write Subscriptions can read the nonce by now, so the spec has to match, too.
func (s *state) isUnrecorded() bool {
	r, created := s.recreation(), s.subscription
	return s.plan.Strategy == Replace && r.uid == "" && r.nonce != "" && created.Annotations[nonceAnnotation] == r.nonce &&
		equality.Semantic.DeepEqual(created.Spec, s.plan.recreatedSpec())
}

// recreatedSpec is the spec that the Subscription is recreated with.
func (p *Plan) recreatedSpec() *v1alpha1.SubscriptionSpec {
	spec := &v1alpha1.SubscriptionSpec{InstallPlanApproval: v1alpha1.ApprovalManual, Config: p.Config}
	p.To.applyTo(spec)
	return spec
}

// recreate creates the Subscription again, or records its UID if it exists.
func (s *state) recreate(ctx context.Context, c client.Client) error {
	if created := s.subscription; created != nil {
		return s.journal.WriteNotes(ctx, c, func(notes map[string]string) { notes[uidKey] = string(created.UID) })
	}
	if s.recreation().nonce == "" || s.isRecreated() { // the recreated Subscription is gone, and its nonce is known to whoever has read it
		nonce := newNonce()
		if err := s.journal.WriteNotes(ctx, c, func(notes map[string]string) {
			notes[nonceKey] = nonce
			delete(notes, uidKey)
		}); err != nil {
			return err
		}
	}
	return c.Create(ctx, &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.plan.Subject.Namespace, Name: s.plan.Subject.Name,
			Annotations: map[string]string{nonceAnnotation: s.recreation().nonce},
		},
		Spec: s.plan.recreatedSpec(),
	})
}
