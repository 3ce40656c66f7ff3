package trials

var onMemory = []Attack{
	{"fill the caches with annotations, finalizers, labels and selectors", "the caches hold at most a few KiB of each object, whatever it contains", "sharedvolume TestTenantFillsCaches"},
	{"set so many finalizers that some are lost", "a list that is too long for the cache is read from the API server before it is changed", "sharedvolume TestTenantsFinalizersAreKept"},
	{"fill memory with lists of large objects", "lists are read in small pages, and each page is trimmed before the next one is requested", "sharedvolume TestTenantHasLargeObjectsListed"},
	{"make the operator list a namespace's pods again and again", "all claims of a namespace share one list, in pages of 50; the next one follows after ten seconds, and after twenty times as long as the last one took", "sharedvolume TestTenantHasPodsListed"},
	{"fill memory with large pods", "pods are read one at a time, and only the names of pods and their claims are kept", "internal/listing TestTenantMakesLargePods"},
	{"leave a volume behind that has a name from the community operator", "a volume is found by its owner's UID", "sharedvolume TestTenantLeavesVolume/under_the_community_operator's_name"},
	{"leave a volume behind that was never bound, or only partly", "a volume is found whether or not it was bound", "sharedvolume TestTenantLeavesVolume/whose_claim_names_another_volume"},
	{"block the removal of a driver with a pod on no node", "only pods that a node may have started count", "operator TestTenantBlocksRemoval/a_pod_that_is_on_no_node_names_the_claim"},
	{"block it with a pod that names a node", "a kubelet must have accepted the pod, or be about to", "operator TestTenantBlocksRemoval/a_pod_names_a_node_that_does_not_exist"},
	{"block it with a claim that names somebody else's volume", "only the volume says which claim it is bound to; what the claim says does not count", "operator TestTenantBlocksRemoval/a_claim_names_a_volume_that_is_bound_to_another's_claim"},
	{"block it with an inline volume", "inline CSI volumes count only if the CSIDriver allows them; in-tree volumes always do, and OpenShift admits pods with such a volume only if an SCC allows it, which the SCCs for tenants do not", "operator TestTenantBlocksRemoval/a_pod_has_an_inline_volume_that_the_CSIDriver_forbids"},
	{"fill the memory of an administrator who runs berth catalog plan or berth switch, with large objects of OLM in many namespaces",
		"objects are read one at a time, and only the fields that a prediction needs are kept, with texts of a Subscription cut at 1 KiB", "olm/prediction TestTenantsMakeLargeObjects"},
	{"have them take quadratic time in the number of namespaces, with a Subscription in each",
		"a namespace is compared only with those that have an OperatorGroup, which no tenant can create", "olm/prediction TestTenantsNamespaces"},
	{"have them take quadratic time in the number of Subscriptions of one project, which hinder each other",
		"a prediction names ten other Subscriptions, and counts the rest", "olm/prediction TestManySubscriptions/that_hinder_each_other"},
	{"have them quote megabytes of custom resources that a new definition does not admit", "three objects are named, with ten faults of at most 1 KiB", "olm/prediction TestLongFaults"},
	{"have the cluster storage operator do nothing but read Subscriptions, while OLM runs a driver's operator",
		"after an observation, it waits ten times as long as that took", "operator/clusterstorage TestSlowObservation"},
}
