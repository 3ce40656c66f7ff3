package attacks

// onOperator are attacks of tenants on the operator of a driver.
var onOperator = []Attack{
	{"create a DaemonSet and service accounts with the EFS driver's names and labels, before the driver is installed",
		"nothing in a namespace determines the driver's namespace", "operator TestAttackForgedDriver/efs"},
	{"the same for the EBS driver", "as above", "operator TestAttackForgedDriver/ebs"},
	{"the same for the Manila driver", "as above", "operator TestAttackForgedDriver/manila"},
	{"create them while a driver is installed, to make it Degraded",
		"other drivers are detected only by ClusterRoleBindings and by finalizers of cluster-scoped objects", "operator TestAttackForgedDriverBesideOurs"},
	{"hold a lock with the right name by a pod, to make the operator wait forever",
		"a lock counts only in the operator's namespace, and in one that cluster-scoped objects prove to be a driver's", "operator TestAttackForgedLock"},
	{"create the namespace that a driver's definition names, before the operator does",
		"an existing namespace needs a cluster-scoped proof; the operator stops and says how to resolve this", "operator TestAttackFixedNamespace"},
	{"recreate a deleted namespace that an earlier driver's SecurityContextConstraints still name",
		"a namespace does not count if it is newer than the object that names it", "operator TestAttackRecreatedNamespaceOfATrace"},
	{"create the namespace that an administrator has named, but not created yet",
		"a namespace does not count if it is newer than the annotation, unless an annotation names its UID", "operator TestAttackNamespaceThatAnAdministratorNamed"},
	{"recreate the driver's namespace after its deletion, while the operator runs",
		"the namespace's UID is recorded, and checked before each write; the permissions of its service accounts are revoked",
		"operator TestAttackRecreatedNamespace/while_the_operator_runs"},
	{"the same while the operator is down", "as above, when it restarts", "operator TestAttackRecreatedNamespace/while_the_operator_is_away"},
	{"the same before the driver is removed, to have the tenant's objects deleted", "as above; nothing in the namespace is deleted",
		"operator TestAttackRecreatedNamespaceOfARemoval"},
}
