package attacks

var onSupport = []Attack{
	{"lure the token of whoever collects support data to a pod, by a Deployment with an operator's name and label",
		"the operator is looked for where the ClusterCSIDriver and a ClusterRoleBinding say that it is; nobody's own token is sent to a pod, but one that is good for that operator's metrics and nothing else",
		"test/e2e TestMustGatherAttacks/lure_the_token_to_a_pod"},
	{"remake the namespace of an operator or driver that was removed, to be taken for them by whoever collects support data",
		"a namespace is known by its UID, and an operator's by a ClusterRoleBinding",
		"test/e2e TestMustGatherAttacks/remake_the_operator's_namespace"},
	{"have objects of one's own collected as a driver's, by labels and the driver's socket",
		"cluster-scoped objects and the command line alone say which namespaces are looked into",
		"test/e2e TestMustGatherAttacks/have_other_workloads_collected"},
	{"fill the disk of whoever collects support data, with claims that seem to be for a driver",
		"files, claims of a namespace, namespaces and all files together are bounded; what was left out is told",
		"test/e2e TestMustGatherAttacks/fill_the_disk"},
	{"have control characters in what is collected obeyed by a terminal",
		"they are replaced",
		"test/e2e TestMustGather"},
	{"use the token that support data is collected with elsewhere",
		"it is for one operator's metrics; the API server refuses it, and that operator takes only those of its own account",
		"operator/serving TestTokensForMetrics"},
}
