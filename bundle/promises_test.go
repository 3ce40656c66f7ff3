package bundle

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/image"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	driverregistry "github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/test/widget"
)

// everyDriver returns the drivers whose bundles these tests check.
func everyDriver() []drivers.Driver { return append(driverregistry.Packaged(), widget.Driver()) }

// written writes a bundle to a folder of the test.
func written(t *testing.T, b *registryv1.Bundle) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, b.Write(dir))
	return dir
}

func TestEveryObjectIsOfItsAPI(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			b := mustGenerate(t, d, version1)
			contents, err := registryv1.Load(written(t, b))
			require.NoError(t, err)
			for _, o := range contents.Objects {
				var typed any
				switch o.GetKind() {
				case "ClusterServiceVersion":
					typed = &v1alpha1.ClusterServiceVersion{}
				case "CustomResourceDefinition":
					typed = &apiextensionsv1.CustomResourceDefinition{}
				case "Service":
					typed = &corev1.Service{}
				case "Role":
					typed = &rbacv1.Role{}
				case "RoleBinding":
					typed = &rbacv1.RoleBinding{}
				case "ServiceMonitor", "PrometheusRule":
					typed = &map[string]any{} // there are no Go types here; package drivers asks the API server
				case "ClusterRole":
					typed = &rbacv1.ClusterRole{}
				default:
					t.Errorf("%s is a %s: decode it here, if OLM installs that kind", o.File, o.GetKind())
					continue
				}
				assert.NoError(t, yaml.UnmarshalStrict(b.File(o.File), typed), o.File)
				if placeholder := regexp.MustCompile(`\$\{\w+\}`).Find(b.File(o.File)); placeholder != nil {
					t.Errorf("%s: %s was not filled in", o.File, placeholder)
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
			// The operator renders its assets with values from its environment, and so must this test.
			assets, err := d.Manifests(drivers.Values{Image: func(name string) string { return env[name] }})
			require.NoError(t, err)
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
	// The documents still have placeholders instead of numbers, so a pod cannot be decoded completely.
	data := regexp.MustCompile(`: \$\{\w+\}`).ReplaceAll(m.YAML, []byte(": 1"))
	require.NoErrorf(t, yaml.Unmarshal(data, &workload), "asset %s", m.File)
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
			want, err := d.OperatorPolicyRules(permissions.Removable)
			require.NoError(t, err)
			strategy := csvOf(t, mustGenerate(t, d, version1)).Spec.InstallStrategy.StrategySpec
			assert.Empty(t, cmp.Diff(want.Permissions, onlyRules(t, d, strategy.Permissions)), "permissions (-definition +bundle)")
			assert.Empty(t, cmp.Diff(want.ClusterPermissions, onlyRules(t, d, strategy.ClusterPermissions)), "clusterPermissions (-definition +bundle)")
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

// opm reads a bundle like this when it builds a catalog.
func TestRegistryReadsIt(t *testing.T) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			input, err := registry.NewImageInput(image.SimpleReference(""), written(t, mustGenerate(t, d, version1)))
			require.NoError(t, err)
			_, properties, err := registry.ObjectsAndPropertiesFromBundle(input.Bundle)
			require.NoError(t, err)
			found := map[string][]string{}
			for _, p := range properties {
				found[p.Type] = append(found[p.Type], string(p.Value))
			}
			want := []string{`{"packageName":"` + d.Package.Name + `","version":"1.0.0"}`}
			assert.Empty(t, cmp.Diff(want, found["olm.package"]), "olm.package (-want +got)")
			assert.Empty(t, cmp.Diff([]string{`"` + maxOpenShiftVersion + `"`}, found["olm.maxOpenShiftVersion"]), "olm.maxOpenShiftVersion (-want +got)")
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
	b := mustGenerate(t, widget.Driver(), version1)
	var file struct{ Annotations map[string]string }
	require.NoError(t, yaml.UnmarshalStrict(b.File("metadata/annotations.yaml"), &file))
	labels := map[string]string{}
	for _, line := range strings.Split(string(b.File("bundle.Dockerfile")), "\n") {
		if label, ok := strings.CutPrefix(line, "LABEL "); ok {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = strings.Trim(value, `"`)
		}
	}
	assert.Empty(t, cmp.Diff(file.Annotations, labels), "(-annotations +labels)")
}
