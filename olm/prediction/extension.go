package prediction

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/olm/upgrade"
)

// V1 is the Prediction.OLM of ClusterExtensions.
const V1 = "v1"

// Extension is a ClusterExtension, from which OLM v1 installs a package, with the installed bundle.
//
// OLM v1's own resolver cannot be imported. Predict follows operator-controller v1.11, internal/operator-controller/resolve: Predict takes
// the latest bundle that is not deprecated, among the installed bundle and the bundles in the wanted channels and versions to which it can
// be updated. Package refusal then says whether OLM installs that bundle.
type Extension struct {
	// Request holds the setup of OLM and spec.config. Name and Namespace are empty for a hypothetical ClusterExtension. Gates default
	// to the gates of OLM's latest version.
	refusal.Request
	Package string
	// Channels are the allowed channels of bundles; none means all.
	Channels []string
	// Versions is a range of versions in the syntax of spec.source.catalog.version; "" means all.
	Versions string
	// SelfCertified ignores upgrade edges.
	SelfCertified bool
	// Catalogs selects the catalogs by their labels; nil means all.
	Catalogs labels.Selector
	// Installed is the installed bundle; its name is "" if there is none. Release is the bundle's release, if the status states it beside the
	// version.
	Installed upgrade.Version
	Release   *string
	// Was is the installed bundle, if the catalog does not have it; it may be nil.
	Was *fbc.Bundle
	// Today is the day for which support is predicted, or "" for the current day.
	Today lifecycle.Date
	// Says is the current reason and message of the condition Progressing.
	Says string
	// Cluster is the cluster that OLM compares a bundle with, or nil without one.
	Cluster refusal.Cluster
	// Content returns the manifests of a bundle as OLM reads them, or nil if they are not known. The default is the content of the
	// catalog.
	Content func(context.Context, *fbc.Bundle) (*refusal.Bundle, error)
}

// ExtensionOf reads a ClusterExtension. It fails if the version of the installed bundle or the selector is not valid.
func ExtensionOf(object *unstructured.Unstructured) (*Extension, error) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...)
		return value
	}
	e := &Extension{
		Request: refusal.Request{Name: object.GetName(), Namespace: text("spec", "namespace"),
			UnsafeDefinitions: text("spec", "install", "preflight", "crdUpgradeSafety", "enforcement") == "None"},
		Package: text("spec", "source", "catalog", "packageName"), Versions: text("spec", "source", "catalog", "version"),
		SelfCertified: text("spec", "source", "catalog", "upgradeConstraintPolicy") == "SelfCertified",
	}
	if _, reason, message := clusterextension.Condition(object, "Progressing"); reason != "" {
		e.Says = reason + ": " + message
	}
	e.Channels, _, _ = unstructured.NestedStringSlice(object.Object, "spec", "source", "catalog", "channels")
	if _, e.Configured, _ = unstructured.NestedMap(object.Object, "spec", "config"); e.Configured {
		if inline, has, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "config", "inline"); has {
			data, err := json.Marshal(inline)
			if err != nil {
				return nil, fmt.Errorf("ClusterExtension %s, spec.config.inline: %w", e.Name, err)
			}
			e.Config = data
		}
	}
	if selector, has, _ := unstructured.NestedMap(object.Object, "spec", "source", "catalog", "selector"); has {
		read := &metav1.LabelSelector{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, read)
		if err == nil && len(read.MatchLabels)+len(read.MatchExpressions) > 0 {
			e.Catalogs, err = metav1.LabelSelectorAsSelector(read)
		}
		if err != nil {
			return nil, fmt.Errorf("ClusterExtension %s, spec.source.catalog.selector: %w", e.Name, err)
		}
	}
	if e.Installed.Name = text("status", "install", "bundle", "name"); e.Installed.Name == "" {
		return e, nil
	}
	version := text("status", "install", "bundle", "version")
	number, err := semver.Parse(version)
	if err != nil {
		return nil, fmt.Errorf("ClusterExtension %s has installed %s with version %q, want a semantic version: %w", e.Name, e.Installed.Name, version, err)
	}
	e.Installed.Number = &number
	if release, has, _ := unstructured.NestedString(object.Object, "status", "install", "bundle", "release"); has {
		e.Release = &release
	}
	return e, nil
}

// InstalledExtension returns a hypothetical Extension for a package of a catalog. version is as in Installed; an empty channel
// means all channels.
func InstalledExtension(c *fbc.Catalog, pkg, version, channel string) (*Extension, error) {
	e := &Extension{Package: pkg}
	if channel != "" {
		e.Channels = []string{channel}
	}
	if version == "" {
		return e, nil
	}
	var err error
	e.Installed, err = identify(c.Find(pkg), pkg, version)
	return e, err
}

// ClusterCatalog is a catalog of OLM v1.
type ClusterCatalog struct {
	Name     string
	Labels   map[string]string
	Priority int32
	// Disabled says that spec.availabilityMode is Unavailable, so OLM ignores the catalog.
	Disabled bool
	// Content is nil if it cannot be read; Fault then says why.
	Content *fbc.Catalog
	Fault   error
}

// ClusterCatalogOf reads a ClusterCatalog, without its content.
func ClusterCatalogOf(object *unstructured.Unstructured) *ClusterCatalog {
	priority, _, _ := unstructured.NestedInt64(object.Object, "spec", "priority")
	mode, _, _ := unstructured.NestedString(object.Object, "spec", "availabilityMode")
	return &ClusterCatalog{Name: object.GetName(), Labels: object.GetLabels(), Priority: int32(priority), Disabled: mode == "Unavailable"}
}

