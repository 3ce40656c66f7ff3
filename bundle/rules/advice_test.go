package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/internal/findings"
)

// follow changes the text of the file of a finding as the matched advice says. line is the line of the finding, counted from 0.
type follow func(lines []string, line int, match []string)

// replaceWith replaces the first text of the match by the second, at the line of the finding or the first one below that has it.
func replaceWith(lines []string, line int, match []string) {
	for i := line; i < len(lines); i++ {
		if strings.Contains(lines[i], match[1]) {
			lines[i] = strings.Replace(lines[i], match[1], match[2], 1)
			return
		}
	}
}

// quote puts the value at the line of the finding in quotes.
func quote(lines []string, line int, _ []string) {
	value := regexp.MustCompile(`(value|certified): ([^",}]+)`)
	lines[line] = value.ReplaceAllString(lines[line], `$1: "$2"`)
}

// remove removes the line of the finding.
func remove(lines []string, line int, _ []string) { lines[line] = "# removed" }

// add returns a function that adds a line below the line of the finding.
func add(text string) follow {
	return func(lines []string, line int, match []string) {
		for i := 1; i < len(match); i++ {
			text = strings.ReplaceAll(text, "$"+string(rune('0'+i)), match[i])
		}
		lines[line] += "\n" + text
	}
}

// advised are faults whose findings say what to do, and the change that does it.
var advised = []struct {
	rule, file, old, new string
	advice               string // matches the message
	follow               follow
}{
	{"api-server", tideCSV, `value: "5"`, `value: 5`, `put the value in quotes`, quote},
	{"api-warning", tideCSV, "minKubeVersion", "minKubeVerison", `unknown field spec\.(\w+), .*did you mean (\w+)\?`, replaceWith},
	{"olm-api", tideCSV, "name: tides.sea.example.com, version", "name: tide.sea.example.com, version", `is called (\S+), and .*; expected (\S+)$`, replaceWith},
	{"olm-version", tideCSV, "  version: 1.1.0\n", "", `has no spec.version; expected MAJOR.MINOR.PATCH`, add("  version: 1.1.0")},
	{"olm-property", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"ebb\", \"version\": \"1.1.0\"}}]'\n", `its packageName is "(\w+)"; expected "(\w+)"`, replaceWith},
	{"olm-property", tideCSV, "    categories: Storage\n", "    categories: Storage\n    olm.properties: '[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"tide\", \"version\": \"1.2.0\"}}]'\n", `which counts in catalogs, and spec.version is .*; remove the property: OLM's tools add the right one`, remove},
	{"olm-dependency", dependencies, `olm.gvk`, `olm.gkv`, `the type is "(\S+)", .*did you mean (\S+)\?`, replaceWith},
	{"olm-kind", metrics, "kind: Service", "kind: Endpoints", `let the operator create "\S+"`, nil},
	{"olm-duplicate", "manifests/zz.yaml", "", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: tide-view}\nrules: []\n", `is also in \S+; OLM writes one of them over the other`, nil},
	{"olm-annotations", annotations, "mediatype.v1: registry+v1", "mediatype.v1: plain+v0", `is "(\S+)", want "(\S+)"`, replaceWith},
	{"olm-annotations", annotations, "  operators.operatorframework.io.bundle.channels.v1: stable\n", "", `(\S+) is missing: want the channels`, add("  $1: stable")},
	{"upgrade-edge", tideCSV, `replaces: tide.v1.0.0`, `replaces: tide.v1.1.0`, `replaces itself; expected the name of an earlier version, or none`, remove},
	{"upgrade-edge", tideCSV, `">=1.0.0 <1.1.0"`, `"<v1.1.0"`, `is "(.+?)"; expected a range such as "(.+?)"`, replaceWith},
	{"webhook", tideCSV, `deploymentName: tide`, `deploymentName: ebb`, `there is no Deployment "(\w+)"; expected one of the install strategy's: (\w+)$`, replaceWith},
	{"conversion-webhook", tides, "  scope: Namespaced\n", "  scope: Namespaced\n  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b}}}}\n", `or remove spec.conversion`, remove},
	{"openshift-version", properties, `"4.22"`, `4.22.1`, `is (\S+), want MAJOR.MINOR in quotes, such as ("\S+")`, replaceWith},
	{"console-feature", tideCSV, `categories: Storage`, `certified: 1`, `want a string in quotes`, quote},
	{"related-images", tideCSV, "  - {name: tide, image: \"quay.io/example/tide:v1\"}\n", "  - {name: ebb, image: \"quay.io/example/ebb:v1\"}\n", `image (\S+) of container (\S+) is not in spec.relatedImages`, func(lines []string, _ int, match []string) {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "  relatedImages:") })
		lines[at] += "\n  - {name: " + match[2] + ", image: " + match[1] + "}"
	}},
	{"olm-labels", annotations, "channels.v1: stable", "channels.v1: stable-v1", `the annotation \S+ is "(\S+)", but as a label in bundle.Dockerfile it is "(\S+)"`, replaceWith},
}

