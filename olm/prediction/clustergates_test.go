package prediction

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/olm/featuregates"
)

// TestGatesSaid: OpenShift's own feature gates for the running version decide.
func TestGatesSaid(t *testing.T) {
	set, err := featuregates.Of("4.21")
	require.NoError(t, err)
	stated := &configv1.FeatureGate{Status: configv1.FeatureGateStatus{FeatureGates: []configv1.FeatureGateDetails{
		{Version: "4.21.3", Enabled: []configv1.FeatureGateAttributes{{Name: "NewOLMBoxCutterRuntime"}, {Name: "Other"}}, Disabled: []configv1.FeatureGateAttributes{{Name: "NewOLMWebhookProviderOpenshiftServiceCA"}}},
		{Version: "4.21.2", Enabled: []configv1.FeatureGateAttributes{{Name: "NewOLMConfigAPI"}}},
	}}}
	said := gatesSaid(set, stated, "4.21.3")
	for gate, want := range map[featuregates.Gate]bool{featuregates.Boxcutter: true, featuregates.ServiceCA: false, featuregates.DeploymentConfig: false} {
		assert.Equalf(t, want, said[gate], "%s", gate)
	}
	assert.True(t, set[featuregates.ServiceCA], "the gates of the release have changed")
}
