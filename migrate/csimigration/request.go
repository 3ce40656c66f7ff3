package csimigration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/migrate"
)

// Request is an administrator's request.
type Request struct {
	Direction Direction
	// Plugins are the names of drivers. If there are none, all plugins that can be switched are requested.
	Plugins []string
	// Way is the way that was chosen, or empty.
	Way Way
	// To is the version to downgrade to.
	To string
}

func (r Request) String() string { return "the cluster" }

// Matches reports whether a plan is about the cluster, as all are.
func (r Request) Matches(*Plan) bool { return true }

// Conflicts fails if the plan leads to something else.
func (r Request) Conflicts(p *Plan) error {
	switch {
	case r.Direction != p.Direction:
		return fmt.Errorf("the plan is to %s, requested is to %s", p.Direction, r.Direction)
	case r.Way != "" && r.Way != p.Way:
		return fmt.Errorf("the plan has way %s, requested is %s", p.Way, r.Way)
	case r.To != p.To:
		return fmt.Errorf("the plan is for version %q, requested is %q", p.To, r.To)
	case len(r.Plugins) > 0 && !slices.Equal(r.Plugins, p.Plugins):
		return fmt.Errorf("the plan is for drivers %s, the request for %s", strings.Join(p.Plugins, ", "), strings.Join(r.Plugins, ", "))
	}
	return nil
}

// Find returns the FeatureGate.
func (r Request) Find(ctx context.Context, cluster migrate.Cluster) (*migrate.Subject, error) {
	found := &configv1.FeatureGate{}
	if exists, err := migrate.Find(ctx, cluster.Client, found, "", "cluster"); err != nil || !exists {
		return nil, err
	}
	return &migrate.Subject{Name: found.Name, UID: found.UID}, nil
}

// Plan makes a plan from the observed cluster.
func (r Request) Plan(ctx context.Context, cluster migrate.Cluster) (*Plan, error) {
	o, err := observe(ctx, cluster.Client)
	if err != nil {
		return nil, err
	}
	return o.plan(r), nil
}

// Request returns the request that a plan was made for.
func (p *Plan) Request() Request {
	return Request{Direction: p.Direction, Plugins: p.Plugins, Way: p.Way, To: p.To}
}

// Observe reads the state that the next step is decided from.
func (p *Plan) Observe(ctx context.Context, cluster migrate.Cluster, j *migrate.Journal) (migrate.State, error) {
	o, err := observe(ctx, cluster.Client)
	if err != nil {
		return nil, err
	}
	return &state{observed: o, plan: p, journal: j}, nil
}

// Undoes reports whether the request is to undo the migration in progress: whether it asks for the other direction.
func (r Request) Undoes(open *migrate.Status[*Plan]) bool {
	return (r.Direction == Disable) != (open.Plan.Direction == Disable)
}
