package accounts

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// Check fails the test if a request of the driver's accounts was refused, or if a permission was not used. unexercised
// says why no run can use a permission, by its name as in Result. The pods of the driver must have run in the namespace,
// with images that Check's caller knows to be the real ones.
func Check(t testing.TB, c *cluster.Cluster, driver drivers.Driver, namespace string, unexercised map[string]string) {
	t.Helper()
	result, err := Compare(driver, namespace, c.Audit(t))
	require.NoError(t, err)
	for _, refused := range result.Refused {
		t.Errorf("the API server refused: %s", refused)
	}
	for _, unused := range result.Unused {
		assert.NotEmptyf(t, unexercised[unused], "no program needed the permission %s", unused)
	}
	for _, excused := range slices.Sorted(maps.Keys(unexercised)) {
		assert.Containsf(t, result.Unused, excused, "it is used, or no permission, but there is a reason why it cannot be used: %s", unexercised[excused])
	}
}
