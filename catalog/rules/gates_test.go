package rules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
)

// gatedText is a catalog without faults by any gate, for OpenShift 4.20.
const gatedText = `schema: olm.package
name: tide
defaultChannel: stable
---
schema: olm.channel
package: tide
name: stable
entries: [{name: tide.v1.0.0}, {name: tide.v1.1.0, replaces: tide.v1.0.0}]
---
schema: olm.channel
package: tide
name: candidate-1
entries: [{name: tide.v1.1.0}]
---
schema: olm.bundle
package: tide
name: tide.v1.0.0
image: REGISTRY/tide-bundle@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
relatedImages: [{name: first, image: registry.redhat.io/tide/first@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]
properties:
- {type: olm.package, value: {packageName: tide, version: 1.0.0}}
- {type: olm.csv.metadata, value: {displayName: Tide}}
---
schema: olm.bundle
package: tide
name: tide.v1.1.0
image: REGISTRY/tide-bundle@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
relatedImages: [{name: second, image: registry.redhat.io/tide/second@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]
properties:
- {type: olm.package, value: {packageName: tide, version: 1.1.0}}
- {type: olm.maxOpenShiftVersion, value: "4.21"}
- {type: olm.csv.metadata, value: {displayName: Tide}}
`

// gated returns the catalog with texts replaced, old and new in turn, in a file of a folder.
func gated(t *testing.T, dir, file string, replaced ...string) *fbc.Catalog {
	t.Helper()
	text := strings.NewReplacer(append(replaced, "REGISTRY", "registry.redhat.io/tide")...).Replace(gatedText)
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	c, found, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, found)
	return c
}

func profileOf(t *testing.T, names ...string) gates.Profile {
	t.Helper()
	p, err := gates.Parse(names)
	require.NoError(t, err)
	return p
}

// TestGates: each rule of a gate finds its fault in the catalog, and nothing without its gate.
func TestGates(t *testing.T) {
	const object = `{type: olm.bundle.object, value: {data: eyJhcGlWZXJzaW9uIjoidjEiLCJraW5kIjoiU2VydmljZSIsIm1ldGFkYXRhIjp7Im5hbWUiOiJhIn19}}`
	const described = `{type: olm.csv.metadata, value: {displayName: Tide}}`
	const own = "v4.20/tide/catalog.yaml"
	for name, tc := range map[string]struct {
		file     string
		replaced []string
		profiles []string
		want     []string // parts of the findings
	}{
		"nothing is wrong":              {own, nil, []string{"konflux", "openshift-4.20"}, nil},
		"objects in 4.20":               {own, []string{described, object}, []string{"konflux"}, []string{`error: property of type olm.bundle.object of bundles "tide.v1.0.0", "tide.v1.1.0": catalogs for OpenShift 4.20 describe bundles`}},
		"objects in 4.20, by pipelines": {own, []string{described, object, "REGISTRY", "quay.io/openshift-community-operators"}, []string{"community"}, []string{`error: property of type olm.bundle.object of bundle "tide.v1.0.0"`, `warning: property of type olm.bundle.object of bundle "tide.v1.1.0"`}},
		"descriptions in 4.16":          {"v4.16/tide/catalog.yaml", nil, []string{"konflux"}, []string{`error: property of type olm.csv.metadata of bundles "tide.v1.0.0", "tide.v1.1.0": catalogs for OpenShift 4.16 carry their objects`}},
		"objects without an image": {own, []string{described, object, "image: REGISTRY/tide-bundle@sha256:" + strings.Repeat("a", 64) + "\n", ""}, []string{"konflux"},
			[]string{"describe bundles, in properties of type olm.csv.metadata; push them with berth bundle image", "describe bundles, in properties of type olm.csv.metadata; render them with"}},
		"neither":                  {own, []string{"- " + described + "\n", ""}, []string{"konflux"}, []string{"error: no property of type olm.csv.metadata"}},
		"the version of a profile": {"tide/catalog.yaml", []string{described, object}, []string{"konflux", "openshift-4.18"}, []string{"catalogs for OpenShift 4.18 describe bundles"}},
		"no version":               {"tide/catalog.yaml", []string{described, object}, []string{"konflux"}, nil},
		"another registry":         {own, []string{"REGISTRY", "quay.io/tide"}, []string{"certified"}, []string{`error: the image of bundles "tide.v1.0.0", "tide.v1.1.0" is in a registry that certified does not allow: expected registry.connect.redhat.com (bundle-registry)`}},
		"no digest":                {own, []string{"tide-bundle@sha256:" + strings.Repeat("a", 64), "tide-bundle:v1.0.0", "second@sha256:" + strings.Repeat("a", 64), "second"}, []string{"konflux"}, []string{`error: the image of bundle "tide.v1.0.0" has no digest`, `error: an image in relatedImages of bundle "tide.v1.1.0" has no digest`}},
		"no folder":                {"catalog.yaml", nil, []string{"konflux"}, []string{`error: package "tide" is in the catalog's folder itself; expected tide/catalog.yaml (package-folder)`}},
		"an older OpenShift":       {own, nil, []string{"openshift-4.22"}, []string{`warning: property olm.maxOpenShiftVersion of head "tide.v1.1.0" is 4.21, and the catalog is for OpenShift 4.22`}},
		"4.23 is 5.0":              {own, []string{`"4.21"`, `"4.23"`}, []string{"openshift-5.0"}, nil},
		"two OpenShifts": {own, []string{`- {type: olm.maxOpenShiftVersion, value: "4.21"}`, "- {type: olm.maxOpenShiftVersion, value: \"4.21\"}\n- {type: olm.maxOpenShiftVersion, value: \"4.22\"}"},
			[]string{"openshift-4.20"}, []string{`warning: property olm.maxOpenShiftVersion of head "tide.v1.1.0" is given twice, as "4.21" and as "4.22"; OLM accepts one: remove the other`}},
		"an OpenShift with a third part": {own, []string{`"4.21"`, `"4.21.3"`}, []string{"openshift-4.20"}, []string{`warning: property of bundle "tide.v1.1.0": olm.maxOpenShiftVersion is 4.21.3, want MAJOR.MINOR in quotes`}},
	} {
		t.Run(name, func(t *testing.T) {
			c := gated(t, t.TempDir(), tc.file, tc.replaced...)
			got := rules.CheckGates(c, rules.Options{Profile: profileOf(t, tc.profiles...)})
			require.Lenf(t, got, len(tc.want), "want %q", tc.want)
			for i, want := range tc.want {
				if !strings.Contains(got[i].String(), want) {
					t.Errorf("got %v, want %s", got[i], want)
				}
			}
			assert.Empty(t, rules.CheckGates(c, rules.Options{}), "without a profile")
		})
	}
}

