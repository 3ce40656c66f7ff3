package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/test/catalogs"
)

// TestMistypedCommandLines: an error says what was typed, what was expected, and what may be meant.
func TestMistypedCommandLines(t *testing.T) {
	t.Chdir(t.TempDir())
	writeKinds(t)
	catalogs.Write(t, "versions.yaml", "schema: berth.template\npackage: tide\nbundles:\n- folder: bundle\nchannels:\n- name: stable\n  entries:\n  - version: v1.0.0\n")
	for command, want := range map[string]string{
		"plan catalog tide":                                 `unknown command "plan" for "berth"; did you mean berth adopt plan or berth catalog plan or `,
		"validate catalog":                                  `unknown command "validate" for "berth"; did you mean berth bundle validate or berth catalog validate?`,
		"catalog bump bundle":                               `unknown command "bump" for "berth catalog"; did you mean berth bundle bump?`,
		"csi-migration rollback":                            `unknown command "rollback" for "berth csi-migration"; did you mean berth csi-migration disable or berth csi-migration enable?`,
		"catalog list catalog":                              `there is no list of "catalog", want one of bundles, channels, packages, and then CATALOG`,
		"catalog list packages catalog --format json":       "unknown flag: --format; did you mean --output?",
		"catalog list packages catalog -c stable":           "unknown shorthand flag: 'c' in -c; did you mean --channel?",
		"catalog list bundles catalog --channel stabel":     `no package has a channel "stabel"; ` + "`berth catalog list channels catalog` lists the channels; did you mean stable?",
		"catalog serve catalog --port 50051":                "unknown flag: --port; did you mean --address?",
		"catalog build template.yaml -o out":                "unknown shorthand flag: 'o' in -o; did you mean --openshift or --output-dir?",
		"catalog validate catalog --against":                "--against needs a value: want catalog that this one replaces",
		"catalog mirror catalog oci:out --jobs many":        `--jobs is "many", want a whole number`,
		"catalog mirror catalog oci:out --image-timeout 30": `--image-timeout is "30", want a time with its unit, such as 30s or 5m`,
		"catalog list packages catalog --quiet=maybe":       `--quiet is "maybe", want true or false`,
		"catalog mirror catalog ./out":                      `destination "./out": want a path of a registry, such as registry.example.com/mirror, or oci:DIR for a folder`,
		"bundle image bundle --push tide:v1":                `image "tide:v1" has no registry: want a reference such as quay.io/example/bundle:v1.0.0`,
		// A version as Git's tags have it.
		"bundle generate efs --version v1.0.0 --output-dir out":  `--version is "v1.0.0", want a semantic version such as 1.0.0: `,
		"bundle generate efs --version v1.1.0 --output-dir out":  "; did you mean 1.1.0?",
		"csi-migration plan --downgrade-to v4.11.0":              "; did you mean 4.11.0?",
		"catalog mirror catalog oci:out --package tide@v1.0.0":   "; did you mean 1.0.0?",
		"catalog mirror catalog oci:out --package tide@>=v1.0.0": "; did you mean >=1.0.0?",
		"catalog build versions.yaml --output-dir out":           "v1.0.0 is not a bundle of this template; expected one of tide.v1.0.0; did you mean 1.0.0?",
		"catalog graph catalog tide@v1.0.0":                      `catalog has no package "tide@v1.0.0"; ` + "`berth catalog list packages catalog` lists its packages; did you mean tide?",
		"catalog diff catalog catalog tide@v1.0.0":               "did you mean tide?",
	} {
		t.Run(command, func(t *testing.T) {
			_, said := streamsOf(strings.Fields(command))
			assert.Contains(t, said, want)
		})
	}
}

// TestVersionsOfTags: a version with a v before it is the version.
func TestVersionsOfTags(t *testing.T) {
	t.Chdir(t.TempDir())
	writeKinds(t)
	for _, olm := range []string{"v0", "v1"} {
		for _, version := range []string{"1.0.0", "0.9.0"} { // in the catalog, and not
			plain, said := streamsOf([]string{"catalog", "plan", "catalog", "tide@" + version, "--olm", olm})
			assert.NotEmpty(t, plain, said)
			tagged, _ := streamsOf([]string{"catalog", "plan", "catalog", "tide@v" + version, "--olm", olm})
			assert.Equal(t, string(plain), string(tagged), "--olm %s, %s", olm, version)
		}
	}
}
