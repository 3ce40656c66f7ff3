package repository_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/registryv1/cache/store"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
	"github.com/berth-csi/berth/internal/repository"
)

// files are the files of a repository, by their paths.
type files map[string]string

// The files of the operator tide.
const (
	config       = "config.yaml"
	ci           = "operators/tide/ci.yaml"
	firstCSV     = "operators/tide/1.0.0/manifests/tide.clusterserviceversion.yaml"
	secondCSV    = "operators/tide/1.1.0/manifests/tide.clusterserviceversion.yaml"
	secondNotes  = "operators/tide/1.1.0/metadata/annotations.yaml"
	release      = "operators/tide/1.1.0/release-config.yaml"
	catalog      = "catalogs/v4.20/tide/catalog.yaml"
	firstCatalog = "catalogs/v4.16/tide/catalog.yaml"
)

// community is a repository for the community catalog whose only finding is that its operator is in no catalog.
func community() files {
	f := files{
		config: "organization: community-operators\nallowed_bundle_registries: [quay.io/tides/]\n",
		ci:     "---\n# How tides are updated.\n---\nupdateGraph: replaces-mode\nreviewers: [moon]\n",
	}
	f.bundle("1.0.0", "")
	f.bundle("1.1.0", "tide.v1.0.0")
	return f
}

// bundle adds a bundle of the operator tide.
func (f files) bundle(version, replaces string) {
	if replaces != "" {
		replaces = "  replaces: " + replaces + "\n"
	}
	f["operators/tide/"+version+"/manifests/tide.clusterserviceversion.yaml"] = strings.NewReplacer("VERSION", version, "  REPLACES\n", replaces).Replace(csvText)
	f["operators/tide/"+version+"/metadata/annotations.yaml"] = annotationsText
}

const annotationsText = `annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: tide
  operators.operatorframework.io.bundle.channels.v1: stable
  operators.operatorframework.io.bundle.channel.default.v1: stable
  com.redhat.openshift.versions: v4.16
`

const csvText = `apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: tide.vVERSION
  annotations:
    alm-examples: "[]"
    capabilities: Basic Install
    categories: Storage
    containerImage: quay.io/tides/tide:vVERSION
    createdAt: "2026-01-31T12:00:00Z"
    repository: https://example.com/tides/tide
    support: The moon
    description: Moves the sea up and down
spec:
  displayName: Tide
  description: Moves the sea up and down, twice a day.
  version: VERSION
  REPLACES
  minKubeVersion: 1.29.0
  icon: [{base64data: PHN2Zy8+, mediatype: image/svg+xml}]
  keywords: [sea]
  maturity: stable
  maintainers: [{name: Moon, email: moon@example.com}]
  provider: {name: Moon}
  links: [{name: Documentation, url: https://example.com/tides}]
  relatedImages: [{name: tide, image: "quay.io/tides/tide:vVERSION"}]
  installModes:
  - {type: OwnNamespace, supported: true}
  - {type: SingleNamespace, supported: false}
  - {type: MultiNamespace, supported: false}
  - {type: AllNamespaces, supported: true}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: tide
        spec:
          replicas: 1
          selector: {matchLabels: {name: tide}}
          template:
            metadata: {labels: {name: tide}}
            spec:
              containers:
              - name: tide
                image: quay.io/tides/tide:vVERSION
                resources: {requests: {cpu: 10m, memory: 20Mi}}
`

const catalogText = `schema: olm.package
name: tide
defaultChannel: stable
---
schema: olm.channel
package: tide
name: stable
entries: [{name: tide.v1.0.0}]
---
schema: olm.bundle
package: tide
name: tide.v1.0.0
image: quay.io/tides/tide-bundle:v1.0.0
properties:
- {type: olm.package, value: {packageName: tide, version: 1.0.0}}
- {type: olm.csv.metadata, value: {displayName: Tide}}
`

