package bundle

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/widget"
)

var update = flag.Bool("update", false, "write golden files")

var version1 = Options{Version: semver.MustParse("1.0.0")}

func mustGenerate(t *testing.T, d drivers.Driver, opts Options) *registryv1.Bundle {
	t.Helper()
	b, err := Generate(d, opts)
	require.NoError(t, err)
	return b
}

func csvOf(t *testing.T, b *registryv1.Bundle) *v1alpha1.ClusterServiceVersion {
	t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	require.NoError(t, yaml.UnmarshalStrict(b.File("manifests/"+b.Package+".clusterserviceversion.yaml"), csv))
	return csv
}

func TestGenerateGolden(t *testing.T) {
	const golden = "testdata/widget.txtar"
	b := mustGenerate(t, widget.Driver(), Options{
		Version:  semver.MustParse("1.2.0-rc.1"),
		Replaces: "widget-operator.v1.1.0", SkipRange: ">=1.1.0 <1.2.0",
		Images:   map[string]string{"DRIVER_IMAGE": "quay.io/mirror/widget@sha256:" + strings.Repeat("0", 64), OperatorImage: "quay.io/mirror/operator:v2"},
		Released: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	})
	archive := &txtar.Archive{}
	for _, f := range b.Files {
		archive.Files = append(archive.Files, txtar.File{Name: f.Path, Data: withoutInstall(t, f.Data)})
	}
	got := txtar.Format(archive)
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Emptyf(t, cmp.Diff(string(want), string(got)), "the bundle differs from %s (-want +got); `go test ./bundle -update` accepts it", golden)
}

// withoutInstall removes the parts of a ClusterServiceVersion that package drivers defines and tests for every operator.
func withoutInstall(t *testing.T, manifest []byte) []byte {
	t.Helper()
	before, rest, ok := bytes.Cut(manifest, []byte("\n  install:\n"))
	if !ok {
		return manifest
	}
	_, after, ok := bytes.Cut(rest, []byte("\n  installModes:\n"))
	if !ok {
		t.Fatal("spec.install is not followed by spec.installModes")
	}
	return slices.Concat(before, []byte("\n  installModes:\n"), after)
}

func TestGenerateIsDeterministic(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			bundles := make([]*registryv1.Bundle, 20)
			var wg sync.WaitGroup
			for i := range bundles {
				wg.Go(func() { bundles[i], _ = Generate(d, version1) })
			}
			wg.Wait()
			for _, b := range bundles {
				if diff := cmp.Diff(bundles[0], b); diff != "" || b == nil {
					t.Fatalf("two bundles of the same definition differ:\n%s", diff)
				}
			}
		})
	}
}

func TestGenerateLeavesTheDefinitionAlone(t *testing.T) {
	d := widget.Driver()
	mustGenerate(t, d, Options{Version: version1.Version, Images: map[string]string{"DRIVER_IMAGE": "quay.io/other/image:v9"}})
	assert.Empty(t, cmp.Diff(widget.Driver().Images, d.Images), "an image of one bundle became the definition's (-want +got)")
}

func TestExamples(t *testing.T) {
	annotations := csvOf(t, mustGenerate(t, widget.Driver(), version1)).Annotations
	var initialization struct{ Kind string }
	require.NoError(t, json.Unmarshal([]byte(annotations["operatorframework.io/initialization-resource"]), &initialization))
	assert.EqualValues(t, "ClusterCSIDriver", initialization.Kind, "the initialization resource is a")
	var samples []struct{ Kind string }
	require.NoError(t, json.Unmarshal([]byte(annotations["alm-examples"]), &samples))
	assert.Empty(t, cmp.Diff([]struct{ Kind string }{{"WidgetBox"}}, samples), "alm-examples (-want +got)")
}

func TestGenerateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*drivers.Driver, *Options)
		want   string
	}{{
		name:   "unknown image",
		change: func(_ *drivers.Driver, opts *Options) { opts.Images = map[string]string{"DRIVER": "quay.io/a/b:c"} },
		want:   "bundle of driver widget: there is no image DRIVER: the images are DRIVER_IMAGE, NODE_REGISTRAR_IMAGE, OPERATOR_IMAGE; did you mean DRIVER_IMAGE?",
	}, {
		name:   "bad pull spec",
		change: func(_ *drivers.Driver, opts *Options) { opts.Images = map[string]string{"DRIVER_IMAGE": "quay.io/A b"} },
		want:   `image DRIVER_IMAGE is "quay.io/A b", want a pull spec such as quay.io/example/image:v1.0.0`,
	}, {
		name:   "definition without an image",
		change: func(d *drivers.Driver, _ *Options) { d.Images[1].Default = "" },
		want:   `image NODE_REGISTRAR_IMAGE is "", want a pull spec`,
	}, {
		name:   "version that no name can hold",
		change: func(_ *drivers.Driver, opts *Options) { opts.Version = semver.MustParse("1.0.0+build") },
		want:   `the version makes its name "widget-operator.v1.0.0+build", which cannot be the name of a ClusterServiceVersion`,
	}, {
		name:   "tags in a release",
		change: func(_ *drivers.Driver, opts *Options) { opts.Pinned = true },
		want:   "not given by digest: quay.io/example/widget-operator:v1, quay.io/example/widget:v1, quay.io/example/registrar:v1;",
	}, {
		name:   "a skip range that is none",
		change: func(_ *drivers.Driver, opts *Options) { opts.SkipRange = "all" },
		want:   `skip range "all": want versions such as ">=1.0.0 <1.0.3"`,
	}, {
		name:   "a driver without a package",
		change: func(d *drivers.Driver, _ *Options) { d.Package = drivers.Package{} },
		want:   "the driver has no package",
	}, {
		name:   "no examples",
		change: func(d *drivers.Driver, _ *Options) { d.Package.Examples = fstest.MapFS{} },
		want:   "no examples: want at least one, the initialization resource",
	}, {
		name: "example without a name",
		change: func(d *drivers.Driver, _ *Options) {
			d.Package.Examples = fstest.MapFS{"a.yaml": {Data: []byte("kind: A")}}
		},
		want: "example a.yaml: want an object with kind and metadata.name",
	}, {
		name: "custom resource with a placeholder",
		change: func(d *drivers.Driver, _ *Options) {
			crd := d.Assets.(fstest.MapFS)["crd.yaml"]
			crd.Data = bytes.ReplaceAll(crd.Data, []byte("Color of the box."), []byte(`"${COLOR}"`))
		},
		want: "asset crd.yaml: placeholder ${COLOR} was not filled in",
	}, {
		name: "custom resource with an unknown field",
		change: func(d *drivers.Driver, _ *Options) {
			crd := d.Assets.(fstest.MapFS)["crd.yaml"]
			crd.Data = append(crd.Data, "  colour: red\n"...)
		},
		want: `asset crd.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "colour"`,
	}} {
		t.Run(tc.name, func(t *testing.T) {
			d, opts := widget.Driver(), version1
			tc.change(&d, &opts)
			_, err := Generate(d, opts)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestMaturityFollowsTheVersion(t *testing.T) {
	for version, want := range map[string]string{"0.9.0": "alpha", "1.0.0-rc.1": "alpha", "1.0.0": "stable", "2.3.4": "stable"} {
		csv := csvOf(t, mustGenerate(t, widget.Driver(), Options{Version: semver.MustParse(version)}))
		if csv.Spec.Maturity != want {
			t.Errorf("maturity of %s is %s, want %s", version, csv.Spec.Maturity, want)
		}
	}
}
