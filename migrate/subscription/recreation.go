package subscription

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
)

// recreation identifies the Subscription that a switch creates when it replaces the operator: meanwhile somebody else may create another
// one with the same name. It is kept in the notes of the journal, because the cluster does not show it.
type recreation struct {
	// nonce is written to the journal before the Subscription is created. The Subscription has it as an annotation.
	nonce string
	// uid is the Subscription's UID, written once it exists.
	uid types.UID
}

// keptMetadata are the labels and annotations that a recreated Subscription keeps, because others, such as GitOps tools, identify it by
// them. They are written to the journal before the former Subscription is deleted.
type keptMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// The keys of the notes.
const (
	nonceKey    = "recreated-nonce"
	uidKey      = "recreated-uid"
	metadataKey = "recreated-metadata"
)

// nonceAnnotation is on a Subscription that a switch has recreated, with the nonce of its journal.
const nonceAnnotation = "berth.dev/switch-renewal"

// maxMetadata is the maximum size of the metadata in a journal, in bytes. The journal also needs space for a plan.
const maxMetadata = 128 << 10

// ofOLM are the prefixes of labels and annotations that OLM writes. They say which package and which InstallPlan a Subscription belongs
// to. With such a label or annotation, OLM would treat the recreated Subscription as a part of that package and InstallPlan.
var ofOLM = []string{"operators.coreos.com/", "olm."}

// isKept reports whether the recreated Subscription keeps a label or an annotation.
func isKept(key string) bool {
	return key != nonceAnnotation && !slices.ContainsFunc(ofOLM, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// metadataOf returns the metadata of a Subscription to keep.
func metadataOf(s *v1alpha1.Subscription) keptMetadata {
	kept := keptMetadata{maps.Clone(s.Labels), maps.Clone(s.Annotations)}
	for _, values := range []map[string]string{kept.Labels, kept.Annotations} {
		maps.DeleteFunc(values, func(key, _ string) bool { return !isKept(key) })
	}
	return kept
}

// parseMetadata reads metadata from a note, which may be missing. It fails if a recreated Subscription cannot have it or
// would not keep it.
func parseMetadata(note string) (kept keptMetadata, err error) {
	if note == "" {
		return kept, nil
	}
	if len(note) > maxMetadata {
		return kept, fmt.Errorf("%s has %d bytes, want at most %d", metadataKey, len(note), maxMetadata)
	}
	decoder := json.NewDecoder(strings.NewReader(note))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&kept); err != nil {
		return kept, fmt.Errorf("%s: %w", metadataKey, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return kept, fmt.Errorf("%s: data follows after its end", metadataKey)
	}
	wrong := append(metav1validation.ValidateLabels(kept.Labels, field.NewPath("labels")), validation.ValidateAnnotations(kept.Annotations, field.NewPath("annotations"))...)
	if err := wrong.ToAggregate(); err != nil {
		return kept, fmt.Errorf("%s: %w", metadataKey, err)
	}
	for _, values := range []map[string]string{kept.Labels, kept.Annotations} {
		for key := range values {
			if !isKept(key) {
				return kept, fmt.Errorf("%s has %q, which a recreated Subscription does not keep", metadataKey, key)
			}
		}
	}
	return kept, nil
}

// keepMetadata writes the metadata of the Subscription, which is about to be deleted, to the journal.
func (s *state) keepMetadata(ctx context.Context, c client.Client) error {
	note, err := json.Marshal(metadataOf(s.subscription))
	if err != nil {
		return err
	}
	if len(note) > maxMetadata {
		return fmt.Errorf("the labels and annotations of Subscription %s have %d bytes, and the journal holds at most %d of them: remove some, or roll back with `%s`",
			s.plan.Subject, len(note), maxMetadata, s.journal.Command(s.plan, "rollback"))
	}
	if s.journal.Notes[metadataKey] == string(note) {
		return nil
	}
	return s.journal.WriteNotes(ctx, c, func(notes map[string]string) { notes[metadataKey] = string(note) })
}

// nonceLength is the number of digits of a nonce.
const nonceLength = 32

func newNonce() string {
	bytes := make([]byte, nonceLength/2)
	_, _ = rand.Read(bytes) // never fails
	return hex.EncodeToString(bytes)
}

// recreation returns the journal's record of the Subscription that this switch has recreated.
func (s *state) recreation() recreation {
	return recreation{s.journal.Notes[nonceKey], types.UID(s.journal.Notes[uidKey])}
}

// ValidateNotes checks the notes of a journal.
func (p *Plan) ValidateNotes(notes map[string]string) error {
	for key := range notes {
		if key != nonceKey && key != uidKey && key != metadataKey {
			return fmt.Errorf("unknown key %q", key)
		}
	}
	if _, err := parseMetadata(notes[metadataKey]); err != nil {
		return err
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

// isUnrecorded reports whether this switch has recreated the Subscription, but has not recorded its UID yet. Anyone who may write
// Subscriptions can read the nonce by now, so the spec must match, too.
func (s *state) isUnrecorded() bool {
	r, created := s.recreation(), s.subscription
	return s.plan.Strategy == Replace && r.uid == "" && r.nonce != "" && created.Annotations[nonceAnnotation] == r.nonce &&
		equality.Semantic.DeepEqual(created.Spec, s.plan.recreatedSpec())
}

// recreatedSpec returns the spec of the recreated Subscription.
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
	if s.recreation().nonce == "" || s.isRecreated() { // if the recreated Subscription is gone, others may have read its nonce
		nonce := newNonce()
		if err := s.journal.WriteNotes(ctx, c, func(notes map[string]string) {
			notes[nonceKey] = nonce
			delete(notes, uidKey)
		}); err != nil {
			return err
		}
	}
	kept, err := parseMetadata(s.journal.Notes[metadataKey])
	if err != nil {
		return err
	}
	annotations := map[string]string{nonceAnnotation: s.recreation().nonce}
	maps.Copy(annotations, kept.Annotations)
	return c.Create(ctx, &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.plan.Subject.Namespace, Name: s.plan.Subject.Name, Labels: kept.Labels, Annotations: annotations},
		Spec:       s.plan.recreatedSpec(),
	})
}
