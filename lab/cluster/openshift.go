package cluster

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/api/features"
	operatorv1 "github.com/openshift/api/operator/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OpenShiftVersion is the version that the cluster reports.
const OpenShiftVersion = "5.0.0"

// openShiftMajor selects the feature gates of that version.
const openShiftMajor = 5

// InfrastructureName is the installer's name for the cluster; cloud resources are tagged with it.
const InfrastructureName = "berth-x7k2p"

// namespaces of OpenShift that matter to a driver operator, its installation or its credentials.
var openShiftNamespaces = []string{
	"openshift-cloud-credential-operator",
	"openshift-cluster-csi-drivers",
	"openshift-config",
	"openshift-config-managed",
	"openshift-marketplace",
	"openshift-monitoring",
	"openshift-operators",
}

// createOpenShift creates the namespaces and singletons of every OpenShift cluster.
func createOpenShift(ctx context.Context, api client.Client) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range openShiftNamespaces {
		group.Go(func() error { return createNamespace(ctx, api, name) })
	}
	for _, object := range settings() {
		group.Go(func() error { return create(ctx, api, object) })
	}
	for _, object := range observations() {
		group.Go(func() error {
			created := object.DeepCopyObject().(client.Object)
			if err := create(ctx, api, created); err != nil {
				return err
			}
			object.SetResourceVersion(created.GetResourceVersion())
			if err := api.Status().Update(ctx, object); err != nil {
				return fmt.Errorf("set the status of %T %s: %w", object, object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// createNamespace creates a namespace unless it exists.
func createNamespace(ctx context.Context, api client.Client, name string) error {
	return client.IgnoreAlreadyExists(create(ctx, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func create(ctx context.Context, api client.Client, object client.Object) error {
	if err := api.Create(ctx, object); err != nil {
		return fmt.Errorf("create %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// settings returns the singletons with an administrator's settings, all with their defaults.
func settings() []client.Object {
	cluster := metav1.ObjectMeta{Name: "cluster"}
	managed := operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}
	return []client.Object{
		&configv1.Proxy{ObjectMeta: cluster},
		&configv1.APIServer{ObjectMeta: cluster},
		&configv1.Authentication{ObjectMeta: cluster},
		&configv1.Network{ObjectMeta: cluster},
		&operatorv1.CloudCredential{
			ObjectMeta: cluster,
			Spec:       operatorv1.CloudCredentialSpec{OperatorSpec: managed, CredentialsMode: operatorv1.CloudCredentialsModeDefault},
		},
		&operatorv1.Storage{ObjectMeta: cluster, Spec: operatorv1.StorageSpec{OperatorSpec: managed}},
	}
}

// nowhere are endpoints of the services of AWS that operators call. Nothing listens there: tests with a simulated AWS name its own, and
// no other may reach the real one.
var nowhere = []configv1.AWSServiceEndpoint{{Name: "elasticfilesystem", URL: "https://127.0.0.1:9"}, {Name: "sts", URL: "https://127.0.0.1:9"}}

// observations returns the singletons whose status describes the cluster: highly available, self-managed, on AWS.
func observations() []client.Object {
	cluster := metav1.ObjectMeta{Name: "cluster"}
	return []client.Object{
		&configv1.Infrastructure{
			ObjectMeta: cluster,
			Spec: configv1.InfrastructureSpec{
				PlatformSpec: configv1.PlatformSpec{Type: configv1.AWSPlatformType, AWS: &configv1.AWSPlatformSpec{}},
			},
			Status: configv1.InfrastructureStatus{
				InfrastructureName:     InfrastructureName,
				Platform:               configv1.AWSPlatformType, //lint:ignore SA1019 old operators still read it
				PlatformStatus:         &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: &configv1.AWSPlatformStatus{Region: "us-east-1", ServiceEndpoints: nowhere}},
				ControlPlaneTopology:   configv1.HighlyAvailableTopologyMode,
				InfrastructureTopology: configv1.HighlyAvailableTopologyMode,
				CPUPartitioning:        configv1.CPUPartitioningNone,
			},
		},
		&configv1.FeatureGate{
			ObjectMeta: cluster,
			Status:     configv1.FeatureGateStatus{FeatureGates: []configv1.FeatureGateDetails{defaultFeatureGates()}},
		},
		&configv1.ClusterVersion{
			ObjectMeta: metav1.ObjectMeta{Name: "version"},
			Spec:       configv1.ClusterVersionSpec{ClusterID: "7d5b5a4e-3c1f-4f57-9b0e-5a1f0c5a9d11", Channel: "stable-5.0"},
			Status:     clusterVersionStatus(),
		},
	}
}

// defaultFeatureGates returns the defaults in OpenShift's API module.
func defaultFeatureGates() configv1.FeatureGateDetails {
	gates := features.FeatureSets(openShiftMajor, features.SelfManaged, configv1.Default)
	details := configv1.FeatureGateDetails{Version: OpenShiftVersion}
	for _, gate := range gates.Enabled {
		details.Enabled = append(details.Enabled, gate.FeatureGateAttributes)
	}
	for _, gate := range gates.Disabled {
		details.Disabled = append(details.Disabled, gate.FeatureGateAttributes)
	}
	return details
}

func clusterVersionStatus() configv1.ClusterVersionStatus {
	release := configv1.Release{Version: OpenShiftVersion, Image: "quay.io/openshift-release-dev/ocp-release:" + OpenShiftVersion + "-x86_64"}
	now := metav1.Now()
	return configv1.ClusterVersionStatus{
		Desired:     release,
		VersionHash: "berth",
		History: []configv1.UpdateHistory{{
			State: configv1.CompletedUpdate, Version: release.Version, Image: release.Image,
			StartedTime: now, CompletionTime: &now,
		}},
		Conditions: []configv1.ClusterOperatorStatusCondition{
			{Type: configv1.OperatorAvailable, Status: configv1.ConditionTrue, LastTransitionTime: now},
			{Type: configv1.OperatorProgressing, Status: configv1.ConditionFalse, LastTransitionTime: now},
		},
	}
}
