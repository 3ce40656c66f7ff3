package hostile

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

type boat struct {
	Name   string
	crew   []string
	ports  map[string]any
	pilot  *boat
	itself *boat
	Kept   kept
}

type kept struct{ Name string }

// TestEach: each text is replaced once, wherever it is, and is back afterwards.
func TestEach(t *testing.T) {
	b := &boat{Name: "tide", crew: []string{"a", "b"}, ports: map[string]any{"home": "north", "more": []any{"x", map[string]any{"deep": "y"}}}, pilot: &boat{Name: "p"}, Kept: kept{"k"}}
	b.itself = b
	var paths []string
	count := Each(b, "!", func(path string) {
		paths = append(paths, path)
		if path == ".ports[more][1][deep]" && b.ports["more"].([]any)[1].(map[string]any)["deep"] != "!" || path == ".Name" && b.Name != "!" {
			t.Errorf("%s is not replaced: %+v", path, b)
		}
	}, kept{})
	slices.Sort(paths)
	want := []string{".Name", ".crew[0]", ".crew[1]", ".pilot.Name", ".ports[home]", ".ports[home] as the key", ".ports[more] as the key", ".ports[more][0]", ".ports[more][1][deep]", ".ports[more][1][deep] as the key"}
	if !slices.Equal(paths, want) || count != len(want) {
		t.Errorf("got %d: %q, want %q", count, paths, want)
	}
	if b.Name != "tide" || b.crew[1] != "b" || b.ports["home"] != "north" || b.pilot.Name != "p" {
		t.Errorf("it is not as before: %+v", b)
	}
}

// recorder is a test that records whether it failed.
type recorder struct {
	*testing.T
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

// TestCheck: each hostile text is found where it is not escaped.
func TestCheck(t *testing.T) {
	for text, bad := range map[string]bool{
		"a line\nand another":                false,
		screen:                               true,
		"red \x1b[31m":                       true,
		"::error::x":                         true,
		"see ##[error]x":                     true,
		long:                                 true,
		"run `oc get pod " + shell + "` now": true,
		"do: oc get pod x; started":          true,
		"run `oc get pod 'x; started'` now":  false,
		"it says x; started":                 false,
		strings.Repeat("a line\n", 1000):     false,
	} {
		r := &recorder{T: t}
		Check(r, "a text", text, 1<<10)
		assert.Equalf(t, bad, r.failed, "%.100q: failed", text)
	}
}
