package switchover

import (
	"cmp"
	"fmt"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// Request is what an administrator asks for. What is empty stays as it is, if that is possible.
type Request struct {
	// Package is that of the Subscription, as it is now.
	Package string
	// Namespace is that of the Subscription. Empty, the only Subscription to the package in the cluster is
	// meant.
	Namespace string
	// Source and SourceNamespace name the CatalogSource to switch to.
	Source, SourceNamespace string
	// NewPackage is the name that the package has there.
	NewPackage string
	// Channel is the one to subscribe to. Where it is empty, and the package has no channel of the name of
	// the present one, it is the package's default channel.
	Channel string
	// CreateDriver asks for the driver's ClusterCSIDriver, if there is none when the operator runs.
	CreateDriver bool
}

// Choice is what a Subscription chooses.
type Choice struct {
	Source          string `json:"source"`
	SourceNamespace string `json:"sourceNamespace"`
	Package         string `json:"package"`
	Channel         string `json:"channel"`
	StartingCSV     string `json:"startingCSV,omitempty"`
}

// choiceOf returns what a Subscription chooses.
func choiceOf(s *v1alpha1.SubscriptionSpec) Choice {
	return Choice{Source: s.CatalogSource, SourceNamespace: s.CatalogSourceNamespace, Package: s.Package, Channel: s.Channel, StartingCSV: s.StartingCSV}
}

// choose makes a Subscription choose it.
func (c Choice) choose(s *v1alpha1.SubscriptionSpec) {
	s.CatalogSource, s.CatalogSourceNamespace, s.Package, s.Channel, s.StartingCSV = c.Source, c.SourceNamespace, c.Package, c.Channel, c.StartingCSV
}

func (c Choice) String() string {
	return fmt.Sprintf("package %s, channel %s, of %s/%s", c.Package, cmp.Or(c.Channel, "(the default one)"), c.SourceNamespace, c.Source)
}

// choice returns what the request comes to for a Subscription, but for the channel.
func (r Request) choice(now *v1alpha1.SubscriptionSpec) Choice { return r.choiceFrom(choiceOf(now)) }

func (r Request) choiceFrom(c Choice) Choice {
	c.Source, c.SourceNamespace = r.Source, cmp.Or(r.SourceNamespace, c.SourceNamespace)
	c.Package, c.Channel = cmp.Or(r.NewPackage, c.Package), cmp.Or(r.Channel, c.Channel)
	return c
}

// Request returns what a plan was made for.
func (p *Plan) Request() Request {
	return Request{
		Package: p.From.Package, Namespace: p.Subscription.Namespace, Source: p.To.Source, SourceNamespace: p.To.SourceNamespace,
		NewPackage: p.To.Package, Channel: p.To.Channel, CreateDriver: p.createsDriver(),
	}
}
