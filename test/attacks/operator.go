package attacks

var onOperator = []Attack{
	{"make a DaemonSet and service accounts with the EFS driver's names and labels, before there is the driver",
		"nothing in a namespace decides where the driver is", "operator TestAttackForgedDriver/efs"},
	{"the same with the EBS driver's", "as above", "operator TestAttackForgedDriver/ebs"},
	{"the same with the Manila driver's", "as above", "operator TestAttackForgedDriver/manila"},
	{"make them beside a driver, to have it degraded",
		"other drivers are known only by bindings and finalizers, which are cluster-scoped", "operator TestAttackForgedDriverBesideOurs"},
	{"hold a lock of the right name with a pod, to have the operator wait for ever",
		"locks count only in the operator's namespace and where cluster-scoped objects show a driver", "operator TestAttackForgedLock"},
	{"make the namespace that a driver's definition names, before the operator does",
		"a namespace that exists needs a cluster-scoped proof; the operator stops and says what settles it", "operator TestAttackFixedNamespace"},
	{"recreate a deleted namespace that an earlier driver's SecurityContextConstraints still name",
		"a namespace that is newer than what names it is another one", "operator TestAttackRecreatedNamespaceOfATrace"},
	{"make the namespace that an administrator has named and not made yet",
		"a namespace that is newer than the annotation is another one, unless its UID is named, too", "operator TestAttackNamespaceThatAnAdministratorNamed"},
	{"recreate the driver's namespace after its deletion, while the operator runs",
		"the namespace's UID is on record and checked before each write; the permissions of the old namespace are deleted",
		"operator TestAttackRecreatedNamespace/while_the_operator_runs"},
	{"the same while the operator is away", "as above, when it comes back", "operator TestAttackRecreatedNamespace/while_the_operator_is_away"},
}
