package openshift

import (
	"slices"
	"strings"
)

// removal lists kinds of an API version that Kubernetes has removed.
type removal struct {
	apiVersion string
	kinds      []string
	kubernetes int    // the first minor version of Kubernetes 1 without them
	instead    string // the API version to use, or "" if there is none
}

// removals are in the order of Kubernetes' versions.
// Source: https://kubernetes.io/docs/reference/using-api/deprecation-guide/
var removals = []removal{
	{"extensions/v1beta1", []string{"DaemonSet", "Deployment", "ReplicaSet"}, 16, "apps/v1"},
	{"extensions/v1beta1", []string{"NetworkPolicy"}, 16, "networking.k8s.io/v1"},
	{"extensions/v1beta1", []string{"PodSecurityPolicy"}, 16, ""},
	{"apps/v1beta1", []string{"Deployment", "ReplicaSet", "StatefulSet"}, 16, "apps/v1"},
	{"apps/v1beta2", []string{"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}, 16, "apps/v1"},
	{"admissionregistration.k8s.io/v1beta1", []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}, 22, "admissionregistration.k8s.io/v1"},
	{"apiextensions.k8s.io/v1beta1", []string{"CustomResourceDefinition"}, 22, "apiextensions.k8s.io/v1"},
	{"apiregistration.k8s.io/v1beta1", []string{"APIService"}, 22, "apiregistration.k8s.io/v1"},
	{"authentication.k8s.io/v1beta1", []string{"TokenReview"}, 22, "authentication.k8s.io/v1"},
	{"authorization.k8s.io/v1beta1", []string{"LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview"}, 22, "authorization.k8s.io/v1"},
	{"certificates.k8s.io/v1beta1", []string{"CertificateSigningRequest"}, 22, "certificates.k8s.io/v1"},
	{"coordination.k8s.io/v1beta1", []string{"Lease"}, 22, "coordination.k8s.io/v1"},
	{"extensions/v1beta1", []string{"Ingress"}, 22, "networking.k8s.io/v1"},
	{"networking.k8s.io/v1beta1", []string{"Ingress", "IngressClass"}, 22, "networking.k8s.io/v1"},
	{"rbac.authorization.k8s.io/v1beta1", []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}, 22, "rbac.authorization.k8s.io/v1"},
	{"scheduling.k8s.io/v1beta1", []string{"PriorityClass"}, 22, "scheduling.k8s.io/v1"},
	{"storage.k8s.io/v1beta1", []string{"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"}, 22, "storage.k8s.io/v1"},
	{"autoscaling/v2beta1", []string{"HorizontalPodAutoscaler"}, 25, "autoscaling/v2"},
	{"batch/v1beta1", []string{"CronJob"}, 25, "batch/v1"},
	{"discovery.k8s.io/v1beta1", []string{"EndpointSlice"}, 25, "discovery.k8s.io/v1"},
	{"events.k8s.io/v1beta1", []string{"Event"}, 25, "events.k8s.io/v1"},
	{"node.k8s.io/v1beta1", []string{"RuntimeClass"}, 25, "node.k8s.io/v1"},
	{"policy/v1beta1", []string{"PodDisruptionBudget"}, 25, "policy/v1"},
	{"policy/v1beta1", []string{"PodSecurityPolicy"}, 25, ""},
	{"autoscaling/v2beta2", []string{"HorizontalPodAutoscaler"}, 26, "autoscaling/v2"},
	{"flowcontrol.apiserver.k8s.io/v1beta1", []string{"FlowSchema", "PriorityLevelConfiguration"}, 26, "flowcontrol.apiserver.k8s.io/v1"},
	{"storage.k8s.io/v1beta1", []string{"CSIStorageCapacity"}, 27, "storage.k8s.io/v1"},
	{"flowcontrol.apiserver.k8s.io/v1beta2", []string{"FlowSchema", "PriorityLevelConfiguration"}, 29, "flowcontrol.apiserver.k8s.io/v1"},
	{"flowcontrol.apiserver.k8s.io/v1beta3", []string{"FlowSchema", "PriorityLevelConfiguration"}, 32, "flowcontrol.apiserver.k8s.io/v1"},
}

// unchanged are the API versions whose kinds have the same fields, with the same meaning, in the replacement.
// Source: "No notable changes" in the same guide.
var unchanged = []string{"batch/v1beta1", "coordination.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1beta1", "scheduling.k8s.io/v1beta1", "storage.k8s.io/v1beta1"}

// Unchanged reports whether the kinds of a removed API version have the same fields, with the same meaning, in the replacement.
func Unchanged(apiVersion string) bool { return slices.Contains(unchanged, apiVersion) }

// Removed returns the first minor version of Kubernetes 1 without a kind of an API version, and the replacement, or "" without
// one. It returns false for kinds that no version has removed.
func Removed(apiVersion, kind string) (kubernetes int, instead string, removed bool) {
	for _, r := range removals {
		if r.apiVersion == apiVersion && slices.Contains(r.kinds, strings.TrimSuffix(kind, "List")) {
			return r.kubernetes, r.instead, true
		}
	}
	return 0, "", false
}
