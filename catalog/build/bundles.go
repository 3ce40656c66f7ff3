package build

import (
	"context"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/image"
)

// limits are those of pulling an image. OLM takes no bundle above 4 MiB from a catalog, and etcd no object above
// 1.5 MiB: an image that takes this long or holds this much is something else.
var limits = image.Limits{Time: time.Minute, Size: 64 << 20}

// pulls is how many bundles are read at a time.
const pulls = 4

// readBundles reads all bundles.
func (d *draft) readBundles(ctx context.Context) {
	d.releases = make([]*fbc.Release, len(d.Bundles))
	faults := make([]error, len(d.Bundles))
	var group errgroup.Group
	group.SetLimit(pulls)
	for i, b := range d.Bundles {
		group.Go(func() error {
			d.releases[i], faults[i] = d.readBundle(ctx, b)
			return nil
		})
	}
	_ = group.Wait() // none fails
	for i, fault := range faults {
		for _, fault := range split(fault) {
			if finding, placed := fault.(*findings.Finding); placed {
				d.found = append(d.found, finding)
			} else {
				d.found = append(d.found, d.document.FaultAt(ruleBundle, at("bundles", i), "%v", fault))
			}
		}
	}
}

func (d *draft) readBundle(ctx context.Context, b bundle) (*fbc.Release, error) {
	switch {
	case count(b.Folder, b.Image) != 1: // which checkForm has found
		return nil, nil
	case b.Folder != "":
		return fbc.ReadRelease(d.path(b.Folder))
	}
	pulled, err := image.Pull(ctx, b.Image, limits, fbc.BundleFolders...)
	if err != nil {
		return nil, err
	}
	return fbc.ReleaseOf(pulled.Reference, pulled.Files)
}

// split returns the errors that an error joins.
func split(err error) []error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// checkBundles finds bundles that cannot stand side by side in the package.
func (d *draft) checkBundles() {
	taken := map[string]int{}
	for i, r := range d.releases {
		if r.Rendered.Package != d.Package {
			d.fault(at("bundles", i), "bundle %s is of package %q; expected one of package %q", r.Rendered.Name, r.Rendered.Package, d.Package)
		}
		for _, claim := range claims(r) {
			if first, found := taken[claim]; found {
				d.fault(at("bundles", i), "bundle %s has the same %s as bundle number %d; expected every bundle to have its own", r.Rendered.Name, claim, first+1)
				break
			}
			taken[claim] = i
		}
	}
}

// find returns the bundle that a name or a version stands for. If there is none, it reports that at a path.
func (d *draft) find(nameOrVersion string, path []any) *fbc.Release {
	version, isVersion := parse(nameOrVersion)
	var found []*fbc.Release
	for _, r := range d.releases {
		if isVersion && r.Version.Version.Equals(version) || r.Rendered.Name == nameOrVersion {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		d.fault(path, "%s is no bundle of this template; expected one of %s", nameOrVersion, strings.Join(d.names(), ", "))
		return nil
	case 1:
		return found[0]
	}
	d.fault(path, "%d bundles of this template are of version %s; give the name of one", len(found), nameOrVersion)
	return nil
}

// parse returns a version, if a text is one.
func parse(text string) (semver.Version, bool) {
	version, err := semver.Parse(text)
	return version, err == nil
}

// names are those of all bundles, in the order of the template.
func (d *draft) names() []string {
	var names []string
	for _, r := range d.releases {
		names = append(names, r.Rendered.Name)
	}
	return names
}
