package clusterstorage

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
)

func infrastructure(platform configv1.PlatformType) *configv1.Infrastructure {
	return &configv1.Infrastructure{Status: configv1.InfrastructureStatus{PlatformStatus: &configv1.PlatformStatus{Type: platform}}}
}

// TestRegistryChoices: which drivers a cluster of each platform gets.
func TestRegistryChoices(t *testing.T) {
	for platform, want := range map[configv1.PlatformType][]string{
		configv1.AWSPlatformType:       {"ebs"},
		configv1.OpenStackPlatformType: {"cinder", "manila"},
		configv1.VSpherePlatformType:   nil, // until somebody asks for it
		configv1.NonePlatformType:      nil,
		"Moon":                         nil,
		"":                             nil,
	} {
		o := observed{infrastructure: infrastructure(platform), storage: &operatorv1.Storage{}}
		var got []string
		for _, d := range chosen(choose(OfPlatforms(registry.All()), o)) {
			got = append(got, d.Name)
		}
		assert.Equalf(t, want, got, "a cluster on %q gets", platform)
	}
}

func TestChoose(t *testing.T) {
	const name = "x.csi.example.com"
	onAWS := func(c drivers.ClusterStorage) drivers.Driver {
		c.Platform = configv1.AWSPlatformType
		return drivers.Driver{Name: "x", CSIName: name, Operator: drivers.Operator{Name: "x-operator"}, ClusterStorage: &c}
	}
	unlessInstalled := func(p drivers.Platform) string {
		if p.Installed {
			return ""
		}
		return "nobody asked for it"
	}
	installed := map[string]*operatorv1.ClusterCSIDriver{name: {}}
	csiDriver := func(managed string) map[string]*storagev1.CSIDriver {
		return map[string]*storagev1.CSIDriver{name: {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"csi.openshift.io/managed": managed}}}}
	}
	for _, tc := range []struct {
		name     string
		driver   drivers.Driver
		observed observed
		want     []string // why each driver of the platform is left out
	}{
		{"its platform", onAWS(drivers.ClusterStorage{}), observed{infrastructure: infrastructure(configv1.AWSPlatformType)}, []string{""}},
		{"another platform", onAWS(drivers.ClusterStorage{}), observed{infrastructure: infrastructure(configv1.GCPPlatformType)}, nil},
		{"no platform", onAWS(drivers.ClusterStorage{}), observed{infrastructure: infrastructure("")}, nil},
		{"no platform status", onAWS(drivers.ClusterStorage{}), observed{infrastructure: &configv1.Infrastructure{}}, nil},
		{"no infrastructure", onAWS(drivers.ClusterStorage{}), observed{}, nil},
		{"a feature that is disabled", onAWS(drivers.ClusterStorage{FeatureGate: "X"}), observed{infrastructure: infrastructure(configv1.AWSPlatformType)},
			[]string{"the feature gate X is not enabled"}},
		{"a feature that is enabled", onAWS(drivers.ClusterStorage{FeatureGate: "X"}), observed{infrastructure: infrastructure(configv1.AWSPlatformType),
			gates: map[configv1.FeatureGateName]bool{"X": true}}, []string{""}},
		{"a driver that nobody asked for", onAWS(drivers.ClusterStorage{Without: unlessInstalled}),
			observed{infrastructure: infrastructure(configv1.AWSPlatformType)}, []string{"nobody asked for it"}},
		{"a driver that is installed", onAWS(drivers.ClusterStorage{Without: unlessInstalled}),
			observed{infrastructure: infrastructure(configv1.AWSPlatformType), customResources: installed}, []string{""}},
		{"a driver whose ClusterCSIDriver was deleted", onAWS(drivers.ClusterStorage{Without: unlessInstalled}),
			observed{infrastructure: infrastructure(configv1.AWSPlatformType), csiDrivers: csiDriver("true")}, []string{""}},
		{"somebody else's driver", onAWS(drivers.ClusterStorage{Without: unlessInstalled}),
			observed{infrastructure: infrastructure(configv1.AWSPlatformType), csiDrivers: csiDriver("")}, []string{"nobody asked for it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.observed.storage = &operatorv1.Storage{}
			var got []string
			for _, c := range choose([]drivers.Driver{tc.driver}, tc.observed) {
				got = append(got, c.without)
			}
			assert.Equal(t, tc.want, got, "choices")
		})
	}
}

func TestEnabledGates(t *testing.T) {
	gates := &configv1.FeatureGate{Status: configv1.FeatureGateStatus{FeatureGates: []configv1.FeatureGateDetails{
		{Version: "4.22.0", Enabled: []configv1.FeatureGateAttributes{{Name: "New"}}, Disabled: []configv1.FeatureGateAttributes{{Name: "Old"}}},
		{Version: "4.21.0", Enabled: []configv1.FeatureGateAttributes{{Name: "Old"}}},
	}}}
	got := enabledGates(gates, "4.22.0")
	if !got["New"] || got["Old"] {
		t.Errorf("gates of 4.22.0 = %v, want New alone: those of another version do not count", got)
	}
	assert.Empty(t, enabledGates(nil, "4.22.0"), "gates without a FeatureGate")
}
