package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/cluster"
)

// TestQuota: the operator counts the access points of the file systems that StorageClasses name, once it has credentials, and again
// after a failure and later. What it cannot count it does not show.
func TestQuota(t *testing.T) {
	t.Parallel()
	intervals := usualIntervals
	intervals.Count = 50 * time.Millisecond
	env := newTaggingEnv(t, aws.Options{}, intervals)
	env.class("used", env.fileSystem)
	env.class("unknown", "fs-0fedcba9876543210")
	env.class("other", "") // it has no file system
	risky := env.class("risky", env.fileSystem, "subPathPattern", "/", "ensureUniqueDirectory", "false")
	env.accessPoint(nil)
	env.accessPoint(nil)
	env.create(env.customResource())
	stop := env.startOperator()
	env.waitForConditions(allWell)
	_, shown := env.metric("berth_quota_used", nil)
	assert.False(t, shown, "without credentials, something is shown")
	cluster.Eventually(t, limit, "the class with which one deletion takes the files of all to be shown", func(context.Context) error {
		if risk, _ := env.metric("berth_storage_class_risk", map[string]string{"storageclass": risky.Name}); risk != 1 {
			return fmt.Errorf("its risk is %g, want 1", risk)
		}
		return nil
	})
	_, shown = env.metric("berth_storage_class_risk", map[string]string{"storageclass": env.namespace + "-used"})
	assert.False(t, shown, "a class without a risk is shown")
	env.cloud.Inject(gateway.Fault{Service: "elasticfilesystem", Action: "DescribeAccessPoints", Kind: gateway.Denied, Times: 2})
	env.keyPair()
	env.waitForQuota(2)
	shownLimit, _ := env.metric("berth_quota_limit", map[string]string{"of": env.fileSystem})
	assert.EqualValues(t, 1000, shownLimit, "the limit that is shown")
	_, shown = env.metric("berth_quota_used", map[string]string{"of": "fs-0fedcba9876543210"})
	assert.False(t, shown, "a file system that does not exist is shown")
	env.accessPoint(nil)
	cluster.Eventually(t, limit, "no group IDs to be shown as shared", func(context.Context) error { // each measurement replaces all series
		if shared, shown := env.metric("berth_quota_shared_ids", map[string]string{"of": env.fileSystem}); !shown || shared != 0 {
			return fmt.Errorf("%g are, shown: %t", shared, shown)
		}
		return nil
	})
	require.NoError(t, env.Client().Delete(t.Context(), risky))
	cluster.Eventually(t, limit, "the deleted class not to be shown", func(context.Context) error {
		if _, shown := env.metric("berth_storage_class_risk", nil); shown {
			return errors.New("it is")
		}
		return nil
	})
	stop()
	defer env.startOperator()()
	env.waitForQuota(3)
}

// class creates a StorageClass with which the driver creates access points in a file system.
func (env *taggingEnv) class(name, fileSystem string, parameters ...string) *storagev1.StorageClass {
	env.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: env.namespace + "-" + name}, Provisioner: env.driver.CSIName,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fileSystem, "directoryPerms": "700"}}
	for pair := range slices.Chunk(parameters, 2) {
		class.Parameters[pair[0]] = pair[1]
	}
	env.create(class)
	env.t.Cleanup(func() { env.Client().Delete(context.Background(), class) })
	return class
}

// waitForQuota waits until a number of access points is shown.
func (env *taggingEnv) waitForQuota(want float64) {
	env.t.Helper()
	cluster.Eventually(env.t, limit, fmt.Sprintf("%g access points to be shown", want), func(context.Context) error {
		if got, shown := env.metric("berth_quota_used", map[string]string{"of": env.fileSystem, "resources": "access points"}); !shown || got != want {
			return fmt.Errorf("%g are shown", got)
		}
		return nil
	})
}
