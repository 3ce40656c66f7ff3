package move

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/predecessor"
)

// bundleKind is a kind of objects that bundles have.
type bundleKind struct {
	schema.GroupVersionKind
	ofCluster bool
}

func namespacedKind(group, version, kind string) bundleKind {
	return bundleKind{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, false}
}

func clusterKind(group, version, kind string) bundleKind {
	return bundleKind{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, true}
}

// bundleKinds are the kinds of objects that bundles have and that have the same names with both OLMs. Of other kinds, a move takes over
// only the permissions that a bundle contains.
var bundleKinds = []bundleKind{
	clusterKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
	namespacedKind("apps", "v1", "Deployment"),
	namespacedKind("", "v1", "ServiceAccount"),
	namespacedKind("", "v1", "Service"),
	namespacedKind("", "v1", "ConfigMap"),
	namespacedKind("", "v1", "Secret"),
	clusterKind("scheduling.k8s.io", "v1", "PriorityClass"),
	namespacedKind("networking.k8s.io", "v1", "NetworkPolicy"),
	namespacedKind("policy", "v1", "PodDisruptionBudget"),
	namespacedKind("monitoring.coreos.com", "v1", "PrometheusRule"),
	namespacedKind("monitoring.coreos.com", "v1", "ServiceMonitor"),
	namespacedKind("monitoring.coreos.com", "v1", "PodMonitor"),
	namespacedKind("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler"),
	clusterKind("console.openshift.io", "v1", "ConsoleYAMLSample"),
	clusterKind("console.openshift.io", "v1", "ConsoleQuickStart"),
	clusterKind("console.openshift.io", "v1", "ConsoleCLIDownload"),
	clusterKind("console.openshift.io", "v1", "ConsoleLink"),
	clusterKind("console.openshift.io", "v1", "ConsolePlugin"),
}

// isTakenOver reports whether a move takes over objects of a kind, in any version of its API, and whether they are
// cluster-scoped.
func isTakenOver(group, kind string) (taken, ofCluster bool) {
	for _, k := range bundleKinds {
		if k.Group == group && k.Kind == kind {
			return true, k.ofCluster
		}
	}
	return isPermission(group, kind), isOfCluster(kind)
}

func isPermission(group, kind string) bool {
	return slices.ContainsFunc(permissionKinds, func(k schema.GroupVersionKind) bool { return k.Group == group && k.Kind == kind })
}

// madeKinds are the kinds of objects that OLM v1 creates under its own names, in the order of deletion.
var madeKinds = append([]schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"},
	{Group: "cert-manager.io", Version: "v1", Kind: "Issuer"},
}, permissionKinds...)

// hasNamespace reports whether objects of one of madeKinds have a namespace.
func hasNamespace(kind schema.GroupVersionKind) bool {
	return slices.Contains([]string{"Role", "RoleBinding", "Certificate", "Issuer"}, kind.Kind)
}

// labelsOf returns the labels of all objects that OLM v1 has installed for a ClusterExtension.
func labelsOf(name string) client.MatchingLabels { return predecessor.LabelsOf(name) }
