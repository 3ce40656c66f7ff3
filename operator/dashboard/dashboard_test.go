package dashboard

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// rows are the rows of the dashboard, in the fields that matter here.
func rows(t *testing.T) []row {
	t.Helper()
	var shown struct{ Rows []row }
	require.NoError(t, json.Unmarshal([]byte(board), &shown))
	return shown.Rows
}

type row struct {
	Title  string
	Panels []struct {
		ID      int
		Title   string
		Span    int // of 12 columns
		Targets []struct{ Expr string }
	}
}

// TestPanels has Prometheus answer the query of each panel.
func TestPanels(t *testing.T) {
	raw, err := os.ReadFile("testdata/samples.yaml")
	require.NoError(t, err)
	samples := struct {
		Input  []any            `json:"input_series"`
		Panels map[string][]any `json:"panels"`
	}{}
	require.NoError(t, yaml.UnmarshalStrict(raw, &samples))
	var titles []string
	var tests []any
	for _, r := range rows(t) {
		for _, p := range r.Panels {
			titles = append(titles, p.Title)
			for _, target := range p.Targets {
				tests = append(tests, map[string]any{"expr": target.Expr, "eval_time": "10m", "exp_samples": samples.Panels[p.Title]})
			}
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(samples.Panels)), slices.Sorted(slices.Values(titles)), "panels")
	file, err := yaml.Marshal(map[string]any{"tests": []any{
		map[string]any{"interval": "1m", "input_series": samples.Input, "promql_expr_test": tests},
	}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tests.yaml")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	promtool, err := tools.Promtool(t.Context(), nil)
	require.NoError(t, err)
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestLayout: each row is as wide as the page, and no two panels have the same number.
func TestLayout(t *testing.T) {
	number := 0
	for _, r := range rows(t) {
		width := 0
		for _, p := range r.Panels {
			number++
			assert.EqualValuesf(t, number, p.ID, "panel %q has the ID", p.Title)
			width += p.Span
		}
		assert.Equalf(t, 12, width, "columns of the panels of row %q", r.Title)
	}
}

var (
	asked     = regexp.MustCompile(`[a-z_:]*\b(?:berth|csi)_[a-z_:]+`)
	declared  = regexp.MustCompile(`(?m)(?:^ *- record: |Name: +"|gauge\(")([a-z_:]+)`)
	histogram = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// TestMetricsExist: the operators, their recording rules and the sidecars have each metric that the dashboard asks for.
func TestMetricsExist(t *testing.T) {
	exist := map[string]bool{}
	for _, file := range []string{"operator/metrics/metrics.go", "drivers/efs/controller/metrics.go", "sharedvolume/metrics.go", "drivers/efs/alerts.yaml", "lab/standin/livenessprobe.go"} {
		content, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		for _, match := range declared.FindAllStringSubmatch(string(content), -1) {
			exist[match[1]] = true
		}
	}
	for _, r := range rows(t) {
		for _, p := range r.Panels {
			for _, target := range p.Targets {
				metrics := asked.FindAllString(target.Expr, -1)
				assert.NotEmptyf(t, metrics, "metrics that panel %q asks for", p.Title)
				for _, metric := range metrics {
					if !exist[metric] && !exist[histogram.ReplaceAllString(metric, "")] {
						t.Errorf("panel %q asks for %s, which does not exist", p.Title, metric)
					}
				}
			}
		}
	}
}
