package adoption

import (
	"context"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
)

// Request is an administrator's request.
type Request struct {
	Driver drivers.Driver
	// bySuccessor says that the cluster storage operator asks.
	bySuccessor bool
}

func (r Request) String() string { return "driver " + r.Driver.Name }

// Matches reports whether a plan is about the requested driver.
func (r Request) Matches(p *Plan) bool { return p.Driver == r.Driver.Name }

// Conflicts never fails: the driver is all that is requested.
func (r Request) Conflicts(*Plan) error { return nil }

// Find returns the driver's ClusterCSIDriver, which need not exist.
func (r Request) Find(ctx context.Context, cluster migrate.Cluster) (*migrate.Subject, error) {
	custom := &operatorv1.ClusterCSIDriver{}
	if _, err := migrate.Find(ctx, cluster.Client, custom, "", r.Driver.CSIName); err != nil {
		return nil, err
	}
	return &migrate.Subject{Name: r.Driver.CSIName, UID: custom.UID}, nil
}

// Plan makes a plan from the observed cluster.
func (r Request) Plan(ctx context.Context, cluster migrate.Cluster) (*Plan, error) {
	in, err := observe(ctx, cluster, r)
	if err != nil {
		return nil, err
	}
	return in.plan(), nil
}

// Request returns the request that a plan was made for.
func (p *Plan) Request() (Request, error) {
	d, err := p.definition()
	return Request{Driver: d}, err
}
