package main

// weights are about how many seconds the first tier's tests of a package take on two processors, with compiling and
// linking. They determine the order and the estimate of the remaining time.
var weights = map[string]float64{
	"test/drivers/matrix": 300, "cmd/berth": 300, "sharedvolume": 150, "migrate/subscription": 130, "migrate/csimigration": 110, "drivers": 110, "test/e2e": 95,
	"test/clusterstorage": 80, "operator/clusterstorage": 70, "lab/cluster": 65, "test/ci": 60, "operator": 60, "catalog/mirror": 60, "test/reports": 60,
	"catalog/rules": 60, "catalog/graph": 60, "cmd/internal/opm": 60, "lab/cluster/realnode": 30, "olm/prediction": 30, "lab/cluster/node": 25, "internal/oci": 20, "test/mustgather": 30,
	"migrate/adoption": 15,
}

// weightOf returns a package's weight.
func weightOf(pkg string) float64 {
	if w, ok := weights[pkg]; ok {
		return w
	}
	return 4
}
