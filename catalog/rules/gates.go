package rules

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"go.podman.io/image/v5/docker/reference"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
	"github.com/berth-csi/berth/internal/openshift"
)

// ofOpm are the gates that run opm validate.
var ofOpm = []findings.Gate{findings.Community, findings.Certified, findings.Konflux}

// notOfOpm are rules whose errors opm does not see.
var notOfOpm = []string{"bundle-dependency", "bundle-object", "bundle-csv"}

// ofGates adds to each rule the gates that refuse its violations: opm validate fails for nearly all errors of these rules, and also
// for updates by skipRange alone.
func ofGates(rules []findings.Rule) []findings.Rule {
	for i, r := range rules {
		if r.ID == "channel-path-by-range" || r.Severity == findings.Error && !slices.Contains(notOfOpm, r.ID) {
			rules[i].Gates = ofOpm
		}
	}
	return rules
}

// Options say which checks a catalog gets in addition to OLM's.
type Options struct {
	Profile gates.Profile
	// Registries are the prefixes of pull specs that the catalog's repository allows for bundles. The default is the
	// list that the gates of the profile allow.
	Registries []string
}

// gateRule is a rule that applies only if one of its gates is in the profile.
type gateRule struct {
	findings.Rule
	// check reports faults and, as warnings, faults that the gates overlook.
	check func(a *gateCheck, p *fbc.Package, fault, warn report)
}

// gateCheck is a catalog with the options of its check.
type gateCheck struct {
	*fbc.Catalog
	Options
}

// gateTable holds the rules of gates that OLM does not have.
// Sources: the static checks of operator-pipelines (operatorcert/static_tests), and the tasks validate-fbc and
// fbc-target-index-pruning-check of Konflux with the policies that follow them.
var gateTable = []gateRule{
	{findings.Rule{ID: "bundle-format", Severity: findings.Error,
		What:  "Catalogs for OpenShift 4.17 and later describe bundles, in a property olm.csv.metadata. In catalogs for earlier versions, bundles carry their objects.",
		Why:   "The check check_olm_bundle_object_in_fbc or the task validate-fbc refuses the catalog.",
		Gates: []findings.Gate{findings.Community, findings.Certified, findings.Konflux}},
		checkFormats},
	{findings.Rule{ID: "bundle-registry", Severity: findings.Error,
		What:  "Images of bundles come from a registry that the catalog's repository allows.",
		Why:   "The check check_bundle_images_in_fbc refuses the catalog.",
		Gates: []findings.Gate{findings.Community, findings.Certified, findings.Konflux}},
		checkRegistries},
	{findings.Rule{ID: "bundle-digest", Severity: findings.Error,
		What:  "The images of bundles, and the images that they need, are named by their digests.",
		Why:   "The policy of Konflux for releases refuses the catalog.",
		Gates: []findings.Gate{findings.Konflux}},
		checkDigests},
	{findings.Rule{ID: "package-folder", Severity: findings.Error,
		What:  "Each package is in its own folder below the catalog's folder.",
		Why:   "The task validate-fbc refuses the catalog.",
		Gates: []findings.Gate{findings.Konflux}},
		checkFolders},
	{findings.Rule{ID: "max-openshift", Severity: findings.Warning,
		What:  "The head of each channel supports the OpenShift that the catalog is for, and says so as MAJOR.MINOR.",
		Why:   "OLM sets Upgradeable to False, and the cluster is not updated.",
		Gates: []findings.Gate{findings.OpenShift}},
		checkMaxOpenShift},
}

// againstPruned is the rule of Konflux for a catalog that replaces a released one.
var againstPruned = findings.Rule{ID: "against-pruned", Severity: findings.Error,
	What:  "Every entry of the earlier catalog is in this one, except entries of channels for previews and candidates.",
	Why:   "The task fbc-target-index-pruning-check refuses the catalog.",
	Gates: []findings.Gate{findings.Konflux}, ByGates: true}

// GateRules are the rules that CheckGates applies.
var GateRules = func() (all []findings.Rule) {
	for _, row := range gateTable {
		row.ByGates = true
		all = append(all, row.Rule)
	}
	return all
}()

// CheckGates checks a catalog against the gates of a profile. The findings are in the order of files and lines.
func CheckGates(c *fbc.Catalog, o Options) []*findings.Finding {
	a := &gateCheck{c, o}
	return eachPackage(c, func(p *fbc.Package) (found []*findings.Finding) {
		for _, row := range gateTable {
			if o.Profile.Enforces(row.Rule) {
				mild := row.Rule
				mild.Severity = findings.Warning
				row.check(a, p, reportOf(row.Rule, p.Name, fbc.Fault, &found), reportOf(mild, p.Name, fbc.Fault, &found))
			}
		}
		return found
	})
}

