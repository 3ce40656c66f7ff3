package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// ofPlatform are the alerts that OpenShift's cluster storage operator has on every platform, with their severities.
var ofPlatform = map[string][]string{
	"MultipleDefaultStorageClasses":            {"warning"},
	"VolumeAttributesClassParameterMismatch":   {"warning"},
	"PodStartupStorageOperationsFailing":       {"info"},
	"SELinuxMountGAReadinessWorkloadsDetected": {"warning"},
	"KubePersistentVolumeFillingUp":            {"critical", "warning"},
	"KubePersistentVolumeInodesFillingUp":      {"critical", "warning"},
	"KubePersistentVolumeErrors":               {"warning"},
}

// TestAlerts checks the alerts with promtool, and runs the tests in testdata.
func TestAlerts(t *testing.T) {
	promtool, err := tools.Promtool(t.Context(), nil)
	require.NoError(t, err)
	rule, err := Rule()
	require.NoError(t, err)
	rules, err := yaml.Marshal(rule.Object["spec"])
	require.NoError(t, err)
	tests, err := os.ReadFile("testdata/alerts.yaml")
	require.NoError(t, err)
	folder := t.TempDir()
	for name, content := range map[string][]byte{"rules.yaml": rules, "alerts.yaml": tests} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o644))
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestAlertsOfThePlatform: none is missing, each is tested, and each leads to a section of a page.
func TestAlertsOfThePlatform(t *testing.T) {
	var content struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert               string
					Labels, Annotations map[string]string
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(prometheusRule, &content))
	tests, err := os.ReadFile("testdata/alerts.yaml")
	require.NoError(t, err)
	got := map[string][]string{}
	for _, group := range content.Spec.Groups {
		for _, r := range group.Rules {
			got[r.Alert] = append(got[r.Alert], r.Labels["severity"])
			assert.Truef(t, strings.Contains(string(tests), "alertname: "+r.Alert+"\n"), "testdata/alerts.yaml does not test %s", r.Alert)
			page, heading, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], "https://github.com/berth-csi/berth/blob/main/"), "#")
			text, err := os.ReadFile(filepath.Join("..", "..", "..", page))
			if err != nil || !strings.Contains(strings.ToLower(string(text)), "\n## "+heading+"\n") || heading != strings.ToLower(r.Alert) {
				t.Errorf("%s leads to %q, where it has no section (%v)", r.Alert, r.Annotations["runbook_url"], err)
			}
		}
	}
	for name, want := range ofPlatform {
		assert.Equalf(t, want, got[name], "severities of %s", name)
	}
}
