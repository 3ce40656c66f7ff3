package rules_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/test/widget"
)

func TestCheckFinds(t *testing.T) {
	const csv, crd = "manifests/widget-operator.clusterserviceversion.yaml", "manifests/widgets.example.com_widgetboxes.yaml"
	const long = "widget-operator-for-those-who-like-their-names-long-and-telling.v1.0.0"
	for _, tc := range []struct {
		name, file, old, new string
		// want holds the findings as text. A tilde stands for the line and column of the new text.
		want []string
	}{{
		name: "unknown capability level",
		file: csv, old: "capabilities: Seamless Upgrades", new: "capabilities: Magic",
		want: []string{csv + `:~: warning: (widget-operator.v1.0.0) csv.Metadata.Annotations.Capabilities "Magic" is not a valid capabilities level (standardcapabilities)`},
	}, {
		name: "unknown category",
		file: csv, old: "categories: Storage", new: "categories: Widgets",
		want: []string{csv + `:~: warning: (widget-operator.v1.0.0) csv.Metadata.Annotations["categories"] value "Widgets" is not in the set of standard categories (standardcategories)`},
	}, {
		name: "broken definition",
		file: crd, old: "scope: Namespaced", new: "scope: Everywhere",
		want: []string{crd + `:~: error: spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced" (customresourcedefinition)`},
	}, {
		name: "unusual channel",
		file: registryv1.AnnotationsPath, old: "channels.v1: stable", new: "channels.v1: weekly",
		want: []string{
			csv + `:50:9: warning: channel(s) ["weekly"] are not following the recommended naming convention: https://olm.operatorframework.io/docs/best-practices/channel-naming (good-practices)`,
			registryv1.AnnotationsPath + `:~: warning: the annotation operators.operatorframework.io.bundle.channels.v1 is "weekly", but as a label in bundle.Dockerfile it is "stable" (olm-labels)`,
		},
	}, {
		name: "example of a foreign API",
		file: csv, old: `"kind": "WidgetBox"`, new: `"kind": "Gadget"`,
		want: []string{
			csv + ":2:1: warning: example must have a provided API: widgets.example.com/v1, Kind=Gadget (clusterserviceversion)",
			csv + ":2:1: warning: provided API should have an example annotation: widgets.example.com/v1, Kind=WidgetBox (clusterserviceversion)",
		},
	}, {
		name: "a kind that opm takes and OLM does not",
		file: "manifests/widget-operator.servicemonitor.yaml", old: "kind: ServiceMonitor", new: "kind: PodMonitor",
		want: []string{`manifests/widget-operator.servicemonitor.yaml:~: error: OLM cannot install a PodMonitor: let the operator create "widget-operator" (olm-kind)`},
	}, {
		name: "a name that is no label's value",
		file: csv, old: "  name: widget-operator.v1.0.0", new: "  name: " + long,
		want: []string{csv + `:2:1: error: (` + long + `) metadata.name "` + long + `" is invalid: must be no more than 63 bytes (clusterserviceversion)`},
	}, {
		name: "an object that is there twice",
		file: "manifests/widget-operator.servicemonitor.yaml", old: "kind: ServiceMonitor", new: "kind: PrometheusRule",
		want: []string{"manifests/widget-operator.servicemonitor.yaml:5:3: warning: PrometheusRule widget-operator is also in manifests/widget-operator.prometheusrule.yaml; OLM writes one of them over the other (olm-duplicate)"},
	}, {
		name: "another media type",
		file: registryv1.AnnotationsPath, old: "mediatype.v1: registry+v1", new: "mediatype.v1: plain+v0",
		want: []string{
			registryv1.AnnotationsPath + `:~: warning: operators.operatorframework.io.bundle.mediatype.v1 is "plain+v0", want "registry+v1" (olm-annotations)`,
			registryv1.AnnotationsPath + `:~: warning: the annotation operators.operatorframework.io.bundle.mediatype.v1 is "plain+v0", but as a label in bundle.Dockerfile it is "registry+v1" (olm-labels)`,
		},
	}, {
		name: "a feature without quotes",
		file: csv, old: `features.operators.openshift.io/cnf: "false"`, new: "features.operators.openshift.io/cnf: false",
		want: []string{csv + `:~: error: the annotation features.operators.openshift.io/cnf is false, want a string in quotes: "true" or "false" (console-feature)`},
	}, {
		name: "an image that a mirror would lack",
		file: csv, old: "image: quay.io/example/widget-operator:v1\n                imagePullPolicy", new: "image: quay.io/example/other:v1\n                imagePullPolicy",
		want: []string{csv + ":~: warning: image quay.io/example/other:v1 of container widget-operator is not in spec.relatedImages (related-images)"},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			b := generate(t, widget.Driver())
			place := ""
			for i, f := range b.Files {
				if f.Path != tc.file {
					continue
				}
				b.Files[i].Data = bytes.Replace(f.Data, []byte(tc.old), []byte(tc.new), 1)
				at := bytes.Index(b.Files[i].Data, []byte(tc.new))
				if at < 0 {
					t.Fatalf("%s has no %q to replace", tc.file, tc.old)
				}
				place = fieldAt(b.Files[i].Data, at+len(tc.new)-len(strings.TrimLeft(tc.new, " ")))
			}
			var want []string
			for _, text := range tc.want {
				want = append(want, strings.Replace(text, ":~:", ":"+place+":", 1))
			}
			assert.Empty(t, cmp.Diff(want, found(t, b)), "findings (-want +got)")
		})
	}
}

