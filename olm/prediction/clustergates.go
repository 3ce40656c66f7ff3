package prediction

import (
	"context"
	"fmt"
	"maps"

	configv1 "github.com/openshift/api/config/v1"
	configclient "github.com/openshift/client-go/config/clientset/versioned/typed/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/olm/featuregates"
)

// GatesOf returns the feature gates of OLM v1 on an OpenShift cluster: the gates of the cluster's release, as changed by OpenShift's own
// feature gates. It returns nil for other clusters, which do not publish their gates.
func GatesOf(ctx context.Context, config *rest.Config) (featuregates.Set, error) {
	running, err := openShiftVersion(ctx, config)
	if err != nil || running == nil {
		return nil, err
	}
	set, err := featuregates.Of(running.String())
	if err != nil { // an unknown later release counts as the latest
		set = featuregates.Set{featuregates.ServiceCA: true}
	}
	client, err := configclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	stated, err := client.FeatureGates().Get(ctx, "cluster", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return set, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading FeatureGate cluster: %w", err)
	}
	return gatesSaid(set, stated, running.String()), nil
}

// gatesSaid returns gates with the changes that OpenShift's FeatureGate object states for a version.
func gatesSaid(set featuregates.Set, stated *configv1.FeatureGate, version string) featuregates.Set {
	changed := maps.Clone(set)
	for _, details := range stated.Status.FeatureGates {
		if details.Version != version {
			continue
		}
		for on, list := range map[bool][]configv1.FeatureGateAttributes{true: details.Enabled, false: details.Disabled} {
			for _, of := range list {
				if gate, known := featuregates.OfOpenShift[string(of.Name)]; known {
					changed[gate] = on
				}
			}
		}
	}
	return changed
}
