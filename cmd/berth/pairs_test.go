package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"golang.org/x/net/html"

	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/test/hostile"
)

var (
	allPairs = flag.Bool("all-pairs", false, "try each field of files with each report, which takes half an hour, and not one pair in forty")
	pair     = flag.String("pair", "", "try only the fields whose path contains `text`, in TestPairs")
)

// isTried reports whether a pair is tried without -all-pairs: always the same ones.
func isTried(field, report string) bool {
	hash := fnv.New32a()
	fmt.Fprint(hash, field, " ", report)
	return *allPairs || hash.Sum32()%40 == 0
}

// shownFiles has the arguments of each command that reads files of strangers and shows something of them: CATALOG and OLD are two
// states of a catalog, BUNDLE and OLDBUNDLE of a bundle; EXTENSION has a ClusterExtension, and BASELINE known findings.
var shownFiles = map[string][]string{
	"catalog validate":         {"CATALOG", "CATALOG --against OLD", "CATALOG --for olm-v1"},
	"catalog list":             {"packages CATALOG", "channels CATALOG", "bundles CATALOG"},
	"catalog lifecycle":        {"CATALOG"},
	"catalog diff":             {"OLD CATALOG", "OLD CATALOG --for olm-v1"},
	"catalog graph":            {"CATALOG", "CATALOG --for olm-v1"},
	"catalog plan":             {"CATALOG tide@1.0.0", "CATALOG tide@1.0.0 --olm v1", "CATALOG --extension EXTENSION"},
	"catalog convert-template": {"basic CATALOG", "substitutes CATALOG", "berth CATALOG"},
	"catalog render":           {"CATALOG"},
	"bundle validate":          {"BUNDLE", "BUNDLE --for olm-v1", "BUNDLE --profile certified --baseline BASELINE"},
	"bundle permissions":       {"BUNDLE", "BUNDLE --against OLDBUNDLE"},
	"check":                    {"REPOSITORY --profile community", "REPOSITORY --profile certified"},
}

// shownElsewhere has the test that tries hostile texts in what other commands show, or why there is nothing to try.
var shownElsewhere = map[string]string{
	"bundle generate":       "it reads a definition of this repository",
	"bundle bump":           "test/reports TestHostileFiles",
	"bundle image":          "test/reports TestHostileFiles",
	"catalog add":           "cmd/berth TestHostileYAML", // what it prints is the path of its argument
	"catalog build":         "test/reports TestHostileFiles",
	"catalog image":         "test/reports TestHostileFiles",
	"catalog serve":         "test/reports TestHostileFiles",
	"catalog mirror":        "cmd/berth TestMirrorFormats",
	"catalog unmirror":      "cmd/berth TestMirrorFormats",
	"catalog rules":         "it reads nothing",
	"opm":                   "it leaves the work to the packages behind catalog render, validate, list, graph, build and serve",
	"version":               "it reads nothing",
	"options":               "it reads nothing",
	"exit-codes":            "it reads nothing",
	"help":                  "it reads nothing",
	"switch plan":           "migrate/subscription TestHostileFields",
	"switch apply":          "migrate/subscription TestHostileFields",
	"switch status":         "migrate/subscription TestHostileFields",
	"switch rollback":       "migrate/subscription TestHostileFields",
	"adopt plan":            "migrate/adoption TestHostileFields",
	"adopt apply":           "migrate/adoption TestHostileFields",
	"adopt resume":          "migrate/adoption TestHostileFields",
	"adopt status":          "migrate/adoption TestHostileFields",
	"adopt rollback":        "migrate/adoption TestHostileFields",
	"adopt cleanup":         "migrate/adoption TestHostileFields",
	"move plan":             "migrate/move TestHostileFields",
	"move apply":            "migrate/move TestHostileFields",
	"move resume":           "migrate/move TestHostileFields",
	"move status":           "migrate/move TestHostileFields",
	"move rollback":         "migrate/move TestHostileFields",
	"csi-migration status":  "migrate/csimigration TestHostileFields",
	"csi-migration plan":    "migrate/csimigration TestHostileFields",
	"csi-migration enable":  "migrate/csimigration TestHostileFields",
	"csi-migration disable": "migrate/csimigration TestHostileFields",
	"csi-migration resume":  "migrate/csimigration TestHostileFields",
	"doctor":                "internal/doctor TestHostileFields",
	"grant":                 "cmd/berth TestHostileFields",
	"grant list":            "cmd/berth TestHostileFields",
	"aws create":            "cmd/berth TestHostileFields",
	"aws destroy":           "cmd/berth TestHostileFields",
}

