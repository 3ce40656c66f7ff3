package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"go.podman.io/image/v5/docker/reference"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/constraint"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/internal/findings"
)

// bundleRules are the rules about bundles.
var bundleRules = []rule{
	{Rule: findings.Rule{ID: "bundle-channel", Severity: findings.Error,
		What: "Every bundle is an entry of a channel.",
		Why:  "OLM's tools reject the catalog. This often happens when a catalog is filtered."},
		complete: true, check: checkBundleChannel},
	{Rule: findings.Rule{ID: "bundle-property", Severity: findings.Error,
		What: "Every property of a bundle has a value that is valid for its type.",
		Why:  "OLM's tools reject the catalog."},
		check: checkProperties},
	{Rule: findings.Rule{ID: "bundle-package", Severity: findings.Error,
		What: "A bundle has one property of type olm.package, which names the bundle's package.",
		Why:  "OLM's tools reject the catalog."},
		check: checkPackageProperty},
	{Rule: findings.Rule{ID: "bundle-version", Severity: findings.Error,
		What: "A bundle's version is a semantic version, and its release, if it has one, is part of its name.",
		Why:  "OLM's tools reject the catalog."},
		check: checkVersions},
	{Rule: findings.Rule{ID: "bundle-version-unique", Severity: findings.Error,
		What: "No two bundles of a package have the same version.",
		Why:  "OLM's tools reject the catalog."},
		check: checkUniqueVersions},
	{Rule: findings.Rule{ID: "bundle-image", Severity: findings.Error,
		What: "The images that a bundle names are pull specs.",
		Why:  "OLM's tools reject the catalog."},
		check: checkImages},
	{Rule: findings.Rule{ID: "bundle-content", Severity: findings.Error,
		What: "A bundle names an image or carries objects, and describes its ClusterServiceVersion at most once.",
		Why:  "OLM has nothing to install otherwise; with two descriptions, opm validates the catalog but cannot serve it."},
		check: checkContent},
	{Rule: findings.Rule{ID: "bundle-dependency", Severity: findings.Error,
		What: "Every dependency of a bundle is in a form that OLM understands.",
		Why: "OLM resolves nothing in a namespace in which it considers the bundle. " +
			"opm does not check this."},
		check: checkDependencies},
	{Rule: findings.Rule{ID: "bundle-csv", Severity: findings.Error,
		What: "OLM can decode the ClusterServiceVersion that a bundle carries.",
		Why:  "OLM resolves nothing in a namespace in which it chooses the bundle. opm does not check this."},
		check: checkDecodable},
}

func checkDecodable(s *subject, report report) {
	for _, b := range s.Bundles {
		if u := b.Undecodable(); u != nil {
			report(b.Span, u.Path, "bundle %q: %v", b.Name, u.Err)
		}
	}
}

// checkBundleChannel reports the bundles of a package that are in no channel as one fault: usually a change of the channels
// left them out.
func checkBundleChannel(s *subject, report report) {
	inChannels := map[string]bool{}
	for _, g := range s.graphs {
		for _, e := range g.Entries {
			inChannels[e.Name] = true
		}
	}
	var names []string
	var first *fbc.Bundle
	for _, b := range s.Bundles {
		if b.Name == "" || inChannels[b.Name] {
			continue
		}
		if first == nil {
			first = b
		}
		names = append(names, strconv.Quote(b.Name))
	}
	switch len(names) {
	case 0:
	case 1:
		report(first.Span, []any{"name"}, "bundle %s is not an entry of any channel of package %q", names[0], s.Name)
	default:
		report(first.Span, []any{"name"}, "bundles %s are not entries of any channel of package %q", strings.Join(names, ", "), s.Name)
	}
}

func checkProperties(s *subject, report report) {
	faults := alike{noun: "bundle"}
	for _, b := range s.Bundles {
		for i, p := range b.Properties {
			if p.Value == nil && fbc.IsPayload(p.Type) {
				continue // checked when the bundle was read
			}
			if shape := usualShapes[p.Type]; shape != nil {
				if rawjson.Fits(p.Value, shape) {
					continue
				}
			}
			if _, err := fbc.ParseProperty(p); err != nil {
				faults.add(b.Name, b.Span, propertyPath(i), fmt.Sprintf("property %q", p.Type), fmt.Sprintf(": %v", err))
			}
		}
	}
	faults.report(report)
}

// usualShapes are the shapes of the most frequent property values.
var usualShapes = map[string]*rawjson.Shape{
	property.TypePackage:         rawjson.ShapeOf[property.Package](),
	property.TypePackageRequired: rawjson.ShapeOf[property.PackageRequired](),
	property.TypeGVK:             rawjson.ShapeOf[property.GVK](),
	property.TypeGVKRequired:     rawjson.ShapeOf[property.GVKRequired](),
}

// propertyPath returns the path of a property of a bundle.
func propertyPath(index int) []any { return []any{"properties", index} }

