package dashboard

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// TestPanels has Prometheus answer the query of each panel.
func TestPanels(t *testing.T) {
	raw, err := os.ReadFile("testdata/samples.yaml")
	if err != nil {
		t.Fatal(err)
	}
	samples := struct {
		Input  []any            `json:"input_series"`
		Panels map[string][]any `json:"panels"`
	}{}
	if err := yaml.UnmarshalStrict(raw, &samples); err != nil {
		t.Fatal(err)
	}
	var titles []string
	var tests []any
	for _, r := range rows {
		for _, p := range r.panels {
			titles = append(titles, p.title)
			tests = append(tests, map[string]any{"expr": p.query, "eval_time": "10m", "exp_samples": samples.Panels[p.title]})
		}
	}
	if want := slices.Sorted(maps.Keys(samples.Panels)); !slices.Equal(slices.Sorted(slices.Values(titles)), want) {
		t.Errorf("the panels are %q, want %q", titles, want)
	}
	file, err := yaml.Marshal(map[string]any{"tests": []any{
		map[string]any{"interval": "1m", "input_series": samples.Input, "promql_expr_test": tests},
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool, err := tools.Promtool(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestLayout: each row is as wide as the page.
func TestLayout(t *testing.T) {
	for _, r := range rows {
		width := 0
		for _, p := range r.panels {
			width += p.width
		}
		if width != 12 {
			t.Errorf("the panels of row %q have %d columns, want 12", r.title, width)
		}
	}
}
