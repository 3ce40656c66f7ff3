package rules_test

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

	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/memory"
)

// tide is a bundle without findings, to which each test makes one change.
const (
	tide         = "testdata/tide"
	tideCSV      = "manifests/tide.clusterserviceversion.yaml"
	tides        = "manifests/tides.yaml"
	view         = "manifests/view.yaml"
	metrics      = "manifests/metrics.yaml"
	dependencies = "metadata/dependencies.yaml"
	properties   = "metadata/properties.yaml"
	annotations  = "metadata/annotations.yaml"
)

// changed returns a copy of the bundle in which the first old text of a file is replaced, and the line of the change.
func changed(t *testing.T, file, old, new string) (dir string, line int) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(tide)))
	path := filepath.Join(dir, filepath.FromSlash(file))
	text, err := os.ReadFile(path)
	if err != nil && old != "" {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), old)
	if !found {
		t.Fatalf("%s has no %q", file, old)
	}
	require.NoError(t, os.WriteFile(path, []byte(before+new+after), 0o644))
	return dir, 1 + strings.Count(before, "\n")
}

// alsoChanged are second changes that tests make.
var alsoChanged = map[string]struct{ file, old, new string }{
	"an OpenShift version in the annotation": {properties, "- type: olm.maxOpenShiftVersion\n  value: \"4.22\"\n", ""},
	"a number in env of another apiVersion":  {tideCSV, "operators.coreos.com/v1alpha1", "operators.coreos.com/v1"},
	"a Deployment with a dot":                {tideCSV, "deploymentName: tide", "deploymentName: tide.operator"},
	"a Deployment with a long name":          {tideCSV, "deploymentName: tide", "deploymentName: " + strings.Repeat("t", 56)},
}

// change replaces the first old text of a file.
func change(t *testing.T, dir, file, old, new string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(file))
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q (error %v)", file, old, err)
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644))
}

func check(t *testing.T, dir string) []*findings.Finding {
	t.Helper()
	found, err := rules.Check(dir, rules.Options{})
	require.NoError(t, err)
	return found
}

func TestBundleWithoutFindings(t *testing.T) {
	assert.Empty(t, cmp.Diff([]*findings.Finding(nil), check(t, tide)))
}