var testName = regexp.MustCompile(`^([a-z0-9/-]+) (Test\w+)$`)

// TestPlaces: each command that exists has a row in one of the two lists, and each test that they name exists. The formats of a command
// are not listed: TestPairs takes them from the command itself.
func TestPlaces(t *testing.T) {
	var commands []string
	for _, c := range leaves(newCommand()) {
		if !c.Hidden {
			commands = append(commands, strings.TrimPrefix(c.CommandPath(), "berth "))
		}
	}
	commands = append(commands, "grant") // it has a command below it
	for _, c := range commands {
		if _, here := shownFiles[c]; !here && shownElsewhere[c] == "" {
			t.Errorf("berth %s: name its arguments in shownFiles, or the test of what it shows in shownElsewhere", c)
		}
	}
	for c, where := range shownElsewhere {
		assert.Containsf(t, commands, c, "there is no berth %s", c)
		name := testName.FindStringSubmatch(where)
		if name == nil {
			continue
		}
		tests, err := filepath.Glob(filepath.Join("..", "..", name[1], "*_test.go"))
		require.NoError(t, err)
		if !slices.ContainsFunc(tests, func(file string) bool {
			source, err := os.ReadFile(file)
			return err == nil && bytes.Contains(source, []byte("func "+name[2]+"("))
		}) {
			t.Errorf("berth %s: there is no test %s", c, where)
		}
	}
	for c := range shownFiles {
		require.Contains(t, commands, c)
	}
}

// strangers are the files that the commands read. Their documents have each field that is read.
type strangers map[string][]any

// fieldsRead are the types into which documents are decoded, by the schema or the type of a property.
var fieldsRead = map[string]any{
	"olm.package": declcfg.Package{}, "olm.channel": declcfg.Channel{}, "olm.bundle": declcfg.Bundle{}, "olm.deprecations": declcfg.Deprecation{},
	"io.openshift.operators.lifecycles.v1alpha1": lifecycle.Lifecycle{},
	"olm.gvk":              property.GVK{},
	"olm.gvk.required":     property.GVKRequired{},
	"olm.package.required": property.PackageRequired{},
	"olm.csv.metadata":     property.CSVMetadata{},
}

