package release

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/operator/clusterstorage/release"
)

// A Payload is a release of OpenShift, as far as it is about the cluster storage operator.
type Payload struct {
	Version string
	// Images are pull specs by the variables of the cluster storage operator's Deployment, where they differ from the
	// definitions'.
	Images map[string]string
	// Stopped says that the cluster storage operator gets no pod, because a test runs it.
	Stopped bool
}

// snapshot is the placeholder that a release replaces by its version.
const snapshot = "0.0.1-snapshot"

// Objects returns the objects of the manifests for the drivers, in the order that the cluster version operator applies
// them.
func (p Payload) Objects(all []drivers.Driver) ([]*unstructured.Unstructured, error) {
	files, err := release.Files(all)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		if !strings.HasSuffix(file.Name, ".yaml") {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := boundedyaml.Unmarshal([]byte(strings.ReplaceAll(string(file.Data), snapshot, p.Version)), &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		if object.GetKind() == "Deployment" {
			if err := p.setImages(object); err != nil {
				return nil, fmt.Errorf("%s: %w", file.Name, err)
			}
			if p.Stopped {
				if err := unstructured.SetNestedField(object.Object, int64(0), "spec", "replicas"); err != nil {
					return nil, err
				}
			}
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func (p Payload) setImages(deployment *unstructured.Unstructured) error {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	for _, c := range containers {
		container := c.(map[string]any)
		environment, _ := container["env"].([]any)
		for _, v := range environment {
			variable := v.(map[string]any)
			if image, found := p.Images[fmt.Sprint(variable["name"])]; found {
				variable["value"] = image
			}
		}
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers")
}

// Apply applies the manifests like the cluster version operator: it creates missing objects, and sets the manifests'
// fields in existing ones. It does not change existing ClusterOperators and create-only objects.
func (p Payload) Apply(ctx context.Context, c client.Client, all []drivers.Driver) error {
	objects, err := p.Objects(all)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "ClusterOperator" || object.GetAnnotations()["release.openshift.io/create-only"] == "true" {
			unstructured.RemoveNestedField(object.Object, "status")
			if err := client.IgnoreAlreadyExists(c.Create(ctx, object)); err != nil {
				return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			continue
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("cluster-version-operator"), client.ForceOwnership)
		if object.GetKind() == "ServiceMonitor" && apierrors.IsNotFound(err) {
			continue // the API comes with another component: the cluster version operator goes on, and tries again later
		}
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
