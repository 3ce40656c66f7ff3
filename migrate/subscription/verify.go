package subscription

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-csi/berth/migrate"
)

// Verify fails unless the Subscription is the one that the plan was made for, or the one that this switch has recreated, and only the
// switch has changed it.
func (s *state) Verify() error {
	p := s.plan
	switch {
	case s.subscription == nil:
		return nil
	case s.subscription.UID != p.Subject.UID && !s.isRecorded() && !s.isUnrecorded():
		return s.foreignError()
	case s.subscription.DeletionTimestamp != nil && !s.isRemoving():
		return fmt.Errorf("somebody has deleted Subscription %s: it is about to go, and has the finalizers %s; %s",
			p.Subject, strings.Join(s.subscription.Finalizers, ", "), s.journal.Abandon())
	}
	if now := choiceOf(s.subscription.Spec); now != p.From && now != p.To {
		return s.changedError()
	}
	if !equality.Semantic.DeepEqual(s.subscription.Spec.Config, p.Config) {
		return fmt.Errorf("somebody has changed Subscription %s: spec.config differs from the plan; revert that, or %s", p.Subject, s.alternative())
	}
	installed, expected := s.subscription.Status.InstalledCSV, []string{"", p.Installed, p.Target}
	if s.arrived != nil {
		expected = append(expected, s.arrived.Name)
	}
	if !slices.Contains(expected, installed) {
		return fmt.Errorf("somebody has updated Subscription %s: it has %s installed, want %s or %s; %s",
			p.Subject, installed, cmp.Or(p.Installed, "nothing"), p.Target, s.journal.Abandon())
	}
	return nil
}

// isRecorded reports whether the Subscription has the UID that this switch has recorded.
func (s *state) isRecorded() bool { return s.isRecreated() && s.subscription.UID == s.recreation().uid }

func (s *state) changedError() error {
	p := s.plan
	return fmt.Errorf("somebody has changed Subscription %s: it is now for %s; want %s as before, or %s; revert the change, or %s",
		p.Subject, choiceOf(s.subscription.Spec), p.From, p.To, s.alternative())
}

func (s *state) foreignError() error {
	p := s.plan
	if p.Strategy == Replace && s.isRecreating() {
		return fmt.Errorf("somebody else has recreated Subscription %s: its UID, %s, belongs neither to the Subscription at the start of this switch nor to the one that the switch has recreated; "+
			"find out who created it, delete it, and continue with `%s`", p.Subject, s.subscription.UID, s.journal.Command(p, "apply"))
	}
	return fmt.Errorf("somebody has deleted and recreated Subscription %s: its UID is %s, want %s; %s",
		p.Subject, s.subscription.UID, cmp.Or(s.recreation().uid, p.Subject.UID), s.journal.Abandon())
}

// isRemoving reports whether this switch has deleted the original Subscription, to replace it.
func (s *state) isRemoving() bool {
	return s.plan.Strategy == Replace && s.subscription.UID == s.plan.Subject.UID &&
		slices.ContainsFunc(s.journal.Entries, func(e migrate.Entry) bool { return e.Step == RemoveOperator })
}

// alternative says how to continue without reverting a change.
func (s *state) alternative() string {
	if s.journal.IsOpen() {
		return s.journal.Abandon()
	}
	return "make a new plan"
}
