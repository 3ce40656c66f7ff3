package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	bundlerules "github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/catalog/fbc/document"
	catalogrules "github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/internal/openshift"
)

var (
	both      = []findings.Gate{findings.Community, findings.Certified}
	community = []findings.Gate{findings.Community}
	certified = []findings.Gate{findings.Certified}
)

// rule is a rule for an operator, or for one of its bundles.
type rule struct {
	findings.Rule
	// byBundle says that it is checked for each selected bundle, not once for the operator.
	byBundle bool
	// withoutCatalogs says that it is only checked for operators that the repository's catalogs do not
	// offer.
	withoutCatalogs bool
	// checks are the names in config.yaml by which the repository can waive the rule for an operator.
	checks []string
	find   func(*subject, *bundle) []*findings.Finding
}

// subject is the operator that is being checked, and a rule.
type subject struct {
	*Repository
	*operator
	rule findings.Rule
}

func (s *subject) at(b *bundle, file string, path []any, format string, args ...any) *findings.Finding {
	return s.fault(s.rule, b, file, path, format, args...)
}

// inCI returns a finding about ci.yaml, or about the operator's folder if it has no ci.yaml.
func (s *subject) inCI(path []any, format string, args ...any) *findings.Finding {
	if s.ciFile.File == "" {
		return s.rule.Finding(s.path(OperatorsDir, s.name), format, args...).In(s.name)
	}
	return s.rule.Finding(s.ciFile.File, format, args...).At(s.ciAt(path)).In(s.name)
}

// table has the rules that need more than one bundle. Warnings of pipelines are warnings here.
// Source: operatorcert/static_tests of operator-pipelines.
var table = []rule{
	{findings.Rule{ID: "operator-bundle", Severity: findings.Error, What: "Each bundle can be read: it has one ClusterServiceVersion, in a file NAME.clusterserviceversion.yaml, with a name such as tide.v1.0.0.",
		Why: "Pipelines refuse the change.", Gates: both}, true, false, nil, checkReadable},
	{findings.Rule{ID: "operator-name", Severity: findings.Error, What: "The folder, the metadata and the ClusterServiceVersions of all bundles have the same name of the operator.",
		Why: "The check check_operator_name refuses the change, or warns of it.", Gates: both}, true, false, []string{"check_operator_name"}, checkOperatorName},
	{findings.Rule{ID: "operator-name-unique", Severity: findings.Error, What: "All ClusterServiceVersions of an operator begin with the same name.",
		Why: "The check check_operator_name_unique refuses the change.", Gates: community}, false, true, []string{"check_operator_name_unique"}, checkUniqueName},
	{findings.Rule{ID: "folder-version", Severity: findings.Error, What: "A bundle's folder is named after the version of its ClusterServiceVersion.",
		Why: "The check check_operator_version_directory_name refuses the change.", Gates: both}, true, false, []string{"check_operator_version_directory_name"}, checkFolder},
	{findings.Rule{ID: "replaces-available", Severity: findings.Error, What: "The version that a bundle replaces is in the repository, and is for each OpenShift that the bundle is for.",
		Why: "The bundle cannot be added to a catalog that lacks the bundle which it replaces. The check check_replaces_availability refuses the change.", Gates: both}, true, true, []string{"check_replaces_availability"}, checkReplaces},
	{findings.Rule{ID: "dangling-bundle", Severity: findings.Error, What: "Each bundle of a channel but the last is replaced or skipped by another.",
		Why: "Clusters that have it are stranded. The check check_dangling_bundles refuses the change.", Gates: community}, true, true, []string{"check_dangling_bundles"}, checkDangling},
	{findings.Rule{ID: "update-loop", Severity: findings.Error, What: "Bundles of a channel do not update each other in a loop.",
		Why: "OLM resolves nothing from the channel. The check check_upgrade_graph_loop refuses the change.", Gates: community}, false, true, []string{"check_upgrade_graph_loop"}, checkLoop},
	{findings.Rule{ID: "update-mode", Severity: findings.Error, What: "ci.yaml says in updateGraph how bundles update each other.",
		Why: "The check check_ci_upgrade_graph refuses another mode, and warns if there is none.", Gates: community}, false, true, []string{"check_ci_upgrade_graph"}, checkUpdateMode},
	{findings.Rule{ID: "pruned-graph", Severity: findings.Warning, What: "A bundle with a skipRange also names the bundle that it replaces.",
		Why: "All earlier versions leave the catalog. The check check_pruned_graph warns.", Gates: certified}, true, true, []string{"check_pruned_graph"}, checkPruned},
	{findings.Rule{ID: "marketplace", Severity: findings.Error, What: "An operator of the marketplace has links from the console to its pages in the marketplace.",
		Why: "The check check_marketplace_annotation refuses the change.", Gates: certified}, true, false, []string{"check_marketplace_annotation"}, checkMarketplace},
	{findings.Rule{ID: "ci-file", Severity: findings.Error, What: "ci.yaml has the fields that pipelines know, with values of their types.",
		Why: "The check check_schema_operator_ci_config refuses the change.", Gates: both}, false, false, []string{"check_schema_operator_ci_config"}, checkCI},
	{findings.Rule{ID: "ci-catalogs", Severity: findings.Error, What: "ci.yaml names one template for each catalog.",
		Why: "The check check_catalog_usage_ci_config refuses the change.", Gates: both}, false, false, []string{"check_catalog_usage_ci_config"}, checkMapping},
	{findings.Rule{ID: "release-config", Severity: findings.Error, What: "release-config.yaml has the fields that pipelines know, and names templates of ci.yaml; for a template of olm.semver, it names only the channels Fast, Candidate and Stable.",
		Why: "The checks check_validate_schema_bundle_release_config and check_bundle_release_config refuse the change.", Gates: both}, true, false, []string{"check_validate_schema_bundle_release_config", "check_bundle_release_config"}, checkReleaseConfig},
	{findings.Rule{ID: "uses-catalogs", Severity: findings.Warning, What: "The repository's catalogs offer the operator.",
		Why: "The check check_using_fbc warns: the published catalog can then change without a new bundle.", Gates: community}, false, true, []string{"check_using_fbc"}, checkUsesCatalogs},
}