// Predict predicts what OLM v1 will do if only this catalog has the package. It fails if the range of versions is invalid, or a
// bundle cannot be read.
func (e *Extension) Predict(ctx context.Context, c *fbc.Catalog) (*Prediction, error) {
	return e.PredictFrom(ctx, []*ClusterCatalog{{Name: c.Dir, Content: c}})
}

// PredictFrom predicts what OLM v1 will do with these catalogs.
func (e *Extension) PredictFrom(ctx context.Context, catalogs []*ClusterCatalog) (*Prediction, error) {
	return e.predict(ctx, catalogs, nil)
}

// Shared holds the data that predictions share if they differ only in the installed bundle. It makes many such predictions fast.
type Shared struct {
	// Left bounds the comparisons.
	Left *refusal.Allowance

	selections map[*fbc.Package]*selection
	refused    map[*refusal.Bundle][]refusal.Refusal
}

// PredictNext predicts like Predict, for one of many installed bundles, without the updates after the next one and without support.
func (e *Extension) PredictNext(ctx context.Context, c *fbc.Catalog, shared *Shared) (*Prediction, error) {
	return e.predict(ctx, []*ClusterCatalog{{Name: c.Dir, Content: c}}, shared)
}

// selection returns the candidates in a package.
func (s *Shared) selection(p *fbc.Package, find func() *selection) *selection {
	if s == nil {
		return find()
	}
	if s.selections == nil {
		s.selections = map[*fbc.Package]*selection{}
	}
	if s.selections[p] == nil {
		s.selections[p] = find()
	}
	return s.selections[p]
}

// spendRanges spends the cost of n comparisons with a range.
func (s *Shared) spendRanges(n int) error {
	if s == nil {
		return nil
	}
	return s.Left.Ranges(n)
}

// spendUpdate spends the cost of a comparison of two bundles.
func (s *Shared) spendUpdate(from, to *fbc.Bundle) error {
	if s == nil {
		return nil
	}
	return s.Left.Update(from, to)
}

// refusals returns the refusals of a bundle that do not depend on the cluster.
func (s *Shared) refusals(b *refusal.Bundle, r *refusal.Request) []refusal.Refusal {
	if s == nil {
		return refusal.Of(b, r)
	}
	if s.refused == nil {
		s.refused = map[*refusal.Bundle][]refusal.Refusal{}
	}
	found, known := s.refused[b]
	if !known {
		found = refusal.Of(b, r)
		s.refused[b] = found
	}
	return found
}

// predict predicts what OLM v1 will do. If shared is not nil, it predicts only the next update.
func (e *Extension) predict(ctx context.Context, catalogs []*ClusterCatalog, shared *Shared) (*Prediction, error) {
	if e.Gates == nil {
		set, err := featuregates.Of(featuregates.Latest)
		if err != nil {
			return nil, err
		}
		with := *e
		with.Gates = set
		e = &with
	}
	p := &Prediction{OLM: V1, Namespace: e.Namespace, ClusterExtension: e.Name, Package: e.Package, Channel: strings.Join(e.Channels, ", "), Installed: e.Installed.Name, Says: e.Says}
	found, err := e.search(p, catalogs, shared)
	if err != nil || found == nil {
		return p, err
	}
	p.Assumed = e.Name == "" && p.Installed != "" && found.pkg.FindBundle(p.Installed) == nil
	chosen := found.chosen
	if chosen == nil {
		found.explain(p)
		return p, nil
	}
	bundle, err := e.check(ctx, p, found, chosen, shared)
	if err != nil {
		return nil, err
	}
	found.warn(p, chosen)
	switch later := found.later(found.installed()); {
	case p.Reaction == Refused:
	case !chosen.is(found.installed()):
		p.Reaction = Updates
		if p.Installed == "" {
			p.Reaction = Installs
		}
		p.Next = found.update(e.Installed, chosen)
		if shared != nil {
			return p, nil
		}
		then, reaches := found.follow(chosen)
		if p.Then, p.ReachesHead, err = e.checkLater(ctx, p, found, bundle, then, reaches); err != nil {
			return nil, err
		}
		p.warnAboutRemovedAPIs(found.pkg, false)
	case later == nil:
		if p.Reaction = Latest; shared != nil {
			return p, nil
		}
		found.warnAboutDeprecatedSuccessors(p)
	default:
		p.Reaction = Stranded
		p.Why = append(p.Why, Reason{NoEdge,
			fmt.Sprintf("%[1]s is later, and no edge leads to it from %[2]s: %[1]s neither replaces nor skips %[2]s, and has no skipRange that includes it", later.Name, e.Installed.Name),
			"add an upgrade edge to a channel; or set spec.source.catalog.upgradeConstraintPolicy to SelfCertified, which ignores edges, if the author of the operator supports that update"})
		if shared != nil {
			return p, nil
		}
		found.warnAboutDeprecatedSuccessors(p)
	}
	if err := p.findSupport(found.pkg, e.Today, nil); err != nil {
		return nil, err
	}
	for _, risk := range p.Risks {
		p.Warnings = append(p.Warnings, risk.What)
	}
	return p, nil
}

func (p *Prediction) refuse(code Code, do, format string, args ...any) {
	p.Reaction = Refused
	if p.Reason == "" {
		p.Reason = refusal.Retrying
	}
	p.Why = append(p.Why, Reason{code, fmt.Sprintf(format, args...), do})
}