// inCatalogs makes the repository's catalogs offer the operator.
func inCatalogs(f files) {
	f[ci] = "updateGraph: replaces-mode\nfbc:\n  enabled: true\n  catalog_mapping:\n" +
		"  - {template_name: basic.yaml, type: olm.template.basic, catalog_names: [v4.20]}\n  - {template_name: semver.yaml, type: olm.semver, catalog_names: [v4.21]}\n"
	f[catalog] = catalogText
}

// edit replaces a text in a file by another.
func edit(path, old, new string) func(files) {
	return func(f files) {
		if !strings.Contains(f[path], old) {
			panic(path + " has no " + old)
		}
		f[path] = strings.Replace(f[path], old, new, 1)
	}
}

func put(path, text string) func(files) { return func(f files) { f[path] = text } }

// write writes the files into a folder.
func (f files) write(t *testing.T, dir string) {
	t.Helper()
	for path, text := range f {
		whole := filepath.Join(dir, filepath.FromSlash(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(whole), 0o755))
		require.NoError(t, os.WriteFile(whole, []byte(text), 0o644))
	}
}

// checked returns the findings in a repository by its own pipeline and more profiles. Files have their paths in the repository.
func checked(t *testing.T, dir string, profiles ...string) (lines []string) {
	t.Helper()
	r, err := repository.Open(dir, nil)
	require.NoError(t, err)
	profile, err := gates.Parse(append(r.Profiles(), profiles...))
	require.NoError(t, err)
	found, err := r.Check(t.Context(), r.All(), repository.Options{Profile: profile})
	require.NoError(t, err)
	return relative(found, dir)
}

func relative(found []*findings.Finding, dir string) (lines []string) {
	for _, f := range found {
		lines = append(lines, strings.ReplaceAll(f.String(), dir+string(filepath.Separator), ""))
	}
	return lines
}

func TestRepositoryWithoutFaults(t *testing.T) {
	dir := t.TempDir()
	community().write(t, dir)
	want := []string{"operators/tide/ci.yaml:4:1: warning: the repository's catalogs do not offer the operator (fbc.enabled), so only a new bundle can change the published catalog (uses-catalogs)"}
	assert.Empty(t, cmp.Diff(want, checked(t, dir)))
	f := community()
	inCatalogs(f)
	dir = t.TempDir()
	f.write(t, dir)
	assert.Empty(t, cmp.Diff([]string(nil), checked(t, dir)))
}

