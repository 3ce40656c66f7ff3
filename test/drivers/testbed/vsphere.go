package testbed

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/vsphere"
)

// vCenterAddress is where nodes and pods find vCenter.
const vCenterAddress = "203.0.113.30:443"

// VSphere is a vCenter, and the storage behind the stand-in for its driver.
type VSphere struct {
	*StandIn
	VCenter *vsphere.VCenter
	t       testing.TB
}

// StartVSphere starts a vCenter until the test ends.
func StartVSphere(t testing.TB) *VSphere {
	t.Helper()
	return &VSphere{StandIn: StartStandIn(t, nil), VCenter: vsphere.Start(t), t: t}
}

// Options returns the cloud where an administrator asks for a driver.
func (v *VSphere) Options(driver drivers.Driver) Cloud {
	return v.Behind(Cloud{
		Platform: &configv1.PlatformStatus{Type: configv1.VSpherePlatformType},
		Servers:  map[string]string{vCenterAddress: v.VCenter.ListensAt()},
		Objects: []client.Object{
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredential.RootNamespace, Name: cloudcredential.RootVSphere}, Data: vsphere.Credentials(vCenterAddress)},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName},
				Data: map[string]string{drivers.CloudConfigKey: vsphere.CloudConfig(v.t, vCenterAddress)}},
			&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver.CSIName},
				Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}}},
		},
		Prepare: v.describe,
	})
}

// describe says in Infrastructure which vCenter the cluster is in.
func (v *VSphere) describe(c *cluster.Cluster) {
	infrastructure := &configv1.Infrastructure{}
	require.NoError(v.t, c.Client().Get(v.t.Context(), client.ObjectKey{Name: "cluster"}, infrastructure))
	infrastructure.Spec.PlatformSpec = configv1.PlatformSpec{Type: configv1.VSpherePlatformType, VSphere: vsphere.Spec(v.t, vCenterAddress)}
	require.NoError(v.t, c.Client().Update(v.t.Context(), infrastructure))
}
