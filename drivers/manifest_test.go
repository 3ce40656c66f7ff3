package drivers_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
)

func driverWith(files map[string]string) drivers.Driver {
	assets := fstest.MapFS{}
	for name, content := range files {
		assets[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return drivers.Driver{Name: "tug", Assets: assets, Images: []drivers.Image{{Env: "HULL_IMAGE"}}}
}

func TestManifests(t *testing.T) {
	d := driverWith(map[string]string{
		"b/mast.yaml": "# first a comment\n---\nkind: Mast\nmetadata:\n  name: ${HULL_IMAGE}-${HEIGHT}\n",
		"anchor.yaml": "kind: Anchor\nmetadata:\n  name: heavy\n  namespace: ${NAMESPACE}\n",
	})
	manifests, err := d.Manifests(drivers.Values{Namespace: namespace, Image: func(string) string { return "oak" }})
	require.NoError(t, err)
	var got []string
	for _, m := range manifests {
		got = append(got, strings.Join([]string{m.File, m.Object.GetKind(), m.Object.GetNamespace(), m.Object.GetName()}, " "))
	}
	want := []string{"anchor.yaml Anchor " + namespace + " heavy", "b/mast.yaml Mast  oak-${HEIGHT}"}
	assert.Empty(t, cmp.Diff(want, got), "manifests (-want +got)")
	err = drivers.CheckRendered(manifests[1].YAML)
	assert.ErrorContains(t, err, "placeholder ${HEIGHT} was not filled in")
	assert.NoError(t, drivers.CheckRendered(manifests[0].YAML))
}

func TestBadManifests(t *testing.T) {
	const anchor = "kind: Anchor\nmetadata:\n  name: heavy\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":           {nil, "driver tug has no assets"},
		"no object":      {map[string]string{"a.yaml": "# nothing\n"}, "driver tug: asset a.yaml: holds 0 objects, want one"},
		"two objects":    {map[string]string{"a.yaml": anchor + "---\n" + anchor}, "driver tug: asset a.yaml: holds 2 objects, want one"},
		"no name":        {map[string]string{"a.yaml": "kind: Anchor\n"}, `driver tug: asset a.yaml: has kind "Anchor" and metadata.name "", want both`},
		"no kind":        {map[string]string{"a.yaml": "metadata:\n  name: heavy\n"}, `driver tug: asset a.yaml: has kind "" and metadata.name "heavy", want both`},
		"repeated field": {map[string]string{"a.yaml": anchor + "kind: Anchor\n"}, "driver tug: asset a.yaml: "},
		"no YAML":        {map[string]string{"a.yaml": "kind: [\n"}, "driver tug: asset a.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := driverWith(test.files).Manifests(drivers.Values{Namespace: namespace, Image: imageOf})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