// byOtherRules maps rules for bundles and catalogs to the names in config.yaml of the checks that they make.
var byOtherRules = map[string][]string{
	"required-fields":      {"check_required_fields"},
	"openshift-kubernetes": {"check_api_version_constraints"},
	"network-policy":       {"check_network_policy_presence"},
	"bundle-registry":      {"check_bundle_images_in_fbc"},
	"bundle-format":        {"check_olm_bundle_object_in_fbc"},
}

// changeRule is about a change as a whole.
var changeRule = findings.Rule{ID: "change", Severity: findings.Error, What: "A change adds one bundle of one operator, or changes packages in catalogs, and nothing else. It changes no bundle that is there, and deletes none that a catalog offers.",
	Why: "Pipelines refuse the change, and a maintainer has to look at it.", Gates: both, ByGates: true}

// Rules returns all rules that Check applies.
func Rules() (all []findings.Rule) {
	for _, row := range table {
		row.ByGates = true
		all = append(all, row.Rule)
	}
	all = append(all, changeRule)
	known := func(id string) bool {
		return slices.ContainsFunc(all, func(r findings.Rule) bool { return r.ID == id })
	}
	for _, r := range slices.Concat(bundlerules.Rules(), catalogrules.Rules, catalogrules.GateRules) {
		if !known(r.ID) {
			all = append(all, r)
		}
	}
	return all
}

func one(f *findings.Finding) []*findings.Finding { return []*findings.Finding{f} }