func newStrangers() strangers {
	csv := func(version string) object {
		return object{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
			"metadata": object{"name": "tide.v" + version, "labels": object{"sea": "calm"}, "annotations": object{"capabilities": "Basic Install", "categories": "Storage", "support": "Sea", "repository": "r", "createdAt": "2024",
				"features.operators.openshift.io/tls-profiles": "true", "operatorframework.io/suggested-namespace": "tide", "olm.skipRange": "<1.0.0", "com.redhat.openshift.versions": "v4.20",
				"operators.openshift.io/valid-subscription": `["Sea"]`, "operatorframework.io/initialization-resource": `{"kind":"Tide"}`, "alm-examples": `[{"apiVersion":"sea.example.com/v1","kind":"Tide","metadata":{"name":"t"}}]`}},
			"spec": object{"displayName": "Tide", "version": version, "description": "# Tide\n\nIt comes", "maturity": "stable", "replaces": "tide.v0.9.0", "skips": []any{"tide.v0.8.0"}, "minKubeVersion": "1.20.0",
				"keywords": []any{"sea"}, "provider": object{"name": "Sea", "url": "https://sea.example.com"}, "links": []any{object{"name": "Docs", "url": "https://sea.example.com"}},
				"maintainers": []any{object{"name": "Crew", "email": "crew@sea.example.com"}}, "icon": []any{object{"mediatype": "image/png", "base64data": "eA=="}},
				"installModes": []any{object{"type": "AllNamespaces", "supported": true}, object{"type": "OwnNamespace", "supported": version == "2.0.0"}},
				"customresourcedefinitions": object{
					"owned": []any{object{"name": "tides.sea.example.com", "kind": "Tide", "version": "v1", "displayName": "Tide", "description": "d",
						"resources":       []any{object{"kind": "Pod", "name": "p", "version": "v1"}},
						"specDescriptors": []any{object{"path": "p", "displayName": "P", "description": "d", "x-descriptors": []any{"urn:x"}}}}},
					"required": []any{object{"name": "moons.sea.example.com", "kind": "Moon", "version": "v1", "displayName": "Moon", "description": "d"}}},
				"apiservicedefinitions": object{"owned": []any{object{"name": "ebbs", "group": "ebb.example.com", "kind": "Ebb", "version": "v1", "deploymentName": "tide"}}},
				"nativeAPIs":            []any{object{"group": "apps", "version": "v1", "kind": "Deployment"}},
				"webhookdefinitions": []any{object{"type": "ValidatingAdmissionWebhook", "generateName": "w.sea.example.com", "deploymentName": "tide", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
					"webhookPath": "/w", "rules": []any{object{"apiGroups": []any{"sea.example.com"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"tides"}}}}},
				"relatedImages": []any{object{"name": "driver", "image": "sea.example.com/driver:1"}},
				"install": object{"strategy": "deployment", "spec": object{
					"permissions": []any{object{"serviceAccountName": "tide", "rules": []any{object{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}}},
					"clusterPermissions": []any{object{"serviceAccountName": "tide", "rules": []any{
						object{"apiGroups": []any{"sea.example.com"}, "resources": []any{"tides", "t" + version[:1]}, "resourceNames": []any{"t"}, "verbs": []any{"get"}},
						object{"nonResourceURLs": []any{"/sea"}, "verbs": []any{"get"}}}}},
					"deployments": []any{object{"name": "tide", "label": object{"a": "b"}, "spec": object{"selector": object{"matchLabels": object{"app": "tide"}},
						"template": object{"metadata": object{"labels": object{"app": "tide"}, "annotations": object{"a": "b"}},
							"spec": object{"serviceAccountName": "tide", "priorityClassName": "system-cluster-critical", "nodeSelector": object{"a": "b"}, "tolerations": []any{object{"key": "k", "operator": "Exists", "effect": "NoSchedule"}},
								"volumes": []any{object{"name": "v", "hostPath": object{"path": "/p"}}},
								"containers": []any{object{"name": "tide", "image": "sea.example.com/tide:" + version, "command": []any{"tide"}, "args": []any{"--a"},
									"env": []any{object{"name": "A", "value": "b"}, object{"name": "RELATED_IMAGE_B", "value": "sea.example.com/b:1"}}, "resources": object{"requests": object{"cpu": "1m", "memory": "1Mi"}},
									"volumeMounts": []any{object{"name": "v", "mountPath": "/p"}}}}}}}}}}},
				"cleanup": object{"enabled": true}}}
	}
	bundle := func(version string) object {
		properties := []any{
			object{"type": "olm.package", "value": object{"packageName": "tide", "version": version}},
			object{"type": "olm.gvk", "value": object{"group": "sea.example.com", "kind": "Tide", "version": "v1"}},
			object{"type": "olm.maxOpenShiftVersion", "value": "4.20"},
			object{"type": "sea", "value": object{"more": []any{"a"}}},
		}
		if version == "2.0.0" {
			properties = append(properties, object{"type": "olm.bundle.object", "value": object{"data": csv(version)}})
		} else {
			properties = append(properties, object{"type": "olm.csv.metadata", "value": csvMetadata()})
		}
		return object{"schema": "olm.bundle", "package": "tide", "name": "tide.v" + version, "image": "sea.example.com/tide-bundle:" + version, "properties": properties,
			"relatedImages": []any{object{"name": "driver", "image": "sea.example.com/driver:" + version}}}
	}
	pkg := object{"schema": "olm.package", "name": "tide", "defaultChannel": "stable", "description": "# Tide\n\nIt comes", "icon": object{"mediatype": "image/svg+xml", "base64data": "PHN2Zy8+"},
		"properties": []any{object{"type": "sea", "value": "a"}}}
	channel := func(name string, entries ...any) object {
		return object{"schema": "olm.channel", "package": "tide", "name": name, "entries": entries, "properties": []any{object{"type": "sea", "value": "a"}}}
	}
	first := object{"name": "tide.v1.0.0", "skipRange": ">=0.1.0 <1.0.0"}
	second := object{"name": "tide.v2.0.0", "replaces": "tide.v1.0.0", "skips": []any{"tide.v0.9.0"}, "skipRange": ">=0.1.0 <2.0.0"}
	requiring := bundle("1.0.0")
	requiring["name"], requiring["package"] = "moon.v1.0.0", "moon"
	requiring["properties"] = []any{object{"type": "olm.package", "value": object{"packageName": "moon", "version": "1.0.0", "release": "1"}},
		object{"type": "olm.gvk.required", "value": object{"group": "sea.example.com", "kind": "Tide", "version": "v1"}},
		object{"type": "olm.package.required", "value": object{"packageName": "tide", "versionRange": ">=1.0.0"}},
		object{"type": "olm.constraint", "value": object{"failureMessage": "no tide", "all": object{"constraints": []any{object{"failureMessage": "none", "package": object{"packageName": "tide", "versionRange": ">=1.0.0"}}, object{"gvk": object{"group": "sea.example.com", "kind": "Tide", "version": "v1"}}}}}}}
	crd := func(version string) object {
		return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "tides.sea.example.com", "annotations": object{"a": "b"}},
			"spec": object{"group": "sea.example.com", "names": object{"kind": "Tide", "plural": "tides", "singular": "tide", "listKind": "TideList"}, "scope": "Namespaced",
				"versions": []any{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{"type": "object", "description": version, "properties": object{"spec": object{"type": "object"}}}}}}}}
	}
	annotations := object{"annotations": object{"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1", "operators.operatorframework.io.bundle.package.v1": "tide",
		"operators.operatorframework.io.bundle.channels.v1": "stable,fast", "operators.operatorframework.io.bundle.channel.default.v1": "stable", "com.redhat.openshift.versions": "v4.20",
		"operators.operatorframework.io.bundle.manifests.v1": "manifests/", "operators.operatorframework.io.bundle.metadata.v1": "metadata/"}}
	dependencies := object{"dependencies": []any{object{"type": "olm.package", "value": object{"packageName": "moon", "version": ">=1.0.0"}}, object{"type": "olm.gvk", "value": object{"group": "sea.example.com", "kind": "Moon", "version": "v1"}}}}
	properties := object{"properties": []any{object{"type": "olm.maxOpenShiftVersion", "value": "4.20"}}}
	files := strangers{
		"catalog/catalog.json": {pkg, channel("stable", first, second), channel("fast", first, second), bundle("1.0.0"), bundle("2.0.0"),
			object{"schema": "olm.deprecations", "package": "tide", "entries": []any{
				object{"reference": object{"schema": "olm.package"}, "message": "The package ends"}, object{"reference": object{"schema": "olm.channel", "name": "fast"}, "message": "It ends"},
				object{"reference": object{"schema": "olm.bundle", "name": "tide.v1.0.0"}, "message": "It is old"}}},
			object{"schema": "io.openshift.operators.lifecycles.v1alpha1", "package": "tide", "versions": []any{object{"name": "2.0", "phases": []any{object{"name": "Full support", "startDate": "2024-01-01", "endDate": "2999-12-31"}},
				"platformCompatibility": []any{object{"name": "openshift", "versions": []any{"4.20"}}}}}},
			object{"schema": "sea.example.com", "package": "tide", "name": "more", "text": "t"},
			object{"schema": "olm.package", "name": "moon", "defaultChannel": "stable"}, object{"schema": "olm.channel", "package": "moon", "name": "stable", "entries": []any{object{"name": "moon.v1.0.0"}}}, requiring},
		"old/catalog.json":             {pkg, channel("stable", first), channel("slow", first), bundle("1.0.0")},
		"bundle/manifests/csv.json":    {csv("2.0.0")},
		"bundle/manifests/crd.json":    {crd("2")},
		"bundle/metadata/a.json":       {annotations},
		"bundle/metadata/d.json":       {dependencies},
		"bundle/metadata/p.json":       {properties},
		"oldbundle/manifests/csv.json": {csv("1.0.0")},
		"oldbundle/manifests/crd.json": {crd("1")},
		"oldbundle/metadata/a.json":    {annotations},
		"extension/extension.json": {object{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": object{"name": "tide"},
			"spec": object{"namespace": "tide", "serviceAccount": object{"name": "tide"}, "source": object{"sourceType": "Catalog", "catalog": object{"packageName": "tide", "version": "1.x",
				"channels": []any{"stable"}, "upgradeConstraintPolicy": "CatalogProvided", "selector": object{"matchLabels": object{"a": "b"}}}},
				"install": object{"preflight": object{"crdUpgradeSafety": object{"enforcement": "None"}}}, "config": object{"configType": "Inline", "inline": object{"watchNamespace": "tide"}}},
			"status": object{"install": object{"bundle": object{"name": "tide.v1.0.0", "version": "1.0.0"}}}}},
		"baseline/baseline.json": {object{"schema": "berth.findings.v1", "findings": []any{object{"rule": "r", "file": "f", "message": "m"}}}},
		"repository/config.yaml": {object{"organization": "community-operators", "allowed_bundle_registries": []any{"quay.io/"}}},
		"repository/operators/tide/ci.yaml": {object{"updateGraph": "replaces-mode", "reviewers": []any{"crew"},
			"fbc": object{"enabled": true, "catalog_mapping": []any{object{"template_name": "basic.yaml", "catalog_names": []any{"v4.20"}, "type": "olm.template.basic"}}}}},
		"repository/operators/tide/1.0.0/metadata/annotations.yaml": {annotations},
		"repository/operators/tide/1.0.0/release-config.yaml":       {object{"catalog_templates": []any{object{"template_name": "basic.yaml", "channels": []any{"stable"}, "replaces": "tide.v0.9.0", "skips": []any{"tide.v0.8.0"}, "skipRange": "<1.0.0"}}}},
		"repository/operators/tide/1.0.0/manifests/csv.yaml":        {csv("1.0.0")},
	}
	// Documents are shared above, and one of them changes at a time.
	for path, documents := range files {
		for i := range documents {
			files[path][i] = copied(documents[i])
		}
	}
	return files
}

