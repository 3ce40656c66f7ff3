package community

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/journey"
)

const (
	operator = "aws-efs-operator"
	// lock is the ConfigMap of the leader-for-life lock. The active operator's pod owns it.
	lock = "aws-efs-operator-lock"
)

// Leave creates the objects that the operator, which OLM runs in a namespace, creates over time: its lock, the driver,
// and SharedVolumes, each with a pod of the same name that uses it. It waits until all of them work.
func Leave(ctx context.Context, c client.Client, namespace string, shares []client.ObjectKey) error {
	if err := leaveLock(ctx, c, namespace); err != nil {
		return err
	}
	if err := leaveDriver(ctx, c, namespace); err != nil {
		return err
	}
	making, within := errgroup.WithContext(ctx)
	making.SetLimit(10)
	for _, share := range shares {
		making.Go(func() error { return leaveShare(within, c, share) })
	}
	if err := making.Wait(); err != nil {
		return err
	}
	return cluster.Until(ctx, "the community's driver and all users of its volumes to run", func(ctx context.Context) error {
		return troubleOf(ctx, c, Kinds(namespace))
	})
}

func leaveLock(ctx context.Context, c client.Client, namespace string) error {
	pod, err := journey.OperatorPod(ctx, c, namespace, operator)
	if err != nil {
		return err
	}
	return journey.Ensure(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: lock, OwnerReferences: []metav1.OwnerReference{journey.PodReference(pod)}}})
}

func leaveDriver(ctx context.Context, c client.Client, namespace string) error {
	api := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKey{Name: "sharedvolumes." + sharedvolume.GroupVersion.Group}, api); err != nil {
		return err
	}
	objects, err := Driver(namespace, api)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := journey.Ensure(ctx, c, object); err != nil {
			return err
		}
	}
	return nil
}

// leaveShare creates a SharedVolume as the operator leaves it, and a pod that uses it.
func leaveShare(ctx context.Context, c client.Client, share client.ObjectKey) error {
	shared, volume, claim := Share(share.Namespace, share.Name)
	user := journey.PodWithClaim(share.Namespace, share.Name, claim.Name)
	user.Labels = UserLabels
	ready := shared.Status
	for _, object := range []client.Object{shared, volume, claim, user} {
		if err := journey.Ensure(ctx, c, object); err != nil {
			return err
		}
	}
	shared.Status = sharedvolume.SharedVolumeStatus{}
	before := shared.DeepCopy()
	shared.Status = ready
	return c.Status().Patch(ctx, shared, client.MergeFrom(before))
}

// troubleOf describes the first object that does not work.
func troubleOf(ctx context.Context, c client.Client, kinds []Kind) error {
	for _, kind := range kinds {
		objects, err := kind.Objects(ctx, c)
		if err != nil {
			return err
		}
		if len(objects) == 0 {
			return fmt.Errorf("there is no %s", kind.Name)
		}
		for _, object := range objects {
			if err := kind.Trouble(object); err != nil {
				return err
			}
		}
	}
	return nil
}
