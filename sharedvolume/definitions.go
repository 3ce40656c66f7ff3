package sharedvolume

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	polling "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// definitionsInterval is how often the API server is asked whether it serves the APIs, as long as it does not.
const definitionsInterval = 5 * time.Second

// policiesResource is the resource of SharedVolumePolicies.
const policiesResource = "sharedvolumepolicies"

// resources are the resources that the controller needs.
var resources = []string{"sharedvolumes", "sharedvolumegrants", policiesResource}

// definitions finds out which APIs the API server serves. Everybody may ask that, whereas the operator would need one more permission to
// read CustomResourceDefinitions.
type definitions struct{ client rest.Interface }

func newDefinitions(cfg *rest.Config) (definitions, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return definitions{}, err
	}
	return definitions{client.RESTClient()}, nil
}

// missing returns the names of the CustomResourceDefinitions whose APIs are not served.
func (d definitions) missing(ctx context.Context) ([]string, error) {
	var served metav1.APIResourceList
	err := d.client.Get().AbsPath("apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version).Do(ctx).Into(&served)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("finding out which resources of %s are served: %w", v1alpha1.GroupVersion, err)
	}
	return missingFrom(served.APIResources), nil
}

// missingFrom returns what missing returns, given the resources that are served.
func missingFrom(served []metav1.APIResource) (names []string) {
	for _, resource := range resources {
		if !slices.ContainsFunc(served, func(r metav1.APIResource) bool { return r.Name == resource }) {
			names = append(names, definitionOf(resource))
		}
	}
	return names
}

// definitionOf returns the name of a resource's CustomResourceDefinition.
func definitionOf(resource string) string { return resource + "." + v1alpha1.GroupVersion.Group }

// await waits until all APIs are served, or ctx ends. It logs the missing APIs, and each change.
func (d definitions) await(ctx context.Context) {
	logger := klog.FromContext(ctx)
	var waited []string
	_ = polling.PollUntilContextCancel(ctx, definitionsInterval, true, func(ctx context.Context) (bool, error) {
		missing, err := d.missing(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			logger.Error(err, "Waiting for the APIs of SharedVolumes")
		case err == nil && len(missing) > 0 && !slices.Equal(missing, waited):
			logger.Info("No SharedVolume is reconciled until these CustomResourceDefinitions exist, which come with the operator: reinstall it, or create them. The driver is managed all the same",
				"customResourceDefinitions", missing)
			waited = missing
		case err == nil && len(missing) == 0 && waited != nil:
			logger.Info("All CustomResourceDefinitions of SharedVolumes exist")
		}
		return err == nil && len(missing) == 0, nil // Errors are retried.
	})
}
