package build

import "slices"

// checkForm checks the template itself, without its bundles.
func (d *draft) checkForm() {
	for _, required := range []struct {
		field   string
		missing bool
	}{{"package", d.Package == ""}, {"bundles", len(d.Bundles) == 0}, {"channels", len(d.Channels) == 0}} {
		if required.missing {
			d.fault(at(required.field), "the template has no %s; a template needs its package, its bundles and its channels", required.field)
		}
	}
	for i, b := range d.Bundles {
		if count(b.Folder, b.Image) != 1 {
			d.fault(at("bundles", i), "expected either a folder or an image of each bundle")
		}
	}
	d.checkChannelsForm()
	for i, dep := range d.Deprecations {
		if count(dep.Package, dep.Channel, dep.Bundle) != 1 {
			d.fault(at("deprecations", i), "expected a package, a channel or a bundle in each deprecation, and one of them only")
		}
		if dep.Package != "" && dep.Package != d.Package {
			d.fault(at("deprecations", i, "package"), "package %q is deprecated, but the template is of package %q", dep.Package, d.Package)
		}
	}
}

func (d *draft) checkChannelsForm() {
	var names []string
	for i, c := range d.Channels {
		if c.Name != "" && slices.Contains(names, c.Name) {
			d.fault(at("channels", i, "name"), "channel %q is given twice; the first is number %d", c.Name, slices.Index(names, c.Name)+1)
		}
		names = append(names, c.Name)
		for j, e := range c.Entries {
			if count(e.Name, e.Version) != 1 {
				d.fault(at("channels", i, "entries", j), "expected either the name or the version of a bundle in each entry")
			}
		}
	}
}

// count returns the number of texts that are not empty.
func count(texts ...string) (n int) {
	for _, text := range texts {
		if text != "" {
			n++
		}
	}
	return n
}
