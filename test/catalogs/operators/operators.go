// Package operators makes catalogs of fixture operators, which do nothing, for tests with OLM.
package operators

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/test/catalogs"
)

// Bundle is a bundle of a fixture operator with its entry in a channel. Its name is PACKAGE.vVERSION.
type Bundle struct {
	declcfg.ChannelEntry
	// Modes are the install modes that it supports, by default OwnNamespace.
	Modes []v1alpha1.InstallModeType
	// Kubernetes is the oldest Kubernetes that it supports.
	Kubernetes string
	Properties []property.Property
	Definition *Definition
	Title      string
}

// Definition is a CRD of moorings.
type Definition struct {
	Group      string
	APIVersion string   // v1 if it is empty
	Versions   []string // the last one is stored
	Required   []string // fields of spec
	Conversion string   // the strategy, None if it is empty
}

// Name returns the name of the CRD.
func (d *Definition) Name() string { return "moorings." + d.Group }

// Write writes a catalog of a package with one channel, stable, whose bundles carry all objects that OLM installs, and
// returns its folder.
func Write(t testing.TB, pkg string, bundles ...Bundle) string {
	t.Helper()
	channel := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: pkg, Name: "stable"}
	config := declcfg.DeclarativeConfig{Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: pkg, DefaultChannel: channel.Name}}}
	for _, b := range bundles {
		channel.Entries = append(channel.Entries, b.ChannelEntry)
		declared := catalogs.Bundle(pkg, b.Name)
		declared.Image = ""
		declared.Properties = append(declared.Properties, b.Properties...)
		declared.Properties = append(declared.Properties, property.MustBuildBundleObject(manifest(t, b.csv())))
		if b.Definition != nil {
			declared.Properties = append(declared.Properties, property.MustBuildBundleObject(manifest(t, b.Definition.CRD())))
			for _, v := range b.Definition.Versions {
				declared.Properties = append(declared.Properties, property.MustBuildGVK(b.Definition.Group, v, "Mooring"))
			}
		}
		config.Bundles = append(config.Bundles, declared)
	}
	config.Channels = append(config.Channels, channel)
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, config)
	return dir
}

// Folder writes a bundle as a folder for the content of an image, and returns it.
func Folder(t testing.TB, pkg string, b Bundle) string {
	t.Helper()
	dir := t.TempDir()
	annotations := map[string]any{"annotations": map[string]string{
		"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
		"operators.operatorframework.io.bundle.manifests.v1": registryv1.ManifestsDir + "/",
		"operators.operatorframework.io.bundle.metadata.v1":  "metadata/",
		"operators.operatorframework.io.bundle.package.v1":   pkg,
		"operators.operatorframework.io.bundle.channels.v1":  "stable",
	}}
	for file, object := range map[string]any{registryv1.ManifestsDir + "/csv.yaml": b.csv(), "metadata/annotations.yaml": annotations} { // JSON is YAML
		path := filepath.Join(dir, file)
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, manifest(t, object), 0o644)))
	}
	return dir
}

// Entries writes a catalog of package buoy with these entries.
func Entries(t testing.TB, entries ...declcfg.ChannelEntry) string {
	t.Helper()
	var bundles []Bundle
	for _, e := range entries {
		bundles = append(bundles, Bundle{ChannelEntry: e})
	}
	return Write(t, "buoy", bundles...)
}

func (b *Bundle) csv() *v1alpha1.ClusterServiceVersion {
	pkg, number, _ := strings.Cut(b.Name, ".v")
	labels := map[string]string{"app": pkg}
	csv := &v1alpha1.ClusterServiceVersion{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: b.Name},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName:    b.Title,
			Version:        version.OperatorVersion{Version: semver.MustParse(number)},
			Replaces:       b.Replaces,
			MinKubeVersion: b.Kubernetes,
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
				DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: pkg, Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: pkg, Image: "registry.example.com/buoy:1"}}},
					},
				}}},
			}},
		},
	}
	modes := b.Modes
	if len(modes) == 0 {
		modes = []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeOwnNamespace}
	}
	for _, mode := range modes {
		csv.Spec.InstallModes = append(csv.Spec.InstallModes, v1alpha1.InstallMode{Type: mode, Supported: true})
	}
	if b.Definition != nil {
		for _, v := range b.Definition.Versions {
			csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned,
				v1alpha1.CRDDescription{Name: b.Definition.Name(), Version: v, Kind: "Mooring"})
		}
	}
	return csv
}

// CRD returns the CRD.
func (d *Definition) CRD() map[string]any {
	field := map[string]any{"type": "string"}
	schema := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "properties": map[string]any{"depth": field, "chain": field}},
	}}}
	if len(d.Required) > 0 {
		schema["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)["required"] = d.Required
	}
	var versions []any
	for i, v := range d.Versions {
		versions = append(versions, map[string]any{"name": v, "served": true, "storage": i == len(d.Versions)-1, "schema": schema})
	}
	apiVersion := d.APIVersion
	if apiVersion == "" {
		apiVersion = "v1"
	}
	conversion := d.Conversion
	if conversion == "" {
		conversion = string(apiextensionsv1.NoneConverter)
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/" + apiVersion, "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": d.Name()},
		"spec": map[string]any{
			"group": d.Group, "scope": "Namespaced", "versions": versions, "conversion": map[string]any{"strategy": conversion},
			"names": map[string]any{"kind": "Mooring", "listKind": "MooringList", "plural": "moorings", "singular": "mooring"},
		},
	}
}

func manifest(t testing.TB, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	require.NoError(t, err)
	return data
}
