// Package requests compares what bundles in catalogs request from a cluster: permissions, rights of pods, webhooks, images, APIs and
// dependencies.
package requests

import (
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/bundle/registryv1/access"
	"github.com/berth-csi/berth/catalog/fbc"
)

// Compare returns the difference between two bundles, such as the heads of a channel in two catalogs. It fails if an object of a
// bundle cannot be decoded.
func Compare(before, after *fbc.Bundle) (*access.Content, error) {
	was, err := before.Details()
	if err != nil {
		return nil, err
	}
	is, err := after.Details()
	if err != nil {
		return nil, err
	}
	old, now := access.Version{Images: images(before)}, access.Version{Images: images(after)}
	carried := was.Carried && is.Carried
	if carried {
		old.CSV, old.Objects, now.CSV, now.Objects = was.CSV, was.Objects, is.CSV, is.Objects
	}
	c, err := access.Compare(old, now)
	if err != nil {
		return nil, err
	}
	c.Dependencies = access.Changes(dependencies(before), dependencies(after))
	switch {
	case was.CSV == nil || is.CSV == nil:
		c.Unknown = "the catalogs do not describe the bundles; see their images"
	case !carried:
		c.Unknown = "the catalogs do not carry the permissions; see the bundles' images"
		c.InstallModes = access.Changed(access.InstallModes(was.CSV), access.InstallModes(is.CSV))
		c.MinKubeVersion = access.Changed(was.CSV.Spec.MinKubeVersion, is.CSV.Spec.MinKubeVersion)
		c.CRDs = access.Changes(owned(was.CSV), owned(is.CSV))
	}
	return c, nil
}

// images returns the pull specs of a bundle's images, by name.
func images(b *fbc.Bundle) map[string]string {
	specs := map[string]string{}
	for _, image := range b.RelatedImages {
		name := image.Name
		if name == "" {
			name = access.Repository(image.Image)
		}
		specs[name] = image.Image
	}
	return specs
}

// dependencies returns the dependencies of a bundle.
func dependencies(b *fbc.Bundle) map[string]string {
	required := map[string]string{}
	for _, p := range b.Properties {
		parsed, err := fbc.ParseProperty(p)
		if err != nil {
			continue // not a dependency
		}
		for _, r := range parsed.PackagesRequired {
			required["package "+r.PackageName] = r.VersionRange
		}
		for _, r := range parsed.GVKsRequired {
			required["API "+r.Kind+" of "+r.Group] = r.Version
		}
		if p.Type == property.TypeConstraint {
			required["constraint "+string(p.Value)] = "required"
		}
	}
	return required
}

// owned returns the versions of the APIs that a ClusterServiceVersion owns.
func owned(csv *v1alpha1.ClusterServiceVersion) map[string]string {
	versions := map[string][]string{}
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		versions[crd.Name] = append(versions[crd.Name], crd.Version)
	}
	return joined(versions)
}

// joined sorts each list and joins it into one text.
func joined(lists map[string][]string) map[string]string {
	texts := map[string]string{}
	for key, list := range lists {
		slices.Sort(list)
		texts[key] = strings.Join(slices.Compact(list), ", ")
	}
	return texts
}
