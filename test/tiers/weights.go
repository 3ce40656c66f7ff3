package main

// weights are about how many seconds the first tier's tests of a package take on two processors, with compiling and linking. They
// decide what starts first, and how long is left.
var weights = map[string]float64{
	"operator": 120, "sharedvolume": 100, "test/e2e": 120, "migrate/subscription": 100, "test/clusterstorage": 90,
	"test/drivers/matrix": 60, "olm/prediction": 60, "test/cluster": 60, "operator/clusterstorage": 40, "drivers": 60, "migrate/csimigration": 40,
	"test/cluster/node": 30, "test/cluster/realnode": 30, "catalog/mirror": 20, "cmd/berth": 30, "image": 20,
}

// weightOf returns a package's weight.
func weightOf(pkg string) float64 {
	if w, ok := weights[pkg]; ok {
		return w
	}
	return 4
}
