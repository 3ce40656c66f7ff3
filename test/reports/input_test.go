package reports_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// harmless returns the harmless counterpart of a hostile text. It has the same length, and is equally invalid as a
// name.
func harmless(text string) string { return "X y" + strings.Repeat("z", max(0, len(text)-3)) }

// hostile are texts that try to be more than text in a report.
var hostile = map[string]string{
	"all at once": "\n✔ all is well\x1b[2K\x1b[31m\x1b]8;;http://sea.example.com\a \u202e\u2066\u009b1m\u200b\r::error::x ##[error]x <!-- <script>document.title='forged'</script>" +
		"<img src=x onerror=\"document.title='forged'\"> [a](http://sea.example.com) ![b](http://sea.example.com/b.png) @crew #13 http://sea.example.com | `c` \"];x[\" \\N\\ %%{init: {}}%% \U000e0041\u2028",
	"lines":      "\n::error file=x::forged\n\n### forged changed\n\n| a | b |\n| - | - |\n| c | d |\n- forged",
	"fences":     "``` `` ` ```\n```\n<b>forged</b>\n",
	"a comment":  "<!--",
	"a command":  "::error::forged",
	"a diagram":  "\"]\n    end\n    c9n9[\"forged\"]\n    click c9n9 href \"http://sea.example.com\"\n%%{init: {'theme':'dark'}}%%",
	"a graph":    "\\\"]; forged [label=\"\\N\"]; \" -> \"",
	"an element": "\"/><script>document.title='forged'</script><a href='javascript:alert(1)'>forged</a><![CDATA[]]>",
	"no XML":     "\x01\x0b\ufffe\uffff",
}

// input is a folder with catalogs and bundles that have a text wherever possible.
type input struct {
	dir  string
	text string
}

func newInput(t *testing.T, text string) *input {
	t.Helper()
	w := &input{t.TempDir(), text}
	w.catalog(t, "old", 1)
	w.catalog(t, "new", 2)
	w.broken(t)
	w.bundles(t)
	w.repository(t)
	w.template(t)
	return w
}

// object is a document of a catalog or a bundle.
type object = map[string]any

type list = []any

// write writes documents, as JSON.
func (w *input) write(t *testing.T, path string, documents ...any) {
	t.Helper()
	var text strings.Builder
	for _, d := range documents {
		require.NoError(t, json.NewEncoder(&text).Encode(d))
	}
	w.writeText(t, path, forYAML(strings.TrimSuffix(text.String(), "\n"))+"\n")
}

func (w *input) writeText(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(w.dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// fileName returns the text as far as it is possible in a file name.
func (w *input) fileName() string {
	name := strings.ReplaceAll(w.text, "/", "_")
	return name[:min(len(name), 100)]
}

// catalog writes a valid catalog of one package with a number of versions.
func (w *input) catalog(t *testing.T, dir string, versions int) {
	t.Helper()
	x := strings.ReplaceAll(w.text, "/", "_") // OLM rejects channels with a slash
	entries := list{}
	documents := []any{object{"schema": "olm.package", "name": "tide", "defaultChannel": "stable" + x, "description": "# Tide\n\n" + x,
		"icon": object{"mediatype": "image/svg+xml" + x, "base64data": base64.StdEncoding.EncodeToString([]byte("<svg/>" + x))}}}
	for _, version := range []string{"1.0.0", "2.0.0"}[:versions] {
		name := "tide" + x + ".v" + version
		entry := object{"name": name, "skipRange": ">=0.1.0 <" + version}
		if version == "2.0.0" {
			entry["replaces"], entry["skips"] = "tide"+x+".v1.0.0", list{"tide" + x + ".v0.9.0"}
		}
		entries = append(entries, entry)
		documents = append(documents, object{"schema": "olm.bundle", "package": "tide", "name": name, "image": "sea.example.com/tide:" + version,
			"relatedImages": list{object{"name": "driver" + x, "image": "sea.example.com/driver:" + version}},
			"properties": list{
				object{"type": "olm.package", "value": object{"packageName": "tide", "version": version}},
				object{"type": "sea" + x, "value": x},
				object{"type": "olm.bundle.object", "value": object{"data": w.csv(t, name, version)}},
			}})
	}
	for _, channel := range []string{"stable" + x, "fast" + x}[:versions] {
		documents = append(documents, object{"schema": "olm.channel", "package": "tide", "name": channel, "entries": entries})
	}
	if versions > 1 {
		documents = append(documents, object{"schema": "olm.deprecations", "package": "tide", "entries": list{
			object{"reference": object{"schema": "olm.package"}, "message": "Package: " + x},
			object{"reference": object{"schema": "olm.channel", "name": "stable" + x}, "message": "Channel: " + x},
			object{"reference": object{"schema": "olm.bundle", "name": "tide" + x + ".v1.0.0"}, "message": x},
		}})
		phases := list{object{"name": "Full support" + x, "startDate": "2024-01-01", "endDate": "2999-12-31"}}
		documents = append(documents, object{"schema": "io.openshift.operators.lifecycles.v1alpha1", "package": "tide", "versions": list{
			object{"name": "2.0", "phases": phases, "platformCompatibility": list{object{"name": "openshift" + x, "versions": list{"4.20" + x}}}},
			object{"name": x, "phases": list{object{"name": x, "startDate": x, "endDate": x}}}}})
	}
	documents = append(documents, object{"schema": "sea.example.com", "package": "tide", "name": x, "text": x})
	w.write(t, filepath.Join(dir, w.fileName()+"catalog.json"), documents...)
}

// csv returns a ClusterServiceVersion.
func (w *input) csv(t *testing.T, name, version string) []byte {
	t.Helper()
	data, err := json.Marshal(w.csvObject(name, version))
	require.NoError(t, err)
	return []byte(forYAML(string(data)))
}

// forYAML replaces JSON characters that YAML cannot represent otherwise by \u escapes.
func forYAML(text string) string {
	var written strings.Builder
	for _, r := range text {
		if unicode.Is(unicode.Cc, r) && r > 0x7e || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&written, `\u%04x`, r)
		} else {
			written.WriteRune(r)
		}
	}
	return written.String()
}

