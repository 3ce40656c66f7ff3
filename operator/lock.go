package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/operator-lib/leader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lockPollMax bounds how long a new operator pod goes on waiting after the old one has left.
const lockPollMax = 2 * time.Second

// becomeLeader waits until this pod holds the leader-for-life lock: a ConfigMap that the pod owns,
// so that it is free again only when the pod is gone. Earlier operators of the same driver use the
// same lock; thus an old and a new one are never active together, whatever a Deployment's rollout does.
//
// Outside a cluster there is no pod to own the lock; there a developer looks after it.
func becomeLeader(ctx context.Context, cfg *rest.Config, lock string) error {
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	err = leader.Become(ctx, lock, leader.WithClient(c), func(c *leader.Config) error {
		c.MaxBackoffInterval = lockPollMax
		return nil
	})
	if errors.Is(err, leader.ErrNoNamespace) {
		klog.Warningf("not running in a pod: going on without the lock %s", lock)
		return nil
	}
	return err
}

// otherOperator returns the pod, as namespace/name, of another operator that is active where the driver
// is; "" where there is none. The lock excludes only operators of one namespace, and the driver may be
// in another one than this operator: where the operator that made it runs, if it still does.
func (o *operator) otherOperator(ctx context.Context, c client.Client, namespaces ...string) (string, error) {
	for _, namespace := range namespaces {
		if namespace == o.namespace {
			continue // that lock is ours
		}
		holder, err := lockHolder(ctx, c, client.ObjectKey{Namespace: namespace, Name: o.driver.Operator.Lock})
		if err != nil || holder != "" {
			return holder, err
		}
	}
	return "", nil
}

// lockHolder returns the pod, as namespace/name, that holds a lock and has not ended; "" if none does.
func lockHolder(ctx context.Context, c client.Client, lock client.ObjectKey) (string, error) {
	held := &corev1.ConfigMap{}
	if err := c.Get(ctx, lock, held); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading the lock %s: %w", lock, err)
	}
	for _, owner := range held.OwnerReferences {
		key, pod := client.ObjectKey{Namespace: lock.Namespace, Name: owner.Name}, &corev1.Pod{}
		err := c.Get(ctx, key, pod)
		switch {
		case apierrors.IsNotFound(err):
			continue // the lock is about to be collected
		case err != nil:
			return "", fmt.Errorf("reading the pod %s, which owns the lock %s: %w", key, lock, err)
		case pod.UID == owner.UID && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			return key.String(), nil
		}
	}
	return "", nil
}

// awaitOtherOperators waits until no other operator is active in any namespace that has the driver.
func (o *operator) awaitOtherOperators(ctx context.Context) error {
	c, err := client.New(o.cfg, client.Options{})
	if err != nil {
		return err
	}
	active := func(ctx context.Context) (bool, error) {
		found, err := o.namesakes(ctx, c)
		if err != nil {
			return false, err
		}
		holder, err := o.otherOperator(ctx, c, namespacesOf(found)...)
		if holder != "" {
			klog.Infof("another operator of %s is active, in pod %s: waiting for its end", o.driver.CSIName, holder)
		}
		return holder != "", err
	}
	return wait.PollUntilContextCancel(ctx, lockPollMax, true, func(ctx context.Context) (bool, error) {
		other, err := active(ctx)
		if err != nil {
			klog.Errorf("looking for other operators of %s: %v", o.driver.CSIName, err)
		}
		return err == nil && !other, nil
	})
}

// leaveToOther says in a condition that another operator looks after the driver, until that has ended.
func (o *operator) leaveToOther(ctx context.Context, c *clients, namespace, holder string) error {
	if err := o.reportNamespace(ctx, c, operatorv1.ConditionTrue, "OtherOperatorActive", fmt.Sprintf(
		"the driver is in namespace %s, and the operator in pod %s looks after it: that holds the lock %s. "+
			"The driver is left to it until it is gone: delete its Subscription and its ClusterServiceVersion",
		namespace, holder, o.driver.Operator.Lock)); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	return runAll(ctx, []func(context.Context) error{
		func(ctx context.Context) error { return o.onlyReport(ctx, c) },
		func(ctx context.Context) error {
			defer end()
			return wait.PollUntilContextCancel(ctx, lockPollMax, false, func(ctx context.Context) (bool, error) {
				holder, err := o.otherOperator(ctx, c.objects, namespace)
				return holder == "", err
			})
		},
	})
}
