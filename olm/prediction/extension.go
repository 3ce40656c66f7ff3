package prediction

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/olm/upgrade"
)

// V1 is the Prediction.OLM of ClusterExtensions.
const V1 = "v1"

// Extension is a ClusterExtension, for which OLM v1 installs a package, and what it has installed.
//
// OLM v1's own resolver cannot be imported. Predict chooses as that of operator-controller v1.11 does, in
// internal/operator-controller/resolve: of the bundles in the wanted channels and versions, and of those that the installed one may
// be updated to, including itself, it takes the latest that is not deprecated.
type Extension struct {
	// Name and Namespace are empty for a hypothetical one.
	Name, Namespace string
	Package         string
	// Channels are those that bundles may come from; none means all.
	Channels []string
	// Versions is a range of versions as spec.source.catalog.version has it; "" means all.
	Versions string
	// SelfCertified ignores upgrade edges.
	SelfCertified bool
	// Installed is the bundle that is installed; its name is "" if none is.
	Installed upgrade.Version
}

// ExtensionOf reads a ClusterExtension. It fails if what it has installed has no valid version.
func ExtensionOf(object *unstructured.Unstructured) (*Extension, error) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...)
		return value
	}
	e := &Extension{
		Name: object.GetName(), Namespace: text("spec", "namespace"), Package: text("spec", "source", "catalog", "packageName"),
		Versions: text("spec", "source", "catalog", "version"), SelfCertified: text("spec", "source", "catalog", "upgradeConstraintPolicy") == "SelfCertified",
	}
	e.Channels, _, _ = unstructured.NestedStringSlice(object.Object, "spec", "source", "catalog", "channels")
	if e.Installed.Name = text("status", "install", "bundle", "name"); e.Installed.Name == "" {
		return e, nil
	}
	version := text("status", "install", "bundle", "version")
	number, err := semver.Parse(version)
	if err != nil {
		return nil, fmt.Errorf("ClusterExtension %s has installed %s with version %q, want a semantic version: %w", e.Name, e.Installed.Name, version, err)
	}
	e.Installed.Number = &number
	return e, nil
}

// InstalledExtension returns a hypothetical Extension of a package of a catalog, with a version installed as Installed has it. An
// empty channel means all channels.
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

// Predict predicts what OLM v1 will do if a catalog is the only one that has the package. It fails if the range of versions is
// invalid.
func (e *Extension) Predict(c *fbc.Catalog) (*Prediction, error) {
	p := &Prediction{OLM: V1, Namespace: e.Namespace, ClusterExtension: e.Name, Package: e.Package, Channel: strings.Join(e.Channels, ", "), Installed: e.Installed.Name}
	pkg := c.Find(e.Package)
	if pkg == nil {
		p.refuse(PackageAbsent, "add the package to the catalog, or delete the ClusterExtension: see "+findings.Page("olm-v1.md#remove-the-operator"), "%s has no package %s", c.Dir, e.Package)
		return p, nil
	}
	p.Assumed = e.Name == "" && p.Installed != "" && pkg.FindBundle(p.Installed) == nil
	sel, err := e.selectFrom(pkg)
	if err != nil {
		return nil, err
	}
	chosen := sel.choose(e.Installed)
	if chosen == nil {
		sel.explain(p)
		return p, nil
	}
	reasons, err := uninstallable(chosen.Bundle)
	if err != nil {
		return nil, err
	}
	for _, reason := range reasons {
		p.refuse(reason.Code, reason.Do, "%s", reason.What)
	}
	sel.warn(p, chosen)
	switch later := sel.later(e.Installed); {
	case p.Verdict == Refused:
	case !chosen.is(e.Installed):
		p.Verdict = Updates
		if p.Installed == "" {
			p.Verdict = Installs
		}
		p.Next = sel.update(e.Installed, chosen)
		p.Then, p.ReachesHead = sel.follow(chosen)
		p.warnAboutRemovedAPIs(pkg, false)
	case later == nil:
		p.Verdict = Latest
	default:
		p.Verdict = Stranded
		p.Why = append(p.Why, Reason{NoEdge,
			fmt.Sprintf("%s is later, and no edge leads to it from %s: it neither replaces nor skips that, and has no skipRange that includes it", later.Name, e.Installed.Name),
			"add an upgrade edge to a channel; or set spec.source.catalog.upgradeConstraintPolicy to SelfCertified, which ignores edges, if the author of the operator supports that update"})
	}
	return p, nil
}

func (p *Prediction) refuse(code Code, do, format string, args ...any) {
	p.Verdict = Refused
	p.Why = append(p.Why, Reason{code, fmt.Sprintf(format, args...), do})
}