// csvMetadata are the metadata of a ClusterServiceVersion in a catalog.
func csvMetadata() object {
	api := object{"name": "tides.sea.example.com", "kind": "Tide", "version": "v1", "displayName": "Tide", "description": "d"}
	return object{"annotations": object{"capabilities": "Basic Install"}, "apiServiceDefinitions": object{"owned": []any{object{"name": "ebbs", "group": "ebb.example.com", "kind": "Ebb", "version": "v1", "deploymentName": "tide", "containerPort": 443, "displayName": "Ebb", "description": "d"}}},
		"crdDescriptions": object{"owned": []any{api}}, "description": "# Tide\n\nIt comes", "displayName": "Tide", "installModes": []any{object{"type": "AllNamespaces", "supported": true}},
		"keywords": []any{"sea"}, "labels": object{"sea": "calm"}, "links": []any{object{"name": "Docs", "url": "https://sea.example.com"}}, "maintainers": []any{object{"name": "Crew", "email": "crew@sea.example.com"}},
		"maturity": "stable", "minKubeVersion": "1.20.0", "nativeAPIs": []any{object{"group": "apps", "version": "v1", "kind": "Deployment"}}, "provider": object{"name": "Sea", "url": "https://sea.example.com"}}
}

func copied(value any) any {
	switch value := value.(type) {
	case object:
		copies := object{}
		for key, v := range value {
			copies[key] = copied(v)
		}
		return copies
	case []any:
		copies := []any{}
		for _, v := range value {
			copies = append(copies, copied(v))
		}
		return copies
	}
	return value
}

