package operator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/aws"
	fakeefs "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/operator/presence"
)

// TestPresence: once the operator has credentials, it knows of the access points that objects refer to, looks again later, and forgets
// everything with the credentials.
func TestPresence(t *testing.T) {
	t.Parallel()
	env := newTaggingEnv(t, aws.Options{}, func(d *drivers.Driver) {
		presence := *d.Presence
		presence.Interval = 100 * time.Millisecond
		d.Presence = &presence
	})
	zone := env.cloud.Zones()[0].Name
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: env.namespace + "-", Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	env.create(node)
	t.Cleanup(func() { env.Client().Delete(context.Background(), node) })
	id := env.accessPoint(nil)
	registry := presence.NewRegistry()
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
	env.startOperator(operator.APIController{Volumes: registry, Run: func(ctx context.Context, _ *rest.Config) error {
		<-ctx.Done()
		return nil
	}})
	env.waitForConditions(allWell)
	secret := env.keyPair()
	find(env.fileSystem, id, "MountTargetMissing")
	find("fs-0fedcba9876543210", id, "FileSystemNotFound")
	if _, err := env.cloud.EFS.AddMountTarget(fakeefs.MountTarget{FileSystemID: env.fileSystem, Zone: zone}); err != nil {
		t.Fatal(err)
	}
	find(env.fileSystem, id, "Found")
	if err := env.Client().Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	find(env.fileSystem, id, "")
}
