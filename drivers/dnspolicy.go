package drivers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// DNSPolicyEnv is the operator's variable with the dnsPolicy of the driver's pods. By default, the pods resolve names
// like their node, because a mount must not wait for the cluster's DNS. If only the cluster's DNS knows the driver's
// servers, an administrator sets ClusterFirstWithHostNet.
const DNSPolicyEnv = "DNS_POLICY"

// setDNSPolicy gives a pod the administrator's policy. It ignores an unknown policy, and returns a sentence about it.
func setDNSPolicy(cluster Cluster, pod *corev1.PodSpec) (leftOut []string) {
	switch wanted := cluster.Environment[DNSPolicyEnv]; {
	case IsDNSPolicy(wanted):
		pod.DNSPolicy = corev1.DNSPolicy(wanted)
	case wanted != "":
		return []string{fmt.Sprintf("the operator's environment variable %s has no effect: it is %q, want %s or %s",
			DNSPolicyEnv, wanted, corev1.DNSDefault, corev1.DNSClusterFirstWithHostNet)}
	}
	return nil
}

// IsDNSPolicy reports whether a value of the variable has an effect. ClusterFirst has none: on the node's network, it means Default.
func IsDNSPolicy(value string) bool {
	return value == string(corev1.DNSDefault) || value == string(corev1.DNSClusterFirstWithHostNet)
}
