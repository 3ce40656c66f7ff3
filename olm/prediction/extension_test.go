package prediction

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/olm/upgrade"
	"github.com/berth-csi/berth/test/catalogs/operators"
)

const deprecated200 = `---
schema: olm.deprecations
package: rowboat
entries:
- {reference: {schema: olm.bundle, name: rowboat.v2.0.0}, message: it leaks}
`

// inline200 is a bundle without an image.
const inline200 = `---
schema: olm.bundle
package: rowboat
name: rowboat.v2.0.0
properties:
- {type: olm.package, value: {packageName: rowboat, version: 2.0.0}}
- {type: olm.bundle.object, value: {data: eyJhcGlWZXJzaW9uIjoidjEiLCJraW5kIjoiQ29uZmlnTWFwIiwibWV0YWRhdGEiOnsibmFtZSI6Im9hciJ9fQ==}}
`

func bundleOf(version string) string { return operators.BundleDocument("rowboat", version) }

func readCatalog(t *testing.T, documents ...string) *fbc.Catalog {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(strings.Join(documents, "")), 0o644))
	return read(t, dir)
}

// TestExtension covers the choices of OLM v1, and the reasons why it does nothing. TestPredictions in package olmv1 compares
// them with OLM v1 itself.
func TestExtension(t *testing.T) {
	all := []string{bundleOf("1.0.0"), bundleOf("1.1.0"), bundleOf("2.0.0")}
	for name, test := range map[string]struct {
		e         Extension
		installed string
		documents []string // instead of all bundles
		want      Reaction
		next      string
		code      Code // of a reason or a risk
		says      string
	}{
		"nothing is installed":       {want: Installs, next: "2.0.0"},
		"a skipRange":                {installed: "1.0.0", want: Updates, next: "2.0.0", says: `updates to rowboat.v2.0.0, whose skipRange "<1.1.0" includes it (the latest wanted version)`},
		"a skip of what is not here": {installed: "1.1.0-rc1", want: Updates, next: "2.0.0", says: "which skips it"},
		"no edge":                    {installed: "1.1.0", want: Stranded, code: NoEdge, says: "rowboat.v2.0.0 is later, and no edge leads to it"},
		"the latest":                 {installed: "2.0.0", want: Latest, says: "the latest wanted version is installed"},
		"a range of versions":        {e: Extension{Versions: "1.x"}, want: Installs, next: "1.1.0"},
		"a range without versions": {e: Extension{Versions: ">=3"}, want: Refused, code: NoBundle,
			says: `no bundles found for package "rowboat" matching version ">=3"`},
		"edges of other channels":         {e: Extension{Channels: []string{"slow"}}, installed: "1.0.0", want: Updates, next: "1.1.0"},
		"the latest of a channel":         {e: Extension{Channels: []string{"slow"}}, installed: "1.1.0", want: Latest},
		"one of two channels":             {e: Extension{Channels: []string{"slow", "stable"}}, want: Installs, next: "2.0.0"},
		"no such channel":                 {e: Extension{Channels: []string{"fast"}}, want: Refused, code: ChannelAbsent, says: "package rowboat has no channel fast"},
		"no edge is needed":               {e: Extension{SelfCertified: true}, installed: "1.1.0", want: Updates, next: "2.0.0", says: "to which no upgrade edge leads"},
		"an earlier version":              {e: Extension{SelfCertified: true, Versions: "1.0.0"}, installed: "1.1.0", want: Updates, next: "1.0.0", code: Downgrade},
		"an earlier rebuild":              {e: Extension{SelfCertified: true}, installed: "1.0.0+2", documents: []string{strings.Replace(bundleOf("1.0.0"), "version: 1.0.0", "version: 1.0.0+1", 1)}, want: Updates, next: "1.0.0+1", code: Downgrade},
		"an installed version is unknown": {installed: "1.5.0", want: Refused, code: NoEdge, says: `error upgrading from currently installed version "1.5.0"`},
		"deprecated bundles are last":     {documents: append(all, deprecated200), want: Installs, next: "1.1.0"},
		"a later bundle is deprecated":    {documents: append(all, deprecated200), installed: "1.1.0", want: Latest},
		"a successor is deprecated":       {documents: append(all, deprecated200), installed: "1.0.0", e: Extension{Versions: "<1.1 || >=2"}, want: Latest, code: Deprecated, says: "rowboat.v2.0.0 has it in its skipRange and is deprecated"},
		"a deprecated successor has no version": {documents: append(all[:1:1], strings.ReplaceAll(bundleOf("2.0.0"), "version: 2.0.0", "version: two"), deprecated200), installed: "1.0.0",
			want: Latest, code: Deprecated, says: "rowboat.v2.0.0 has it in its skipRange"},
		"a deprecated bundle is installed":   {documents: append(all, deprecated200), installed: "2.0.0", want: Latest, code: Deprecated},
		"only a deprecated bundle is wanted": {e: Extension{Versions: "2.0.0"}, documents: append(all, deprecated200), want: Installs, next: "2.0.0", code: Deprecated, says: "it leaks"},
		"no image":                           {documents: []string{all[0], all[1], inline200}, want: Refused, code: Code(refusal.Image), says: "rowboat.v2.0.0 has no image"},
		"a dependency": {documents: []string{all[0], all[1], all[2] + "- {type: olm.package.required, value: {packageName: oar, versionRange: '>0.0.0'}}\n"}, want: Refused, code: Code(refusal.Dependency),
			says: "olm.package.required"},
		"no AllNamespaces": {documents: []string{all[0], all[1], all[2] + "- {type: olm.csv.metadata, value: {installModes: [{type: OwnNamespace, supported: true}, {type: AllNamespaces, supported: false}]}}\n"},
			want: Refused, code: Code(refusal.InstallMode), says: "rowboat.v2.0.0 does not support the install mode AllNamespaces"},
		"AllNamespaces": {documents: []string{all[0], all[1], all[2] + "- {type: olm.csv.metadata, value: {installModes: [{type: AllNamespaces, supported: true}]}}\n"},
			want: Installs, next: "2.0.0"},
		"no such package": {e: Extension{Package: "canoe"}, want: Refused, code: PackageAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			e := test.e
			if e.Package == "" {
				e.Package = "rowboat"
			}
			if test.installed != "" {
				number := semver.MustParse(test.installed)
				e.Installed = upgrade.Version{Name: "rowboat.v" + test.installed, Number: &number}
			}
			if test.documents == nil {
				test.documents = all
			}
			p, err := e.Predict(t.Context(), readCatalog(t, append([]string{operators.Rowboats}, test.documents...)...))
			require.NoError(t, err)
			next := ""
			if p.Next != nil {
				next = p.Next.Version
			}
			if p.Reaction != test.want || next != test.next {
				t.Errorf("got %s %q, want %s %q:\n%s", p.Reaction, next, test.want, test.next, p.format())
			}
			if test.code != "" && !hasCode(append(p.Why, p.Risks...), test.code) {
				t.Errorf("got the reasons %+v and the risks %+v, want %s", p.Why, p.Risks, test.code)
			}
			assert.Contains(t, p.format(), test.says)
		})
	}
}