// TestRegistriesOfRepository: the registries that a repository allows replace the registries of its
// pipeline.
func TestRegistriesOfRepository(t *testing.T) {
	c := gated(t, t.TempDir(), "v4.20/tide/catalog.yaml", "REGISTRY", "quay.io/tide")
	assert.Empty(t, rules.CheckGates(c, rules.Options{Profile: profileOf(t, "certified"), Registries: []string{"quay.io/tide/"}}))
}

// TestPruned: Konflux refuses a catalog that lacks released entries, but for previews.
func TestPruned(t *testing.T) {
	before := gated(t, t.TempDir(), "tide/catalog.yaml")
	konflux := profileOf(t, "konflux")
	lines := func(now *fbc.Catalog) (all []string) {
		for _, f := range rules.AgainstGates(now, before, konflux) {
			all = append(all, f.Message[:strings.Index(f.Message, ";")])
		}
		return all
	}
	candidate := "schema: olm.channel\npackage: tide\nname: candidate-1\nentries: [{name: tide.v1.1.0}]\n---\n"
	for name, tc := range map[string]struct {
		replaced, want []string
	}{
		"the same":    {nil, nil},
		"a candidate": {[]string{candidate, ""}, nil},
		"an entry":    {[]string{"{name: tide.v1.0.0}, ", ""}, []string{`entries of channel "stable" are pruned: tide.v1.0.0`}},
		"a channel":   {[]string{"name: stable", "name: steady"}, []string{`channel "stable" of package "tide" is pruned`}},
		"the package": {[]string{"tide", "ebb"}, nil}, // a catalog of Konflux has some packages of the released one
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, cmp.Diff(tc.want, lines(gated(t, t.TempDir(), "tide/catalog.yaml", tc.replaced...))))
		})
	}
	assert.Empty(t, rules.AgainstGates(gated(t, t.TempDir(), "tide/catalog.yaml", "name: stable", "name: steady"), before, gates.Profile{}), "without the gate")
}

// TestRaise: updates by skipRange alone are a warning, and an error for gates that run opm.
func TestRaise(t *testing.T) {
	found := []*findings.Finding{{Rule: "channel-path-by-range", Severity: findings.Warning}, {Rule: "replaces-downgrade", Severity: findings.Warning}}
	rules.Raise(found, profileOf(t, "operatorhub"))
	assert.Equal(t, findings.Warning, found[0].Severity, "operatorhub runs opm")
	rules.Raise(found, profileOf(t, "community"))
	if found[0].Severity != findings.Error || found[1].Severity != findings.Warning {
		t.Errorf("got %v", found)
	}
	if i := slices.IndexFunc(rules.Rules, func(r findings.Rule) bool { return r.ID == "channel-path-by-range" }); len(rules.Rules[i].Gates) != 3 {
		t.Error("the rule does not name the gates")
	}
}

// TestVerdictNamesProfiles: what only a profile refuses is said to be refused by it, beside what OLM does with other packages.
func TestVerdictNamesProfiles(t *testing.T) {
	refused := func(pkg, rule string) *findings.Finding {
		return findings.Rule{ID: rule, Severity: findings.Error}.Finding("catalog.yaml", "it is wrong").In(pkg)
	}
	for _, tc := range []struct {
		profiles []string
		want     []string
	}{
		{[]string{"community"}, []string{"1 package strands clusters of OLM v0: moon", "2 packages have faults that community refuses: moon, tide"}},
		{nil, []string{"1 package strands clusters of OLM v0: moon", "2 packages have faults that --severity makes errors: moon, tide"}},
	} {
		found := []*findings.Finding{refused("tide", "bundle-registry"), refused("moon", "bundle-format"), refused("moon", "channel-path")}
		assert.Equal(t, tc.want, rules.Verdict(found, tc.profiles))
	}
}