// fieldAt returns the position of the field that contains a byte.
func fieldAt(data []byte, offset int) string {
	begin := 1 + bytes.LastIndexByte(data[:offset], '\n')
	line := data[begin:]
	return fmt.Sprintf("%d:%d", 1+bytes.Count(data[:begin], []byte("\n")), 1+len(line)-len(bytes.TrimLeft(line, " -")))
}

// generate generates version 1.0.0 of a driver's bundle.
func generate(t *testing.T, d drivers.Driver) *registryv1.Bundle {
	t.Helper()
	b, err := bundle.Generate(d, bundle.Options{Version: semver.MustParse("1.0.0")})
	require.NoError(t, err)
	return b
}

// found returns the findings about a bundle, with paths relative to it.
func found(t *testing.T, b *registryv1.Bundle) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, b.Write(dir))
	all, err := rules.Check(dir, rules.Options{})
	require.NoError(t, err)
	var texts []string
	for _, f := range all {
		texts = append(texts, strings.ReplaceAll(f.String(), dir+string(filepath.Separator), ""))
	}
	return texts
}

// TestCheckFindsInMetadata checks files that generated bundles may lack.
func TestCheckFindsInMetadata(t *testing.T) {
	for _, tc := range []struct {
		name, file, content string
		want                string
	}{
		{"a type of dependency that OLM does not know", "metadata/dependencies.yaml", "dependencies:\n- type: olm.crd\n  value: {}\n",
			"metadata/dependencies.yaml:2:3: warning: the type is \"olm.crd\", so the dependency has no effect; want one of olm.package, olm.gvk, olm.label, olm.constraint (olm-dependency)"},
		{"an OpenShift version with a patch level", "metadata/properties.yaml", "properties:\n- type: olm.maxOpenShiftVersion\n  value: 4.22.1\n",
			`metadata/properties.yaml:3:3: error: olm.maxOpenShiftVersion is 4.22.1, want MAJOR.MINOR in quotes, such as "5.0" (openshift-version)`},
		{"an OpenShift version that is a number", "metadata/properties.yaml", "properties:\n- type: olm.maxOpenShiftVersion\n  value: 4.20\n",
			`metadata/properties.yaml:3:3: error: olm.maxOpenShiftVersion is 4.2, want MAJOR.MINOR in quotes, such as "5.0" (openshift-version)`},
		{"broken YAML", "metadata/properties.yaml", "properties:\n  - type: olm.package\n\tvalue: 1\n",
			"metadata/properties.yaml:3:1: warning: malformed YAML: found a tab character that violates indentation; OLM's tools leave the file out (syntax)"},
		{"an open quote", "metadata/properties.yaml", "properties:\n- type: \"olm.package\n  value: 1\n",
			"metadata/properties.yaml:2:9: warning: malformed YAML: found unexpected end of stream; OLM's tools leave the file out (syntax)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := generate(t, widget.Driver())
			b.Files = slices.DeleteFunc(b.Files, func(f registryv1.File) bool { return f.Path == tc.file })
			b.Files = append(b.Files, registryv1.File{Path: tc.file, Data: []byte(tc.content)})
			assert.Empty(t, cmp.Diff([]string{tc.want}, found(t, b)), "findings (-want +got)")
		})
	}
}

