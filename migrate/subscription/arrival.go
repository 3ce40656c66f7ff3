package subscription

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/remote"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/upgrade"
)

// readArrived finds the version that the switch has installed. As soon as OLM no longer asks for approval, it may
// update the target to a later version of the same catalog.
func (s *state) readArrived(ctx context.Context, cluster migrate.Cluster) error {
	s.arrived = s.csv(s.plan.Target)
	for _, name := range s.successors() {
		later, err := s.plan.isLater(ctx, cluster, name)
		if err != nil {
			return fmt.Errorf("finding out whether %s is a later version than %s, which the switch was to install: %w", name, s.plan.Target, err)
		}
		if later {
			s.arrived = s.csv(name)
			return nil
		}
	}
	return nil
}

// successors returns the names of existing ClusterServiceVersions that OLM may have updated the target to, for the
// Subscription of this switch.
func (s *state) successors() (names []string) {
	p, own := s.plan, s.subscription
	if s.isComplete() || p.Target == "" || own == nil || own.UID != p.Subject.UID && !s.isRecorded() || choiceOf(own.Spec) != p.To {
		return nil
	}
	for _, name := range []string{own.Status.CurrentCSV, own.Status.InstalledCSV} {
		if name != p.Target && name != p.Installed && s.csv(name) != nil {
			names = append(names, name)
		}
	}
	return slices.Compact(names)
}

// isComplete reports whether the journal says that this switch is complete. Then no catalog has to be read.
func (s *state) isComplete() bool {
	recorded, ok := s.journal.Plan.(*Plan)
	return ok && s.journal.Phase == migrate.Completed && len(changes(recorded, s.plan)) == 0
}

// isLater reports whether edges of the other catalog's channel lead from the target to a version. It stores a later version, because there
// may be many observations until a driver is adopted, and each would read the catalog again.
func (p *Plan) isLater(ctx context.Context, cluster migrate.Cluster, name string) (bool, error) {
	if p.later == name {
		return true, nil
	}
	source := &v1alpha1.CatalogSource{}
	found, err := migrate.Find(ctx, cluster.Client, source, p.To.SourceNamespace, p.To.Source)
	if err != nil {
		return false, err
	}
	if !found {
		return false, fmt.Errorf("there is no CatalogSource %s/%s", p.To.SourceNamespace, p.To.Source)
	}
	catalog, err := remote.Read(ctx, cluster.Config, source)
	if err != nil {
		return false, err
	}
	later := p.reaches(catalog.Find(p.To.Package), name)
	if later {
		p.later = name
	}
	return later, nil
}

// reaches reports whether edges of the channel lead from the target to a version. pkg is nil if the catalog no longer has
// the package.
func (p *Plan) reaches(pkg *fbc.Package, name string) bool {
	if pkg == nil {
		return false
	}
	channel := pkg.FindChannel(cmp.Or(p.To.Channel, pkg.DefaultChannel))
	if channel == nil {
		return false
	}
	target := upgrade.Version{Name: p.Target}
	if bundle := pkg.FindBundle(p.Target); bundle != nil { // otherwise no skipRange includes it
		target.Number = bundle.Number()
	}
	return upgrade.Of(pkg, channel).Reaches(target, name)
}

// Holds reports whether the Subscription is still the switched one, and still uses the other catalog. OLM's later updates of the operator
// make no difference.
func (s *state) Holds() (bool, error) {
	p, own := s.plan, s.subscription
	if own != nil && (own.UID != p.Subject.UID && !s.isRecorded() || choiceOf(own.Spec) != p.To) {
		return false, nil
	}
	if err := s.removed(); err != nil {
		return false, err
	}
	if p.createsDriver() && s.driver == nil {
		return false, fmt.Errorf("the driver was removed: ClusterCSIDriver %s does not exist; this switch is complete and does not create it again: "+
			"to install the driver, create a ClusterCSIDriver of that name", p.Driver.Name)
	}
	return true, nil
}

// removed fails if somebody has removed the operator: a switch does not install it again. The operator counts as removed when its
// Subscription is gone: while there is a Subscription, OLM installs a deleted ClusterServiceVersion again.
func (s *state) removed() error {
	if s.subscription != nil || s.arrived == nil && s.isRecreating() {
		return nil
	}
	do := fmt.Sprintf("to install it, delete what is left of its ClusterServiceVersion, and create a Subscription to %s", s.plan.To)
	if s.journal.IsOpen() {
		do += "; " + s.journal.Abandon()
	}
	return fmt.Errorf("the operator was removed: Subscription %s does not exist; this switch does not install it again: %s", s.plan.Subject, do)
}

// isRecreating reports whether the Subscription may be missing because this switch replaces it. Later steps in the
// journal show that it existed again.
func (s *state) isRecreating() bool {
	if s.plan.Strategy != Replace || !s.journal.IsOpen() {
		return false
	}
	for _, e := range slices.Backward(s.journal.Entries) {
		switch e.Step {
		case RecreateSubscription, RemoveOperator, migrate.RecordPlan:
			return true
		case Approve, RestoreApproval, CreateDriver:
			return false
		}
	}
	return true
}