func (w *input) csvObject(name, version string) object {
	x := w.text
	return object{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": object{"name": name, "annotations": object{"capabilities": "Basic" + x, "categories": x, "support": x, "repository": x, "createdAt": x,
			"features.operators.openshift.io/" + x: "true"}},
		"spec": object{"displayName": "Tide" + x, "version": version, "description": "# Tide\n\n`" + x + "`\n\n" + x, "maturity": x,
			"provider": object{"name": "Sea" + x}, "icon": list{object{"mediatype": "image/png" + x, "base64data": "eA==" + x}},
			"installModes":              list{object{"type": "AllNamespaces", "supported": true}, object{"type": "Own" + x, "supported": version == "2.0.0"}},
			"customresourcedefinitions": object{"owned": list{object{"name": "tides.sea.example.com" + x, "kind": "Tide" + x, "version": "v1" + x}}},
			"minKubeVersion":            "1." + version[:1] + ".0",
			"install": object{"strategy": "deployment", "spec": object{
				"clusterPermissions": list{object{"serviceAccountName": "tide", "rules": list{
					object{"apiGroups": list{"sea" + x}, "resources": list{"tides" + x, version}, "resourceNames": list{x}, "verbs": list{"get" + x}},
					object{"nonResourceURLs": list{"/" + x}, "verbs": list{"get"}}}}},
				"deployments": list{object{"name": "tide", "spec": object{"selector": object{"matchLabels": object{"app": "tide"}},
					"template": object{"metadata": object{"labels": object{"app": "tide"}},
						"spec": object{"containers": list{object{"name": "tide", "image": "sea.example.com/tide:" + version}}}}}}},
			}}}}
}