// TestFindingsStayTheSame: validators list what they keep in maps. In another order, a finding would be unknown to a baseline.
func TestFindingsStayTheSame(t *testing.T) {
	b := generate(t, widget.Driver())
	for i, f := range b.Files {
		if f.Path == "metadata/annotations.yaml" {
			b.Files[i].Data = bytes.Replace(f.Data, []byte("channels.v1: stable"), []byte("channels.v1: stable,weekly,daily,hourly,yearly,monthly"), 1)
		}
	}
	first := found(t, b)
	if len(first) == 0 || !strings.Contains(first[0], `["daily" "hourly" "monthly" "weekly" "yearly"]`) {
		t.Fatalf("got %q, want first a finding that lists five channels by name", first)
	}
	for range 10 {
		require.Empty(t, cmp.Diff(first, found(t, b)), "findings of the same bundle (-first +later)")
	}
}

// TestCheckFindsTooMuch: the size after compression and base64 counts, as OLM stores it.
func TestCheckFindsTooMuch(t *testing.T) {
	noise := make([]byte, 800<<10)
	rand.NewChaCha8([32]byte{}).Read(noise)
	b := generate(t, widget.Driver())
	b.Files = append(b.Files, registryv1.File{Path: "manifests/noise.yaml", Data: fmt.Appendf(nil,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: noise}\nbinaryData: {noise: %s}\n", base64.StdEncoding.EncodeToString(noise))})
	got := strings.Join(found(t, b), "\n")
	assert.Contains(t, got, "maximum bundle compressed size", "findings")
}

// TestEachRuleHasItsPlaceInReports: a report lists every rule, broken or not.
func TestEachRuleHasItsPlaceInReports(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules.Rules() {
		if seen[r.ID] || r.What == "" || r.Severity == "" {
			t.Errorf("rule %+v: want an ID of its own, a severity and a sentence", r)
		}
		seen[r.ID] = true
	}
}

// TestCheckNeedsABundle: a folder with a part of a bundle has findings. Any other folder is not the one that was meant.
func TestCheckNeedsABundle(t *testing.T) {
	dir := t.TempDir()
	if _, err := rules.Check(dir, rules.Options{}); err == nil || !strings.Contains(err.Error(), dir+" is not a bundle folder") {
		t.Errorf("error %v, want one that says that %s is no bundle", err, dir)
	}
	if _, err := rules.CheckImage("quay.io/example/other:v1", nil, rules.Options{}); err == nil || !strings.Contains(err.Error(), "is not a bundle image") {
		t.Errorf("error %v, want one that says that the image is no bundle", err)
	}
	for _, tc := range []struct {
		name       string
		change     func(dir string) error
		file, want string
	}{
		{"no ClusterServiceVersion", func(dir string) error { return os.Remove(filepath.Join(dir, tideCSV)) }, "manifests", "it has no ClusterServiceVersion, only manifests/"},
		{"no manifests", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "manifests")) }, "", "it has no folder manifests"},
		{"no metadata", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "metadata")) }, "", "it has no folder metadata"},
		{"no annotations", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, annotations), []byte("annotations: {a: b}\n"), 0o644)
		}, "metadata", "no file in its folder metadata has the annotation"},
		{"a link", func(dir string) error {
			return os.Symlink("/etc/hostname", filepath.Join(dir, "manifests", "link.yaml"))
		}, "manifests/link.yaml", "is a symbolic link"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := changed(t, tideCSV, "", "")
			require.NoError(t, tc.change(dir))
			found := check(t, dir)
			if len(found) != 1 || found[0].Severity != findings.Error || found[0].File != filepath.Join(dir, tc.file) || !strings.Contains(found[0].Message, tc.want) {
				t.Errorf("found %v, want one error in %s: %s", found, tc.file, tc.want)
			}
		})
	}
	found, err := rules.CheckImage("quay.io/example/tide:v1", map[string][]byte{"metadata/annotations.yaml": []byte("annotations: {}")}, rules.Options{})
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Message, "it has no file in a folder manifests") {
		t.Errorf("found %v, error %v; want a finding about the missing manifests", found, err)
	}
}

func TestGeneratedBundlesAreValid(t *testing.T) {
	for _, d := range append(registry.Packaged(), widget.Driver()) {
		t.Run(d.Name, func(t *testing.T) {
			for _, f := range found(t, generate(t, d)) {
				t.Error(f)
			}
		})
	}
}

func TestCommittedBundlesAreValid(t *testing.T) {
	committed, err := filepath.Glob("../*/*/" + registryv1.ManifestsDir)
	if err != nil || len(committed) == 0 {
		t.Fatalf("no bundle is committed (error %v)", err)
	}
	for _, manifests := range committed {
		found, err := rules.Check(filepath.Dir(manifests), rules.Options{})
		assert.NoError(t, err)
		for _, f := range found {
			t.Error(f)
		}
	}
}
