package mirror_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
)

// TestDependencies: there is a warning for each dependency of a package that only dropped bundles provide.
func TestDependencies(t *testing.T) {
	const (
		moon    = "{type: olm.package.required, value: {packageName: moon, versionRange: '>=1.0.0'}}"
		sun     = "{type: olm.package.required, value: {packageName: sun, versionRange: '>=1.0.0'}}"
		api     = "{type: olm.gvk.required, value: {group: sky.example.com, version: v1, kind: Moon}}"
		noMoon  = `package moon in the versions ">=1.0.0"`
		noSun   = `package sun in the versions ">=1.0.0"`
		noAPI   = "API Moon sky.example.com/v1"
		ofMoon  = "package: {packageName: moon, versionRange: '>=1.0.0'}"
		ofLater = "package: {packageName: moon, versionRange: '>=2.0.0'}"
		ofAPI   = "gvk: {group: sky.example.com, version: v1, kind: Moon}"
	)
	constraint := func(of string) string { return "{type: olm.constraint, value: {failureMessage: none, " + of + "}}" }
	lacks := func(what, bundles string) string {
		return "package tide depends on " + what + ", which the smaller catalog lacks: " + bundles
	}
	all := []string{"tide", "moon"}
	for _, tc := range []struct {
		name     string
		property string
		bundles  int // that have it
		packages []string
		want     []string
	}{
		{"a package that is mirrored", moon, 1, all, nil},
		{"a package that is not", moon, 1, []string{"tide"}, []string{lacks(noMoon, "tide.v1.0.0")}},
		{"a package that the source lacks, too", sun, 1, all, []string{lacks(noSun, "tide.v1.0.0")}},
		{"a package in other versions", constraint(ofLater), 1, all, []string{lacks(`package moon in the versions ">=2.0.0"`, "tide.v1.0.0")}},
		{"an API that is mirrored", api, 1, all, nil},
		{"an API that is not", api, 1, []string{"tide"}, []string{lacks(noAPI, "tide.v1.0.0")}},
		{"a few bundles", api, 2, []string{"tide"}, []string{lacks(noAPI, "tide.v1.0.0, tide.v1.0.1")}},
		{"many bundles", api, 6, []string{"tide"}, []string{lacks(noAPI, "tide.v1.0.0, tide.v1.0.1, tide.v1.0.2 and 3 others")}},
		{"all of several", constraint("all: {constraints: [{" + ofMoon + "}, {" + ofAPI + "}]}"), 1, []string{"tide"}, []string{lacks(noAPI, "tide.v1.0.0"), lacks(noMoon, "tide.v1.0.0")}},
		{"any of several", constraint("any: {constraints: [{" + ofMoon + "}, {" + ofAPI + "}]}"), 1, []string{"tide"}, []string{lacks(noMoon+" or "+noAPI, "tide.v1.0.0")}},
		{"one of several is mirrored", constraint("any: {constraints: [{" + ofLater + "}, {" + ofAPI + "}]}"), 1, all, nil},
		{"what is excluded", constraint("not: {constraints: [{" + ofMoon + "}]}"), 1, []string{"tide"}, nil},
		{"a rule", constraint("cel: {rule: 'properties.exists(p, p.type == \"certified\")'}"), 1, all, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := "schema: olm.package\nname: moon\ndefaultChannel: full\n---\nschema: olm.channel\npackage: moon\nname: full\nentries: [{name: moon.v1.0.0}]\n---\n" +
				"schema: olm.bundle\npackage: moon\nname: moon.v1.0.0\nimage: quay.io/example/moon:v1\nproperties:\n- {type: olm.package, value: {packageName: moon, version: 1.0.0}}\n" +
				"- {type: olm.gvk, value: {group: sky.example.com, version: v1, kind: Moon}}\n---\n" +
				"schema: olm.package\nname: tide\ndefaultChannel: stable\n"
			entries := ""
			for i := range tc.bundles {
				text += fmt.Sprintf("---\nschema: olm.bundle\npackage: tide\nname: tide.v1.0.%[1]d\nimage: quay.io/example/tide:v1.0.%[1]d\nproperties:\n"+
					"- {type: olm.package, value: {packageName: tide, version: 1.0.%[1]d}}\n- %[2]s\n", i, tc.property)
				entries += fmt.Sprintf("- {name: tide.v1.0.%d, skipRange: '<1.0.%[1]d', skips: [%s]}\n", i, skipped(i))
			}
			text += "---\nschema: olm.channel\npackage: tide\nname: stable\nentries:\n" + entries
			assert.Empty(t, cmp.Diff(tc.want, warningsOf(t, text, tc.packages...)), "warnings (-want +got)")
		})
	}
}

// TestManyDependencies: the comparisons of required ranges with versions have a limit.
func TestManyDependencies(t *testing.T) {
	const versions, dependencies = 400, 12
	text := "schema: olm.package\nname: moon\ndefaultChannel: full\n---\nschema: olm.channel\npackage: moon\nname: full\nentries: [{name: moon.v1.0.0}"
	for i := 1; i < versions; i++ {
		text += fmt.Sprintf(",{name: moon.v1.0.%d, replaces: moon.v1.0.%d}", i, i-1)
	}
	text += "]\n"
	for i := range versions {
		text += fmt.Sprintf("---\nschema: olm.bundle\npackage: moon\nname: moon.v1.0.%[1]d\nimage: quay.io/example/moon:v%[1]d\nproperties:\n- {type: olm.package, value: {packageName: moon, version: 1.0.%[1]d}}\n", i)
	}
	text += "---\nschema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\nentries: [{name: tide.v1.0.0}]\n---\n" +
		"schema: olm.bundle\npackage: tide\nname: tide.v1.0.0\nimage: quay.io/example/tide:v1\nproperties:\n- {type: olm.package, value: {packageName: tide, version: 1.0.0}}\n"
	for i := range dependencies {
		text += fmt.Sprintf("- {type: olm.package.required, value: {packageName: moon, versionRange: '>=1.0.%d%s'}}\n", i, strings.Repeat(" ", 60_000))
	}
	assert.Equal(t, []string{"the bundles have so many dependencies on packages of so many versions that not all are compared: the smaller catalog may lack others"},
		warningsOf(t, text, "tide", "moon"))
}

// warningsOf returns the warnings of a mirror of packages of a catalog.
func warningsOf(t *testing.T, text string, packages ...string) []string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text), 0o644))
	options := mirror.Options{Name: "sea", Tag: "latest"}
	for _, name := range packages {
		options.Selections = append(options.Selections, mirror.Selection{Package: name})
	}
	m, err := mirror.New(t.Context(), dir, options)
	require.NoError(t, err)
	defer m.Close()
	slices.Sort(m.Warnings)
	return m.Warnings
}

// skipped lists the bundles before a number.
func skipped(before int) (names string) {
	for i := range before {
		names += fmt.Sprintf("tide.v1.0.%d,", i)
	}
	return names
}
