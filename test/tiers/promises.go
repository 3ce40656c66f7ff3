package main

import (
	"fmt"
	"strings"
)

// A promise is a claim in README.md or on the first page of docs/contribute/architecture.md, with a test of the first tier that
// fails when Berth breaks it.
type promise struct{ promise, pkg, test string }

var promises = []promise{
	{"OLM installs the operator from a catalog, and an administrator's ClusterCSIDriver installs the EFS driver", "test/e2e", "TestTheMainJob"},
	{"a team's SharedVolume becomes a PersistentVolume and a claim", "sharedvolume", "TestCreateAndDelete"},
	{"only namespaces with a grant get an access point", "sharedvolume", "TestTenants"},
	{"pods on two nodes share a volume, through real kubelets and sidecars", "test/drivers/matrix", "TestMatrix"},
	{"an earlier operator's driver is taken over in place", "operator", "TestAdoption"},
	{"a driver is removed in order, and never while a pod uses its volumes", "operator", "TestUninstallWaitsForPodsThatUseVolumes"},
	{"a Subscription moves from the community's operator to the certified one", "test/e2e", "TestSwitchWithTool"},
	{"a killed migration continues, and rolls back", "migrate", "TestApplyKilledAtEachWrite"},
	{"the cluster storage operator runs the drivers of a platform", "test/clusterstorage", "TestOperators"},
	{"drivers are handed over from OLM to the cluster storage operator", "test/clusterstorage", "TestAdoption"},
	{"CSI migration is switched on and off in the right order", "migrate/csimigration", "TestOnAndOff"},
	{"berth doctor finds problems, and says how to solve them", "test/e2e", "TestTheMainJob"},
	{"must-gather collects what support needs", "test/e2e", "TestMustGatherGoesOn"},
	{"must-gather leaves out secrets", "test/mustgather", "TestRedact"},
	{"a driver's definition becomes a bundle that OLM accepts", "bundle", "TestRegistryReadsIt"},
	{"catalogs are built, and checked as opm checks them", "catalog/rules", "TestCheck"},
	{"a prediction is what OLM does", "olm/prediction", "TestAgainstOLM"},
	{"catalogs are served as opm serves them", "catalog/server", "TestServeAnswersLikeOpm"},
	{"a catalog and its images are mirrored", "catalog/mirror", "TestMirror"},
	{"an EFS file system is created for a cluster, and the resources that the cluster leaves in AWS are deleted", "internal/aws/provision", "TestCreate"},
	{"a release can be pushed to a registry only as a whole", "release", "TestBadRegistries"},
}

// promisesTable returns the promises in Markdown, as docs/contribute/develop.md has them.
func promisesTable() string {
	var text strings.Builder
	text.WriteString("| promise | test of the first tier |\n| --- | --- |\n")
	for _, p := range promises {
		fmt.Fprintf(&text, "| %s | `%s` %s |\n", p.promise, p.pkg, p.test)
	}
	return text.String()
}
