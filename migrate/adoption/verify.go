package adoption

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Verify fails unless the live objects match the plan. Until the Subscription is deleted, all of them must match; after
// that, OLM may install the same ClusterServiceVersion again.
func (s *state) Verify() error {
	if err := s.verifySettings(); err != nil {
		return err
	}
	p, o := s.plan, s.plan.Operator
	if c := s.custom; c != nil && !s.isStarted() && (c.Spec.ManagementState == operatorv1.Unmanaged || c.Spec.ManagementState == operatorv1.Removed) {
		return fmt.Errorf("spec.managementState of ClusterCSIDriver %s is %s: set it to Managed, and continue with `%s`", c.Name, c.Spec.ManagementState, s.journal.Command(p, "resume"))
	}
	if p.Subject.UID != "" && (s.custom == nil || s.custom.UID != p.Subject.UID) && !s.isStarted() {
		return fmt.Errorf("somebody has deleted ClusterCSIDriver %s, whose UID was %s: %s", p.Subject.Name, p.Subject.UID, s.journal.Abandon())
	}
	if o == nil {
		return nil
	}
	if s.namespaceUID != "" && s.namespaceUID != o.NamespaceUID {
		return fmt.Errorf("namespace %s has UID %s, want %s: it was deleted, and recreated under the same name; %s", o.Namespace, s.namespaceUID, o.NamespaceUID, s.journal.Abandon())
	}
	if o.Extension != nil {
		return s.verifyExtension()
	}
	for _, n := range s.subscriptions {
		switch {
		case o.Subscription == nil || n.UID != o.Subscription.UID:
			return fmt.Errorf("somebody has subscribed to package %s again: Subscription %s/%s has UID %s, which is not of the plan; find out who has, such as a GitOps tool, delete it, and continue with `%s`",
				s.driver.Package.Name, n.Namespace, n.Name, n.UID, s.journal.Command(p, "resume"))
		case n.Status.CurrentCSV != o.Version.Name && n.Status.CurrentCSV != "":
			return fmt.Errorf("OLM updates the operator: Subscription %s/%s has current %s, want %s; wait until that is done; then %s",
				n.Namespace, n.Name, n.Status.CurrentCSV, o.Version.Name, s.journal.Abandon())
		}
	}
	for _, v := range s.versions {
		if v.Name != o.Version.Name || s.subscription() != nil && v.UID != o.Version.UID {
			return fmt.Errorf("OLM has installed ClusterServiceVersion %s/%s with UID %s, which is not of the plan: want %s with UID %s; %s",
				v.Namespace, v.Name, v.UID, o.Version.Name, o.Version.UID, s.journal.Abandon())
		}
	}
	if s.subscription() != nil && len(s.versions) == 0 {
		return fmt.Errorf("somebody has deleted ClusterServiceVersion %s/%s, but not its Subscription: OLM may install it again; wait until it has, then %s", o.Namespace, o.Version.Name, s.journal.Abandon())
	}
	return nil
}

// verifyExtension fails unless the ClusterExtension is the plan's, with the same operator installed.
func (s *state) verifyExtension() error {
	wanted, e := s.plan.Operator.Extension, s.extension
	switch {
	case e == nil:
		return nil
	case e.GetUID() != wanted.UID:
		return fmt.Errorf("somebody has created ClusterExtension %s again: its UID is %s, which is not of the plan; find out who has, such as a GitOps tool, and end that; do not delete it yourself, "+
			"as OLM may be applying it, and its APIs would go with it; %[3]s", wanted.Name, e.GetUID(), s.journal.Abandon())
	case e.GetDeletionTimestamp() == nil && e.bundle() != wanted.Bundle:
		return fmt.Errorf("OLM updates the operator: the status of ClusterExtension %s has %q installed, want %q; wait until that is done; then %s",
			wanted.Name, e.bundle(), wanted.Bundle, s.journal.Abandon())
	}
	return nil
}

// verifySettings fails if somebody decides against the hand-over while the operator that OLM runs may see that.
func (s *state) verifySettings() error {
	wanted := s.plan.Settings
	if wanted == nil || s.isStarted() {
		return nil
	}
	switch {
	case s.old == nil:
		return fmt.Errorf("somebody has deleted %s: look whether the driver still runs; %s", wanted.Resource, s.journal.Abandon())
	case s.old.UID != wanted.UID:
		return fmt.Errorf("somebody has recreated %s: its UID is %s, want %s; %s", wanted.Resource, s.old.UID, wanted.UID, s.journal.Abandon())
	case s.old.Unsettled() != "" && s.custom == nil:
		return fmt.Errorf("%s configures the operator, and %s: settle that, and continue with `%s`", wanted.Resource, s.old.Unsettled(), s.journal.Command(s.plan, "resume"))
	}
	return nil
}

// isStarted reports whether the cluster storage operator runs its operator, so that the earlier one's configuration has
// no effect any more.
func (s *state) isStarted() bool { return s.successor != nil }
