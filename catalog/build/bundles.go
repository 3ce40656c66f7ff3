package build

import (
	"context"
	"strings"

	"github.com/blang/semver/v4"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/image"
	"github.com/berth-csi/berth/registryv1"
)

// pulls is the number of bundles that are read concurrently.
const pulls = 4

// readBundles reads all bundles.
func (d *draft) readBundles(ctx context.Context) {
	d.rendered = make([]*render.Bundle, len(d.Bundles))
	faults := make([]error, len(d.Bundles))
	var group errgroup.Group
	group.SetLimit(pulls)
	for i, b := range d.Bundles {
		group.Go(func() error {
			d.rendered[i], faults[i] = d.readBundle(ctx, b)
			return nil
		})
	}
	_ = group.Wait() // no error: faults are collected
	for i, err := range faults {
		if d.rendered[i] != nil { // bundles of images are published, and their faults are only warnings
			for _, f := range d.rendered[i].Found {
				if d.Bundles[i].Folder != "" {
					f.Severity = findings.Error
				}
				d.found = append(d.found, f)
			}
		}
		found, others := registryv1.Faults(err)
		d.found = append(d.found, found...)
		for _, other := range others {
			d.found = append(d.found, d.document.FaultAt(ruleBundle, at("bundles", i), "%v", other))
		}
	}
}

func (d *draft) readBundle(ctx context.Context, b bundle) (*render.Bundle, error) {
	switch {
	case count(b.Folder, b.Image) != 1: // checkForm reports it
		return nil, nil
	case b.Folder != "":
		return render.Folder(d.path(b.Folder))
	}
	pulled, err := image.Pull(ctx, b.Image, registryv1.ImageLimits, registryv1.Folders...)
	if err != nil {
		return nil, err
	}
	return render.Image(pulled.Reference, pulled.Files)
}

// checkBundles reports bundles of another package, and bundles that share a name or a version.
func (d *draft) checkBundles() {
	taken := map[string]int{}
	for i, b := range d.rendered {
		if b.Package != d.Package {
			d.fault(at("bundles", i), "bundle %s is of package %q; expected one of package %q", b.Name, b.Package, d.Package)
		}
		for _, own := range identity(b) {
			if first, found := taken[own]; found {
				d.fault(at("bundles", i), "bundle %s has the same %s as bundle number %d; expected every bundle to have its own", b.Name, own, first+1)
				break
			}
			taken[own] = i
		}
	}
}

// find returns the bundle with a name or a version. If there is not exactly one, it reports that at a path.
func (d *draft) find(nameOrVersion string, path []any) *render.Bundle {
	version, isVersion := parse(nameOrVersion)
	var found []*render.Bundle
	for _, b := range d.rendered {
		if isVersion && b.Version.Version.Equals(version) || b.Name == nameOrVersion {
			found = append(found, b)
		}
	}
	switch len(found) {
	case 0:
		d.fault(path, "%s is not a bundle of this template; expected one of %s", nameOrVersion, strings.Join(d.names(), ", "))
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
