package operator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers/controller"
	efscontroller "github.com/berth-csi/berth/drivers/efs/controller"
	"github.com/berth-csi/berth/lab/aws"
	fakeefs "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/cluster"
)

// TestPresence: once the operator has credentials, it knows of the access points that objects refer to, looks again later, and forgets
// everything with the credentials.
func TestPresence(t *testing.T) {
	t.Parallel()
	intervals := usualIntervals
	intervals.Find = 100 * time.Millisecond
	env := newTaggingEnv(t, aws.Options{}, intervals)
	own := efscontroller.NewAt(intervals)
	env.own = func() controller.Own { return own }
	zone := env.cloud.Zones()[0].Name
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: env.namespace + "-", Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	env.create(node)
	t.Cleanup(func() { env.Client().Delete(context.Background(), node) })
	id := env.accessPoint(nil)
	registry := own.API.(interface {
		Find(user, fileSystem, accessPoint string) (present bool, reason, message string, known bool)
	})
	find := func(parent, id, want string) {
		t.Helper()
		cluster.Eventually(t, limit, fmt.Sprintf("%s/%s to be known as %q", parent, id, want), func(context.Context) error {
			if _, reason, message, known := registry.Find(parent+id, parent, id); !known || reason != want {
				return fmt.Errorf("known: %v, %q, %q", known, reason, message)
			}
			return nil
		})
	}
	env.create(env.customResource())
	env.startOperator()
	env.waitForConditions(allWell)
	secret := env.keyPair()
	find(env.fileSystem, id, "MountTargetMissing")
	find("fs-0fedcba9876543210", id, "FileSystemNotFound")
	_, err := env.cloud.EFS.AddMountTarget(fakeefs.MountTarget{FileSystemID: env.fileSystem, Zone: zone})
	require.NoError(t, err)
	find(env.fileSystem, id, "Found")
	require.NoError(t, env.Client().Delete(t.Context(), secret))
	find(env.fileSystem, id, "")
}
