package move

import (
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-csi/berth/migrate"
)

// Verify fails unless the live objects match the plan, changed by nothing but the move. Above all, the APIs must keep their UIDs; on the
// way to OLM v1, the Deployments, too.
func (s *state) Verify() error {
	p := s.plan
	if s.namespaceUID != p.NamespaceUID {
		return fmt.Errorf("namespace %s has UID %q, want %q: it was deleted, or recreated under the same name; %s", p.Namespace, s.namespaceUID, p.NamespaceUID, s.journal.Abandon())
	}
	if all := s.foreign(); len(all) > 0 {
		other := all[0]
		return fmt.Errorf("somebody has created Subscription %s/%s, in the way of the one to package %s: find out who has, such as a GitOps tool, delete it, and continue with `%s`",
			other.Namespace, other.Name, p.Package, s.journal.Command(p, "resume"))
	}
	if err := s.verifyBefore(); err != nil {
		return err
	}
	if err := s.verifyVersion(); err != nil {
		return err
	}
	if err := s.verifyAgain(); err != nil {
		return err
	}
	if err := s.verifyExtension(); err != nil {
		return err
	}
	if err := s.verifyAPIs(); err != nil {
		return err
	}
	for _, t := range s.taken {
		if t.Kind != definitionKind.Kind && (t.Kind != deploymentKind.Kind || p.To == ToV0) {
			continue // the other OLM creates it again; on a way back, the plan may name Deployments of others in the namespace
		}
		if t.live == nil {
			return fmt.Errorf("somebody has deleted %s, which had UID %s; %s", t, t.UID, s.journal.Abandon())
		}
		if t.live.UID != t.UID {
			return fmt.Errorf("somebody has deleted %s and created it again: its UID is %s, want %s; %s", t, t.live.UID, t.UID, s.journal.Abandon())
		}
		if t.live.DeletionTimestamp != nil {
			return fmt.Errorf("somebody has deleted %s: it is about to go; %s", t, s.journal.Abandon())
		}
	}
	return nil
}

// verifyAPIs fails unless the APIs that OLM v1 is to take over belong to the operator. A journal could name APIs of other operators, which
// would then be deleted with their new owner, with all their objects. As long as the version exists, it shows which APIs belong to the
// operator; afterwards, the APIs show it themselves.
func (s *state) verifyAPIs() error {
	if s.plan.To != ToV1 || s.journal.Phase == migrate.RollingBack {
		return nil
	}
	for _, t := range s.taken {
		if t.Kind != definitionKind.Kind || t.live == nil {
			continue
		}
		switch {
		case s.hasVersionBefore() && !s.brings(t.Name):
			return fmt.Errorf("%s is not of ClusterServiceVersion %s/%s, although the plan says so: find out who has written the plan; %s", t, s.version.Namespace, s.version.Name, s.journal.Abandon())
		case !s.hasVersionBefore() && !s.isNamed(t.live):
			return fmt.Errorf("%s says nothing of package %s, neither by label %s nor by annotation %s or the marks of ClusterExtension %s, although the plan says that it is of it: find out who has written the plan; %s",
				t, s.plan.Package, componentLabel(s.plan.Package, s.plan.Namespace), movedAnnotation, s.plan.Subject.Name, s.journal.Abandon())
		}
	}
	return nil
}

// brings reports whether the version, or an InstallPlan of the version, says that its bundle has an API.
func (s *state) brings(api string) bool {
	if slices.ContainsFunc(s.version.Spec.CustomResourceDefinitions.Owned, func(o v1alpha1.CRDDescription) bool { return o.Name == api }) {
		return true
	}
	return slices.ContainsFunc(s.installPlans, func(p v1alpha1.InstallPlan) bool {
		return hasSteps(p, s.version.Name) && slices.ContainsFunc(p.Status.Plan, func(step *v1alpha1.Step) bool {
			return step != nil && step.Resolving == s.version.Name && step.Resource.Kind == definitionKind.Kind && step.Resource.Name == api
		})
	})
}