// TestSeededFaults: each static check of operator-pipelines finds its fault in the repository. The names are from
// operatorcert/static_tests.
func TestSeededFaults(t *testing.T) {
	certified := edit(config, "community-operators", "certified-operators")
	for _, tc := range []struct {
		check string
		does  []func(files)
		want  string // part of a finding
	}{
		{"check_operator_name", []func(files){edit(secondNotes, "package.v1: tide", "package.v1: ebb")}, `1.1.0/metadata/annotations.yaml:5:3: error: the operator is called "ebb" here, and "tide" in all other bundles (operator-name)`},
		{"check_operator_name", []func(files){edit(secondCSV, "name: tide.v1", "name: ebb.v1")}, `error: the operator is called "ebb" here, and "tide" in all other bundles (operator-name)`},
		{"check_operator_name", []func(files){edit(secondNotes, "  operators.operatorframework.io.bundle.package.v1: tide\n", "")}, `error: the metadata does not name the operator (operator-name)`},
		{"check_bundle_release_config", []func(files){put(release, "catalog_templates: [{template_name: basic.yaml, channels: [stable]}]\n")}, `release-config.yaml:1:1: error: release-config.yaml is there, but ci.yaml does not say fbc.enabled: true, so it has no effect (release-config)`},
		{"check_bundle_release_config", []func(files){inCatalogs, put(release, "catalog_templates: [{template_name: bassic.yaml, channels: [stable]}]\n")}, `error: template "bassic.yaml" is not in fbc.catalog_mapping of ci.yaml`},
		{"check_bundle_release_config", []func(files){inCatalogs, put(release, "catalog_templates: [{template_name: semver.yaml, channels: [Fast, stable]}]\n")}, `error: template semver.yaml is of type olm.semver, which has no channel stable; want Fast, Candidate, Stable`},
		{"check_validate_schema_bundle_release_config", []func(files){inCatalogs, put(release, "catalog_templates:\n- template_name: basic.yaml\n  channels: []\n  replace: tide.v1.0.0\n")}, `release-config.yaml:3:3: error: catalog_templates[0].channels is empty, want at least 1 (release-config)`},
		{"check_network_policy_presence", []func(files){put("operators/tide/1.1.0/manifests/policy.yaml", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: calm}\nspec: {podSelector: {}}\n")}, `policy.yaml:2:1: error: the bundle has NetworkPolicy calm: let the operator create it (network-policy)`},
		{"check_operator_version_directory_name", []func(files){edit(secondCSV, "  version: 1.1.0", "  version: 1.1.1")}, `error: spec.version is "1.1.1", and the bundle's folder is "1.1.0"; want the same (folder-version)`},
		{"check_replaces_availability", []func(files){edit(secondCSV, "replaces: tide.v1.0.0", "replaces: tide.v0.9.0")}, `error: spec.replaces is tide.v0.9.0, and the repository has no bundle of version 0.9.0; it has 1.0.0 (replaces-available)`},
		{"check_replaces_availability", []func(files){edit(secondNotes, "v4.16", "v4.12")}, `error: the bundle is for OpenShift 4.12, 4.13, 4.14, 4.15, and tide/1.0.0, which it replaces, is not`},
		{"check_replaces_availability", []func(files){edit(secondCSV, "replaces: tide.v1.0.0", "replaces: tide.v1.1.0")}, `error: spec.replaces is tide.v1.1.0, which is the bundle itself`},
		{"check_schema_operator_ci_config", []func(files){put(ci, "updateGraph: replaces-mode\nreviewers: moon\n")}, `ci.yaml:2:1: error: reviewers is a string, want an array (ci-file)`},
		{"check_schema_operator_ci_config", []func(files){put(ci, "updateGraph: replaces-mode\nfbc: {enable: true}\n")}, `error: fbc has an unknown field enable; want one of catalog_mapping, enabled, version_promotion_strategy; did you mean enabled? (ci-file)`},
		{"check_catalog_usage_ci_config", []func(files){inCatalogs, edit(ci, "[v4.21]", "[v4.20]")}, `error: catalog v4.20 is made from template semver.yaml, and from basic.yaml, too; want one template (ci-catalogs)`},
		{"check_bundle_images_in_fbc", []func(files){inCatalogs, edit(catalog, "quay.io/tides/", "quay.io/ebbs/")}, `catalog.yaml:13:1: error: the image of bundle "tide.v1.0.0" is in a registry that community does not allow: expected quay.io/tides/ (bundle-registry)`},
		{"check_olm_bundle_object_in_fbc", []func(files){inCatalogs, edit(catalog, "{type: olm.csv.metadata, value: {displayName: Tide}}", `{type: olm.bundle.object, value: {data: eyJhcGlWZXJzaW9uIjoidjEiLCJraW5kIjoiU2VydmljZSIsIm1ldGFkYXRhIjp7Im5hbWUiOiJhIn19}}`)}, `error: property of type olm.bundle.object of bundle "tide.v1.0.0": catalogs for OpenShift 4.20 describe bundles`},
		{"check_osdk_bundle_validate_operatorhub", []func(files){edit(secondCSV, "categories: Storage", "categories: Sea")}, `error: (tide.v1.1.0) csv.Metadata.Annotations["categories"] value "Sea" is not in the set of standard categories (standardcategories)`},
		{"check_osdk_bundle_validate_operator_framework", []func(files){edit(secondCSV, "moon@example.com", "moon")}, `error: (tide.v1.1.0) csv.Spec.Maintainers email moon is invalid`},
		{"check_required_fields", []func(files){edit(secondCSV, "  displayName: Tide\n", "  displayName: T\n")}, `error: spec.displayName is not as expected: 3 characters or more (required-fields)`},
		{"check_required_fields", []func(files){edit(secondCSV, "    support: The moon\n", "")}, `warning: metadata.annotations.support is missing; expected who supports the operator, in 3 characters or more (required-fields)`},
		{"check_dangling_bundles", []func(files){edit(secondCSV, "  replaces: tide.v1.0.0\n", "")}, `error: nothing replaces or skips tide.v1.0.0 in channel "stable", whose last version is tide.v1.1.0; let a later version replace or skip it (dangling-bundle)`},
		{"check_api_version_constraints", []func(files){edit(secondCSV, "minKubeVersion: 1.29.0", "minKubeVersion: 1.31.0")}, `error: minKubeVersion is 1.31.0, but the bundle is also for OpenShift 4.16 (Kubernetes 1.29), 4.17 (Kubernetes 1.30); let com.redhat.openshift.versions begin with a later version (openshift-kubernetes)`},
		{"check_api_version_constraints", []func(files){edit(secondNotes, "  com.redhat.openshift.versions: v4.16\n", "")}, `error: minKubeVersion is 1.29.0, but no annotation com.redhat.openshift.versions in the metadata says`},
		{"check_using_fbc", nil, `warning: the repository's catalogs do not offer the operator`},
		{"check_operator_name_unique", []func(files){edit(secondCSV, "name: tide.v1", "name: ebb.v1")}, `operators/tide: error: the names of ClusterServiceVersions begin with ebb, tide; want one name (operator-name-unique)`},
		{"check_ci_upgrade_graph", []func(files){put(ci, "updateGraph: replace-mode\n")}, `ci.yaml:1:1: error: updateGraph is replace-mode, want replaces-mode or semver-mode (update-mode)`},
		{"check_ci_upgrade_graph", []func(files){put(ci, "reviewers: [moon]\n")}, `warning: ci.yaml has no updateGraph`},
		{"check_upgrade_graph_loop", []func(files){edit(firstCSV, "  minKubeVersion", "  replaces: tide.v1.1.0\n  minKubeVersion")}, `updates to tide.v1.0.0, and that in the end to tide.v1.1.0 again, in channel "stable" (update-loop)`},
		{"check_pruned_graph", []func(files){certified, edit(secondCSV, "  replaces: tide.v1.0.0\n", ""), edit(secondCSV, "  annotations:\n", "  annotations:\n    olm.skipRange: <1.1.0\n")}, `warning: the bundle has a skipRange and replaces nothing, so all earlier versions leave channel "stable"`},
		{"check_marketplace_annotation", []func(files){edit(config, "community-operators", "redhat-marketplace")}, `error: the annotation marketplace.openshift.io/remote-workflow is "", want "https://marketplace.redhat.com/en-us/operators/tide/pricing?utm_source=openshift_console" (marketplace)`},
		{"what cannot be read", []func(files){edit(secondCSV, "name: tide.v1.1.0", "name: tide")}, `error: metadata.name is "tide", want the operator's name, a dot and a version, such as tide.v1.0.0 (operator-bundle)`},
		{"a ClusterServiceVersion that is none", []func(files){put(secondCSV, "a: [b\n")}, `(operator-bundle)`},
	} {
		t.Run(tc.check, func(t *testing.T) {
			f := community()
			for _, do := range tc.does {
				do(f)
			}
			dir := t.TempDir()
			f.write(t, dir)
			got := checked(t, dir)
			if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, tc.want) }) {
				t.Errorf("no finding with %s:\n%s", tc.want, strings.Join(got, "\n"))
			}
		})
	}
}