// unadvised are the rules whose findings give no advice that a program can follow, and why.
var unadvised = map[string]string{
	"bundle-folder": "says which file or folder must be there", "syntax": "TestAdviceMends follows it where there is some; the parser's texts have none",
	"field": "names the type that is expected", "customresourcedefinition": "the API server's texts",
	"document-size": "only the author can shorten it", "document-expansion": "only the author can shorten it", "object-size": "only the author can shorten it",
	"clusterserviceversion": "the Operator Framework's texts", "bundle": "the Operator Framework's texts", "operatorhubv2": "the Operator Framework's texts",
	"standardcapabilities": "the Operator Framework's texts", "standardcategories": "the Operator Framework's texts", "alpha-deprecated-apis": "the Operator Framework's texts",
	"good-practices": "the Operator Framework's texts", "object": "the Operator Framework's texts", "operatorgroup": "the Operator Framework's texts",
	"openshift-versions": "only the author knows the versions", "required-fields": "only the author knows the values", "openshift-kubernetes": "only the author knows the versions",
	"removed-api": "only the author can change the operator", "network-policy": "only the author knows the traffic", "feature-annotations": "only the author knows the features",
	"one-scc": "only the author can merge them", "image-digest": "only a registry knows the digest", "related-images-count": "only the author knows which are needed",
	"disconnected": "only the author can change the operator", "fips": "only the author can change the operator",
}

// TestAdviceOfRules: who follows the advice of a finding literally has no finding of the rule any more, and no new one.
func TestAdviceOfRules(t *testing.T) {
	tried := map[string]bool{}
	for _, tc := range advised {
		tried[tc.rule] = true
		t.Run(tc.rule+" "+tc.advice, func(t *testing.T) {
			dir, _ := changed(t, tc.file, tc.old, tc.new)
			if tc.rule == "olm-labels" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "bundle.Dockerfile"), []byte(labels), 0o644))
			}
			before := check(t, dir)
			at, match := adviceOf(before, tc.rule, tc.advice)
			if at == nil {
				t.Fatalf("no finding of %s matches %s: %v", tc.rule, tc.advice, before)
			}
			if tc.follow == nil {
				require.NoError(t, os.Remove(at.File))
			} else {
				text, err := os.ReadFile(at.File)
				require.NoError(t, err)
				lines := strings.Split(string(text), "\n")
				tc.follow(lines, at.Line-1, match)
				require.NoError(t, os.WriteFile(at.File, []byte(strings.Join(lines, "\n")), 0o644))
			}
			for _, f := range check(t, dir) {
				if f.Rule == tc.rule || !slices.ContainsFunc(before, func(b *findings.Finding) bool { return b.Message == f.Message }) {
					t.Errorf("after the advice %q, there is: %s", at.Message, f)
				}
			}
		})
	}
	for _, r := range rules.Rules() {
		if _, without := unadvised[r.ID]; without == tried[r.ID] {
			t.Errorf("rule %s: its advice is tried here: %v; a reason why it has none: %v; want one of both", r.ID, tried[r.ID], without)
		}
	}
}

// adviceOf returns the first finding of a rule whose message matches, with the match.
func adviceOf(found []*findings.Finding, rule, advice string) (*findings.Finding, []string) {
	for _, f := range found {
		if match := regexp.MustCompile(advice).FindStringSubmatch(f.Message); match != nil && f.Rule == rule {
			return f, match
		}
	}
	return nil, nil
}