// broken writes a catalog with faults of each kind, and files that are not catalogs.
func (w *input) broken(t *testing.T) {
	t.Helper()
	x := w.text
	w.write(t, "broken/"+w.fileName()+"catalog.json",
		object{"schema": "olm.package", "name": "tide" + x, "defaultChannel": "none" + x},
		object{"schema": "olm.channel", "package": "tide" + x, "name": "stable" + x, "entries": list{
			object{"name": "tide" + x, "replaces": "gone" + x, "skipRange": "never" + x}, object{"name": "lost" + x}}},
		object{"schema": "olm.bundle", "package": "tide" + x, "name": "tide" + x, "image": "no image" + x, "properties": list{
			object{"type": "olm.package", "value": object{"packageName": "ebb" + x, "version": "one" + x}},
			object{"type": "olm.gvk" + x, "value": x}, object{"type": "olm.package.required", "value": object{"packageName": x, "versionRange": x}}}},
		object{"schema": "olm.bundle", "package": "moon" + x, "name": "moon" + x},
		object{"schema": "olm.deprecations", "package": "tide" + x, "entries": list{object{"reference": object{"schema": "olm.bundle", "name": "no" + x}, "message": x}}},
		object{"schema": "olm.deprecations", "package": "tide" + x, "entries": list{object{"reference": object{"schema": "olm" + x, "name": x}, "message": x}}},
	)
	w.write(t, "broken/"+w.fileName()+".yaml", object{"schema": "olm.package", "name": 1, "": w.text})
	w.writeText(t, "unreadable/"+w.fileName()+"x.yaml", "schema: 'olm.package\n")
	w.writeText(t, "baseline.json", `{"schema":`+string(must(json.Marshal("berth.findings.v1"+x)))+"}")
	w.writeText(t, "strange/catalog.json", `{"schema":"olm.package","name":"tide"}{"schema":`+string(must(json.Marshal("olm"+x))))
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

// bundles writes bundle folders: one that is readable but faulty, and one that is not readable.
func (w *input) bundles(t *testing.T) {
	t.Helper()
	x := w.text
	for _, dir := range []string{"bundles/1.0.0", "bundles/none"} {
		w.write(t, dir+"/metadata/annotations.yaml", object{"annotations": object{
			"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1", "operators.operatorframework.io.bundle.package.v1": "tide",
			"operators.operatorframework.io.bundle.channels.v1": "stable" + strings.ReplaceAll(x, ",", "_"), "operators.operatorframework.io.bundle.channel.default.v1": "stable" + strings.ReplaceAll(x, ",", "_"),
			"operators.operatorframework.io.bundle.manifests.v1": "manifests/", "operators.operatorframework.io.bundle.metadata.v1": "metadata/", "sea" + x: x}})
	}
	csv := w.csvObject("tide"+x+".v1.0.0", "1.0.0")
	w.write(t, "bundles/1.0.0/manifests/"+w.fileName()+"csv.yaml", csv)
	w.write(t, "bundles/1.0.0/manifests/"+w.fileName()+"crd.yaml", object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "tides.sea.example.com" + x}, "spec": object{"group": "sea" + x, "names": object{"kind": "Tide" + x, "plural": x}, "scope": x}})
	w.write(t, "bundles/2.0.0/metadata/annotations.yaml", object{"annotations": object{
		"operators.operatorframework.io.bundle.package.v1": "tide", "operators.operatorframework.io.bundle.channels.v1": "stable"}})
	w.write(t, "bundles/2.0.0/manifests/"+w.fileName()+"csv.yaml", w.csvObject("tide"+x+".v2.0.0", "2.0.0"))
	w.writeText(t, "bundles/torn/"+w.fileName()+"x", "")
	w.write(t, "bundles/none/manifests/"+w.fileName()+"csv.yaml", object{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": object{"name": x}, "spec": object{"version": x}})
}

// repository writes a repository of operators with faults.
func (w *input) repository(t *testing.T) {
	t.Helper()
	x := w.text
	w.write(t, "repository/config.yaml", object{"organization": "sea" + x, "allowed_bundle_registries": list{"quay.io/" + x}})
	w.write(t, "repository/operators/tide/ci.yaml", object{"updateGraph": x, "reviewers": x,
		"fbc": object{x: x, "catalog_mapping": list{object{"template_name": x, "catalog_names": list{"v4.20"}, "type": x}, object{"template_name": x + "2", "catalog_names": list{"v4.20"}, "type": "olm.semver"}}}})
	for _, version := range []string{"1.0.0", "1.1.0"} {
		dir := "repository/operators/tide/" + version
		w.write(t, dir+"/metadata/annotations.yaml", object{"annotations": object{"operators.operatorframework.io.bundle.package.v1": "tide" + x + version,
			"operators.operatorframework.io.bundle.channels.v1": "stable", "com.redhat.openshift.versions": x}})
		w.write(t, dir+"/release-config.yaml", object{"catalog_templates": list{object{"template_name": x, "channels": list{"Fast"}}}})
		csv := w.csvObject("tide"+x+".v"+version, version)
		csv["spec"].(object)["replaces"] = "tide.v0.9.0" + x
		w.write(t, dir+"/manifests/tide.clusterserviceversion.yaml", csv)
	}
}

// template writes a template of a catalog with faults.
func (w *input) template(t *testing.T) {
	t.Helper()
	x := w.text
	w.write(t, "template.yaml", object{"schema": "berth.template", "package": "tide", "bundles": list{object{"folder": "bundles/none"}, object{"folder": "bundles/" + x}},
		"channels": list{object{"name": "stable" + x, "entries": list{object{"version": "9" + x}}, x: x}}})
}
