package drivers_test

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// TestDNSPolicy: an administrator can make the driver's pods use the cluster's DNS, as an earlier operator's pods did.
func TestDNSPolicy(t *testing.T) {
	for _, tc := range []struct {
		wanted  string
		policy  corev1.DNSPolicy
		leftOut string // a part of the condition's message
	}{
		{wanted: "", policy: corev1.DNSDefault},
		{wanted: "Default", policy: corev1.DNSDefault},
		{wanted: "ClusterFirstWithHostNet", policy: corev1.DNSClusterFirstWithHostNet},
		{wanted: "None", policy: corev1.DNSDefault, leftOut: `it is "None", want Default or ClusterFirstWithHostNet`}, // without servers, the API server refuses it
		{wanted: "ClusterFirst", policy: corev1.DNSDefault, leftOut: `it is "ClusterFirst"`},                          // in the node's network, that is Default
	} {
		cluster := drivers.Cluster{ClusterCSIDriver: &operatorv1.ClusterCSIDriver{}, Environment: map[string]string{drivers.DNSPolicyEnv: tc.wanted}}
		pod := &corev1.PodSpec{DNSPolicy: corev1.DNSDefault}
		drivers.Driver{}.Configure(pod, cluster)
		leftOut := strings.Join(drivers.Driver{}.LeftOut(cluster), "; ")
		if pod.DNSPolicy != tc.policy || !strings.Contains(leftOut, tc.leftOut) || (leftOut == "") != (tc.leftOut == "") {
			t.Errorf("%q: %s, left out %q; want %s and %q", tc.wanted, pod.DNSPolicy, leftOut, tc.policy, tc.leftOut)
		}
	}
}