// foreign returns the Subscriptions to the package that do not belong to the plan. On a way back, it also returns a Subscription of
// somebody else that has the planned name, as the planned one cannot be created then.
func (s *state) foreign() (found []v1alpha1.Subscription) {
	for _, n := range s.subscriptions {
		again := s.again()
		isInTheWay := n.Spec.Package == s.plan.Package || s.isWayBack() && n.Name == s.plan.Subscription.Name
		if isInTheWay && n.UID != s.plan.Subscription.UID && (again == nil || n.UID != again.UID) {
			found = append(found, n)
		}
	}
	return found
}

// verifyBefore fails unless OLM v0's objects match the plan, as long as its Subscription exists.
func (s *state) verifyBefore() error {
	p, own := s.plan, s.before()
	if p.To != ToV1 || own == nil {
		return nil
	}
	switch {
	case !equality.Semantic.DeepEqual(*own.Spec, p.Subscription.Spec):
		return fmt.Errorf("somebody has changed the spec of Subscription %s/%s; %s", own.Namespace, own.Name, s.journal.Abandon())
	case s.version != nil && s.version.DeletionTimestamp != nil:
		return nil // OLM v0 may have noticed, and changed the status
	case own.Status.InstalledCSV != p.Version.Name:
		return fmt.Errorf("OLM v0 has updated the operator: Subscription %s/%s has %q installed, want %q; %s", own.Namespace, own.Name, own.Status.InstalledCSV, p.Version.Name, s.journal.Abandon())
	case s.version == nil || s.version.UID != p.Version.UID:
		return fmt.Errorf("somebody has deleted ClusterServiceVersion %s/%s; %s", p.Namespace, p.Version.Name, s.journal.Abandon())
	}
	return nil
}

// verifyVersion fails if the version does not exist and no step of the move has seen it. A journal could name a version that never
// existed, and whose objects therefore nothing shows, to make OLM v1 the owner of other operators' objects. Each of the three steps
// counts, as an earlier, abandoned move may have added the finalizer.
func (s *state) verifyVersion() error {
	p := s.plan
	if p.To != ToV1 || s.journal.Phase != migrate.Applying || s.hasVersionBefore() ||
		slices.ContainsFunc([]migrate.StepName{AddVersionFinalizer, DeleteVersion, RemoveVersionFinalizer}, s.hasStarted) {
		return nil
	}
	return fmt.Errorf("there is no ClusterServiceVersion %s/%s with UID %s, although the plan in the journal is to move it and no step has kept it with a finalizer before it went: find out who has deleted it or written the journal; %s",
		p.Namespace, p.Version.Name, p.Version.UID, s.journal.Abandon())
}

// verifyAgain fails unless the Subscription of a move back is as the move creates or leaves it: anyone who may write in the namespace can
// create a Subscription with the move's annotation and another catalog, and the move would then approve a version of the same name from
// that catalog.
func (s *state) verifyAgain() error {
	own := s.again()
	if own == nil || s.isAsBefore(own) || equality.Semantic.DeepEqual(*own.Spec, *s.plan.subscription().Spec) {
		return nil
	}
	return fmt.Errorf("the spec of Subscription %s/%s is not the one that this move gives it: find out who has created or changed it, delete it, and continue with `%s`",
		own.Namespace, own.Name, s.journal.Command(s.plan, "resume"))
}

// verifyExtension fails unless the ClusterExtension is the one that the move is about, or has created.
func (s *state) verifyExtension() error {
	p, e := s.plan, s.extension
	if e == nil {
		return nil
	}
	if !s.isOurs() || p.To == ToV0 && e.GetUID() != p.Subject.UID {
		return fmt.Errorf("somebody has created ClusterExtension %s: its UID is %s, and its annotation %s is %q; find out who has, and delete it if it has installed nothing; %s",
			e.GetName(), e.GetUID(), movedAnnotation, e.GetAnnotations()[movedAnnotation], s.journal.Abandon())
	}
	if installed := text(e, "status", "install", "bundle", "name"); p.To == ToV0 && e.GetDeletionTimestamp() == nil && installed != p.Version.Name {
		return fmt.Errorf("OLM v1 updates the operator: the status of ClusterExtension %s has %q installed, want %q; wait until that is done; then %s", e.GetName(), installed, p.Version.Name, s.journal.Abandon())
	}
	return nil
}
