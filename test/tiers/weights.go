package main

// weights are about how many seconds the first tier's tests of a package take on two processors, with compiling and
// linking. They determine the order and the estimate of the remaining time.
var weights = map[string]float64{
	"test/drivers/matrix": 130, "migrate/subscription": 110, "test/e2e": 65, "sharedvolume": 90, "operator": 45, "lab/cluster": 65, "test/clusterstorage": 65,
	"migrate/csimigration": 60, "drivers": 55, "cmd/berth": 70, "operator/clusterstorage": 35, "lab/cluster/realnode": 30, "olm/prediction": 30,
	"lab/cluster/node": 25, "catalog/mirror": 20, "internal/oci": 20, "migrate/adoption": 15,
}

// weightOf returns a package's weight.
func weightOf(pkg string) float64 {
	if w, ok := weights[pkg]; ok {
		return w
	}
	return 4
}
