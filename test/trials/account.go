package trials

var onAccount = []Attack{
	{"make an unencrypted file system under the token that berth aws create uses for a cluster",
		"existing resources are compared with the request, and refused with their differences", "internal/aws/provision TestSquatted/a_file_system"},
	{"make a security group of its name that admits others", "as above", "internal/aws/provision TestSquatted/a_group"},
	{"make an access point of its path, with user 0", "as above", "internal/aws/provision TestSquatted/an_access_point"},
	{"create an access point in a file system while berth aws destroy deletes the listed resources",
		"each resource is read again right before its deletion, and a file system with an access point that was not shown is kept",
		"internal/aws/removal TestMeanwhile/another_cluster's_access_point"},
	{"give a file system the tag of another cluster meanwhile", "as above", "internal/aws/removal TestMeanwhile/another_cluster's_tag"},
	{"make a mount target that admits others, in a file system of its token", "as above, with the security groups of mount targets",
		"internal/aws/provision TestSquatted/a_mount_target"},
	{"make the file system with a key of another account, which can take all data away", "as above", "internal/aws/provision TestKeyOfAnotherAccount"},
	{"have the file system replicated to another account", "as above", "internal/aws/provision TestSquatted/a_file_system_that_is_replicated_to_another_account"},
	{"give it a policy that lets another account in", "as above; a policy may only narrow who of this account mounts it",
		"internal/aws/provision TestSquatted/a_file_system_whose_policy_lets_another_account_in"},
	{"give it one that allows everything to everybody", "as above", "internal/aws/provision TestSquatted/a_file_system_whose_policy_allows_everything"},
	{"give it a lifecycle that archives files at once", "existing resources are compared with the request; the lifecycle of a file system in use is its administrators'",
		"internal/aws/provision TestSquatted/a_file_system_whose_lifecycle_archives_files"},
	{"put terminal sequences, lines or a long text into what berth aws create prints, by a service that answers in the place of AWS",
		"each resource is a line of visible characters, and no manifest has an ID that is not one", "cmd/berth TestHostileFields"},
}