// TestWaivers: checks that config.yaml waives for an operator are not made.
func TestWaivers(t *testing.T) {
	f := community()
	edit(secondCSV, "  version: 1.1.0", "  version: 1.1.1")(f)
	f[config] += "tests:\n- name: check_operator_version_directory_name\n  ignore_operators: [^ti]\n"
	dir := t.TempDir()
	f.write(t, dir)
	if got := checked(t, dir); slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "folder-version") }) {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	f[config] = strings.Replace(f[config], "^ti", "ide", 1) // as a pattern, it is for the beginning of a name
	f.write(t, dir)
	if got := checked(t, dir); !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "folder-version") }) {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
}

// before is a commit that has some folders.
type before []string

func (b before) Has(folders []string) (map[string]bool, error) {
	had := map[string]bool{}
	for _, folder := range folders {
		had[folder] = slices.Contains(b, folder)
	}
	return had, nil
}

// TestChange: the findings of pipelines about a whole change.
func TestChange(t *testing.T) {
	f := community()
	f[catalog] = catalogText
	f["operators/ebb/ci.yaml"] = "updateGraph: semver-mode\n"
	dir := t.TempDir()
	f.write(t, dir)
	r, err := repository.Open(dir, nil)
	require.NoError(t, err)
	profile, err := gates.Parse([]string{"community"})
	require.NoError(t, err)
	of := func(version string) []string {
		return []string{"operators/tide/" + version + "/manifests", "operators/tide/" + version + "/metadata"}
	}
	for name, tc := range map[string]struct {
		files  []string
		before before
		want   []string // parts of the findings
	}{
		"a new bundle":           {[]string{secondCSV, secondNotes}, of("1.0.0"), nil},
		"ci.yaml of operators":   {[]string{ci, "operators/ebb/ci.yaml"}, of("1.0.0"), nil},
		"a package":              {[]string{catalog}, append(of("1.0.0"), of("1.1.0")...), nil},
		"another file":           {[]string{secondCSV, "README.md"}, of("1.0.0"), []string{"files that are part of no operator and no catalog: README.md"}},
		"a file beside":          {[]string{secondCSV, ".github/workflows/a.yaml"}, of("1.0.0"), []string{"no catalog: .github/workflows/a.yaml"}},
		"two bundles":            {[]string{firstCSV, secondCSV}, nil, []string{"adds 2 bundles: tide/1.0.0, tide/1.1.0"}},
		"a bundle that is there": {[]string{firstCSV}, of("1.0.0"), []string{"modifies a bundle that is there"}},
		"two operators":          {[]string{secondCSV, "operators/ebb/ci.yaml"}, of("1.0.0"), []string{"several operators: ebb, tide"}},
		"a bundle and a package": {[]string{secondCSV, catalog}, of("1.0.0"), []string{"about bundles (tide/1.1.0) and catalogs (v4.20/tide)"}},
		"one added, one deleted": {[]string{secondCSV, "operators/tide/0.9.0/manifests/a.yaml"}, append(of("1.0.0"), of("0.9.0")...), []string{"adds bundles (tide/1.1.0) and deletes others (tide/0.9.0)"}},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := r.ChangeOf(tc.files, tc.before)
			require.NoError(t, err)
			got := relative(r.CheckChange(change, profile), dir)
			require.Lenf(t, got, len(tc.want), "want %q", tc.want)
			for i, want := range tc.want {
				assert.Contains(t, got[i], want)
			}
		})
	}
}

