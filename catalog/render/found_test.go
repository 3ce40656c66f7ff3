package render_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
)

// tide renders a bundle whose ClusterServiceVersion has these lines in the place of others.
func tide(t *testing.T, old, lines string) *render.Bundle { return tideWith(t, old, lines, "") }

// tideWith is like tide, with a ConfigMap of this text.
func tideWith(t *testing.T, old, lines, text string) *render.Bundle {
	t.Helper()
	const tide = "../../bundle/rules/testdata/tide"
	files := map[string][]byte{}
	for _, folder := range []string{"manifests", "metadata"} {
		all, err := os.ReadDir(filepath.Join(tide, folder))
		require.NoError(t, err)
		for _, f := range all {
			text, err := os.ReadFile(filepath.Join(tide, folder, f.Name()))
			require.NoError(t, err)
			files[folder+"/"+f.Name()] = []byte(strings.Replace(string(text), old, lines, 1))
		}
	}
	files["manifests/text.yaml"] = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\ndata: {text: '" + text + "'}\n")
	b, err := render.Image("registry.example.com/tide:v1", files)
	require.NoError(t, err)
	return b
}

const category = "    categories: Storage\n"

// TestMalformedProperties: opm renders a bundle whose annotation olm.properties is not JSON, so that only warns.
func TestMalformedProperties(t *testing.T) {
	b := tide(t, category, category+"    olm.properties: '[{'\n")
	if len(b.Found) != 1 || b.Found[0].Severity != findings.Warning || !strings.Contains(b.Found[0].Message, "OLM's tools leave the annotation out") {
		t.Errorf("found %v, want one warning", b.Found)
	}
}

// TestDeepProperties: a bundle's values that nest deep are not rendered, wherever they come from: a catalog with them would be refused, and
// take the square of their depth.
func TestDeepProperties(t *testing.T) {
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	annotated := func(levels int) *render.Bundle {
		return tide(t, category, category+`    olm.properties: '[{"type":"x","value":`+nested(levels)+"}]'\n")
	}
	described := func(levels int) *render.Bundle {
		return tide(t, "description: A tide}", "description: A tide, specDescriptors: [{path: a, value: "+nested(levels)+"}]}")
	}
	for name, tc := range map[string]struct {
		bundle func(levels int) *render.Bundle
		format render.Format
	}{
		"an annotation":            {annotated, render.Whole},
		"an annotation, described": {annotated, render.Described},
		"a descriptor's value":     {described, render.Described},
	} {
		_, err := tc.bundle(80).In(tc.format)
		require.NoError(t, err, name)
		_, err = tc.bundle(120).In(tc.format)
		assert.ErrorContains(t, err, "nests more than 100 levels deep; expected fewer", name)
	}
}

// TestRelease: a bundle that is kept for a catalog takes no memory for what the catalog does not show.
func TestRelease(t *testing.T) {
	live := func() int {
		var stats runtime.MemStats
		for range 3 { // pools keep buffers for two collections
			runtime.GC()
		}
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	text := strings.Repeat("<", 8<<20)
	for whole, formats := range map[bool][]render.Format{false: {render.Described}, true: render.BundleFormats} {
		same := tideWith(t, category, category, text)
		before := live()
		b := tideWith(t, category, category, text)
		kept, err := b.Release(whole)
		require.NoError(t, err)
		taken := live() - before
		assert.Less(t, taken, kept+2<<20, "bytes that the bundle takes")
		if !whole {
			assert.Less(t, kept, 1<<20)
		}
		for _, format := range formats {
			want, err := same.In(format)
			require.NoError(t, err)
			got, err := b.In(format)
			require.NoError(t, err)
			assert.True(t, reflect.DeepEqual(want, got), "whole %v: another document in the format %s", whole, format)
		}
		want, err := same.Entry()
		require.NoError(t, err)
		got, err := b.Entry()
		require.NoError(t, err)
		assert.Equal(t, want, got)
		var wanted, introduced declcfg.Package
		require.NoError(t, errors.Join(same.Introduce(&wanted), b.Introduce(&introduced)))
		assert.Equal(t, wanted, introduced)
	}
}
