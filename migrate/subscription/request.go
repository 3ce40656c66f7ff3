package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// Request is an administrator's request. Empty fields keep the present value if possible.
type Request struct {
	// Package is the Subscription's present package.
	Package string
	// Namespace is the namespace of the Subscription. If it is empty, the package must have a single Subscription in the
	// cluster.
	Namespace string
	// Source and SourceNamespace name the CatalogSource to switch to.
	Source, SourceNamespace string
	// NewPackage is the name of the package in that CatalogSource.
	NewPackage string
	// Channel is the channel in that CatalogSource. If it is empty, the channel with the present name is used, or the default channel of
	// the package there if there is none.
	Channel string
	// CreateDriver asks for the driver's ClusterCSIDriver to be created once the operator runs.
	CreateDriver bool
}

func (r Request) String() string { return "package " + r.Package + r.inNamespace() }

func (r Request) inNamespace() string {
	if r.Namespace == "" {
		return ""
	}
	return " in namespace " + r.Namespace
}

// Request returns the request that a plan was made for.
func (p *Plan) Request() Request {
	return Request{
		Package: p.From.Package, Namespace: p.Subject.Namespace, Source: p.To.Source, SourceNamespace: p.To.SourceNamespace,
		NewPackage: p.To.Package, Channel: p.To.Channel, CreateDriver: p.createsDriver(),
	}
}

// Matches reports whether a plan is about the requested package, by its present or its future name.
func (r Request) Matches(p *Plan) bool {
	return (r.Package == p.From.Package || r.Package == p.To.Package) && (r.Namespace == "" || r.Namespace == p.Subject.Namespace)
}

// Conflicts returns the options in which the request differs from a plan.
func (r Request) Conflicts(p *Plan) error {
	var errs []error
	compare := func(option, planned, requested string) {
		if planned != requested {
			errs = append(errs, fmt.Errorf("%s: the plan has %q, requested is %q", option, planned, requested))
		}
	}
	requested := r.choiceFrom(p.From)
	if r.NewPackage == "" {
		requested.Package = r.Package // which may be the new name
	}
	if r.Channel == "" && slices.ContainsFunc(p.Checks, func(c findings.Check) bool { return c.Code == channelChanged }) {
		requested.Channel = p.To.Channel
	}
	compare("--to", p.To.SourceNamespace+"/"+p.To.Source, requested.SourceNamespace+"/"+requested.Source)
	compare("--new-package", p.To.Package, requested.Package)
	compare("--channel", p.To.Channel, requested.Channel)
	compare("--create-driver", fmt.Sprint(p.createsDriver()), fmt.Sprint(r.CreateDriver))
	return errors.Join(errs...)
}

// choice returns the requested choice of a Subscription. A missing channel is not yet replaced by the default one.
func (r Request) choice(now *v1alpha1.SubscriptionSpec) Choice { return r.choiceFrom(choiceOf(now)) }

func (r Request) choiceFrom(c Choice) Choice {
	c.Source, c.SourceNamespace = r.Source, cmp.Or(r.SourceNamespace, c.SourceNamespace)
	c.Package, c.Channel = cmp.Or(r.NewPackage, c.Package), cmp.Or(r.Channel, c.Channel)
	return c
}

// Find returns the requested Subscription as it is now, or nil if it does not exist. It fails if several match.
func (r Request) Find(ctx context.Context, cluster migrate.Cluster) (*migrate.Subject, error) {
	namespaces, err := prediction.Observe(ctx, cluster.Config, r.Namespace)
	if err != nil {
		return nil, err
	}
	in, err := selectSubscription(namespaces, r)
	if in == nil {
		return nil, err
	}
	return &migrate.Subject{Namespace: in.Namespace, Name: in.subscription.Name, UID: in.subscription.UID}, nil
}

// Plan makes a plan from the observed cluster and its catalogs.
func (r Request) Plan(ctx context.Context, cluster migrate.Cluster) (*Plan, error) {
	in, err := observe(ctx, cluster, r)
	if err != nil {
		return nil, err
	}
	p, err := in.plan(ctx, r)
	return p, err
}