// TestSummaryOfUnknownRequests: what cannot be computed is not left out, as if the operator asked for nothing.
func TestSummaryOfUnknownRequests(t *testing.T) {
	f := community()
	many := strings.Repeat("a, ", 50)
	f[secondCSV] = strings.Replace(f[secondCSV], "      deployments:\n", fmt.Sprintf("      clusterPermissions:\n      - serviceAccountName: tide\n"+
		"        rules: [{apiGroups: [%[1]s], resources: [%[1]s], verbs: [%[1]s]}]\n      deployments:\n", many), 1)
	dir := t.TempDir()
	f.write(t, dir)
	r, err := repository.Open(dir, nil)
	require.NoError(t, err)
	summary, err := r.Summary(t.Context(), repository.Change{Operators: []string{"tide"}, Added: []repository.Place{{Above: "tide", Name: "1.1.0"}}}, nil, nil)
	require.NoError(t, err)
	assert.Contains(t, summary, "### What `tide/1.1.0` asks for, against `tide/1.0.0`\n\n"+
		"- not known: `ClusterServiceVersion tide.v1.1.0: its rules have more than 100000 combinations of a group, a resource and a verb; expected fewer`\n")
}

// TestSince: exactly the changes of a branch are selected, committed or not.
func TestSince(t *testing.T) {
	dir := t.TempDir()
	f := community()
	f["notes/a"] = "a"
	f["notes/long"] = strings.Repeat("long\n", 7<<20) // a few KiB in git
	delete(f, secondCSV)
	delete(f, secondNotes)
	f.write(t, dir)
	git := gitIn(t, dir)
	git("init", "--quiet", "--initial-branch=main")
	git("add", ".")
	git("commit", "--quiet", "--message=first")
	git("checkout", "--quiet", "-b", "next")
	all := community()
	all["notes/a"], all["notes/long"] = "b", f["notes/long"]
	all.write(t, dir)
	git("add", "notes")
	git("commit", "--quiet", "--message=second")
	git("checkout", "--quiet", "main")
	files{config: "organization: certified-operators\n"}.write(t, dir)
	git("commit", "--quiet", "--all", "--message=third")
	git("checkout", "--quiet", "next")
	all.write(t, dir)

	base, err := repository.Since(t.Context(), dir, "main")
	require.NoError(t, err)
	changed, err := base.Changed()
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]string{"notes/a", secondCSV, secondNotes}, changed), "changed files (-want +got)")
	r, err := repository.Open(dir, nil)
	require.NoError(t, err)
	change, err := r.ChangeOf(changed, base)
	require.NoError(t, err)
	want := repository.Change{Operators: []string{"tide"}, Added: []repository.Place{{Above: "tide", Name: "1.1.0"}}, Others: []string{"notes/a"}}
	assert.Empty(t, cmp.Diff(want, change), "-want +got")
	if text, err := base.Read(config); err != nil || string(text) != all[config] {
		t.Errorf("%s of the base is %q, error %v", config, text, err)
	}
	if _, err := base.Read("missing.yaml"); !os.IsNotExist(err) && !strings.Contains(fmt.Sprint(err), "file does not exist") {
		t.Errorf("a missing file: %v", err)
	}
	if text, err := base.Read("notes/long"); err == nil || !strings.Contains(err.Error(), "notes/long is longer than") {
		t.Errorf("of a file that is longer than files may be, %d bytes were read, error %v", len(text), err)
	}
	for _, ref := range []string{"nowhere", "--output=a"} {
		_, err := repository.Since(t.Context(), dir, ref)
		assert.Errorf(t, err, "%s is a commit", ref)
	}
}

