package catalogs

import (
	"encoding/json"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Buoys writes a catalog of one package, with one channel of these entries, whose bundles carry all that OLM
// installs, and returns its folder. The package's operator does nothing, in the namespace that it is in.
func Buoys(t testing.TB, pkg string, entries ...declcfg.ChannelEntry) string {
	t.Helper()
	config := declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: pkg, DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: pkg, Name: "stable", Entries: entries}},
	}
	for _, e := range entries {
		b := Bundle(pkg, e.Name)
		b.Image = ""
		b.Properties = append(b.Properties, property.MustBuildBundleObject(buoy(t, pkg, e)))
		config.Bundles = append(config.Bundles, b)
	}
	dir := t.TempDir()
	WriteConfig(t, dir, config)
	return dir
}

// buoy is the ClusterServiceVersion of an operator that does nothing.
func buoy(t testing.TB, pkg string, e declcfg.ChannelEntry) []byte {
	t.Helper()
	labels := map[string]string{"app": pkg}
	csv := v1alpha1.ClusterServiceVersion{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: e.Name},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName:  "Buoy",
			Version:      version.OperatorVersion{Version: semver.MustParse(e.Name[len(pkg+".v"):])},
			Replaces:     e.Replaces,
			InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}},
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
				DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: pkg, Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "buoy", Image: "registry.example.com/buoy:1"}}},
					},
				}}},
			}},
		},
	}
	manifest, err := json.Marshal(csv)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}