// TestCheckRefuses: each change causes one error of a rule, at the line of the change or so many lines below it, and no other
// errors.
func TestCheckRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, file, old, new string
		rule                 string
		below                int
		want                 string
	}{
		// Types.
		{"a number in env", tideCSV, `value: "5"`, `value: 5`, "api-server", 0, "env[0].value is an integer; expected a string: put the value in quotes"},
		{"a boolean in env", tideCSV, `value: "5"`, `value: true`, "api-server", 0, "env[0].value is a boolean; expected a string: put the value in quotes"},
		{"a number as maturity", tideCSV, `maturity: stable`, `maturity: 1`, "api-server", 0, "spec.maturity is an integer"},
		{"a number as replaces", tideCSV, `replaces: tide.v1.0.0`, `replaces: 7`, "api-server", 0, "spec.replaces is an integer"},
		{"a version that is a number", tideCSV, `version: 1.1.0`, `version: 1.1`, "api-server", 0, "spec.version is a number"},
		{"a version that is none", tideCSV, `version: 1.1.0`, `version: one`, "api-server", 0, "spec.version: the API server cannot read it"},
		{"a text as a boolean", tideCSV, `{type: OwnNamespace, supported: false}`, `{type: OwnNamespace, supported: "false"}`, "api-server", 0, "supported is a string; expected a boolean"},
		{"a text as a port", tideCSV, `containerPort: 8080`, `containerPort: "8080"`, "api-server", 0, "containerPort is a string; expected an integer"},
		{"an annotation that is a number", tideCSV, `categories: Storage`, `certified: 1`, "console-feature", 0, "is 1, want a string in quotes"},
		{"a label that is a boolean", view, `name: tide-view`, "name: tide-view\n  labels: {aggregate: true}", "api-server", 1, "labels is a boolean"},
		// Missing values.
		{"no selector", tideCSV, `          selector: {matchLabels: {name: tide}}` + "\n", ``, "api-server", -2, "spec.selector: Required value"},
		{"no container name", tideCSV, `- name: tide
                image`, `- image`, "api-server", 0, "containers[0].name: Required value"},
		{"no image", tideCSV, "                image: quay.io/example/tide:v1\n", ``, "api-server", -1, "containers[0].image: Required value"},
		{"no verbs", tideCSV, `resources: [pods], verbs: [get]`, `resources: [pods]`, "api-server", 0, "clusterPermissions[0].rules[0].verbs: Required value"},
		{"no resources", tideCSV, `resources: [configmaps], verbs`, `verbs`, "api-server", 0, "permissions[0]: rules[0].resources: Required value"},
		{"no service account", tideCSV, "serviceAccountName: tide\n        rules:\n        - {apiGroups: [\"\"], resources: [pods]", "rules:\n        - {apiGroups: [\"\"], resources: [pods]", "api-server", 0, "clusterPermissions[0].serviceAccountName: OLM has no ServiceAccount"},
		{"no side effects", tideCSV, "    sideEffects: None\n", ``, "api-server", -5, "webhookdefinitions[0].sideEffects: Required value"},
		{"no review versions", tideCSV, "    admissionReviewVersions: [v1]\n", ``, "api-server", -4, "webhookdefinitions[0].admissionReviewVersions: Required value"},
		{"no probe port", tideCSV, `{path: /, port: 8080}`, `{path: /}`, "api-server", 0, "livenessProbe.httpGet.port: Invalid value: 0"},
		{"no name of a variable", tideCSV, `{name: LEVEL, value`, `{value`, "api-server", 0, "env[0].name: Required value"},
		{"no mount path", tideCSV, `{name: work, mountPath: /work}`, `{name: work}`, "api-server", 0, "mountPath: Required value"},
		{"no verbs in a ClusterRole", view, `, verbs: [get]`, ``, "api-server", 0, "rules[0].verbs: Required value"},
		{"no ports of a Service", metrics, "port: 8080", "targetPort: 8080", "api-server", 0, "spec.ports[0].port: Invalid value: 0"},
		// Contradictions.
		{"another selector", tideCSV, `matchLabels: {name: tide}`, `matchLabels: {name: ebb}`, "api-server", 2, "`selector` does not match template `labels`"},
		{"a mount of no volume", tideCSV, `- {name: work, mountPath`, `- {name: play, mountPath`, "api-server", 0, "volumeMounts[0].name: Not found"},
		{"a Deployment whose name is no DNS name", tideCSV, "      deployments:\n", "      deployments:\n      - {name: Tide_Operator, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: b, image: \"quay.io/example/tide:v1\", resources: {requests: {cpu: 10m, memory: 20Mi}}}]}}}}\n", "api-server", 1, "lowercase RFC 1123 subdomain"},
		{"two containers of one name", tideCSV, "              containers:\n", "              containers:\n              - {name: tide, image: \"quay.io/example/tide:v1\", resources: {requests: {cpu: 10m, memory: 20Mi}}}\n", "api-server", 2, "Duplicate value"},
		{"two volumes of one name", tideCSV, "- {name: work, emptyDir: {}}", "- {name: work, emptyDir: {}}\n              - {name: work, emptyDir: {}}", "api-server", 1, "Duplicate value"},
		{"two ports of one number", tideCSV, "- {name: metrics, containerPort: 8080}", "- {name: metrics, containerPort: 8080}\n                - {name: other, containerPort: 8080}", "api-server", 1, "Duplicate value"},
		{"two variables of one name", tideCSV, `- {name: LEVEL, value: "5"}`, "- {name: LEVEL, value: \"5\"}\n                - {name: LEVEL, value: \"6\"}", "api-server", 1, "Duplicate value"},
		{"two Deployments of one name", tideCSV, "      deployments:\n", "      deployments:\n      - {name: tide, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: b, image: \"quay.io/example/tide:v1\", resources: {requests: {cpu: 10m, memory: 20Mi}}}]}}}}\n", "olm-duplicate", 2, "Deployment tide is also deployments[0]"},
		// Webhooks.
		{"rules for all groups", tideCSV, `apiGroups: [sea.example.com]`, `apiGroups: ["*"]`, "webhook", 0, "OLM refuses webhooks for all API groups (*)"},
		{"rules for OLM", tideCSV, `apiGroups: [sea.example.com]`, `apiGroups: [operators.coreos.com]`, "webhook", 0, "its own API group"},
		{"rules for webhooks", tideCSV, "apiGroups: [sea.example.com]\n      apiVersions: [v1]\n      operations: [CREATE]\n      resources: [tides]", "apiGroups: [admissionregistration.k8s.io]\n      apiVersions: [v1]\n      operations: [CREATE]\n      resources: ['*']", "webhook", 0, "resource * of group admissionregistration.k8s.io"},
		{"a webhook of no Deployment", tideCSV, `deploymentName: tide`, `deploymentName: ebb`, "webhook", 0, `there is no Deployment "ebb"`},
		{"a webhook whose name is no domain name", tideCSV, `generateName: vtide.sea.example.com`, `generateName: vtide`, "api-server", 0, "should be a domain with at least three segments"},
		{"a webhook twice", tideCSV, "  webhookdefinitions:\n", "  webhookdefinitions:\n  - {type: ValidatingAdmissionWebhook, generateName: vtide.sea.example.com, deploymentName: tide, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None, webhookPath: /a, rules: []}\n", "webhook", 3, "the same name and type"},
		{"a conversion of a foreign definition", tideCSV, "  webhookdefinitions:\n", "  webhookdefinitions:\n  - {type: ConversionWebhook, generateName: ctide.sea.example.com, deploymentName: tide, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None, conversionCRDs: [moons.example.com]}\n", "webhook", 1, `does not own CustomResourceDefinition "moons.example.com"`},
		{"a conversion of nothing", tideCSV, "  webhookdefinitions:\n", "  webhookdefinitions:\n  - {type: ConversionWebhook, generateName: ctide.sea.example.com, deploymentName: tide, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None}\n", "webhook", 1, "it names no CustomResourceDefinition"},
		{"a definition converted twice", tideCSV, "  webhookdefinitions:\n", "  webhookdefinitions:\n  - {type: ConversionWebhook, generateName: a.sea.example.com, deploymentName: tide, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None, conversionCRDs: [tides.sea.example.com]}\n" +
			"  - {type: ConversionWebhook, generateName: b.sea.example.com, deploymentName: tide, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None, conversionCRDs: [tides.sea.example.com]}\n", "webhook", 2, "a definition has one conversion webhook"},
		// Upgrade edges, dependencies and properties, in each place.
		{"a skipRange that is none", tideCSV, `">=1.0.0 <1.1.0"`, `"<v1.1.0"`, "upgrade-edge", 0, `olm.skipRange is "<v1.1.0"`},
		{"it replaces itself", tideCSV, `replaces: tide.v1.0.0`, `replaces: tide.v1.1.0`, "upgrade-edge", 0, "replaces itself"},
		{"it skips itself", tideCSV, "  replaces: tide.v1.0.0\n", "  replaces: tide.v1.0.0\n  skips: [tide.v1.0.1, tide.v1.1.0]\n", "upgrade-edge", 1, "skips itself"},
		{"a minKubeVersion that is none", tideCSV, `minKubeVersion: 1.25.0`, `minKubeVersion: "1.25"`, "clusterserviceversion", 0, "MinKubeVersion has an invalid value"},
		{"a range of npm", dependencies, `">=1.0.0 <2.0.0"`, `^1.2`, "olm-dependency", 0, `version range is "^1.2"`},
		{"no range", dependencies, `, version: ">=1.0.0 <2.0.0"`, ``, "olm-dependency", 0, `version range is ""`},
		{"an API without version", dependencies, `, version: v1`, ``, "olm-dependency", 0, "its version is missing"},
		{"malformed CEL", dependencies, `"moon")`, `"moon"`, "olm-dependency", -2, "Syntax error"},
		{"a range in properties.yaml", properties, `">=1.0.0"`, `~1`, "olm-property", 0, `version range is "~1"`},
		{"a value that is no object", properties, `{packageName: sun, versionRange: ">=1.0.0"}`, `sun`, "olm-property", 0, "property of type olm.package.required"},
		{"an OpenShift version that is none", properties, `"4.22"`, `"new"`, "openshift-version", 0, "want MAJOR.MINOR"},
		{"an OpenShift version with a patch level", properties, `"4.22"`, `4.22.1`, "openshift-version", 0, "is 4.22.1, want MAJOR.MINOR"},
		{"an OpenShift version that loses a digit", properties, `"4.22"`, `4.20`, "openshift-version", 0, "is 4.2, want MAJOR.MINOR"},
		{"an annotation that is not JSON", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{'\n", "olm-property", 1, "expected a JSON array"},
		{"an OpenShift version in the annotation", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.22.1\"}]'\n", "openshift-version", 1, "is 4.22.1"},
		{"a range in the annotation", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.package.required\", \"value\": {\"packageName\": \"sun\", \"versionRange\": \"latest\"}}]'\n", "olm-property", 1, `version range is "latest"`},
		{"a label that is a text", properties, "properties:\n", "properties:\n- {type: olm.label.required, value: tide}\n", "olm-property", 1, "property of type olm.label.required: expected an object with label"},
		{"a required label that is a text", dependencies, "dependencies:\n", "dependencies:\n- {type: olm.label.required, value: tide}\n", "olm-dependency", 1, "expected an object with label"},
		{"two OpenShift versions in two files", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.21\"}]'\n", "openshift-version", 1, "is given twice"},
		{"another package in the annotation", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"ebb\", \"version\": \"1.1.0\"}}]'\n", "olm-property", 1, `its packageName is "ebb"; expected "tide"`},
		{"no version in the annotation", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"tide\", \"version\": \"1.1\"}}]'\n", "olm-property", 1, `its version is "1.1"`},
		{"it skips nothing", tideCSV, "  replaces: tide.v1.0.0\n", "  replaces: tide.v1.0.0\n  skips: [\"\"]\n", "upgrade-edge", 1, "skips an empty name"},
		{"no version", tideCSV, "  version: 1.1.0\n", "", "olm-version", -3, "has no spec.version"},
		{"no apiVersion", tideCSV, "apiVersion: operators.coreos.com/v1alpha1\n", "", "api-server", 0, `apiVersion of the ClusterServiceVersion is ""`},
		{"a number in env of another apiVersion", tideCSV, `value: "5"`, `value: 5`, "api-server", 0, "env[0].value is an integer"},
		// Names.
		{"another plural name", tideCSV, "name: tides.sea.example.com, version", "name: tide.sea.example.com, version", "olm-api", 0, "expected tides.sea.example.com"},
		{"a required definition without a group", tideCSV, "    owned:\n", "    required: [{name: moons, version: v1, kind: Moon}]\n    owned:\n", "olm-api", 0, `is called "moons"; expected PLURAL.GROUP`},
		{"a package that is no label", annotations, "package.v1: tide", "package.v1: My_Tide", "olm-annotations", 0, `is "My_Tide"`},
		{"a Deployment with a dot", tideCSV, "- name: tide\n        spec", "- name: tide.operator\n        spec", "api-server", 0, "a Service called tide.operator-service"},
		{"a Deployment with a long name", tideCSV, "- name: tide\n        spec", "- name: " + strings.Repeat("t", 56) + "\n        spec", "api-server", 0, "must be no more than 63"},
		{"an API service of no Deployment", tideCSV, "  relatedImages:\n", "  apiservicedefinitions: {owned: [{group: sea.example.com, version: v2, kind: Ebb, name: ebbs, deploymentName: ebb, displayName: Ebb, description: An ebb}]}\n  relatedImages:\n", "webhook", 0, `there is no Deployment "ebb"`},
		// Definitions, as the API server checks them.
		{"a schema without types", tides, `{type: object, description: A spec}`, `{description: A spec}`, "customresourcedefinition", 0, "properties[spec].type: Required value"},
		{"a default of the wrong type", tides, `{type: object, description: A spec}`, `{type: string, default: 1}`, "customresourcedefinition", 0, "default"},
		// Metadata.
		{"no channels", annotations, "  operators.operatorframework.io.bundle.channels.v1: stable\n", ``, "olm-annotations", -5, "channels.v1 is missing"},
		// The API that is owned is in a file that OLM does not read.
		{"a definition behind a separator", tides, "apiVersion", "# a comment\n---\napiVersion", "bundle", 0, "owned CRD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, line := changed(t, tc.file, tc.old, tc.new)
			if also, more := alsoChanged[tc.name]; more {
				change(t, dir, also.file, also.old, also.new)
			}
			var errors []string
			isFound := false
			for _, f := range check(t, dir) {
				if f.Severity != findings.Error {
					continue
				}
				errors = append(errors, f.String())
				atLine := f.Line == line+tc.below && f.File == filepath.Join(dir, filepath.FromSlash(tc.file))
				isFound = isFound || f.Rule == tc.rule && strings.Contains(f.Message, tc.want) && (atLine || tc.rule == "bundle" || tc.want == "")
			}
			if !isFound || len(errors) > 1 {
				t.Errorf("errors are\n%s\nwant one of rule %s at %s:%d: %s", strings.Join(errors, "\n"), tc.rule, tc.file, line+tc.below, tc.want)
			}
		})
	}
}