func checkReadable(s *subject, b *bundle) []*findings.Finding {
	switch {
	case b.err != nil:
		if f := (*findings.Finding)(nil); errors.As(b.err, &f) {
			return one(s.rule.Finding(f.File, "%s", f.Message).At(f.Line, f.Column).In(s.name))
		}
		return one(s.at(b, "", nil, "%v", b.err))
	case isCSV(filepath.Base(b.CSVFile)) == 0:
		return one(s.at(b, b.CSVFile, nil, "the ClusterServiceVersion is in %s; want a file whose name ends with .clusterserviceversion.yaml", b.CSVFile))
	case !strings.Contains(b.Name, "."):
		return one(s.at(b, b.CSVFile, []any{"metadata", "name"}, "metadata.name is %q, want the operator's name, a dot and a version, such as tide.v1.0.0", b.Name))
	}
	return nil
}

func checkOperatorName(s *subject, b *bundle) (found []*findings.Finding) {
	if b.err != nil {
		return nil // checkReadable reports it
	}
	inCSV, inMetadata := []any{"metadata", "name"}, []any{"annotations", "operators.operatorframework.io.bundle.package.v1"}
	if b.Package == "" {
		return one(s.at(b, b.MetadataFile, inMetadata, "the metadata does not name the operator"))
	}
	mild := *s
	mild.rule.Severity = findings.Warning
	for _, place := range []struct {
		of   func(*bundle) string
		file string
		path []any
	}{
		{func(b *bundle) string { return b.Package }, b.MetadataFile, inMetadata},
		{(*bundle).csvOperator, b.CSVFile, inCSV},
	} {
		mine, others := place.of(b), s.names(b, place.of)
		switch {
		case len(others) == 1 && others[0] != mine:
			found = append(found, s.at(b, place.file, place.path, "the operator is called %q here, and %q in all other bundles", mine, others[0]))
		case len(others) > 1:
			found = append(found, mild.at(b, place.file, place.path, "the operator is called %q here, and in other bundles %s", mine, list(others)))
		}
	}
	severe := &mild
	if len(s.bundles) == 1 {
		severe = s
	}
	if b.Package != b.csvOperator() {
		found = append(found, severe.at(b, b.CSVFile, inCSV, "the operator is called %q here, and %q in the metadata", b.csvOperator(), b.Package))
	}
	if b.Package != s.name {
		found = append(found, severe.at(b, b.MetadataFile, inMetadata, "the operator is called %q here, and its folder is %q", b.Package, s.name))
	}
	return found
}

func checkUniqueName(s *subject, _ *bundle) []*findings.Finding {
	if names := s.names(nil, (*bundle).csvOperator); len(names) > 1 {
		return one(s.rule.Finding(s.path(OperatorsDir, s.name), "the names of ClusterServiceVersions begin with %s; want one name", list(names)).In(s.name))
	}
	return nil
}

func checkFolder(s *subject, b *bundle) []*findings.Finding {
	if b.err != nil || b.Version == b.folder {
		return nil
	}
	return one(s.at(b, b.CSVFile, []any{"spec", "version"}, "spec.version is %q, and the bundle's folder is %q; want the same", b.Version, b.folder))
}

func checkReplaces(s *subject, b *bundle) []*findings.Finding {
	if b.err != nil || b.Replaces == "" {
		return nil
	}
	at := []any{"spec", "replaces"}
	_, version, found := strings.Cut(b.Replaces, ".v")
	if !found {
		_, version, _ = strings.Cut(b.Replaces, ".")
	}
	if version == b.csvVersion() {
		return one(s.at(b, b.CSVFile, at, "spec.replaces is %s, which is the bundle itself; want an earlier version", b.Replaces))
	}
	i := slices.IndexFunc(s.bundles, func(other *bundle) bool { return other.err == nil && other.csvVersion() == version })
	if i < 0 {
		return one(s.at(b, b.CSVFile, at, "spec.replaces is %s, and the repository has no bundle of version %s; it has %s", b.Replaces, version, list(s.names(b, (*bundle).csvVersion))))
	}
	replaced := s.bundles[i]
	if replaced.OpenShift == b.OpenShift && replaced.OpenShiftGiven == b.OpenShiftGiven {
		return nil
	}
	all := s.openShiftVersions()
	mine, unclear := b.versions(all)
	its, too := replaced.versions(all)
	if errors.Join(unclear, too) != nil {
		return nil // the bundles' own rules report it
	}
	var without []string
	for _, v := range mine {
		if !slices.Contains(its, v) {
			without = append(without, v.String())
		}
	}
	if len(without) == 0 {
		return nil
	}
	return one(s.at(b, b.MetadataFile, []any{"annotations", openshift.VersionsAnnotation}, "the bundle is for OpenShift %s, and %s, which it replaces, is not: %s is %q here and %q there; let the two agree, or replace another version",
		strings.Join(without, ", "), replaced, openshift.VersionsAnnotation, b.OpenShift, replaced.OpenShift))
}

