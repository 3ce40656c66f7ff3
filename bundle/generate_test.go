package bundle

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/image"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	driverregistry "github.com/berth-csi/berth/drivers/registry"
)

var update = flag.Bool("update", false, "write golden files anew")

var version1 = Options{Version: semver.MustParse("1.0.0")}

// everyDriver returns the drivers that have to hold all promises of a bundle.
func everyDriver() []drivers.Driver { return append(driverregistry.All(), widget()) }

func mustGenerate(t *testing.T, d drivers.Driver, opts Options) *Bundle {
	t.Helper()
	b, err := Generate(d, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func csvOf(t *testing.T, b *Bundle) *v1alpha1.ClusterServiceVersion {
	t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := yaml.UnmarshalStrict(b.file("manifests/"+b.Package+".clusterserviceversion.yaml"), csv); err != nil {
		t.Fatal(err)
	}
	return csv
}

func TestGenerateGolden(t *testing.T) {
	const golden = "testdata/widget.txtar"
	b := mustGenerate(t, widget(), Options{
		Version:  semver.MustParse("1.2.0-rc.1"),
		Replaces: "widget-operator.v1.1.0",
		Images:   map[string]string{"DRIVER_IMAGE": "quay.io/mirror/widget@sha256:" + strings.Repeat("0", 64), OperatorImage: "quay.io/mirror/operator:v2"},
		Released: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	})
	archive := &txtar.Archive{}
	for _, f := range b.Files {
		archive.Files = append(archive.Files, txtar.File{Name: f.Path, Data: withoutInstall(t, f.Data)})
	}
	got := txtar.Format(archive)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the bundle differs from %s (-want +got); `go test ./bundle -update` accepts it:\n%s", golden, diff)
	}
}

// withoutInstall cuts out of a ClusterServiceVersion what package drivers says of every operator, and
// tests of its own compare.
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
			bundles := make([]*Bundle, 20)
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
	d := widget()
	mustGenerate(t, d, Options{Version: version1.Version, Images: map[string]string{"DRIVER_IMAGE": "quay.io/other/image:v9"}})
	if diff := cmp.Diff(widget().Images, d.Images); diff != "" {
		t.Errorf("an image of one bundle became the definition's (-want +got):\n%s", diff)
	}
}

func TestValidatorsFindNothing(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			findings, err := Validate(written(t, mustGenerate(t, d, version1)))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				t.Error(f)
			}
		})
	}
}

// written writes a bundle to a folder of the test.
func written(t *testing.T, b *Bundle) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := b.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEveryObjectIsOfItsAPI(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			b := mustGenerate(t, d, version1)
			objects, err := b.objects()
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				var typed any
				switch o.GetKind() {
				case "ClusterServiceVersion":
					typed = &v1alpha1.ClusterServiceVersion{}
				case "CustomResourceDefinition":
					typed = &apiextensionsv1.CustomResourceDefinition{}
				default:
					t.Errorf("%s is a %s: decode it here, if OLM installs that kind", o.file, o.GetKind())
					continue
				}
				if err := yaml.UnmarshalStrict(b.file(o.file), typed); err != nil {
					t.Errorf("%s: %v", o.file, err)
				}
				if placeholder := regexp.MustCompile(`\$\{\w+\}`).Find(b.file(o.file)); placeholder != nil {
					t.Errorf("%s: %s was not filled in", o.file, placeholder)
				}
			}
		})
	}
}

func TestEveryImageIsRelated(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			csv := csvOf(t, mustGenerate(t, d, version1))
			related := map[string]bool{}
			for _, image := range csv.Spec.RelatedImages {
				related[image.Image] = true
			}
			env := map[string]string{}
			for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
				for _, c := range deployment.Spec.Template.Spec.Containers {
					if !related[c.Image] {
						t.Errorf("the operator's image %s is not in relatedImages", c.Image)
					}
					for _, variable := range c.Env {
						env[variable.Name] = variable.Value
					}
				}
			}
			// The operator fills its assets in from its environment: so must this.
			assets, err := d.Manifests(drivers.Values{Image: func(name string) string { return env[name] }})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range assets {
				for _, image := range imagesOf(t, m) {
					if !related[image] {
						t.Errorf("image %s of asset %s is not in relatedImages", image, m.File)
					}
				}
			}
		})
	}
}

func imagesOf(t *testing.T, m drivers.Manifest) []string {
	t.Helper()
	var workload struct {
		Spec struct {
			Template struct{ Spec corev1.PodSpec }
		}
	}
	if kind := m.Object.GetKind(); kind != "Deployment" && kind != "DaemonSet" {
		return nil
	}
	var images []string
	// The documents still hold placeholders where numbers belong, so not all of a pod can be decoded.
	data := regexp.MustCompile(`: \$\{\w+\}`).ReplaceAll(m.YAML, []byte(": 1"))
	if err := yaml.Unmarshal(data, &workload); err != nil {
		t.Fatalf("asset %s: %v", m.File, err)
	}
	pod := workload.Spec.Template.Spec
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		images = append(images, c.Image)
	}
	if len(images) == 0 {
		t.Errorf("asset %s has no image", m.File)
	}
	return images
}

