// Package openshift45 recreates the operators of the EBS and Manila drivers of OpenShift 4.5, and the objects that they left in clusters,
// from the operators' files. The files are not part of this repository: without them, tests skip.
package openshift45

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/catalogs"
)

// folder returns where the files are, beside a checkout of this repository.
func folder(t testing.TB) string {
	t.Helper()
	root, err := tools.Root()
	require.NoError(t, err)
	return filepath.Join(root, "../shared/fixtures/olm-4.5")
}

// Channel is the channel of the packages.
const Channel = "preview"

// Version returns the name of the ClusterServiceVersion of a driver.
func Version(d drivers.Driver) string { return d.Package.Name + ".v4.5.0" }

// Catalog writes a catalog with the operator of a driver, and returns its folder. Today's API server takes no
// CustomResourceDefinitions of v1beta1, so the catalog has the same ones as v1.
func Catalog(t testing.TB, d drivers.Driver) string {
	t.Helper()
	return catalog(t, d, manifests(t, d))
}

// CatalogForControlPlane is Catalog with an operator whose pod runs on a node of the control plane. With real nodes,
// only control plane nodes report pods as running although their images do not exist.
func CatalogForControlPlane(t testing.TB, d drivers.Driver) string {
	t.Helper()
	return catalog(t, d, manifestsForControlPlane(t, d))
}

// BundleForControlPlane writes the bundle of CatalogForControlPlane, and returns its folder.
func BundleForControlPlane(t testing.TB, d drivers.Driver) string {
	t.Helper()
	dir := t.TempDir()
	catalogs.WriteAnnotations(t, dir, d.Package.Name)
	for i, object := range manifestsForControlPlane(t, d) {
		content, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		catalogs.Write(t, filepath.Join(dir, "manifests", fmt.Sprintf("%d.yaml", i)), string(content))
	}
	return dir
}

// manifests returns the objects of the bundle of the operator of a driver.
func manifests(t testing.TB, d drivers.Driver) []*unstructured.Unstructured {
	t.Helper()
	objects := read(t, filepath.Join(folder(t), d.Package.Name, "bundle", "manifests"))
	for i, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			objects[i] = converted(t, object)
		}
	}
	return objects
}

func manifestsForControlPlane(t testing.TB, d drivers.Driver) []*unstructured.Unstructured {
	t.Helper()
	objects := manifests(t, d)
	for _, object := range objects {
		if object.GetKind() != "ClusterServiceVersion" {
			continue
		}
		at := []string{"spec", "install", "spec", "deployments"}
		deployments, _, err := unstructured.NestedSlice(object.Object, at...)
		require.NoError(t, err)
		for _, deployment := range deployments {
			pod, _, err := unstructured.NestedMap(deployment.(map[string]any), "spec", "template", "spec")
			require.NoError(t, err)
			pod["nodeSelector"] = map[string]any{"node-role.kubernetes.io/control-plane": ""}
			pod["tolerations"] = []any{map[string]any{"operator": "Exists"}}
			require.NoError(t, unstructured.SetNestedMap(deployment.(map[string]any), pod, "spec", "template", "spec"))
		}
		require.NoError(t, unstructured.SetNestedSlice(object.Object, deployments, at...))
	}
	return objects
}

// catalog writes a catalog with the bundle of an operator.
func catalog(t testing.TB, d drivers.Driver, objects []*unstructured.Unstructured) string {
	t.Helper()
	name, pkg := Version(d), d.Package.Name
	bundle := catalogs.Bundle(pkg, name)
	bundle.Image = ""
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			old := d.OldCustomResources()[0].Kind
			bundle.Properties = append(bundle.Properties, property.MustBuildGVK(old.Group, old.Version, old.Kind))
		}
		content, err := json.Marshal(object.Object)
		require.NoError(t, err)
		bundle.Properties = append(bundle.Properties, property.MustBuildBundleObject(content))
	}
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: pkg, DefaultChannel: Channel}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: pkg, Name: Channel, Entries: []declcfg.ChannelEntry{{Name: name}}}},
		Bundles:  []declcfg.Bundle{bundle},
	})
	return dir
}

// converted returns a CustomResourceDefinition of v1beta1 as v1.
func converted(t testing.TB, old *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	field := func(path ...string) any {
		value, _, err := unstructured.NestedFieldCopy(old.Object, append([]string{"spec"}, path...)...)
		require.NoError(t, err)
		return value
	}
	schema := field("validation")
	if spec, found, _ := unstructured.NestedMap(old.Object, "spec", "validation", "openAPIV3Schema", "properties", "spec"); found && spec["properties"] == nil {
		// Without a schema for it, v1beta1 kept any field.
		if err := unstructured.SetNestedField(schema.(map[string]any), true, "openAPIV3Schema", "properties", "spec", "x-kubernetes-preserve-unknown-fields"); err != nil {
			t.Fatal(err)
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": old.GetName()},
		"spec": map[string]any{
			"group": field("group"), "names": field("names"), "scope": field("scope"),
			"versions": []any{map[string]any{"name": field("version"), "served": true, "storage": true, "schema": schema, "subresources": map[string]any{"status": map[string]any{}}}},
		},
	}}
}

// Operand returns the objects that the operator of a driver had created, in an order that a cluster accepts.
func Operand(t testing.TB, d drivers.Driver) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	if assets := filepath.Join(folder(t), d.Package.Name, "assets"); exists(assets) {
		objects = read(t, assets)
	} else { // its operator made the objects in code
		skipWithout(t, filepath.Join(folder(t), d.Package.Name, "reference"))
		for document := range strings.SplitSeq(inCode, "\n---\n") {
			objects = append(objects, parse(t, "objects made in code", []byte(document)))
		}
	}
	for _, object := range objects {
		// Clusters convert the objects of APIs that they do not serve any more.
		object.SetAPIVersion(strings.Replace(object.GetAPIVersion(), "storage.k8s.io/v1beta1", "storage.k8s.io/v1", 1))
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return order(a) - order(b) })
	return objects
}

// order returns a lower number for objects that others need.
func order(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case "Deployment", "DaemonSet":
		return 2
	}
	return 1
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Missing is why tests that need the files skip in a plain clone.
const Missing = "the files of OpenShift 4.5's operators are not part of this repository"

func skipWithout(t testing.TB, path string) {
	t.Helper()
	if !exists(path) {
		t.Skipf("%s is missing: %s", path, Missing)
	}
}

// read reads all YAML files below a folder, in the order of their paths.
func read(t testing.TB, dir string) (objects []*unstructured.Unstructured) {
	t.Helper()
	skipWithout(t, dir)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			objects = append(objects, parse(t, path, data))
		}
		return err
	})
	require.NoError(t, err)
	return objects
}

func parse(t testing.TB, from string, data []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(data, &object.Object), from)
	return object
}