// write writes the documents of a file.
func (s strangers) write(t *testing.T, dir, path string) {
	t.Helper()
	var content bytes.Buffer
	for i, document := range s[path] {
		if i > 0 && strings.HasSuffix(path, ".yaml") {
			content.WriteString("---\n")
		}
		require.NoError(t, json.NewEncoder(&content).Encode(encoded(document)))
	}
	file := filepath.Join(dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, content.Bytes(), 0o644))
}

// encoded returns a document in which the objects that bundles carry are encoded as catalogs have them.
func encoded(value any) any {
	switch value := value.(type) {
	case object:
		result := object{}
		for key, v := range value {
			if carried, is := v.(object); is && key == "data" {
				text, _ := json.Marshal(carried) // maps and texts
				v = base64.StdEncoding.EncodeToString(text)
			}
			result[key] = encoded(v)
		}
		return result
	case []any:
		result := []any{}
		for _, v := range value {
			result = append(result, encoded(v))
		}
		return result
	}
	return value
}

// TestFieldsRead: the documents have each field of the types into which they are decoded. If a library or Berth reads one more, it has to
// be in them, so that TestPairs tries it.
func TestFieldsRead(t *testing.T) {
	documents := newStrangers()["catalog/catalog.json"]
	found := map[string][]any{}
	for _, d := range documents {
		found[d.(object)["schema"].(string)] = append(found[d.(object)["schema"].(string)], d)
		properties, _ := d.(object)["properties"].([]any)
		for _, p := range properties {
			found[p.(object)["type"].(string)] = append(found[p.(object)["type"].(string)], p.(object)["value"])
		}
	}
	for schema, of := range fieldsRead {
		for _, path := range absent(reflect.TypeOf(of), found[schema]) {
			t.Errorf("no document of schema or type %s has %s: add it to newStrangers", schema, path)
		}
	}
	for _, path := range absent(reflect.TypeFor[v1alpha1.CRDDescription](), documents[4].(object)["properties"].([]any)[4].(object)["value"].(object)["data"].(object)["spec"].(object)["customresourcedefinitions"].(object)["owned"].([]any)) {
		if !strings.HasPrefix(path, ".statusDescriptors") && !strings.HasPrefix(path, ".actionDescriptors") && !strings.HasSuffix(path, ".value") { // they are for consoles
			t.Errorf("no owned API has %s: add it to newStrangers", path)
		}
	}
}

