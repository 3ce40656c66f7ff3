package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// catalogInputs are hostile catalogs, each with the size that TestCosts gives commands.
var catalogInputs = []input{
	{"apis", apis, 1000},
	{"removed", removed, 2000},
	{"rules", celRules, 3},
	{"brackets", func(t *testing.T, dir string, n int) string {
		const levels = 450
		document := `{"schema":"deep","a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}\n"
		return file(t, dir, "catalog.json", `{"schema":"olm.package","name":"tide","defaultChannel":"stable"}`+"\n"+strings.Repeat(document, n))
	}, 1000},
	{"beside", beside, 5000},
	{"skipped", skipped, 10_000},
	{"heads", heads, 3000},
	{"forks", forks, 2000},
	{"alone", alone, 5000},
	{"deprecated", deprecated, 10_000},
	{"copies", copies, 5000},
	{"alternatives", channel(func(i int, e map[string]any) {
		if i == 1 {
			e["skipRange"] = "9.0.0" + strings.Repeat(" || 9.0.0", 200_000)
		}
	}), 2},
	{"empty documents", func(t *testing.T, dir string, n int) string {
		return file(t, dir, "catalog.json", strings.Repeat("{}\n", n))
	}, 300_000},
	{"chain", channel(func(i int, e map[string]any) {}), 1000},
	{"range", channel(func(i int, e map[string]any) { e["skipRange"] = ">=0.0.0 <9999.0.0" }), 1000},
	{"ranges", channel(func(i int, e map[string]any) { e["skipRange"] = fmt.Sprintf(">=0.0.0 <0.0.%d", i) }), 3000},
	{"skips", channel(func(i int, e map[string]any) {
		var skips []string
		for j := range 200 {
			skips = append(skips, fmt.Sprintf("x%d-%d", i, j))
		}
		e["skips"] = skips
	}), 300},
	{"duplicates", channel(func(i int, e map[string]any) { e["name"] = "tide.v1.0.0" }), 2000},
	{"no bundles", channel(func(i int, e map[string]any) { e["name"] = fmt.Sprintf("none%d", i) }), 2000},
	{"cycle", channel(func(i int, e map[string]any) { e["skips"] = []string{"tide.v1.999.0", "tide.v1.0.0"} }), 1000},
	{"deep", func(t *testing.T, dir string, n int) string {
		return file(t, dir, "catalog.yaml", tide+"---\nschema: deep\na: "+strings.Repeat("[", n)+strings.Repeat("]", n)+"\n")
	}, 100_000},
	{"long", func(t *testing.T, dir string, n int) string {
		return file(t, dir, "catalog.yaml", tide+"---\nschema: long\na: "+strings.Repeat("x", n)+"\n")
	}, 4 << 20},
	{"many documents", func(t *testing.T, dir string, n int) string {
		return file(t, dir, "catalog.yaml", tide+strings.Repeat("---\nschema: many\na: 1\n", n))
	}, 20_000},
	{"wide", func(t *testing.T, dir string, n int) string {
		return file(t, dir, "catalog.json", `{"schema":"wide","a":[{}`+strings.Repeat(",{}", n)+"]}")
	}, 300_000},
	{"long names", func(t *testing.T, dir string, n int) string { // each of very many findings names the package and the channel
		long := "tide-" + strings.Repeat("x", 100*n)
		var entries []any
		for i := range n {
			entries = append(entries, map[string]any{"name": fmt.Sprintf("none%d", i), "replaces": fmt.Sprintf("none%d", i+2)})
		}
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		for _, d := range []any{
			map[string]any{"schema": "olm.package", "name": long, "defaultChannel": long},
			map[string]any{"schema": "olm.channel", "package": long, "name": long, "entries": entries},
			bundleDocument(long, "1.0.0"),
		} {
			require.NoError(t, encoder.Encode(d))
		}
		return file(t, dir, "catalog.json", text.String())
	}, 2000},
	{"aliases", func(t *testing.T, dir string, _ int) string {
		return file(t, dir, "catalog.yaml", tide+"---\nschema: bomb\n"+bomb)
	}, 1},
}

// catalogOf writes a catalog of package tide, with channels by their names, and bundles besides those of versions 1.N.0.
func catalogOf(t *testing.T, dir string, channels map[string][]map[string]any, n int, more ...any) string {
	t.Helper()
	all := []any{map[string]any{"schema": "olm.package", "name": "tide", "defaultChannel": "stable"}}
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		all = append(all, map[string]any{"schema": "olm.channel", "package": "tide", "name": name, "entries": channels[name]})
	}
	for i := range n {
		all = append(all, bundleDocument("tide", fmt.Sprintf("1.%d.0", i)))
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	for _, d := range append(all, more...) {
		require.NoError(t, encoder.Encode(d))
	}
	return file(t, dir, "catalog.json", text.String())
}

// provided returns properties for so many APIs in a version.
func provided(n int, version string) (all []any) {
	for i := range n {
		all = append(all, map[string]any{"type": "olm.gvk", "value": map[string]any{"group": "example.com", "version": version, "kind": fmt.Sprintf("K%d", i)}})
	}
	return all
}

// apis is a bundle with many APIs in many channels.
func apis(t *testing.T, dir string, n int) string {
	channels := map[string][]map[string]any{"stable": {{"name": "tide.v2.0.0"}}}
	for i := range n {
		channels[fmt.Sprintf("c%d", i)] = channels["stable"]
	}
	return catalogOf(t, dir, channels, 0, bundleDocument("tide", "2.0.0", provided(n, "v1")...))
}

// celRules is a bundle with rules in CEL of the greatest length that CEL reads, and of the greatest that Berth checks.
func celRules(t *testing.T, dir string, n int) string {
	var all []any
	for i := range n {
		for _, terms := range []int{2500, 200} {
			rule := fmt.Sprintf("%d == 0", i) + strings.Repeat(` || properties.exists(p, p.type == "x")`, terms)
			all = append(all, map[string]any{"type": "olm.constraint", "value": map[string]any{"failureMessage": "no", "cel": map[string]any{"rule": rule}}})
		}
	}
	return catalogOf(t, dir, map[string][]map[string]any{"stable": {{"name": "tide.v2.0.0"}}}, 0, bundleDocument("tide", "2.0.0", all...))
}

// removed is an update that removes a version of many APIs.
func removed(t *testing.T, dir string, n int) string {
	channels := map[string][]map[string]any{"stable": {{"name": "tide.v2.0.0"}, {"name": "tide.v3.0.0", "replaces": "tide.v2.0.0"}}}
	return catalogOf(t, dir, channels, 0, bundleDocument("tide", "2.0.0", provided(n, "v1")...), bundleDocument("tide", "3.0.0", provided(n, "v2")...))
}

// line returns entries for versions 1.N.0 that replace each other.
func line(n int) (all []map[string]any) {
	for i := range n {
		e := map[string]any{"name": fmt.Sprintf("tide.v1.%d.0", i)}
		if i > 0 {
			e["replaces"] = fmt.Sprintf("tide.v1.%d.0", i-1)
		}
		all = append(all, e)
	}
	return all
}

// beside is a channel whose head skips the last of entries that replace each other, so that each of them ends elsewhere.
func beside(t *testing.T, dir string, n int) string {
	entries := append(line(n), map[string]any{"name": "tide.v2.0.0", "skips": []string{fmt.Sprintf("tide.v1.%d.0", n-1)}})
	return catalogOf(t, dir, map[string][]map[string]any{"stable": entries}, n, bundleDocument("tide", "2.0.0"))
}

// skipped is a channel with a skipped entry that skips many others.
func skipped(t *testing.T, dir string, n int) string {
	var entries []map[string]any
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("tide.v1.%d.0", i))
		entries = append(entries, map[string]any{"name": names[i]})
	}
	entries = append(entries, map[string]any{"name": "tide.v2.0.0", "skips": names}, map[string]any{"name": "tide.v3.0.0", "skips": []string{"tide.v2.0.0"}})
	return catalogOf(t, dir, map[string][]map[string]any{"stable": entries}, n, bundleDocument("tide", "2.0.0"), bundleDocument("tide", "3.0.0"))
}

// heads is a channel with many heads, each with a skipRange that holds none.
func heads(t *testing.T, dir string, n int) string {
	var entries []map[string]any
	for i := range n {
		entries = append(entries, map[string]any{"name": fmt.Sprintf("tide.v1.%d.0", i), "skipRange": fmt.Sprintf("<0.0.%d", i)})
	}
	return catalogOf(t, dir, map[string][]map[string]any{"stable": entries}, n)
}

// forks is a channel with many entries that replace the last one of a line.
func forks(t *testing.T, dir string, n int) string {
	entries := line(n)
	var bundles []any
	for i := range n {
		entries = append(entries, map[string]any{"name": fmt.Sprintf("tide.v2.%d.0", i), "replaces": fmt.Sprintf("tide.v1.%d.0", n-1)})
		bundles = append(bundles, bundleDocument("tide", fmt.Sprintf("2.%d.0", i)))
	}
	return catalogOf(t, dir, map[string][]map[string]any{"stable": entries}, n, bundles...)
}

// alone are many bundles that are in none of many channels.
func alone(t *testing.T, dir string, n int) string {
	channels := map[string][]map[string]any{"stable": {{"name": "tide.v2.0.0"}}}
	for i := range n {
		channels[fmt.Sprintf("c%d", i)] = channels["stable"]
	}
	return catalogOf(t, dir, channels, n, bundleDocument("tide", "2.0.0"))
}

// deprecated are many bundles that are deprecated.
func deprecated(t *testing.T, dir string, n int) string {
	var said []any
	for i := range n {
		said = append(said, map[string]any{"reference": map[string]any{"schema": "olm.bundle", "name": fmt.Sprintf("tide.v1.%d.0", i)}, "message": "old"})
	}
	return catalogOf(t, dir, map[string][]map[string]any{"stable": line(n)}, n, map[string]any{"schema": "olm.deprecations", "package": "tide", "entries": said})
}

// copies are two files with the same documents.
func copies(t *testing.T, dir string, n int) string {
	catalogOf(t, dir, map[string][]map[string]any{"stable": line(n)}, n)
	text, err := os.ReadFile(filepath.Join(dir, "catalog.json"))
	require.NoError(t, err)
	return file(t, dir, "copy.json", string(text))
}

// lifecycles is a package whose lifecycle has many versions, each with a fault.
func lifecycles(t *testing.T, dir string, n int) string {
	var text strings.Builder
	text.WriteString(tide + "---\nschema: io.openshift.operators.lifecycles.v1alpha1\npackage: tide\nversions:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {name: \"1.%d\", phases: [{name: Full support, startDate: \"2024-06-30\", endDate: \"2024-01-01\"}]}\n", i)
	}
	return file(t, dir, "catalog.yaml", text.String())
}

// templateInputs are templates of opm, with images that cannot be had, or with one that is repeated.
var templateInputs = []input{
	{"repeated", func(t *testing.T, dir string, n int) string {
		images := strings.Repeat(`{"image": "quay.io/example/tide:v1"},`, n)
		return file(t, dir, "template.json", `{"schema": "olm.semver", "stable": {"bundles": [`+strings.TrimSuffix(images, ",")+"]}}")
	}, 10_000},
	{"images", func(t *testing.T, dir string, n int) string {
		var text strings.Builder
		text.WriteString("schema: olm.template.basic\nentries:\n")
		for i := range n {
			fmt.Fprintf(&text, "- {schema: olm.bundle, image: none%d}\n", i)
		}
		return file(t, dir, "basic.yaml", text.String())
	}, 2000},
	{"listed twice", func(t *testing.T, dir string, n int) string {
		return file(t, dir, "semver.yaml", "schema: olm.semver\nstable:\n  bundles:\n"+strings.Repeat("  - image: none\n", n))
	}, 2000},
	{"substitutions", func(t *testing.T, dir string, n int) string {
		var text strings.Builder
		text.WriteString("schema: olm.template.substitutes\nentries: []\nsubstitutions:\n")
		for i := range n {
			fmt.Fprintf(&text, "- {name: none, base: none%d}\n", i)
		}
		return file(t, dir, "substitutes.yaml", text.String())
	}, 2000},
	{"brackets", func(t *testing.T, dir string, n int) string {
		const levels = 450
		document := "- {schema: deep, package: tide, value: " + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}\n"
		return file(t, dir, "basic.yaml", "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: tide, defaultChannel: stable}\n"+strings.Repeat(document, n))
	}, 1000},
}

// bundleInputs are hostile bundles.
var bundleInputs = []input{
	{"owned", bundleWith(func(csv map[string]any, n int) {
		definitions := csv["spec"].(map[string]any)["customresourcedefinitions"].(map[string]any)
		owned := definitions["owned"].([]any)
		for i := range n {
			of := maps.Clone(owned[0].(map[string]any))
			of["name"] = fmt.Sprintf("x%d.example.com", i)
			definitions["owned"] = append(definitions["owned"].([]any), of)
		}
	}), 500},
	{"long names", bundleWith(func(csv map[string]any, n int) { // each of very many findings names the version
		csv["metadata"].(map[string]any)["name"] = "tide.v1.0.0-" + strings.Repeat("x", 100*n)
		definitions := csv["spec"].(map[string]any)["customresourcedefinitions"].(map[string]any)
		for i := range n {
			definitions["owned"] = append(definitions["owned"].([]any), map[string]any{"name": fmt.Sprintf("x%d.example.com", i), "version": "v1", "kind": "Tide"})
		}
	}), 2000},
	{"variables", bundleWith(func(csv map[string]any, n int) {
		deployment := csv["spec"].(map[string]any)["install"].(map[string]any)["spec"].(map[string]any)["deployments"].([]any)[0].(map[string]any)
		container := deployment["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		for i := range n {
			container["env"] = append(container["env"].([]any), map[string]any{"name": fmt.Sprintf("V%d_IMAGE", i), "value": fmt.Sprintf("quay.io/x/z%d@sha256:%064x", i, i)})
		}
	}), 500},
	{"rules", func(t *testing.T, dir string, n int) string {
		bundleWith(func(map[string]any, int) {})(t, dir, n)
		path := filepath.Join(dir, "manifests", "aws-efs.managed.openshift.io_sharedvolumes.yaml")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var definition apiextensionsv1.CustomResourceDefinition
		require.NoError(t, yaml.Unmarshal(text, &definition))
		schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		for i := range n {
			rule := fmt.Sprintf("%d == 0", i) + strings.Repeat(" || [1].exists(p, p == 1)", 3900) // CEL reads 100,000 characters
			schema.XValidations = append(schema.XValidations, apiextensionsv1.ValidationRule{Rule: rule, Message: "no"})
		}
		text, err = json.Marshal(definition)
		require.NoError(t, err)
		file(t, filepath.Dir(path), filepath.Base(path), string(text))
		return dir
	}, 3},
	{"brackets", func(t *testing.T, dir string, n int) string {
		bundleWith(func(map[string]any, int) {})(t, dir, n)
		const levels = 450
		text := strings.Builder{}
		text.WriteString("properties:\n")
		for i := range n {
			fmt.Fprintf(&text, "- {type: x%d, value: %s%s}\n", i, strings.Repeat("[", levels), strings.Repeat("]", levels))
		}
		file(t, filepath.Join(dir, "metadata"), "properties.yaml", text.String())
		return dir
	}, 300},
	{"files", func(t *testing.T, dir string, n int) string {
		bundleWith(func(map[string]any, int) {})(t, dir, n)
		for i := range n {
			file(t, filepath.Join(dir, "manifests"), fmt.Sprintf("cm%d.yaml", i), fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"}}`, i))
		}
		return dir
	}, 1000},
}

// repositoryInputs are repositories of operators.
var repositoryInputs = []input{
	{"channels", func(t *testing.T, dir string, n int) string {
		operator := filepath.Join(dir, "operators", "tide")
		file(t, operator, "ci.yaml", "updateGraph: replaces-mode\n")
		channels := "c0"
		for i := range 40 {
			channels += fmt.Sprintf(",c%d", i)
		}
		for i := range n {
			bundle := filepath.Join(operator, fmt.Sprintf("1.%d.0", i))
			file(t, filepath.Join(bundle, "metadata"), "annotations.yaml", "annotations:\n  operators.operatorframework.io.bundle.package.v1: tide\n"+
				"  operators.operatorframework.io.bundle.channels.v1: "+channels+"\n")
			file(t, filepath.Join(bundle, "manifests"), "tide.clusterserviceversion.yaml", fmt.Sprintf(`{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
				"metadata": {"name": "tide.v1.%d.0", "annotations": {"olm.skipRange": ">=0.0.0 <9.0.0"}}, "spec": {"version": "1.%d.0"}}`, i, i))
		}
		return dir
	}, 120},
	{"reviewers", func(t *testing.T, dir string, n int) string {
		file(t, filepath.Join(dir, "operators", "tide"), "ci.yaml", "updateGraph: replaces-mode\nreviewers:\n"+strings.Repeat("- 1\n", n))
		return dir
	}, 20_000},
}

// inRepository returns inputs that have the bundles of others in repositories of operators.
func inRepository(bundles []input) (all []input) {
	for _, in := range bundles {
		gen := in.gen
		in.gen = func(t *testing.T, dir string, n int) string {
			gen(t, filepath.Join(dir, "operators", "tide", "1.0.0"), n)
			return dir
		}
		all = append(all, in)
	}
	return all
}

// file writes a file in a folder, and returns the folder.
func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	return dir
}

// channel generates a catalog with one channel, in which each entry replaces the one before, and changes each entry.
func channel(change func(i int, entry map[string]any)) func(*testing.T, string, int) string {
	return func(t *testing.T, dir string, n int) string {
		t.Helper()
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		var entries []map[string]any
		for i := range n {
			e := map[string]any{"name": fmt.Sprintf("tide.v1.%d.0", i)}
			if i > 0 {
				e["replaces"] = fmt.Sprintf("tide.v1.%d.0", i-1)
			}
			change(i, e)
			entries = append(entries, e)
		}
		all := []any{map[string]any{"schema": "olm.package", "name": "tide", "defaultChannel": "stable"},
			map[string]any{"schema": "olm.channel", "package": "tide", "name": "stable", "entries": entries}}
		for i := range n {
			all = append(all, bundleDocument("tide", fmt.Sprintf("1.%d.0", i)))
		}
		for _, d := range all {
			require.NoError(t, encoder.Encode(d))
		}
		return file(t, dir, "catalog.json", text.String())
	}
}

// packages generates a catalog with many packages.
func packages(t *testing.T, dir string, n int) string {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	for i := range n {
		name := fmt.Sprintf("tide-%d", i)
		for _, d := range []any{
			map[string]any{"schema": "olm.package", "name": name, "defaultChannel": "stable"},
			map[string]any{"schema": "olm.channel", "package": name, "name": "stable", "entries": []any{map[string]any{"name": name + ".v1.0.0"}}},
			bundleDocument(name, "1.0.0"),
		} {
			require.NoError(t, encoder.Encode(d))
		}
	}
	return file(t, dir, "catalog.json", text.String())
}

func bundleDocument(pkg, version string, properties ...any) map[string]any {
	return map[string]any{"schema": "olm.bundle", "package": pkg, "name": pkg + ".v" + version, "image": "127.0.0.1:1/x/y@sha256:" + strings.Repeat("0", 64),
		"properties": append([]any{map[string]any{"type": "olm.package", "value": map[string]any{"packageName": pkg, "version": version}}}, properties...)}
}

// pigeons generates a catalog that OLM's resolver does not solve in any time.
func pigeons(t *testing.T, dir string, n int) string {
	t.Helper()
	require.NoError(t, catalogs.WritePigeons(dir, n))
	return dir
}

// bundleWith generates a bundle: one of this repository with a change of its ClusterServiceVersion.
func bundleWith(change func(csv map[string]any, n int)) func(*testing.T, string, int) string {
	return func(t *testing.T, dir string, n int) string {
		t.Helper()
		require.NoError(t, os.CopyFS(dir, os.DirFS("../../bundle/aws-efs-operator/1.0.0")))
		files, err := filepath.Glob(filepath.Join(dir, "manifests", "*clusterserviceversion*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		text, err := os.ReadFile(files[0])
		require.NoError(t, err)
		var csv map[string]any
		require.NoError(t, yaml.Unmarshal(text, &csv))
		change(csv, n)
		if text, err = json.Marshal(csv); err != nil {
			t.Fatal(err)
		}
		require.NoError(t, os.WriteFile(files[0], text, 0o644))
		return dir
	}
}

// manyInIndex generates a folder of images with a list of very many.
func manyInIndex(t *testing.T, dir string, n int) string {
	t.Helper()
	file(t, dir, "oci-layout", `{"imageLayoutVersion":"1.0.0"}`)
	return "oci:" + file(t, dir, "index.json", `{"schemaVersion":2,"manifests":[{}`+strings.Repeat(",{}", n)+"]}")
}

// except returns inputs but for one.
func except(name string, of []input) []input {
	return slices.DeleteFunc(slices.Clone(of), func(in input) bool { return in.name == name })
}

// withImages adds images of catalogs to inputs.
func withImages(of []input) []input {
	return append(slices.Clone(of), input{"index", manyInIndex, 400_000}, input{"unreachable", func(*testing.T, string, int) string { return registry.Nobody() + "/x/y:v1" }, 1})
}
