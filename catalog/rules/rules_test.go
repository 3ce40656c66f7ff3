package rules_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/memory"
	"github.com/berth-csi/berth/test/catalogs"
)

var update = flag.Bool("update", false, "write the files that hold what tests expect")

// TestCheck checks the catalogs in testdata/validate. The file "want" of each archive has the findings and, in its last
// line, the verdict of real opm. The two verdicts must agree, except for archives that differences explains.
func TestCheck(t *testing.T) {
	opm := catalogs.OPM(t)
	explained := map[string]bool{}
	for _, d := range differences {
		explained[d.archive] = true
	}
	for _, path := range catalogs.Archives(t, "testdata/validate") {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive := catalogs.Extract(t, path, "catalog")
			accepted := exec.CommandContext(t.Context(), opm, "validate", "catalog").Run() == nil
			got, valid := judge(t)
			assert.Equalf(t, explained[name], accepted != valid, "valid by opm: %v, by us: %v; is a difference explained, and is there one", accepted, valid)
			catalogs.Compare(t, path, archive, map[bool]string{true: "opm: valid\n", false: "opm: not valid\n"}[accepted]+got, *update)
		})
	}
}

// judge returns all findings about the catalog in folder catalog, and whether it is valid.
func judge(t *testing.T) (text string, valid bool) {
	t.Helper()
	c, found, err := fbc.Read(t.Context(), "catalog")
	if err != nil {
		return err.Error() + "\n", false
	}
	found = append(found, rules.Check(c)...)
	findings.Sort(found)
	return reportOf(t, found), findings.Count(found, findings.Error) == 0
}

func reportOf(t *testing.T, found []*findings.Finding) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, (findings.Report{Findings: found}).Write(&text, findings.Text))
	return text.String()
}

// TestAgainst compares the catalogs in testdata/against: folder "now" of each archive with folder "before".
func TestAgainst(t *testing.T) {
	for _, path := range catalogs.Archives(t, "testdata/against") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := catalogs.Extract(t, path, ".")
			before, err := rules.Load(t.Context(), "before")
			require.NoError(t, err)
			now, found, err := fbc.Read(t.Context(), "now")
			require.NoError(t, err)
			require.Empty(t, found)
			catalogs.Compare(t, path, archive, reportOf(t, rules.Against(now, before)), *update)
		})
	}
}

