package build

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/internal/openshift"
)

// references returns the places of the bundles that the template lists.
func (d *draft) references() (all []reference) {
	for i := range d.Bundles {
		if r := d.reference(i); r != (reference{}) {
			all = append(all, r)
		}
	}
	return all
}

// reference returns the place of a bundle, or nothing if checkForm reports its fault.
func (d *draft) reference(i int) reference {
	switch b := d.Bundles[i]; {
	case count(b.Folder, b.Image) != 1:
		return reference{}
	case b.Folder != "":
		return reference{folder: d.path(b.Folder)}
	default:
		return reference{image: b.Image}
	}
}

// take takes the bundles from the set and builds the catalog.
func (d *draft) take(s *bundleSet) {
	if !d.decoded {
		return
	}
	d.rendered = make([]*render.Bundle, len(d.Bundles))
	for i := range d.Bundles {
		r := d.reference(i)
		if r == (reference{}) {
			continue
		}
		from := s.bundles[r]
		if d.rendered[i] = from.Bundle; from.Bundle != nil { // bundles from images are published already, so their faults are only warnings
			for _, f := range from.Found {
				if r.folder != "" {
					f.Severity = findings.Error
				}
				d.found = append(d.found, f)
			}
		}
		d.found = append(d.found, unread(d.document, at("bundles", i), from.err)...)
	}
	d.makeCatalog()
}

// unread returns findings that say why a bundle cannot be read: about its files, or at a path in the
// template.
func unread(template located, path []any, err error) []*findings.Finding {
	found, others := registryv1.Faults(err)
	for _, other := range others {
		found = append(found, template.FaultAt(ruleBundle, path, "%v", other))
	}
	return found
}

// offers reports whether the catalogs of a version of OpenShift offer a bundle.
func (d *draft) offers(name string, v openshift.Version) bool {
	does, _ := offers(named(d.rendered, name).Metadata.Annotations[openshift.VersionsAnnotation], v) // checkBundles reports a fault
	return does
}

// checkBundles reports bundles of another package, and bundles that share a name or a version.
func (d *draft) checkBundles() {
	taken := map[string]int{}
	for i, b := range d.rendered {
		if b.Package != d.Package {
			d.fault(at("bundles", i), "bundle %s is of package %q; expected one of package %q", b.Name, b.Package, d.Package)
		}
		if _, err := offers(b.Metadata.Annotations[openshift.VersionsAnnotation], openshift.Version{}); err != nil && d.byVersion {
			d.found = append(d.found, notOffered(d.document, at("bundles", i), b.Name, err))
		}
		for _, own := range identity(b) {
			if first, found := taken[own.text]; found {
				d.fault(at("bundles", i), "bundle %s has the same %s as bundle number %d; expected every bundle to have its own", b.Name, own.text, first+1)
				break
			}
			taken[own.text] = i
		}
	}
}

// notOffered warns of a bundle that no version of OpenShift offers.
func notOffered(template located, path []any, bundle string, err error) *findings.Finding {
	f := template.FaultAt(ruleTemplate, path, "bundle %s: %v", bundle, err)
	f.Severity = findings.Warning
	return f
}

// find returns the bundle with a name or a version. Unless there is exactly one, it reports a fault at
// path.
func (d *draft) find(nameOrVersion string, path []any) *render.Bundle {
	found := slices.DeleteFunc(slices.Clone(d.rendered), func(b *render.Bundle) bool { return b.Name != nameOrVersion })
	if version, isVersion := parse(nameOrVersion); isVersion && len(found) == 0 {
		found = fbc.MatchVersion(version, d.rendered, func(b *render.Bundle) *semver.Version { return &b.Version.Version })
	}
	switch len(found) {
	case 0:
		d.fault(path, "%s is not a bundle of this template; expected one of %s%s", nameOrVersion, strings.Join(d.names(), ", "), nearest.Version(nameOrVersion))
		return nil
	case 1:
		return found[0]
	}
	d.fault(path, "%d bundles of this template are of version %s; give the name of one", len(found), nameOrVersion)
	return nil
}

// parse parses a version.
func parse(text string) (semver.Version, bool) {
	version, err := semver.Parse(text)
	return version, err == nil
}

// names returns the names of all bundles, in the order of the template.
func (d *draft) names() []string {
	var names []string
	for _, b := range d.rendered {
		names = append(names, b.Name)
	}
	return names
}