// absent returns the fields of a type, with texts in them, that none of some values has.
func absent(of reflect.Type, values []any) (all []string) {
	switch of.Kind() {
	case reflect.Pointer:
		return absent(of.Elem(), values)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			break
		}
		var each []any
		for _, v := range values {
			if elements, is := v.([]any); is {
				each = append(each, elements...)
			}
		}
		return absent(of.Elem(), each)
	case reflect.Struct:
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" || !field.IsExported() || slices.Contains([]reflect.Kind{reflect.Bool, reflect.Int}, field.Type.Kind()) || field.Type == reflect.TypeFor[lifecycle.Date]() {
				continue
			}
			var below []any
			for _, v := range values {
				if o, is := v.(object); is && o[name] != nil {
					below = append(below, o[name])
				}
			}
			if name == "value" || name == "required" || name == "resources" || strings.HasSuffix(name, "escriptors") || name == "release" || name == "actionDescriptors" {
				if len(below) == 0 {
					continue
				}
			}
			for _, path := range absent(field.Type, below) {
				all = append(all, "."+name+path)
			}
		}
		return all
	}
	if len(values) == 0 {
		return []string{""}
	}
	return nil
}

// TestPairs puts hostile texts into each field of the files that commands read, one at a time, and looks at what each command shows in each
// of its formats. No report has an element that it does not have with harmless texts.
func TestPairs(t *testing.T) {
	defer func(stdout *os.File) { os.Stdout = stdout }(os.Stdout)
	os.Stdout = os.Stderr // libraries print to it
	defer func(register func(*cobra.Command, string, cobra.CompletionFunc) error) { registerCompletion = register }(registerCompletion)
	registerCompletion = func(*cobra.Command, string, cobra.CompletionFunc) error { return nil } // memory would grow by gigabytes
	commands := map[string]*cobra.Command{}
	for _, c := range leaves(newCommand()) {
		commands[strings.TrimPrefix(c.CommandPath(), "berth ")] = c
	}
	files := newStrangers()
	dir := t.TempDir()
	for path := range files {
		files.write(t, dir, path)
	}
	in := strings.NewReplacer("EXTENSION", filepath.Join(dir, "extension", "extension.json"), "BASELINE", filepath.Join(dir, "baseline", "baseline.json"), "OLDBUNDLE", filepath.Join(dir, "oldbundle"), "BUNDLE", filepath.Join(dir, "bundle"), "CATALOG", filepath.Join(dir, "catalog"), "OLD", filepath.Join(dir, "old"), "REPOSITORY", filepath.Join(dir, "repository"))
	known := map[string]map[string]bool{} // the elements that reports of a format have without hostile texts
	for _, format := range structured {
		known[format] = map[string]bool{}
	}
	tried := map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		area, _, _ := strings.Cut(path, "/")
		documents := files[path]
		for _, text := range []string{benign, hostile.Short(), hostile.Long()} {
			n := hostile.Each(&documents, text, func(at string) {
				if !strings.Contains(path+at, *pair) {
					return
				}
				written := false
				for _, name := range slices.Sorted(maps.Keys(shownFiles)) {
					for _, args := range shownFiles[name] {
						if !slices.Contains(strings.Fields(args), strings.ToUpper(area)) {
							continue
						}
						for _, format := range formatsOf(commands[name]) {
							report := name + " " + args + " " + format
							if !isTried(path+at, report) || text == benign && !slices.Contains(structured, format) {
								continue
							}
							if !written {
								files.write(t, dir, path)
								written = true
							}
							words := slices.Concat(strings.Fields(name), strings.Fields(in.Replace(args)), []string{"-o", format})
							out, said := streamsOf(words)
							what := fmt.Sprintf("berth %s %s -o %s, with a hostile %s%s", name, args, format, path, at)
							tried[report]++
							if text != benign {
								hostile.Check(t, what+", on standard error", said, 64<<10)
								checkReport(t, what, name, format, out)
							}
							for _, e := range elementsOf(t, what, format, out) {
								if text == benign {
									known[format][e] = true
								} else if !known[format][e] {
									t.Errorf("%s: found %q, which no harmless text makes:\n%.2000s", what, e, out)
								}
							}
						}
					}
				}
			})
			assert.NotZerof(t, n, "%s has no fields", path)
			files.write(t, dir, path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shownFiles)) {
		for _, args := range shownFiles[name] {
			for _, format := range formatsOf(commands[name]) {
				if report := name + " " + args + " " + format; tried[report] == 0 && *pair == "" {
					t.Errorf("berth %s: no pair was tried", report)
				}
			}
		}
	}
}