// countingStore is a store in memory that counts its texts.
type countingStore struct {
	texts  map[string][]byte
	loaded int
}

func (s *countingStore) Load(name string) ([]byte, bool) {
	text, kept := s.texts[name]
	if kept {
		s.loaded++
	}
	return text, kept
}

func (s *countingStore) Keep(name string, content []byte) { s.texts[name] = content }

// TestKept: an unchanged bundle is not checked again, even in another folder, unless a file, the options or the program change.
func TestKept(t *testing.T) {
	f := community()
	delete(f, secondCSV)
	delete(f, secondNotes)
	edit(firstCSV, "categories: Storage", "categories: Sea")(f)
	s := &countingStore{texts: map[string][]byte{}}
	run := func(program string, profiles ...string) []string {
		t.Helper()
		dir := t.TempDir()
		f.write(t, dir)
		r, err := repository.Open(dir, nil)
		require.NoError(t, err)
		profile, err := gates.Parse(profiles)
		require.NoError(t, err)
		s.loaded = 0
		found, err := r.Check(t.Context(), r.All(), repository.Options{Profile: profile, Kept: &repository.Kept{Store: s, Program: program}})
		require.NoError(t, err)
		return relative(found, dir)
	}
	first := run("a", "community")
	if s.loaded != 0 || len(first) < 2 {
		t.Fatalf("loaded %d of nothing; found %q", s.loaded, first)
	}
	if diff := cmp.Diff(first, run("a", "community")); diff != "" || s.loaded != 2 {
		t.Errorf("loaded %d, want the facts and what was found; -first +second:\n%s", s.loaded, diff)
	}
	if run("a", "certified"); s.loaded != 1 {
		t.Errorf("by another profile: loaded %d, want the facts alone", s.loaded)
	}
	if run("b", "community"); s.loaded != 0 {
		t.Errorf("by another program: loaded %d", s.loaded)
	}
	edit(firstCSV, "Sea", "Storage")(f)
	if got := run("a", "community"); s.loaded != 0 || slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "categories") }) {
		t.Errorf("after a change: loaded %d, found %q", s.loaded, got)
	}
	for name := range s.texts {
		s.texts[name] = []byte("no JSON")
	}
	if run("a", "community"); s.loaded != 2 {
		t.Errorf("what cannot be read is not used: loaded %d", s.loaded)
	}
}