func TestPermissionsAreTheDefinitions(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			want, err := d.OperatorRules()
			if err != nil {
				t.Fatal(err)
			}
			strategy := csvOf(t, mustGenerate(t, d, version1)).Spec.InstallStrategy.StrategySpec
			if diff := cmp.Diff(want.Permissions, onlyRules(t, d, strategy.Permissions)); diff != "" {
				t.Errorf("permissions (-definition +bundle):\n%s", diff)
			}
			if diff := cmp.Diff(want.ClusterPermissions, onlyRules(t, d, strategy.ClusterPermissions)); diff != "" {
				t.Errorf("clusterPermissions (-definition +bundle):\n%s", diff)
			}
		})
	}
}

func TestDeploymentIsTheDefinitions(t *testing.T) {
	for _, d := range everyDriver() {
		want := d.OperatorDeployment()
		got := csvOf(t, mustGenerate(t, d, version1)).Spec.InstallStrategy.StrategySpec.DeploymentSpecs
		if diff := cmp.Diff([]v1alpha1.StrategyDeploymentSpec{{Name: want.Name, Spec: want.Spec, Label: want.Labels}}, got); diff != "" {
			t.Errorf("deployments of %s (-definition +bundle):\n%s", d.Name, diff)
		}
	}
}

func onlyRules(t *testing.T, d drivers.Driver, permissions []v1alpha1.StrategyDeploymentPermissions) []rbacv1.PolicyRule {
	t.Helper()
	if len(permissions) != 1 || permissions[0].ServiceAccountName != d.Operator.Name {
		t.Fatalf("want permissions of service account %s alone, got %v", d.Operator.Name, permissions)
	}
	return permissions[0].Rules
}

// opm reads a bundle as this test does, when it makes a catalog of it.
func TestRegistryReadsIt(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			input, err := registry.NewImageInput(image.SimpleReference(""), written(t, mustGenerate(t, d, version1)))
			if err != nil {
				t.Fatal(err)
			}
			_, properties, err := registry.ObjectsAndPropertiesFromBundle(input.Bundle)
			if err != nil {
				t.Fatal(err)
			}
			found := map[string][]string{}
			for _, p := range properties {
				found[p.Type] = append(found[p.Type], string(p.Value))
			}
			want := []string{`{"packageName":"` + d.Package.Name + `","version":"1.0.0"}`}
			if diff := cmp.Diff(want, found["olm.package"]); diff != "" {
				t.Errorf("olm.package (-want +got):\n%s", diff)
			}
			if len(found["olm.gvk.required"]) > 0 {
				t.Errorf("another package has to provide %v, but none does", found["olm.gvk.required"])
			}
			if channels := input.Bundle.Channels; len(channels) != 1 || channels[0] != d.Package.Channel {
				t.Errorf("channels are %v, want only %s", channels, d.Package.Channel)
			}
		})
	}
}

func TestImageLabelsAreTheAnnotations(t *testing.T) {
	b := mustGenerate(t, widget(), version1)
	var file struct{ Annotations map[string]string }
	if err := yaml.UnmarshalStrict(b.file("metadata/annotations.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, line := range strings.Split(string(b.file("bundle.Dockerfile")), "\n") {
		if label, ok := strings.CutPrefix(line, "LABEL "); ok {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = strings.Trim(value, `"`)
		}
	}
	if diff := cmp.Diff(file.Annotations, labels); diff != "" {
		t.Errorf("(-annotations +labels):\n%s", diff)
	}
}

func TestExamples(t *testing.T) {
	annotations := csvOf(t, mustGenerate(t, widget(), version1)).Annotations
	var initialization struct{ Kind string }
	if err := json.Unmarshal([]byte(annotations["operatorframework.io/initialization-resource"]), &initialization); err != nil {
		t.Fatal(err)
	}
	if initialization.Kind != "ClusterCSIDriver" {
		t.Errorf("the initialization resource is a %s, want the first example", initialization.Kind)
	}
	var samples []struct{ Kind string }
	if err := json.Unmarshal([]byte(annotations["alm-examples"]), &samples); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]struct{ Kind string }{{"WidgetBox"}}, samples); diff != "" {
		t.Errorf("alm-examples (-want +got):\n%s", diff)
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*drivers.Driver, *Options)
		want   string
	}{{
		name:   "unknown image",
		change: func(_ *drivers.Driver, opts *Options) { opts.Images = map[string]string{"DRIVER": "quay.io/a/b:c"} },
		want:   "bundle of driver widget: there is no image DRIVER: the images are DRIVER_IMAGE, NODE_REGISTRAR_IMAGE, OPERATOR_IMAGE",
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
		want:   `the version makes it "widget-operator.v1.0.0+build", which cannot be the name of a ClusterServiceVersion`,
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
			d, opts := widget(), version1
			tc.change(&d, &opts)
			_, err := Generate(d, opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestMaturityFollowsTheVersion(t *testing.T) {
	for version, want := range map[string]string{"0.9.0": "alpha", "1.0.0-rc.1": "alpha", "1.0.0": "stable", "2.3.4": "stable"} {
		csv := csvOf(t, mustGenerate(t, widget(), Options{Version: semver.MustParse(version)}))
		if csv.Spec.Maturity != want {
			t.Errorf("maturity of %s is %s, want %s", version, csv.Spec.Maturity, want)
		}
	}
}

func TestCommittedBundlesAreValid(t *testing.T) {
	packages, err := filepath.Glob("*/*/" + manifestsDir)
	if err != nil || len(packages) == 0 {
		t.Fatalf("no bundle is committed here (error %v)", err)
	}
	for _, manifests := range packages {
		dir := filepath.Dir(manifests)
		findings, err := Validate(dir)
		if err != nil {
			t.Error(err)
		}
		for _, f := range findings {
			t.Errorf("%s/%s", dir, f)
		}
	}
}