// TestCheckWarns: faults of published bundles that OLM installs are warnings.
func TestCheckWarns(t *testing.T) {
	for _, tc := range []struct {
		name, file, old, new string
		want                 string // "" for no finding
	}{
		{"a privileged container", tideCSV, "image: quay.io/example/tide:v1\n", "image: quay.io/example/tide:v1\n                securityContext: {privileged: true}\n", ""},
		{"OLM's certificate in a volume mount", tideCSV, "              containers:\n", "              initContainers:\n              - {name: init, image: \"quay.io/example/tide:v1\", volumeMounts: [{name: apiservice-cert, mountPath: /a}, {name: webhook-cert, mountPath: /b}], resources: {requests: {cpu: 10m, memory: 20Mi}}}\n              containers:\n", ""},
		{"OLM's certificate at a path that is taken", tideCSV, "mountPath: /work", "mountPath: /tmp/k8s-webhook-server/serving-certs", ""},
		{"a namespace of what has none", tides, "metadata:\n", "metadata:\n  namespace: tide\n", ""},
		{"a ClusterRole in a namespace", view, "metadata:\n", "metadata:\n  namespace: tide\n", ""},
		{"null as an annotation", tideCSV, "capabilities: Basic Install", "capabilities: Basic Install\n    support:", "the annotation support is null, want a string in quotes"},
		{"a related image that is none", tideCSV, "  relatedImages:\n", "  relatedImages:\n  - {name: wasm, image: \"oci://quay.io/example/wasm:v1\"}\n", "invalid image pullspec"},
		{"a property without a value", properties, "properties:\n", "properties:\n- type: relatedImage\n  name: tide\n", "property of type relatedImage has no value, so its value in catalogs is null"},
		{"a type of dependency with a typing error", dependencies, `olm.gvk`, `olm.gkv`, "did you mean olm.gvk?"},
		{"a dependency of another type", dependencies, "dependencies:\n", "dependencies:\n- {type: example.com/moon, value: {}}\n", `the type is "example.com/moon", so the dependency has no effect`},
		{"a required label", dependencies, "dependencies:\n", "dependencies:\n- {type: olm.label.required, value: {label: sea}}\n", ""},
		{"a value that nests deep", properties, "properties:\n", "properties:\n- {type: x, value: " + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "}\n", "property of type x nests more than 100 levels deep; expected fewer"},
		{"a property without a type", properties, "properties:\n", "properties:\n- {value: 1}\n", "a property has no type, so it has no effect"},
		{"an OpenShift version in two files", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.22\"}]'\n", "please define these properties in metadata/properties.yaml"},
		{"the package in the annotation", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"tide\", \"version\": \"1.1.0\"}}]'\n", "please define these properties in metadata/properties.yaml"},
		{"another version in the annotation", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"tide\", \"version\": \"1.2.0\"}}]'\n", "its version is 1.2.0, which counts in catalogs, and spec.version is 1.1.0"},
		{"another package in properties.yaml", properties, "properties:\n", "properties:\n- {type: olm.package, value: {packageName: ebb, version: 1.0.0}}\n", ""},
		{"another apiVersion", tideCSV, "apiVersion: operators.coreos.com/v1alpha1\n", "apiVersion: operators.coreos.com/v1\n", `apiVersion of the ClusterServiceVersion is "operators.coreos.com/v1"; expected operators.coreos.com/v1alpha1`},
		{"a boolean in annotations.yaml", annotations, "annotations:\n", "annotations:\n  com.redhat.delivery.operator.bundle: true\n", ""},
		{"numbers, null and a date in annotations.yaml", annotations, "annotations:\n", "annotations:\n  a: 1\n  b: 1.5\n  c: null\n  d: 2020-01-01\n  e: yes\n", ""},
		{"a channel that is a number", annotations, "channels.v1: stable", "channels.v1: 4.2", `channel(s) ["4.2"]`},
		{"a list in annotations.yaml", annotations, "annotations:\n", "annotations:\n  a: [b]\n", "annotation a is no text"},
		{"a field with a typing error", tideCSV, "minKubeVersion", "minKubeVerison", "unknown field spec.minKubeVerison, which the API server drops; did you mean minKubeVersion?"},
		{"an unknown field deep inside", tideCSV, "replicas: 1", "replica: 1", "unknown field spec.install.spec.deployments[0].spec.replica, which the API server drops; did you mean replicas?"},
		{"an unknown field of metadata", tideCSV, "  annotations:\n", "  anotations: {}\n  annotations:\n", "unknown field metadata.anotations, which the API server drops; did you mean annotations?"},
		{"an unknown field of a ClusterRole", view, "rules:", "aggregation: {}\nrules:", `unknown field "aggregation", which the API server drops`},
		{"a field twice", view, "rules:", "kind: ClusterRole\nrules:", "field kind is given twice; only the last one counts"},
		{"a conversion webhook that nobody serves", tides, "  scope: Namespaced\n", "  scope: Namespaced\n  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b}}}}\n", "OLM does not fill in its service and certificate"},
		{"an unknown capability level", tideCSV, "Basic Install", "Magic", "is not a valid capabilities level"},
		{"an example that is not JSON", tideCSV, `alm-examples: '[{`, `alm-examples: '[`, "invalid example"},
		{"a resource of an API without a name", tideCSV, `kind: Tide, displayName`, `kind: Tide, resources: [{kind: Pod, version: v1}], displayName`, "resources[0].name: Required value; OLM fills in an empty text"},
		{"no name of a related image", tideCSV, `{name: tide, image`, `{image`, "spec.relatedImages[0].name: Required value; OLM fills in an empty text"},
		{"no pull spec of a related image", tideCSV, "  relatedImages:\n", "  relatedImages:\n  - {name: wasm}\n", "spec.relatedImages[0].image: Required value; OLM fills in an empty text"},
		{"an OpenShift version that is a number", properties, `"4.22"`, `4.22`, "olm.maxOpenShiftVersion is 4.22, want MAJOR.MINOR in quotes"},
		{"a second document", view, "rules:", "rules: []\n---\nrules:", "a second document begins here; OLM reads only the first"},
		{"malformed dependencies", dependencies, "dependencies:", "dependencies: [", "OLM's tools leave the file out"},
		{"dependencies of the wrong type", dependencies, "dependencies:\n", "dependencies: 5\nothers:\n", "OLM's tools read no dependencies from this file"},
		{"a text in metadata", "metadata/README.txt", "", "Read me\n", "OLM reads nothing from this file"},
		{"a malformed text in metadata", "metadata/README.md", "", "a: b: c\n", "OLM's tools leave the file out"},
		{"a file without an object", "manifests/a.yaml", "", "# nothing\n", "the file holds no document, so OLM leaves it out; remove it"},
		{"another ClusterServiceVersion", "manifests/z.yaml", "", "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a}\n", "a second ClusterServiceVersion"},
		{"a setting whose name ends in IMAGE", tideCSV, "name: LEVEL, value: \"5\"", "name: PULL_IMAGE, value: \"true\"", ""},
		{"an image in a variable", tideCSV, "name: LEVEL, value: \"5\"", "name: A_IMAGE, value: quay.io/a/b", "image quay.io/a/b, which container tide has in variable A_IMAGE"},
		{"an image with a tag in a variable", tideCSV, "name: LEVEL, value: \"5\"", "name: RELATED_IMAGE_A, value: \"busybox:1\"", "image busybox:1, which container tide has"},
		{"a LABEL of several lines", "bundle.Dockerfile", "", labels, ""},
		{"another LABEL", "bundle.Dockerfile", "", strings.Replace(labels, "package.v1=tide", "package.v1=ebb", 1), `as a label in bundle.Dockerfile it is "ebb"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := changed(t, tc.file, tc.old, tc.new)
			var texts []string
			for _, f := range check(t, dir) {
				if f.Severity == findings.Error {
					t.Error(f)
				}
				texts = append(texts, f.String())
			}
			if tc.want == "" && len(texts) > 0 || tc.want != "" && !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, tc.want) }) {
				t.Errorf("findings are\n%s\nwant %q", strings.Join(texts, "\n"), tc.want)
			}
		})
	}
}

const labels = `FROM scratch AS build
LABEL operators.operatorframework.io.bundle.package.v1=wrong
from scratch
# a comment
label operators.operatorframework.io.bundle.mediatype.v1="registry+v1" \
      'operators.operatorframework.io.bundle.manifests.v1'=manifests/ \
# between
      operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=tide
LABEL	operators.operatorframework.io.bundle.channels.v1 stable
LABEL "operators.operatorframework.io.bundle.channel.default.v1"="stable" other="with spaces"
`

// TestOldDefinition: the only fault of a v1beta1 definition is its age. The API servers that accept it require no approval of its
// group.
func TestOldDefinition(t *testing.T) {
	dir, _ := changed(t, "manifests/shoals.yaml", "", `apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: shoals.sea.k8s.io, namespace: tide}
spec: {group: sea.k8s.io, version: v1, scope: Namespaced, names: {plural: shoals, singular: shoal, kind: Shoal, listKind: ShoalList}}
`)
	for _, f := range check(t, dir) {
		if f.Severity == findings.Error && !strings.Contains(f.Message, "removed in v1.22") {
			t.Error(f)
		}
	}
}

// TestAdviceMends applies the advice of findings literally.
func TestAdviceMends(t *testing.T) {
	dir, _ := changed(t, tides, "apiVersion", "# a comment\n---\n---\napiVersion")
	path := filepath.Join(dir, tides)
	var advice string
	for _, f := range check(t, dir) {
		if f.File == path {
			advice = f.Message
		}
	}
	if want := "the first document is empty, and OLM reads only the first: remove lines 2, 3 (---), so that the object begins the file"; advice != want {
		t.Fatalf("the advice is %q, want %q", advice, want)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(slices.Delete(lines, 1, 3), "\n")), 0o644))
	assert.Empty(t, check(t, dir), "still found")
}

// TestCheckFindsLargeObjects: etcd limits the uncompressed size of an object.
func TestCheckFindsLargeObjects(t *testing.T) {
	dir, _ := changed(t, tides, "A spec", strings.Repeat("All standard fields. ", 100_000))
	found := check(t, dir)
	if len(found) != 1 || found[0].Rule != "object-size" || !strings.Contains(found[0].Message, "etcd takes at most 1572864") {
		t.Errorf("found %v; want one about the size", found)
	}
}

// TestManyOwnedDefinitions: each is looked for in the bundle's definitions, and a finding about each may list the others.
func TestManyOwnedDefinitions(t *testing.T) {
	allocated := func(n int) uint64 {
		owned, converted, versions := "", "", ""
		for i := range n {
			owned += fmt.Sprintf("    - {name: a%d.example.com, kind: A%d, version: v1, displayName: A, description: A}\n", i, i)
			converted += fmt.Sprintf("b%d.example.com, ", i)
			versions += fmt.Sprintf("  - {name: v%d, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}\n", i+2)
		}
		dir, _ := changed(t, tideCSV, "    owned:\n", "    owned:\n"+owned)
		change(t, dir, tideCSV, "  webhookdefinitions:\n", "  webhookdefinitions:\n  - {type: ConversionWebhook, generateName: ctide.sea.example.com, deploymentName: tide, containerPort: 443, "+
			"admissionReviewVersions: [v1], sideEffects: None, conversionCRDs: ["+converted+"]}\n")
		change(t, dir, tides, "  versions:\n", "  versions:\n"+versions)
		var found []*findings.Finding
		allocated := memory.Allocated(func() { found = check(t, dir) })
		assert.Greater(t, len(found), 2*n)
		for _, f := range found {
			require.Less(t, len(f.Message), 2000, f.Message)
		}
		return allocated
	}
	allocated(10) // what is allocated once
	if few, many := allocated(300), allocated(1200); many > 7*few {
		t.Errorf("%d definitions take %d times the memory of a quarter of them", 1200, many/few)
	}
}

// TestLongName: the name of a bundle is not repeated in a finding about each of its definitions.
func TestLongName(t *testing.T) {
	long := strings.Repeat("t", 2000)
	owned := ""
	for i := range 100 {
		owned += fmt.Sprintf("    - {name: a%d.example.com, kind: A%d, version: v1, displayName: A, description: A}\n", i, i)
	}
	dir, _ := changed(t, tideCSV, "  name: tide.v1.1.0\n", "  name: "+long+"\n")
	change(t, dir, tideCSV, "    owned:\n", "    owned:\n"+owned)
	found := check(t, dir)
	assert.True(t, slices.ContainsFunc(found, func(f *findings.Finding) bool {
		return f.Rule == "api-server" && strings.HasPrefix(f.Message, "metadata.name: ")
	}))
	repeated := 0
	for _, f := range found {
		repeated += strings.Count(f.Message, long)
	}
	assert.Less(t, repeated, 10)
}

// TestManyWrongValues: corrections parse the document, so there are few.
func TestManyWrongValues(t *testing.T) {
	numbers, properties, lists := "", "properties:\n", ""
	for i := range 200 {
		numbers += fmt.Sprintf("    a%d.example.com/number: %d\n", i, i)
		properties += fmt.Sprintf("- {type: olm.maxOpenShiftVersion, value: 4.%d}\n", i+1)
		lists += fmt.Sprintf("  a%d.example.com/list: []\n", i)
	}
	dir, _ := changed(t, tideCSV, "  annotations:\n", "  annotations:\n"+numbers)
	change(t, dir, "metadata/annotations.yaml", "annotations:\n", "annotations:\n"+lists)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metadata", "properties.yaml"), []byte(properties), 0o644))
	count := map[string]int{}
	var messages []string
	for _, f := range check(t, dir) {
		count[f.Rule]++
		messages = append(messages, f.Message)
	}
	assert.Less(t, count["console-feature"], 60)
	assert.Less(t, count["openshift-version"], 110)
	assert.Less(t, count["document-field"], 60)
	for _, want := range []string{
		"there are 150 more such annotations; correct the reported ones first",
		"150 more annotations are no text; expected strings",
		"property olm.maxOpenShiftVersion is given more than 50 times; OLM accepts one: remove the others",
	} {
		assert.True(t, slices.Contains(messages, want), want)
	}
}

// TestCheckOfUndecodable: the other rules are applied even if the ClusterServiceVersion cannot be decoded.
func TestCheckOfUndecodable(t *testing.T) {
	dir, line := changed(t, tideCSV, `maturity: stable`, `maturity: 1`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", "z.yaml"), []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"), 0o644))
	found := check(t, dir)
	if len(found) != 2 || found[0].Line != line || found[0].Column != 3 || found[1].Rule != "olm-kind" {
		t.Errorf("found %v; want the type at line %d, and the Pod", found, line)
	}
}