// benign is as long as a text that is not hostile is, and no valid name either.
const benign = "X y"

// structured are the formats with elements.
var structured = []string{"junit", "sarif", "svg", "html", "markdown", "mermaid", "dot"}

// streamsOf runs a command in this process, and returns what it writes to the two standard streams.
func streamsOf(words []string) (out []byte, said string) {
	root, stdout, stderr := newCommand(), &bytes.Buffer{}, &bytes.Buffer{}
	root.SetOut(stdout)
	root.SetErr(escape.Messages(stderr))
	root.SetArgs(words)
	if err := root.ExecuteContext(context.Background()); err != nil { // the end of the test's context would be a signal, which ends the program
		if exit := (*exitError)(nil); !errors.As(err, &exit) {
			printError(root, explain(err))
		} else if exit.err != nil {
			printError(root, explain(exit.err))
		}
	}
	return stdout.Bytes(), stderr.String()
}

// data are the commands whose output is a catalog or a template with the texts as they are, for other programs.
var data = []string{"catalog render", "catalog convert-template"}

// checkReport checks what a report shows of hostile texts.
func checkReport(t *testing.T, what, name, format string, out []byte) {
	t.Helper()
	if len(out) == 0 { // the command has failed
		return
	}
	if err := readers[format](out); err != nil && !slices.Contains(data, name) {
		t.Errorf("%s: %v in\n%.2000s", what, err, out)
	}
	switch {
	case slices.Contains(data, name):
	case slices.Contains([]string{"text", "wide", "markdown"}, format):
		hostile.Check(t, what, string(out), 64<<10)
	default: // programs read these: quotes of commands in them are escaped once more
		if strings.ContainsFunc(string(out), func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
			t.Errorf("%s: it has characters that are not visible: %.500q", what, out)
		}
		hostile.Check(t, what, strings.ReplaceAll(string(out), "started", "x"), 8<<20)
	}
}

