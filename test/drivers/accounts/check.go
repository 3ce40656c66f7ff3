package accounts

import (
	"maps"
	"slices"
	"testing"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// Check fails the test if a request of the driver's accounts was refused, or if a permission was not used. unexercised
// says why no run can use a permission, by its name as in Result. The pods of the driver must have run in the namespace,
// with images that Check's caller knows to be the real ones.
func Check(t testing.TB, c *cluster.Cluster, driver drivers.Driver, namespace string, unexercised map[string]string) {
	t.Helper()
	result, err := Compare(driver, namespace, c.Audit(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range result.Refused {
		t.Errorf("the API server refused: %s", refused)
	}
	for _, unused := range result.Unused {
		if unexercised[unused] == "" {
			t.Errorf("no program needed the permission %s", unused)
		}
	}
	for _, excused := range slices.Sorted(maps.Keys(unexercised)) {
		if !slices.Contains(result.Unused, excused) {
			t.Errorf("%s is used, or is no permission, but there is a reason why it cannot be used: %s", excused, unexercised[excused])
		}
	}
}