// Raise turns warnings about updates by skipRange alone into errors if a gate of the profile refuses these updates.
func Raise(found []*findings.Finding, profile gates.Profile) {
	for _, f := range found {
		if f.Rule == "channel-path-by-range" && profile.Has(ofOpm...) {
			f.Severity = findings.Error
		}
	}
}

// inVersion matches the name that operator repositories give the folder with the catalogs for a version of OpenShift.
var inVersion = regexp.MustCompile(`^v\d+\.\d+$`)

// versionsOf returns the versions of OpenShift that a package is for: the version in the name of a folder above it, or else the
// profile's.
func (a *gateCheck) versionsOf(p *fbc.Package) []openshift.Version {
	if v, named := folderVersion(p.File); named {
		return []openshift.Version{v}
	}
	return a.Profile.Versions
}

// folderVersion returns the version of OpenShift that the nearest folder above a file names.
func folderVersion(file string) (openshift.Version, bool) {
	folders := strings.Split(filepath.ToSlash(file), "/")
	for _, folder := range slices.Backward(folders[:len(folders)-1]) {
		if inVersion.MatchString(folder) {
			if v, err := openshift.Parse(folder); err == nil {
				return v, true
			}
		}
	}
	return openshift.Version{}, false
}

// checkFormats checks all bundles, although the pipelines of operator repositories look only at the first bundle of a package.
func checkFormats(a *gateCheck, p *fbc.Package, report, warn report) {
	faults, unseen := alike{noun: "bundle"}, alike{noun: "bundle"}
	for _, v := range a.versionsOf(p) {
		wanted, refused, what := property.TypeBundleObject, property.TypeCSVMetadata, "carry their objects"
		if v.DescribesBundles() {
			wanted, refused, what = refused, wanted, "describe bundles"
		}
		catalogs := fmt.Sprintf(": catalogs for OpenShift %s %s, in properties of type %s; ", v, what, wanted)
		konflux := a.Profile.Has(findings.Konflux)
		for i, b := range p.Bundles {
			index := slices.IndexFunc(b.Properties, func(p property.Property) bool { return p.Type == refused })
			after := catalogs + "render them with berth catalog render"
			if b.Image == "" {
				after = catalogs + "push them with berth bundle image, and name the images"
			}
			switch {
			case index >= 0 && !konflux && i > 0 && v.DescribesBundles():
				unseen.add(b.Name, b.Span, propertyPath(index), "property of type "+refused, after)
			case index >= 0 && (konflux || v.DescribesBundles()):
				faults.add(b.Name, b.Span, propertyPath(index), "property of type "+refused, after)
			case index < 0 && konflux && count(b, wanted) == 0:
				faults.add(b.Name, b.Span, []any{"properties"}, "no property of type "+wanted, after)
			}
		}
	}
	faults.report(report)
	unseen.report(warn)
}

// registries are the prefixes of pull specs that gates allow for bundles.
var registries = map[findings.Gate][]string{
	findings.Community: {"quay.io/community-operator-pipeline-prod/", "quay.io/openshift-community-operators/"},
	findings.Certified: {"registry.connect.redhat.com"},
	findings.Konflux:   {"registry.redhat.io/", "registry.access.redhat.com/"},
}

func checkRegistries(a *gateCheck, p *fbc.Package, report, _ report) {
	faults := alike{noun: "bundle"}
	for _, gate := range ofOpm {
		if !a.Profile.Has(gate) {
			continue
		}
		allowed := registries[gate]
		if len(a.Registries) > 0 && gate != findings.Konflux {
			allowed = a.Registries
		}
		isAllowed := func(image string) bool {
			return slices.ContainsFunc(allowed, func(begin string) bool { return strings.HasPrefix(image, begin) })
		}
		after := ": expected " + strings.Join(allowed, " or ")
		for _, b := range p.Bundles {
			if b.Image != "" && !isAllowed(b.Image) {
				faults.add(b.Name, b.Span, []any{"image"}, "the image", " is in a registry that "+string(gate)+" does not allow"+after)
			}
		}
	}
	faults.report(report)
}

func checkDigests(_ *gateCheck, p *fbc.Package, report, _ report) {
	faults := alike{noun: "bundle"}
	const after = " has no digest; name it by its digest, as NAME@sha256:…"
	for _, b := range p.Bundles {
		if b.Image != "" && !hasDigest(b.Image) {
			faults.add(b.Name, b.Span, []any{"image"}, "the image", after)
		}
		for i, related := range b.RelatedImages {
			if related.Image != "" && !hasDigest(related.Image) {
				faults.add(b.Name, b.Span, []any{"relatedImages", i, "image"}, "an image in relatedImages", after)
				break
			}
		}
	}
	faults.report(report)
}