var quotedText = regexp.MustCompile(`"([^"\\\n]|\\.)*"`)

// keysOf returns the names of fields, with the names of those around them, and that a text has a link, as SARIF takes it.
func keysOf(value any, path string) (all []string) {
	switch value := value.(type) {
	case map[string]any:
		for key, of := range value {
			all = append(all, path+"."+key)
			all = append(all, keysOf(of, path+"."+key)...)
		}
	case []any:
		for _, of := range value {
			all = append(all, keysOf(of, path)...)
		}
	case string:
		if strings.Contains(value, "](") && strings.HasSuffix(path, ".text") {
			all = append(all, path+" has a link")
		}
	}
	return all
}

// elementsOf returns the elements of a report in a format that has elements.
func elementsOf(t *testing.T, what, format string, out []byte) (all []string) {
	t.Helper()
	switch format {
	case "junit", "svg":
		for decoder := xml.NewDecoder(bytes.NewReader(out)); ; {
			token, err := decoder.Token()
			if err != nil {
				assert.ErrorIs(t, err, io.EOF, what)
				return all
			}
			switch token := token.(type) {
			case xml.StartElement:
				e := token.Name.Local
				for _, a := range token.Attr {
					e += " " + a.Name.Local
				}
				all = append(all, e)
			case xml.EndElement, xml.CharData:
			default:
				all = append(all, fmt.Sprintf("%T", token))
			}
		}
	case "html":
		for tokens := html.NewTokenizer(bytes.NewReader(out)); tokens.Next() != html.ErrorToken; {
			token := tokens.Token()
			if token.Type == html.TextToken || token.Type == html.EndTagToken {
				continue
			}
			e := token.Type.String() + " " + token.Data
			if token.Type == html.CommentToken {
				e = "comment"
			}
			for _, a := range token.Attr {
				e += " " + a.Key
			}
			all = append(all, e)
		}
	case "markdown":
		require.NoError(t, ast.Walk(goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser().Parse(text.NewReader(out)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering {
				all = append(all, n.Kind().String())
			}
			return ast.WalkContinue, nil
		}))
	case "sarif":
		var report any
		if err := json.Unmarshal(out, &report); err != nil && len(out) > 0 {
			t.Errorf("%s: %v", what, err)
		}
		return keysOf(report, "")
	case "mermaid", "dot":
		for line := range strings.Lines(quotedText.ReplaceAllString(string(out), `""`)) {
			all = append(all, regexp.MustCompile(`\d+`).ReplaceAllString(strings.TrimSpace(line), "N"))
		}
	}
	return all
}