// TestStore: a process finds the results that an earlier one kept in a folder.
func TestStore(t *testing.T) {
	f := community()
	dir, cache := t.TempDir(), t.TempDir()
	f.write(t, dir)
	r, err := repository.Open(dir, nil)
	require.NoError(t, err)
	var lines [2][]string
	for i := range lines {
		s := &store.Store{What: "checks", Dir: cache, Suffix: ".json", Limit: 1 << 20, Longest: 1 << 20}
		found, err := r.Check(t.Context(), r.All(), repository.Options{Kept: &repository.Kept{Store: s, Program: "a"}})
		require.NoError(t, err)
		if lines[i] = relative(found, dir); s.Close() != nil {
			t.Error("the store is not closed")
		}
	}
	kept, err := os.ReadDir(cache)
	if diff := cmp.Diff(lines[0], lines[1]); diff != "" || err != nil || len(kept) != 4 {
		t.Errorf("%d files of two bundles, %v: %s", len(kept), err, diff)
	}
}

func TestSettings(t *testing.T) {
	read := func(text string) (repository.Settings, error) {
		dir := t.TempDir()
		files{repository.SettingsFile: text}.write(t, dir)
		s, _, err := repository.ReadSettings(repository.In(dir))
		return s, err
	}
	got, err := read("profiles: [community, openshift-4.20]\nseverities: {folder-version: warning}\nignore: [fips, related-images:tide]\nbaseline: known.json\npackages: [tide]\n")
	want := repository.Settings{Profiles: []string{"community", "openshift-4.20"}, Severities: map[string]findings.Verdict{"folder-version": findings.Warning},
		Ignore: []string{"fips", "related-images:tide"}, Baseline: "known.json", Packages: []string{"tide"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
	refused := map[string]string{
		"profile: [community]\n":          "unknown field",
		"profiles: [comunity]\n":          "did you mean community",
		"severities: {folder: warning}\n": "there is no rule",
		"severities: {fips: bad}\n":       "want RULE=error",
		"baseline: ../known.json\n":       "want a path in the repository",
		"baseline: /known.json\n":         "want a path in the repository",
		"ignore: [operator-nam]\n":        "did you mean operator-name",
		"packages: tide\n":                "packages",
	}
	for _, text := range slices.Sorted(maps.Keys(refused)) {
		_, err := read(text)
		assert.ErrorContains(t, err, refused[text], text)
	}
	if _, given, err := repository.ReadSettings(repository.In(t.TempDir())); given || err != nil {
		t.Errorf("without a file: given %v, %v", given, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := repository.Open(dir, nil)
	assert.ErrorContains(t, err, "it has no folder operators", "an empty folder")
	f := community()
	f[config] = "tests: [{name: check_operator_name, ignore_operators: ['(']}]\n"
	f.write(t, dir)
	_, err = repository.Open(dir, nil)
	assert.ErrorContains(t, err, "check_operator_name", "a pattern that is none")
}

// TestLinkedFolders: what a branch links to is not read as if it were the repository's.
func TestLinkedFolders(t *testing.T) {
	for _, folder := range []string{repository.OperatorsDir, repository.CatalogsDir} {
		t.Run(folder, func(t *testing.T) {
			dir, elsewhere := t.TempDir(), t.TempDir()
			community().write(t, dir)
			community().write(t, elsewhere)
			require.NoError(t, errors.Join(os.RemoveAll(filepath.Join(dir, folder)), os.Symlink(filepath.Join(elsewhere, folder), filepath.Join(dir, folder))))
			_, err := repository.Open(dir, nil)
			assert.ErrorContains(t, err, folder+" is a link")
		})
	}
}
