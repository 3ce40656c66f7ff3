package drivers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/cluster/tools"
)

// TestAlerts checks the alerts of each driver's operator with promtool, and runs the tests in testdata.
func TestAlerts(t *testing.T) {
	promtool, err := tools.Promtool(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		rules, err := yaml.Marshal(monitoring["PrometheusRule"].Object.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		tests, err := os.ReadFile(filepath.Join(d.Name, "testdata", "alerts.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		for name, content := range map[string][]byte{"rules.yaml": rules, "alerts.yaml": tests} {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
			command := exec.CommandContext(t.Context(), promtool, args...)
			command.Dir = folder
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	})
}

// TestEachAlertIsTested: promtool accepts rules without a test.
func TestEachAlertIsTested(t *testing.T) {
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		tests, err := os.ReadFile(filepath.Join(d.Name, "testdata", "alerts.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, alert := range alerts(t, monitoring["PrometheusRule"]) {
			if !strings.Contains(string(tests), "alertname: "+alert.Alert+"\n") {
				t.Errorf("%s/testdata/alerts.yaml tests no alert %s", d.Name, alert.Alert)
			}
			for _, annotation := range []string{"summary", "description", "runbook_url"} {
				if alert.Annotations[annotation] == "" {
					t.Errorf("alert %s has no annotation %s", alert.Alert, annotation)
				}
			}
			if alert.Labels["severity"] != "info" {
				t.Errorf("alert %s has severity %q, want info: volumes keep working", alert.Alert, alert.Labels["severity"])
			}
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
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s: has no rules", rule.File)
	}
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
			if anchor := "\n## " + strings.ReplaceAll(heading, "-", " ") + "\n"; !strings.Contains(strings.ToLower(string(text)), anchor) {
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
		if command == nil {
			t.Fatalf("the description does not end with a command: %s", description)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(command[1])); err != nil {
			t.Fatal(err)
		}
		if err := c.Client().Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Error(err)
		}
		if object.GetKind() != "ClusterCSIDriver" || object.GetName() != d.CSIName {
			t.Errorf("the command creates %s %s, want ClusterCSIDriver %s", object.GetKind(), object.GetName(), d.CSIName)
		}
	})
}
