package release

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

// read returns the files of the repository, by the part of their names that is their own.
func read(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	names, err := filepath.Glob("../../../deploy/manifests/*")
	require.NoError(t, err)
	require.NotEmpty(t, names, "manifests")
	found := map[string]*unstructured.Unstructured{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		u := &unstructured.Unstructured{}
		require.NoError(t, boundedyaml.UnmarshalStrict(data, &u.Object), name)
		_, own, inLevel := strings.Cut(filepath.Base(name), "_cluster-storage-operator_")
		if !inLevel {
			own = filepath.Base(name)
		}
		found[strings.TrimSuffix(own, ".yaml")] = u
	}
	return found
}

// TestEveryManifestIsIncluded: the cluster version operator ignores manifests without these annotations.
func TestEveryManifestIsIncluded(t *testing.T) {
	for name, object := range read(t) {
		if name == "image-references" {
			continue // not applied
		}
		annotations := object.GetAnnotations()
		included := included
		if name == "00_namespace" {
			included = always
			assert.NotContainsf(t, annotations, capability, "annotations of %s, without which the snapshot controller needs it", name)
		}
		for key, value := range included {
			if !strings.HasPrefix(annotations[key], value) {
				t.Errorf("%s: the annotation %s is %q, want %q", name, key, annotations[key], value)
			}
		}
	}
}

// TestEveryImageIsReplaced: a release has images of its own for all that the operator passes on.
func TestEveryImageIsReplaced(t *testing.T) {
	manifests := read(t)
	replaced := map[string]bool{}
	tags, _, err := unstructured.NestedSlice(manifests["image-references"].Object, "spec", "tags")
	require.NoError(t, err)
	for _, tag := range tags {
		name, _, _ := unstructured.NestedString(tag.(map[string]any), "from", "name")
		replaced[name] = true
	}
	environment := environment(t, manifests["10_deployment"])
	for name, value := range environment {
		if strings.HasSuffix(name, "_IMAGE") && !replaced[value] {
			t.Errorf("%s=%s is not in image-references", name, value)
		}
	}
	for _, d := range clusterstorage.OfPlatforms(registry.All()) {
		for _, image := range d.Images {
			variable := clusterstorage.ImageVariable(d, image)
			assert.NotEmptyf(t, environment[variable], "the Deployment's variable %s for driver %s", variable, d.Name)
		}
	}
}

func environment(t *testing.T, deployment *unstructured.Unstructured) map[string]string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	require.Len(t, containers, 1)
	var container corev1.Container
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(containers[0].(map[string]any), &container))
	found := map[string]string{}
	for _, v := range container.Env {
		found[v.Name] = v.Value
	}
	return found
}

// TestCredentialsAreExtractable: administrators who create credentials by hand get each CredentialsRequest from the release,
// as the driver's operator applies it.
func TestCredentialsAreExtractable(t *testing.T) {
	manifests := read(t)
	for _, d := range clusterstorage.OfPlatforms(registry.All()) {
		operand, err := d.Operand(drivers.Values{Namespace: d.Namespace, Image: func(env string) string { return env }})
		require.NoError(t, err)
		for _, m := range drivers.OfKind(operand, "CredentialsRequest") {
			found := slices.ContainsFunc(slices.Collect(maps.Values(manifests)), func(u *unstructured.Unstructured) bool {
				return u.GetKind() == "CredentialsRequest" && u.GetName() == m.Object.GetName() &&
					equal(u.Object["spec"], m.Object.Object["spec"]) && containsAll(u.GetAnnotations(), m.Object.GetAnnotations())
			})
			assert.Truef(t, found, "CredentialsRequest %s of driver %s is not among the manifests", m.Object.GetName(), d.Name)
		}
	}
}

func equal(a, b any) bool {
	first, err1 := boundedyaml.Marshal(a)
	second, err2 := boundedyaml.Marshal(b)
	return err1 == nil && err2 == nil && string(first) == string(second)
}

func containsAll(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}
