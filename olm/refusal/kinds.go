package refusal

// namespaced has the kinds that bundles may contain, from pkg/lib/bundle of operator-registry, and whether OLM puts them into the
// namespace of the operator.
var namespaced = map[string]bool{
	"ClusterServiceVersion": true, "CustomResourceDefinition": false, "Secret": true, "ClusterRole": false, "ClusterRoleBinding": false,
	"ConfigMap": true, "ServiceAccount": true, "Service": true, "Role": true, "RoleBinding": true, "PrometheusRule": true,
	"ServiceMonitor": true, "PodDisruptionBudget": true, "PriorityClass": false, "VerticalPodAutoscaler": false, "ConsoleYAMLSample": false,
	"ConsoleQuickStart": false, "ConsoleCLIDownload": false, "ConsoleLink": false, "ConsolePlugin": false, "NetworkPolicy": true, "PodMonitor": true,
}
