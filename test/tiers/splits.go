package main

// A split divides the tests of a package whose tests take minutes. All other packages are in the first tier as a whole.
//
// First and second name tests, perhaps with subtests. At most one of them is set, and the other tier has all other
// tests; without both, the first tier has none. Third names slow tests of rarer cases, which neither tier runs.
type split struct {
	pkg                  string
	first, second, third []string
	// options are the options of the tests in the first two tiers.
	options []string
	// rest is about how many seconds the tests of the second tier take; weights are for those of the first.
	rest float64
}

// oneFault makes sweeps try one fault in each scenario, and not one at each point: make sweep tries all.
var oneFault = []string{"-one-fault"}

var splits = []split{
	{pkg: "operator", rest: 600, options: oneFault, first: []string{
		"TestInstall/efs", "TestAdoption/in_the_operator's_namespace", "TestUninstallOrder/efs", "TestUninstallWaitsForPodsThatUseVolumes",
		"TestNothingIsTouchedWithoutCustomResource", "TestAttackForgedDriver/efs", "TestCrashSweep/install", "TestTakeoverFromOpenShift45", "TestRenderWithoutImages", "TestRenderForMonitoring",
	}, third: []string{
		"TestWaitingRemovalIsQuiet", "TestRestartWithSlowListIsNotDegraded", "TestMissingAPIHoldsNothingElse", "TestRefusedDeletionHoldsNothingElse",
		"TestDriverLeavesANamespaceThatIsGone", "TestUninstallWaitsForPodOfAReplacedClaim", "TestObservedConfigOfOthersReachesNoPod", "TestQuota",
		"TestNotReadyNodeHoldsNothing", "TestRefusedObjectHoldsNoAdoption", "TestOtherDriver", "TestDefaultClass", "TestDefaultSnapshotClass",
		"TestSidecarsReadTheSecretsOfClasses", "TestCloudIsAskedOnce", "TestEventsAreRecordedOnce",
	}},
	{pkg: "sharedvolume", rest: 280, options: oneFault, second: []string{
		"TestRandomSequences", "TestManyAtOnce", "TestSlotsTimeOut", "TestSlotsReachEverybody", "TestTenantFillsCaches", "TestTenantHasLargeObjectsListed",
		"TestTenantHasPodsListed", "TestAdoption",
		"TestCrashSweep/delete", "TestCrashSweep/repair_claim", "TestCrashSweep/repair_volume", "TestCrashSweep/repair_both", "TestMissingDefinitions", "TestTenantLeavesVolume", "TestRefusedPolicy", "TestRepair",
		"TestRejectedClaimReleasesSlot", "TestUnboundClaimLosesSlot", "TestNamespaceDeletedDuringDowntime", "TestTenants/attacks/store_large_objects",
		"TestTenants/attacks/choose_names_that_add_up_to_another's", "TestTenants/attacks/inherit_a_community_operator's_volume_by_its_names",
		"TestTenants/attacks/be_there_first_where_a_grant_waits_for_a_namespace", "TestTenants/attacks/hold_the_namespace_by_a_finalizer",
		"TestTenants/attacks/create_in_a_namespace_that_ends", "TestTenants/attacks/use_one_access_point_twice",
		"TestTenants/attacks/pass_for_a_cluster_of_the_community_operator", "TestTenants/attacks/smuggle_a_path_into_an_ID",
		"TestTenants/attacks/use_long_names", "TestTenants/attacks/forge_labels_on_a_claim", "TestTenants/attacks/hide_a_claim_from_the_operator",
	}},
	{pkg: "migrate/subscription", rest: 130, second: []string{
		"TestDisturbedSwitch", "TestUnmanagedDriver", "TestAdoptDriver", "TestAttacks/forge_a_journal_that_deletes_a_ClusterServiceVersion",
		"TestAttacks/forge_a_journal_that_makes_commands_panic", "TestAttacks/write_garbage_with_a_journal's_labels", "TestAttacks/write_a_journal_in_kube-system",
		"TestAttacks/forge_a_journal_beside_the_Subscription", "TestAttacks/forge_the_way_back_beside_the_Subscription",
		"TestAttacks/take_the_place_of_a_Subscription_that_is_replaced", "TestAttacks/replace_the_recreated_Subscription",
		"TestAttacks/subscribe_to_the_package_in_a_project", "TestAttacks/make_a_DaemonSet_with_the_driver's_name",
	}, third: []string{
		"TestCrashSweep", "TestDisturbedSwitch/OLM_installs_again_what_was_removed", "TestDisturbedSwitch/OLM_waits_for_an_InstallPlan_that_is_gone",
		"TestDisturbedSwitch/OLM_creates_an_unplanned_InstallPlan", "TestDisturbedSwitch/a_conflicting_request", "TestDisturbedSwitch/a_missing_channel",
		"TestDisturbedSwitch/two_Subscriptions_for_one_package", "TestDisturbedSwitch/somebody_changes_the_configuration", "TestDisturbedSwitch/a_timeout",
		"TestDisturbedSwitch/a_plan_is_for_an_unchanged_cluster", "TestDisturbedSwitch/the_clock_of_an_interrupted_run_was_ahead",
		"TestDisturbedSwitch/the_operator_is_removed_after_the_switch",
	}},
	{pkg: "migrate/adoption", rest: 40, second: []string{"TestExtensionIsOrphaned"}},
	{pkg: "migrate/move", rest: 100, first: []string{
		"TestChecks", "TestChecksBack", "TestPlanOfHealthy", "TestValidate", "TestExtension", "TestNext", "TestNextBack", "TestBack", "TestVerify", "TestMarks",
	}, third: []string{"TestFollowPage", "TestCrashSweep", "TestRollback"}},
	{pkg: "migrate/csimigration", rest: 80, options: oneFault, second: []string{"TestWrongOrder", "TestGates", "TestStatefulSetOnRealNodes", "TestCrashSweep/killed_at_each_write", "TestCrashSweep/disable"}},
	{pkg: "operator/clusterstorage", rest: 60, options: oneFault, second: []string{"TestCrashSweep/update", "TestLatePredecessor", "TestUnreadableKindHoldsNothingElse", "TestEveryObjectComesBack"}},
	{pkg: "olm/prediction", rest: 120, second: []string{"TestTraps", "TestUpdateFromOpenShift45", "TestGraphIsWhatOLMDoes"}},
	{pkg: "test/e2e", rest: 250, first: []string{
		"TestTheMainJob", "TestSwitchWithTool/0.0.8", "TestMustGatherGoesOn/by_SecurityContextConstraints", "TestMustGatherTakesNames", "TestMustGatherNeedsACluster",
	}, third: []string{
		"TestOLMHearsWhenNotToUpgrade", "TestTheCertifiedCatalog", "TestOperatorIsUpdatedBesideADeadPod", "TestMirrorObjects", "TestACatalogServedByOpm",
		"TestSwitchWithKilledOperator", "TestSwitchByHand", "TestMustGatherOfOLMv1", "TestMustGatherStaysWithinLimits", "TestAMissingImageReachesTheAdministrator",
		"TestFollowSwitchPage", "TestMoveOver", "TestSwitchWithTool", "TestSwitchWithKilledTool", "TestPermissionsAreExact", "TestTeamsKeepTheirSharedVolumes", "TestDriverOfClusterStorage",
		"TestMustGatherGoesOn/by_a_ClusterRoleBinding", "TestMustGatherGoesOn/by_the_command_line", "TestMustGatherGoesOn/by_nothing", "TestMustGatherGoesOn/by_another_account's_right", "TestMustGatherGoesOn/by_another_right",
	}},
	{pkg: "test/clusterstorage", rest: 200, first: []string{"TestOperators/AWS", "TestAdoption/ebs", "TestLeftovers"}, third: []string{"TestRolling", "TestRunByHand", "TestPermissionsAreExact", "TestAdoptionSweep", "TestMustGather", "TestLife", "TestDefaultClass"}},
	{pkg: "test/drivers/matrix", rest: 120, first: []string{"TestMatrix/efs", "TestPageShowsTheMatrix", "TestEveryCellIsFilled", "TestReport"}},
	{pkg: "test/drivers/endurance", first: []string{"TestGrowth"}, third: []string{"TestChurn"}},
	{pkg: "lab/cluster", rest: 100, second: []string{"TestRestore", "TestKilledKeeper", "TestNothingIsLeftOfRealNodes"}},
	{pkg: "test/drivers/continuity", rest: 20, first: []string{"TestJournal"}},
	{pkg: "test/drivers/filesystem", rest: 60},
	{pkg: "test/olmv1", rest: 60, first: []string{"TestRecord"}},
	{pkg: "release", first: []string{"TestEFSDriverFile", "TestPackagers", "TestBadRegistries"}, third: []string{"TestEFSDriver", "TestSignedRelease", "TestRelease"}},
}

// raceJourneys are the tests of the command line and of packages with clusters that run with the race detector, as go test -run has them.
// Most tests of the command line start a process each, which takes a second with the detector and does one thing after the other.
var raceJourneys = map[string]string{
	"cmd/berth":    "^TestCatalogServe$|^TestUnmirror$|^TestMirrorFormats$|^TestMirrorPolicy$|^TestRenderImages$|^TestSignals$|^TestWatch$|^TestProgress$|^TestRequestTimeout$|^TestVerbose$|^TestTerminalShowsVisibleCharacters$",
	"operator":     "^TestInstall$",
	"sharedvolume": "^TestCreateAndDelete$|^TestManyAtOnce$",
	"migrate":      "^TestResume$",
}

// notWithRaces are tests that run without the race detector: tests of costs, which it multiplies, and of programs that it does not watch, such
// as opm and bash.
var notWithRaces = pattern([]string{
	"TestDeepFolders", "TestLikeOPM", "TestWriteLikeOpm", "TestTemplatesLikeOPM", "TestSuitesOfNight", "TestTemplates", "TestCheckAction",
})

// longJob is the number of seconds from which a package is a job of its own.
const longJob = 15
