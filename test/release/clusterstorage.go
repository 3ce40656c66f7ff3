package release

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/operator/clusterstorage/release"
	"github.com/berth-csi/berth/yaml"
)

// RunClusterStorage does what the cluster version operator does with the manifests of the cluster storage operator. The
// images are the default ones, but those of other environment variables.
func RunClusterStorage(ctx context.Context, c client.Client, images map[string]string) error {
	files, err := release.Files(registry.All())
	if err != nil {
		return err
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name, ".yaml") {
			continue // the images are in the manifests
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(file.Data, &object.Object); err != nil {
			return err
		}
		if object.GetKind() == "Deployment" {
			if err := setImages(object, images); err != nil {
				return err
			}
		}
		if err := deliver(ctx, c, object); err != nil {
			return fmt.Errorf("applying %s: %w", file.Name, err)
		}
	}
	return nil
}

// deliver applies an object, or leaves it as it is if it exists and its annotation says so.
func deliver(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	if object.GetAnnotations()["release.openshift.io/create-only"] == "true" {
		return client.IgnoreAlreadyExists(c.Create(ctx, object))
	}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("cluster-version-operator"), client.ForceOwnership)
}

// setImages sets environment variables of a Deployment that it has already.
func setImages(object *unstructured.Unstructured, images map[string]string) error {
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		return err
	}
	container := &deployment.Spec.Template.Spec.Containers[0]
	for name, image := range images {
		if !setVariable(container, name, image) {
			return fmt.Errorf("Deployment %s has no variable %s", deployment.Name, name)
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
	object.Object = content
	return err
}

func setVariable(container *corev1.Container, name, value string) (found bool) {
	for i := range container.Env {
		if container.Env[i].Name == name {
			container.Env[i].Value, found = value, true
		}
	}
	return found
}