// channels returns the channels of a bundle, with the default channel, sorted.
func channels(b *bundle) []string {
	all := slices.Clone(b.Channels)
	if b.DefaultChannel != "" {
		all = append(all, b.DefaultChannel)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func checkDangling(s *subject, b *bundle) (found []*findings.Finding) {
	if b.err != nil || !slices.Contains(updateModes, s.mode()) {
		return nil // other rules report it
	}
	report := s.reporter(s.rule, b, b.CSVFile)
	for _, name := range channels(b) {
		in := s.operator.channels()[name]
		switch {
		case in == nil: // a default channel without versions
		case in.err != nil:
			return one(report([]any{"spec", "replaces"}, "%v", in.err))
		case len(in.dangling) > 0 && len(found) < document.MaxFaults:
			found = append(found, report([]any{"spec", "replaces"}, "nothing replaces or skips %s in channel %q, whose last version is %s; let a later version replace or skip it", list(in.dangling), name, in.bundles[len(in.bundles)-1].Name))
		}
	}
	return found
}

func checkLoop(s *subject, _ *bundle) (found []*findings.Finding) {
	if !slices.Contains(updateModes, s.mode()) {
		return nil // checkUpdateMode reports it
	}
	byChannel := s.operator.channels()
	for _, name := range slices.Sorted(maps.Keys(byChannel)) {
		in := byChannel[name]
		if in.err != nil {
			return one(s.rule.Finding(s.path(OperatorsDir, s.name), "%v", in.err).In(s.name))
		}
		if from, to := loop(in.bundles, in.edges); from != nil && len(found) < document.MaxFaults {
			found = append(found, s.at(to, to.CSVFile, []any{"spec", "replaces"}, "%s updates to %s, and that in the end to %s again, in channel %q", from.Name, to.Name, from.Name, name))
		}
	}
	return found
}

func checkUpdateMode(s *subject, _ *bundle) []*findings.Finding {
	if s.ci.UpdateGraph == nil || s.ci.UpdateGraph == "" {
		s.rule.Severity = findings.Warning
		return one(s.inCI(nil, "ci.yaml has no updateGraph, so bundles are updated in %s; say so, or want %s", replacesMode, semverMode))
	}
	if mode, _ := s.ci.UpdateGraph.(string); !slices.Contains(updateModes, mode) {
		f := s.inCI([]any{"updateGraph"}, "updateGraph is %v, want %s", s.ci.UpdateGraph, strings.Join(updateModes, " or "))
		if near := nearest.Of(mode, updateModes); len(near) == 1 {
			f.Fixed(s.ciFile.Replaced([]any{"updateGraph"}, near[0]))
		}
		return one(f)
	}
	return nil
}

func checkPruned(s *subject, b *bundle) []*findings.Finding {
	if b.err != nil || b.SkipRange == "" || b.Replaces != "" {
		return nil
	}
	for _, name := range b.Channels {
		if len(s.operator.channels()[name].bundles) != 1 {
			return one(s.at(b, b.CSVFile, []any{"metadata", "annotations", "olm.skipRange"}, "the bundle has a skipRange and replaces nothing, so all earlier versions leave channel %q; name the version that it replaces, too", name))
		}
	}
	return nil
}

func checkMarketplace(s *subject, b *bundle) (found []*findings.Finding) {
	if b.err != nil || s.Config.Organization != marketplace {
		return nil
	}
	for i, key := range marketplaceAnnotations {
		page := map[int]string{0: "pricing", 1: "support"}[i]
		want := fmt.Sprintf("https://marketplace.redhat.com/en-us/operators/%s/%s?utm_source=openshift_console", b.Package, page)
		if b.Marketplace[i] != want {
			found = append(found, s.at(b, b.CSVFile, []any{"metadata", "annotations", key}, "the annotation %s is %q, want %q", key, b.Marketplace[i], want))
		}
	}
	return found
}

func checkCI(s *subject, _ *bundle) []*findings.Finding {
	if s.ciErr != nil {
		return one(s.rule.Finding(s.path(OperatorsDir, s.name, ciFile), "%v", s.ciErr).In(s.name))
	}
	if s.ciFile.File == "" {
		return nil
	}
	found := ciShape.faults(s.rule, s.ciFile)
	for _, f := range found {
		f.In(s.name)
	}
	return found
}

func checkMapping(s *subject, _ *bundle) (found []*findings.Finding) {
	first := map[string]string{} // template, by catalog
	for i, m := range s.ci.FBC.Mapping {
		for _, catalog := range m.Catalogs {
			at := []any{"fbc", "catalog_mapping", i, "catalog_names"}
			if other, taken := first[catalog]; taken && len(found) < document.MaxFaults {
				found = append(found, s.inCI(at, "catalog %s is made from template %s, and from %s, too; want one template", catalog, m.Template, other))
				continue
			}
			first[catalog] = m.Template
		}
	}
	return found
}

var semverChannels = []string{"Fast", "Candidate", "Stable"}

func checkReleaseConfig(s *subject, b *bundle) []*findings.Finding {
	dir := s.path(OperatorsDir, b.operator, b.folder)
	d, err := onlyDocument(dir, releaseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return one(s.rule.Finding(filepath.Join(dir, releaseFile), "%v", err).In(s.name))
	}
	if string(d.Content) == "null" {
		return nil
	}
	found := releaseShape.faults(s.rule, d)
	position := d.Positions()
	fault := func(path []any, format string, args ...any) {
		if len(found) < document.MaxFaults {
			found = append(found, s.rule.Finding(d.File, format, args...).At(position(path)))
		}
	}
	var release struct {
		Templates []struct {
			Name     string   `json:"template_name"`
			Channels []string `json:"channels"`
		} `json:"catalog_templates"`
	}
	if len(found) == 0 && json.Unmarshal(d.Content, &release) == nil && !s.inCatalogs() {
		fault(nil, "%s is there, but %s does not say fbc.enabled: true, so it has no effect", releaseFile, ciFile)
	} else {
		types := map[string]string{} // of templates
		for _, m := range slices.Backward(s.ci.FBC.Mapping) {
			types[m.Template] = m.Type
		}
		for i, t := range release.Templates {
			at := []any{"catalog_templates", i}
			kind, known := types[t.Name]
			if !known {
				fault(append(at, "template_name"), "template %q is not in fbc.catalog_mapping of %s; add it there", t.Name, ciFile)
				continue
			}
			unknown := slices.DeleteFunc(slices.Clone(t.Channels), func(c string) bool { return slices.Contains(semverChannels, c) })
			if kind == semverTemplate && len(unknown) > 0 {
				fault(append(at, "channels"), "template %s is of type %s, which has no channel %s; want %s", t.Name, semverTemplate, strings.Join(unknown, ", "), strings.Join(semverChannels, ", "))
			}
		}
	}
	for _, f := range found {
		f.In(s.name)
	}
	return found
}

func checkUsesCatalogs(s *subject, _ *bundle) []*findings.Finding {
	return one(s.inCI(nil, "the repository's catalogs do not offer the operator (fbc.enabled), so only a new bundle can change the published catalog"))
}