func hasDigest(image string) bool {
	named, err := reference.ParseNormalizedNamed(image)
	return err == nil && !reference.IsNameOnly(named) && strings.Contains(image, "@")
}

func checkFolders(a *gateCheck, p *fbc.Package, report, _ report) {
	below, err := filepath.Rel(a.Dir, p.File)
	if err == nil && p.Declared && below != "." && filepath.Dir(below) == "." {
		report(p.Span, nil, "package %q is in the catalog's folder itself; expected %s", p.Name, filepath.Join(p.Name, filepath.Base(p.File)))
	}
}

func checkMaxOpenShift(a *gateCheck, p *fbc.Package, report, _ report) {
	faults, late := alike{noun: "bundle"}, alike{noun: "head"}
	for _, b := range p.Bundles {
		for i, stated := range b.Properties {
			if stated.Type != openshift.MaxProperty {
				continue
			}
			_, err := openshift.CheckMax(string(stated.Value), "")
			if err == nil {
				continue
			}
			meant := asWritten // without quotes, 4.20 is a number, and is read as 4.2
			if text, isText := strings.CutPrefix(string(stated.Value), `"`); isText {
				v, unread := openshift.Parse(strings.TrimSuffix(strings.TrimSuffix(text, `"`), ".0"))
				if unread != nil {
					faults.add(b.Name, b.Span, append(propertyPath(i), "value"), "property", fmt.Sprintf(": %v", err))
					continue
				}
				meant = v.String()
			}
			faults.addFixed(b.Name, b.Span, append(propertyPath(i), "value"), "property", fmt.Sprintf(": %v", err), meant)
		}
	}
	seen := map[string]bool{}
	for _, g := range newSubject(p).graphs {
		for _, head := range g.Heads {
			b := p.FindBundle(head.Name)
			if b == nil || seen[b.Name] {
				continue
			}
			seen[b.Name] = true
			first := ""
			for i, stated := range b.Properties {
				if value := string(stated.Value); stated.Type == openshift.MaxProperty && first == "" {
					first = value
				} else if stated.Type == openshift.MaxProperty {
					late.add(b.Name, b.Span, propertyPath(i), "property "+openshift.MaxProperty, fmt.Sprintf(" is given twice, as %s and as %s; OLM accepts one: remove the other", first, value))
				}
				max, err := openshift.Parse(strings.Trim(string(stated.Value), `"`))
				if stated.Type != openshift.MaxProperty || err != nil {
					continue
				}
				for _, v := range a.Profile.Versions {
					if max.Normal().Compare(v.Normal()) < 0 {
						late.add(b.Name, b.Span, append(propertyPath(i), "value"), "property "+openshift.MaxProperty, fmt.Sprintf(" is %s, and the catalog is for OpenShift %[2]s: release a bundle that supports OpenShift %[2]s", max, v))
					}
				}
			}
		}
	}
	faults.report(report)
	late.report(report)
}

// prunable matches the names of channels that Konflux allows a catalog to drop.
var prunable = regexp.MustCompile(`dev-preview|pre-ga|candidate`)

// AgainstGates checks the change from an earlier catalog against the gates of a profile, in the packages that both catalogs have.
func AgainstGates(now, before *fbc.Catalog, profile gates.Profile) (found []*findings.Finding) {
	if !profile.Enforces(againstPruned) {
		return nil
	}
	for _, p := range now.Packages {
		was := before.Find(p.Name)
		if was == nil {
			continue
		}
		report := reportOf(againstPruned, p.Name, fbc.Fault, &found)
		for _, channel := range was.Channels {
			c := p.FindChannel(channel.Name)
			switch {
			case prunable.MatchString(channel.Name):
			case c == nil:
				report(p.Span, nil, "channel %q of package %q is pruned; it is at %s:%d", channel.Name, p.Name, channel.File, channel.Line)
			default:
				if gone := entriesGone(c, channel); len(gone) > 0 {
					report(c.Span, []any{"entries"}, "entries of channel %q are pruned: %s; they are at %s:%d", c.Name, strings.Join(gone, ", "), channel.File, channel.Line)
				}
			}
		}
	}
	findings.Sort(found)
	return found
}

// entriesGone returns the names of the entries that a channel has lost.
func entriesGone(now, before *fbc.Channel) (gone []string) {
	for _, e := range before.Entries {
		if !slices.ContainsFunc(now.Entries, func(kept declcfg.ChannelEntry) bool { return kept.Name == e.Name }) {
			gone = append(gone, e.Name)
		}
	}
	return gone
}
