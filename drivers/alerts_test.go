package drivers_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/page"
)

// TestAlerts checks the alerts of each driver's operator with promtool, and runs the tests in testdata. A test of four weeks takes promtool ten
// seconds, so rules that differ from tested ones in nothing but a driver's names are only checked.
func TestAlerts(t *testing.T) {
	promtool, err := tools.Promtool(t.Context(), nil)
	require.NoError(t, err)
	tested := map[string]string{} // the driver, by rules without its names
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		rules, err := yaml.Marshal(monitoring["PrometheusRule"].Object.Object["spec"])
		require.NoError(t, err)
		folder := t.TempDir()
		checks := [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}}
		files := alertTests(t, d)
		nameless := withoutNames(t, d, monitoring["PrometheusRule"])
		if same, ok := tested[nameless]; ok {
			t.Logf("the rules are those of %s", same)
			clear(files)
		}
		tested[nameless] = d.Name
		for name := range files {
			checks = append(checks, []string{"test", "rules", name})
		}
		files["rules.yaml"] = rules
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o644))
		}
		for _, args := range checks {
			command := exec.CommandContext(t.Context(), promtool, args...)
			command.Dir = folder
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	})
}

// withoutNames returns a driver's rules without what its names alone decide.
func withoutNames(t *testing.T, d drivers.Driver, rules drivers.Manifest) string {
	t.Helper()
	text, err := json.Marshal(rules.Object.Object["spec"])
	require.NoError(t, err)
	return strings.NewReplacer(d.CSIName, "${DRIVER}", d.Operator.Name, "${OPERATOR}", d.ConditionPrefix, "${CONDITION_PREFIX}").Replace(string(text))
}

// severities are the severities of alerts that somebody has to act on. All others are info: volumes keep working.
var severities = map[string]string{
	"ClusterCSIDriverUnavailable": "critical", "ClusterCSIDriverDegraded": "warning", "ClusterCSIDriverCredentialsMissing": "warning", "ClusterCSIDriverOperatorAbsent": "warning",
	"ClusterCSIDriverBudgetBurnsFast": "warning", "SharedVolumeBudgetBurnsFast": "warning", "SharedVolumesOverdue": "warning", "AccessPointsNearlyUsedUp": "warning", "AccessPointsShareGroupID": "warning", "StorageClassEndangersFiles": "warning",
}

// alertTests returns the tests of a driver's alerts for promtool, by file name: the common alerts' tests, and its own.
func alertTests(t *testing.T, d drivers.Driver) map[string][]byte {
	t.Helper()
	common, err := os.ReadFile(filepath.Join("monitoring", "testdata", "alerts.yaml"))
	require.NoError(t, err)
	fourWeeks := page.Commands(t, filepath.Join("..", "docs", "operate", "slo.md"), "## How it is measured", strings.NewReplacer())
	tests := map[string][]byte{"alerts.yaml": []byte(strings.NewReplacer("${DRIVER}", d.CSIName, "${OPERATOR}", d.Operator.Name, "${CONDITION_PREFIX}", d.ConditionPrefix,
		"${FOUR_WEEKS}", strings.TrimSpace(fourWeeks)).Replace(string(common)))}
	own, err := os.ReadFile(filepath.Join(d.Name, "testdata", "alerts.yaml"))
	if err == nil {
		tests["own.yaml"] = own
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return tests
}

// TestEachAlertIsTested: promtool accepts rules without a test.
func TestEachAlertIsTested(t *testing.T) {
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		var tests string
		for _, content := range alertTests(t, d) {
			tests += string(content)
		}
		for _, alert := range alerts(t, monitoring["PrometheusRule"]) {
			tested := strings.Contains(tests, "alertname: "+alert.Alert+"\n")
			assert.Truef(t, tested, "neither monitoring/testdata/alerts.yaml nor %s/testdata/alerts.yaml tests alert %s", d.Name, alert.Alert)
			for _, annotation := range []string{"summary", "description", "runbook_url"} {
				assert.NotEmptyf(t, alert.Annotations[annotation], "annotation %s of alert %s", annotation, alert.Alert)
			}
			assert.Equalf(t, cmp.Or(severities[alert.Alert], "info"), alert.Labels["severity"], "severity of alert %s", alert.Alert)
		}
	})
}

type alert struct {
	Alert               string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T, rule drivers.Manifest) []alert {
	t.Helper()
	var all []alert
	content := read[struct {
		Spec struct{ Groups []struct{ Rules []alert } }
	}](t, rule)
	for _, group := range content.Spec.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" { // the others are recording rules
				all = append(all, rule)
			}
		}
	}
	require.NotEmptyf(t, all, "rules of %s", rule.File)
	return all
}

// TestAlertsLeadToPages: the runbook of each alert exists, as a heading in a page.
func TestAlertsLeadToPages(t *testing.T) {
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		for _, alert := range alerts(t, monitoring["PrometheusRule"]) {
			path, ok := strings.CutPrefix(alert.Annotations["runbook_url"], "https://github.com/berth-csi/berth/blob/main/")
			page, heading, _ := strings.Cut(path, "#")
			text, err := os.ReadFile(filepath.Join("..", page))
			if !ok || err != nil {
				t.Errorf("alert %s refers to %s: %v", alert.Alert, alert.Annotations["runbook_url"], err)
			}
			if anchor := "## " + strings.ReplaceAll(heading, "-", " ") + "\n"; !strings.Contains(strings.ToLower(string(text)), anchor) {
				t.Errorf("alert %s refers to %s, which has no such heading", alert.Alert, alert.Annotations["runbook_url"])
			}
		}
	})
}

// TestAlertTellsHowToInstall: the command in the alert's description creates the object that installs the driver.
func TestAlertTellsHowToInstall(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		description := alerts(t, monitoring["PrometheusRule"])[0].Annotations["description"]
		command := regexp.MustCompile(`echo '(.*)' \| oc create -f -$`).FindStringSubmatch(description)
		require.NotNilf(t, command, "the description does not end with a command: %s", description)
		object := &unstructured.Unstructured{}
		require.NoError(t, object.UnmarshalJSON([]byte(command[1])))
		assert.NoError(t, c.Client().Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")))
		if object.GetKind() != "ClusterCSIDriver" || object.GetName() != d.CSIName {
			t.Errorf("the command creates %s %s, want ClusterCSIDriver %s", object.GetKind(), object.GetName(), d.CSIName)
		}
	})
}
