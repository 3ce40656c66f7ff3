package attacks

var onMemory = []Attack{
	{"fill the caches with annotations, finalizers, labels and selectors", "of each object the caches hold a few KiB at most, whatever it is like", "sharedvolume TestTenantFillsCaches"},
	{"have finalizers lost by having too many", "a list that is too long for the cache is read when it is changed", "sharedvolume TestTenantsFinalizersAreKept"},
	{"have lists of large objects fill the memory", "they are asked for in small pages, and trimmed one page before the next is asked for", "sharedvolume TestTenantHasLargeObjectsListed"},
	{"have a namespace's pods listed again and again", "one list answers all, in pages of 50; the next comes after ten seconds, and after twenty times as long as the last one took", "sharedvolume TestTenantHasPodsListed"},
	{"have large pods fill the memory", "pods are read one at a time, and nothing is kept but who uses what", "listing TestTenantMakesLargePods"},
	{"leave a volume behind that has a community operator's name", "a volume is found by its owner's UID", "sharedvolume TestTenantLeavesVolume/under_the_community_operator's_name"},
	{"leave a volume behind that was never bound, or not to the end", "a volume need not have been bound to be found", "sharedvolume TestTenantLeavesVolume/whose_claim_names_another_volume"},
	{"keep a driver by a pod that is on no node", "only pods count that a node may have begun to run", "operator TestTenantBlocksRemoval/a_pod_that_is_on_no_node_names_the_claim"},
	{"keep a driver by a pod that names a node", "a kubelet must have taken the pod in, or be about to", "operator TestTenantBlocksRemoval/a_pod_names_a_node_that_does_not_exist"},
	{"keep a driver by a claim that names another's volume", "whose a volume is, the volume says", "operator TestTenantBlocksRemoval/a_claim_names_a_volume_that_is_bound_to_another's_claim"},
	{"keep a driver by an inline volume", "inline volumes count only if the CSIDriver allows them", "operator TestTenantBlocksRemoval/a_pod_has_an_inline_volume_that_the_CSIDriver_forbids"},
}