func hasCode(reasons []Reason, code Code) bool {
	for _, r := range reasons {
		if r.Code == code {
			return true
		}
	}
	return false
}

// named gives a bundle with build metadata a name that OLM v1 can report.
func named(document string) string {
	return strings.Replace(document, "name: rowboat.v1.0.0+", "name: rowboat.v1.0.0-build.", 1)
}

// TestReleases: OLM v1 orders versions by their build metadata, as releases.
func TestReleases(t *testing.T) {
	c := readCatalog(t, `schema: olm.package
name: rowboat
defaultChannel: stable
---
schema: olm.channel
package: rowboat
name: stable
entries:
- name: rowboat.v1.0.0-build.2
- {name: rowboat.v1.0.0-build.10, replaces: rowboat.v1.0.0-build.2}
`, named(bundleOf("1.0.0+2")), named(bundleOf("1.0.0+10")))
	e, err := InstalledExtension(c, "rowboat", "rowboat.v1.0.0-build.2", "")
	require.NoError(t, err)
	if p, err := e.Predict(t.Context(), c); err != nil || p.Reaction != Updates || p.Next.Name != "rowboat.v1.0.0-build.10" || hasCode(p.Risks, VersionAmbiguous) {
		t.Errorf("got %+v, error %v; want an update to release 10", p, err)
	}
}

// TestSameVersions: of bundles with the same version, OLM v1 takes any.
func TestSameVersions(t *testing.T) {
	twin := strings.Replace(bundleOf("1.0.0"), "name: rowboat.v1.0.0", "name: rowboat.twin", 1)
	c := readCatalog(t, `schema: olm.package
name: rowboat
defaultChannel: stable
---
schema: olm.channel
package: rowboat
name: stable
entries:
- name: rowboat.v1.0.0
- {name: rowboat.twin, replaces: rowboat.v1.0.0}
`, bundleOf("1.0.0"), twin)
	e := &Extension{Package: "rowboat"}
	p, err := e.Predict(t.Context(), c)
	if err != nil || !hasCode(p.Risks, VersionAmbiguous) || !slices.Contains(p.Warnings, "rowboat.v1.0.0 and rowboat.twin are the same version to OLM v1: it takes the one that it happens to read first") {
		t.Errorf("got %+v, error %v; want the risk that either is installed", p, err)
	}
}