func checkPackageProperty(s *subject, report report) {
	for _, b := range s.Bundles {
		all := b.Stated()
		if count(b, property.TypePackage) != len(all) {
			continue // checkProperties reports the property that cannot be read
		}
		if len(all) != 1 {
			report(b.Span, []any{"properties"}, "bundle %q has %d properties of type %s; expected one", b.Name, len(all), property.TypePackage)
			continue
		}
		if name := all[0].PackageName; name != s.Name {
			report(b.Span, []any{"properties"}, "the property of type %s of bundle %q names package %q; expected %q", property.TypePackage, b.Name, name, s.Name)
		}
	}
}

func checkVersions(s *subject, report report) {
	for _, b := range s.Bundles {
		if b.Name == "" {
			report(b.Span, nil, "a bundle of package %q has no field name", s.Name)
		}
		for _, said := range b.Stated() {
			number, release, err := parseVersion(said)
			if err != nil {
				report(b.Span, []any{"properties"}, "bundle %q: %v", b.Name, err)
				continue
			}
			if len(release) == 0 {
				continue
			}
			if expected := s.Name + "-v" + versionText(number, release); b.Name != expected {
				report(b.Span, []any{"name"}, "bundle %q has release %s of version %s; expected the name %q", b.Name, release, number, expected)
			}
			if len(number.Build) > 0 {
				report(b.Span, []any{"properties"}, "bundle %q has a release, %s, and a version with build metadata, %s; expected at most one of these",
					b.Name, release, number)
			}
		}
	}
}

func parseVersion(said property.Package) (semver.Version, declcfg.Release, error) {
	number, err := semver.Parse(said.Version)
	if err != nil {
		return number, nil, fmt.Errorf("its version is %q; expected a semantic version such as 1.0.0: %w", said.Version, err)
	}
	release, err := declcfg.NewRelease(said.Release)
	if err != nil {
		return number, nil, fmt.Errorf("its release is %q: %w", said.Release, err)
	}
	return number, release, nil
}

func versionText(number semver.Version, release declcfg.Release) string {
	if len(release) == 0 {
		return number.String()
	}
	return number.String() + "-" + release.String()
}

func checkUniqueVersions(s *subject, report report) {
	first := map[string]*fbc.Bundle{}
	for _, b := range s.Bundles {
		for _, said := range b.Stated() {
			number, release, err := parseVersion(said)
			if err != nil {
				continue
			}
			text := versionText(number, release)
			if other := first[text]; other != nil && other != b {
				report(b.Span, []any{"properties"}, "bundle %q has the version of %q, %s; the other is at %s:%d", b.Name, other.Name, text, other.File, other.Line)
				continue
			}
			first[text] = b
		}
	}
}

func checkImages(s *subject, report report) {
	for _, b := range s.Bundles {
		if err := checkPullSpec(b.Image); err != nil {
			report(b.Span, []any{"image"}, "image of bundle %q is %q; expected a pull spec: %v", b.Name, b.Image, err)
		}
		for i, related := range b.RelatedImages {
			if err := checkPullSpec(related.Image); err != nil {
				report(b.Span, []any{"relatedImages", i, "image"}, "related image %q of bundle %q is %q; expected a pull spec: %v",
					related.Name, b.Name, related.Image, err)
			}
		}
	}
}

// checkPullSpec returns the fault of a pull spec. Other rules check that it is not empty.
func checkPullSpec(image string) error {
	if image == "" || isPlainPullSpec(image) {
		return nil
	}
	_, err := reference.ParseNormalizedNamed(image)
	return err
}

// isPlainPullSpec reports whether a pull spec is certainly valid: HOST/PATH@sha256:DIGEST, in lower-case letters and digits,
// separated by single dots or dashes. The library is slow, and a catalog has very many pull specs.
func isPlainPullSpec(image string) bool {
	const digest = "@sha256:"
	name, sum, found := strings.Cut(image, digest)
	if !found || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" || len(name) > 200 || !strings.Contains(name, "/") {
		return false
	}
	separated := true // the character before is neither a letter nor a digit
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			separated = false
		case (c == '.' || c == '-' || c == '/') && !separated:
			separated = true
		default:
			return false
		}
	}
	return !separated
}

func checkContent(s *subject, report report) {
	for _, b := range s.Bundles {
		objects, metadata := count(b, property.TypeBundleObject), count(b, property.TypeCSVMetadata)
		if b.Image == "" && objects == 0 {
			report(b.Span, nil, "bundle %q has neither an image nor objects; expected a field image, or properties of type %s",
				b.Name, property.TypeBundleObject)
		}
		if metadata > 1 {
			report(b.Span, []any{"properties"}, "bundle %q has %d properties of type %s; expected at most one", b.Name, metadata, property.TypeCSVMetadata)
		}
	}
}

// count returns the number of properties of a type that a bundle has.
func count(b *fbc.Bundle, propertyType string) int {
	n := 0
	for _, p := range b.Properties {
		if p.Type == propertyType {
			n++
		}
	}
	return n
}

func checkDependencies(s *subject, report report) {
	faults := alike{noun: "bundle"}
	for _, b := range s.Bundles {
		for i, p := range b.Properties {
			if err := constraint.Check(p); err != nil {
				faults.add(b.Name, b.Span, propertyPath(i), fmt.Sprintf("property %q", p.Type), fmt.Sprintf(": %v", err))
			}
		}
	}
	faults.report(report)
}