// TestManyLargeHeads: many channels have one large head, each after another small one. What it asks for is not compared with all of them.
func TestManyLargeHeads(t *testing.T) {
	const channels = 100
	bundle := func(version string, padding int) string {
		csv := fmt.Sprintf(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"tide.v%s"},"spec":{"version":"%s","description":"%s","install":{"strategy":"deployment"}}}`,
			version, version, strings.Repeat("x", padding))
		return fmt.Sprintf("---\nschema: olm.bundle\npackage: tide\nname: tide.v%s\nimage: registry.example.com/tide:%s\nproperties:\n- {type: olm.package, value: {packageName: tide, version: %s}}\n- {type: olm.bundle.object, value: {data: %s}}\n",
			version, version, version, base64.StdEncoding.EncodeToString([]byte(csv)))
	}
	before, now := "schema: olm.package\nname: tide\ndefaultChannel: c0\n", "schema: olm.package\nname: tide\ndefaultChannel: c0\n"+bundle("2.0.0", 100_000)
	for i := range channels {
		version := fmt.Sprintf("1.0.%d", i)
		before += fmt.Sprintf("---\nschema: olm.channel\npackage: tide\nname: c%d\nentries: [{name: tide.v%s}]\n", i, version) + bundle(version, 0)
		now += fmt.Sprintf("---\nschema: olm.channel\npackage: tide\nname: c%d\nentries: [{name: tide.v2.0.0, skips: [tide.v%s]}]\n", i, version)
	}
	text := reportOf(t, rules.Against(load(t, now), load(t, before)))
	if want := `too many channels have large heads: from channel "c10" on, what they ask for is not compared`; !strings.Contains(text, want) || strings.Count(text, "(against-access)") != 1 {
		t.Errorf("want one finding of the rule, %s:\n%.2000s", want, text)
	}
}

// load reads a valid catalog of one file.
func load(t *testing.T, text string) *fbc.Catalog {
	t.Helper()
	c, err := rules.Load(t.Context(), catalogDir(t, text))
	require.NoError(t, err)
	return c
}

func catalogDir(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), text)
	return dir
}

// TestLongNames: the name of a channel is not repeated for each fault of its entries.
func TestLongNames(t *testing.T) {
	entries := ""
	for i := range 500 {
		entries += fmt.Sprintf("- {name: tide.v1.0.%d, skips: [tide.v1.0.%d]}\n", i+1, i)
	}
	long := strings.Repeat("t", 256<<10)
	dir := catalogDir(t, "schema: olm.package\nname: tide\ndefaultChannel: "+long+"\n---\nschema: olm.channel\npackage: tide\nname: "+long+"\nentries:\n"+entries)
	c, faults, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, faults)
	var found []*findings.Finding
	allocated := memory.Allocated(func() { found = rules.Check(c) })
	found = slices.DeleteFunc(found, func(f *findings.Finding) bool { return f.Rule != "entry-bundle" })
	assert.Len(t, found, 500)
	assert.Less(t, allocated, uint64(64<<20))
}

// TestManyChannelsLoseAnAPI: an update that many channels make is reported once.
func TestManyChannelsLoseAnAPI(t *testing.T) {
	catalog := func(entry string, versions ...string) string {
		text := "schema: olm.package\nname: tide\ndefaultChannel: c0\n"
		for i := range 3 {
			text += fmt.Sprintf("---\nschema: olm.channel\npackage: tide\nname: c%d\nentries: [%s]\n", i, entry)
		}
		for i, api := range versions {
			text += fmt.Sprintf("---\nschema: olm.bundle\npackage: tide\nname: tide.v1.0.%[1]d\nimage: registry.example.com/tide:%[1]d\nproperties:\n- {type: olm.package, value: {packageName: tide, version: 1.0.%[1]d}}\n", i)
			for _, version := range strings.Fields(api) {
				text += fmt.Sprintf("- {type: olm.gvk, value: {group: sea.example.com, version: %s, kind: Tide}}\n", version)
			}
		}
		return text
	}
	before := catalog("{name: tide.v1.0.0}", "v1 v1beta1")
	now := catalog("{name: tide.v1.0.0}, {name: tide.v1.0.1, replaces: tide.v1.0.0}", "v1 v1beta1", "v1")
	text := reportOf(t, rules.Against(load(t, now), load(t, before)))
	if want := `the update from tide.v1.0.0 to tide.v1.0.1 in channel "c0" and 2 others removes version v1beta1 of Tide`; strings.Count(text, "(against-api-version)") != 1 || !strings.Contains(text, want) {
		t.Errorf("want one finding of the rule, %s:\n%s", want, text)
	}
}

// TestManySkipRanges: the different skipRanges of a channel that are compared with each of its versions have a limit.
func TestManySkipRanges(t *testing.T) {
	catalog := func(entries int, skipRange func(i int) string) string {
		text := "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\nentries:\n- name: tide.v1.0.0\n"
		bundles := ""
		for i := range entries {
			if i > 0 {
				text += fmt.Sprintf("- {name: tide.v1.0.%d, replaces: tide.v1.0.%d, skipRange: '%s'}\n", i, i-1, skipRange(i))
			}
			bundles += fmt.Sprintf("---\nschema: olm.bundle\npackage: tide\nname: tide.v1.0.%[1]d\nimage: registry.example.com/tide:%[1]d\nproperties:\n- {type: olm.package, value: {packageName: tide, version: 1.0.%[1]d}}\n", i)
		}
		return text + bundles
	}
	for name, tc := range map[string]struct {
		skipRange func(i int) string
		want      string
	}{
		"the same": {func(int) string { return "<1.0.0 || " + strings.Repeat(" ", 1000) + "<0.1.0" }, ""},
		"others": {func(i int) string { return fmt.Sprintf("<1.0.0 || %s<0.0.%d", strings.Repeat(" ", 1000), i) },
			`the different skipRanges of channel "stable" have more than 65536 bytes together: the skipRange of entry "tide.v1.0.65" and 34 later ones are not compared with versions`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rules.Load(t.Context(), catalogDir(t, catalog(100, tc.skipRange)))
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

// TestLoad checks that exactly the catalogs that opm serves can be loaded, except for the differences.
func TestLoad(t *testing.T) {
	for name, want := range map[string]string{
		"valid": "", "downgrade": "", "path-skipped": "", "path-by-range": "", "bundle-dependency": "",
		"yaml-tab": "malformed YAML", "head-none": "has no head", "bundle-metadata-two": "expected at most one", "no-package": "holds no package",
	} {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.Abs("testdata/validate/" + name + ".txtar")
			require.NoError(t, err)
			catalogs.Extract(t, path, "catalog")
			c, err := rules.Load(t.Context(), "catalog")
			switch {
			case want == "" && (err != nil || c == nil):
				t.Errorf("got error %v", err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got error %v, want %s", err, want)
			}
		})
	}
}

// TestLinksOutside: opm follows a link out of the catalog's folder, and Read does not.
func TestLinksOutside(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "tide.yaml")
	catalogs.Write(t, filepath.Join(dir, "ebb.yaml"), "schema: olm.package\nname: ebb\ndefaultChannel: stable\n---\n"+
		"schema: olm.channel\npackage: ebb\nname: stable\nentries: [{name: ebb.v1.0.0}]\n")
	catalogs.Write(t, outside, "schema: olm.bundle\npackage: ebb\nname: ebb.v1.0.0\nimage: registry.example.com/ebb:v1\n"+
		"properties: [{type: olm.package, value: {packageName: ebb, version: 1.0.0}}]\n")
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.yaml")))
	if out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", dir).CombinedOutput(); err != nil {
		t.Errorf("opm: %v\n%s", err, out)
	}
	_, err := rules.Load(t.Context(), dir)
	assert.ErrorContains(t, err, "link.yaml is a symbolic link")
}

// TestEveryRule checks that some archive breaks each rule, except the rule about very large documents, which package
// document tests, and the rules of gates, which TestGates and TestPruned test.
func TestEveryRule(t *testing.T) {
	var said strings.Builder
	for _, path := range append(catalogs.Archives(t, "testdata/validate"), catalogs.Archives(t, "testdata/against")...) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		said.Write(data)
	}
	for _, r := range slices.Concat(rules.Rules, rules.AgainstRules) {
		if r.ID != document.Size.ID && !r.ByGates && !strings.Contains(said.String(), "("+r.ID+")\n") {
			t.Errorf("no archive breaks rule %s", r.ID)
		}
	}
}

// TestRemedies applies the advice of findings about updates, in all catalogs of testdata. No advice may be left then.
func TestRemedies(t *testing.T) {
	add := regexp.MustCompile(`add (.+) to the skips of (\S+) \(channel-head\)`)
	let := regexp.MustCompile(`no update leads from (?:entry|entries) (.+?) of channels? "(.+?)".* to the head .*; let "(.+?)" skip (?:it|them), too \(channel-path\)`)
	meant := regexp.MustCompile(`(\S+)(?: of channels? .*?)? (replaces|skips) "(.*)", which no entry is called; did you mean (.+?)\?`)
	advised := 0
	for _, path := range catalogs.Archives(t, "testdata/validate") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			catalogs.Extract(t, path, "catalog")
			c, found, err := fbc.Read(t.Context(), "catalog")
			if err != nil || len(found) > 0 {
				return // TestCheck reports it
			}
			change := func(f *findings.Finding, entry string, by func(*declcfg.ChannelEntry)) {
				advised++
				for _, channel := range c.Find(f.Package).Channels {
					for i := range channel.Entries {
						if channel.Entries[i].Name == entry {
							by(&channel.Entries[i])
						}
					}
				}
			}
			for _, f := range rules.Check(c) {
				for _, m := range meant.FindAllStringSubmatch(f.String(), -1) {
					change(f, m[1], func(e *declcfg.ChannelEntry) {
						if m[2] == "replaces" {
							e.Replaces = m[4]
							return
						}
						if at := slices.Index(e.Skips, m[3]); at >= 0 {
							e.Skips[at] = m[4]
						}
					})
				}
				if m := add.FindStringSubmatch(f.String()); m != nil {
					change(f, m[2], func(e *declcfg.ChannelEntry) { e.Skips = append(e.Skips, strings.Split(m[1], ", ")...) })
				}
				if m := let.FindStringSubmatch(f.String()); m != nil {
					change(f, m[3], func(e *declcfg.ChannelEntry) {
						e.Skips = append(e.Skips, strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", ")...)
					})
				}
			}
			for _, f := range rules.Check(c) {
				if strings.Contains(f.Message, "did you mean") || add.MatchString(f.String()) || f.Rule == "channel-path" {
					t.Errorf("the advice was followed, and there still is: %s", f)
				}
			}
		})
	}
	assert.GreaterOrEqual(t, advised, 10, "how often advice was followed")
}
