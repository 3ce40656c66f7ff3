package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
)

// Request is an administrator's request. Fields that do not identify the subject are only needed to make a plan.
type Request struct {
	Package string
	// Namespace is the Subscription's namespace; "" if the package has only one Subscription.
	Namespace string
	To        Target
	// Catalog is the only ClusterCatalog that OLM v1 may take versions from; "" is any.
	Catalog        string
	ServiceAccount string
	// Accepted are the codes of checks whose refusal is accepted.
	Accepted []string
	// With are the packages that the same run moves, in the order that their dependencies require.
	With []string

	// Gates are the feature gates of OLM v1.
	Gates featuregates.Set
	// Catalogs reads the ClusterCatalogs, and returns a function that ends the use of them.
	Catalogs func(context.Context) ([]*prediction.ClusterCatalog, func() error, error)
	// Content returns the parts of a bundle that OLM v1 reads, or nil if they are unknown.
	Content func(context.Context, *fbc.Bundle) (*refusal.Bundle, error)
}

func (r Request) String() string {
	if r.Namespace == "" {
		return "package " + r.Package
	}
	return "package " + r.Package + " in namespace " + r.Namespace
}

// Matches reports whether a plan moves the requested operator, in either direction.
func (r Request) Matches(p *Plan) bool {
	return r.Package == p.Package && (r.Namespace == "" || r.Namespace == p.Namespace)
}

// Conflicts returns an error that names the options in which the request differs from a plan, or nil.
func (r Request) Conflicts(p *Plan) error {
	var errs []error
	compare := func(option, planned, requested string) {
		if planned != requested {
			errs = append(errs, fmt.Errorf("%s: the plan has %q, requested is %q", option, planned, requested))
		}
	}
	compare("--to", string(p.To), string(r.To))
	if p.To == ToV1 {
		compare("--catalog", p.Extension.Catalog, r.Catalog)
		compare("--service-account", p.Extension.ServiceAccount, r.ServiceAccount)
		compare("--accept", strings.Join(p.Accepted, ","), strings.Join(r.accepted(), ","))
	}
	return errors.Join(errs...)
}

// accepted returns the accepted codes, sorted.
func (r Request) accepted() []string {
	all := slices.Clone(r.Accepted)
	slices.Sort(all)
	return slices.Compact(all)
}

// Find returns the existing or future ClusterExtension of the package.
func (r Request) Find(ctx context.Context, cluster migrate.Cluster) (*migrate.Subject, error) {
	extension := newExtension(r.Package)
	if _, err := migrate.Find(ctx, cluster.Client, extension, "", r.Package); err != nil {
		return nil, fmt.Errorf("reading ClusterExtension %s: %w", r.Package, err)
	}
	return &migrate.Subject{Name: r.Package, UID: extension.GetUID()}, nil
}

func newExtension(name string) *unstructured.Unstructured {
	extension := &unstructured.Unstructured{}
	extension.SetGroupVersionKind(clusterextension.Kind)
	extension.SetName(name)
	return extension
}

// Plan makes a plan from the observed cluster and its catalogs.
func (r Request) Plan(ctx context.Context, cluster migrate.Cluster) (*Plan, error) {
	if r.To == ToV0 {
		in, err := observeBack(ctx, cluster, r)
		if err != nil {
			return nil, err
		}
		return in.plan(), nil
	}
	in, err := observe(ctx, cluster, r)
	if err != nil {
		return nil, err
	}
	return in.plan(), nil
}

// Request returns the request that a plan was made for.
func (p *Plan) Request() Request {
	return Request{Package: p.Package, Namespace: p.Namespace, To: p.To, Catalog: p.Extension.Catalog, ServiceAccount: p.Extension.ServiceAccount, Accepted: p.Accepted}
}
