package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
	"github.com/operator-framework/operator-lib/leader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/placement"
)

// lockPollMax bounds how long a new operator pod goes on waiting after the old one has left.
const lockPollMax = 2 * time.Second

// becomeLeader waits until this pod holds the leader-for-life lock: a ConfigMap that the pod owns,
// so that it is free again only when the pod is gone. Earlier operators of the same driver use the
// same lock; thus an old and a new one are never active together, whatever a Deployment's rollout does.
//
// Outside a cluster there is no pod to own the lock; there a developer looks after it.
//
// A wait for the lock does not show in the pod's readiness, as nothing waits for that, but in the log, a metric and
// a condition.
func (o *operator) becomeLeader(ctx context.Context) error {
	c, err := client.New(o.cfg, client.Options{})
	if err != nil {
		return err
	}
	lock := o.driver.Operator.Lock
	waiting, done := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		o.tellOfOwnLock(waiting, c)
	}()
	defer func() {
		done()
		<-told
		waitingForLock.WithLabelValues(o.driver.CSIName, o.namespace).Set(0)
	}()
	locking := lockClient{c, client.ObjectKey{Namespace: o.namespace, Name: lock}, o.driver.Operator.Name}
	for {
		err := leader.Become(ctx, lock, leader.WithClient(locking), func(c *leader.Config) error {
			c.MaxBackoffInterval = lockPollMax
			return nil
		})
		switch {
		case errors.Is(err, leader.ErrNoNamespace):
			klog.Warningf("not running in a pod: going on without the lock %s", lock)
			return nil
		case !errors.Is(err, errLeaderOnLostNode):
			return err
		}
		klog.Infof("waiting for the lock %s: %v", locking.lock, err)
		select {
		case <-time.After(lockPollMax):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tellOfOwnLock tells of a wait for the lock in the operator's own namespace until ctx ends. The operator that holds
// it may be of the same version, and write the ClusterCSIDriver's status all the time: it removes the condition,
// which comes back then as long as the wait lasts.
func (o *operator) tellOfOwnLock(ctx context.Context, c client.Client) {
	since := metav1.Now()
	for {
		select {
		case <-time.After(tellOfLockEvery):
		case <-ctx.Done():
			return
		}
		waitingForLock.WithLabelValues(o.driver.CSIName, o.namespace).Set(1)
		message := o.ownLockMessage(ctx, c)
		klog.Infof("waiting for the lock: %s", message)
		if err := o.applyLockCondition(ctx, message, since); err != nil && ctx.Err() == nil {
			klog.Errorf("telling in the status of ClusterCSIDriver %s of the wait for the lock: %v", o.driver.CSIName, err)
		}
	}
}

// tellOfLockEvery is how often a wait for the lock in the own namespace is told of.
const tellOfLockEvery = 10 * time.Second

// ownLockMessage says who holds the lock in the operator's own namespace.
func (o *operator) ownLockMessage(ctx context.Context, c client.Client) string {
	key := client.ObjectKey{Namespace: o.namespace, Name: o.driver.Operator.Lock}
	holder, err := lockHolder(ctx, c, key)
	switch {
	case err != nil:
		return fmt.Sprintf("the operator in namespace %s waits for the lock, ConfigMap %s: %v", o.namespace, key, err)
	case holder == "":
		return fmt.Sprintf("the operator in namespace %s waits for the lock, ConfigMap %s, which belongs to no pod that runs. "+
			"If it does not go with its owner, delete it", o.namespace, key)
	}
	return fmt.Sprintf("the operator in namespace %s waits for the lock, ConfigMap %s, which pod %s holds. "+
		"If that is of another operator, delete its Subscription and its ClusterServiceVersion", o.namespace, key, holder)
}

// lockCondition is the type of the condition that tells of a wait for a lock.
func (o *operator) lockCondition() string {
	return o.driver.ConditionPrefix + "OperatorLock" + operatorv1.OperatorStatusTypeDegraded
}

// applyLockCondition writes the condition into the ClusterCSIDriver, if there is one, and nothing else.
func (o *operator) applyLockCondition(ctx context.Context, message string, since metav1.Time) error {
	custom := applyoperatorv1.ClusterCSIDriver(o.driver.CSIName).WithStatus(applyoperatorv1.ClusterCSIDriverStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(o.lockCondition()).WithStatus(operatorv1.ConditionTrue).
			WithReason("WaitingForLock").WithMessage(message).WithLastTransitionTime(since)))
	c, err := operatorclient.NewForConfig(o.cfg)
	if err != nil {
		return err
	}
	_, err = c.OperatorV1().ClusterCSIDrivers().ApplyStatus(ctx, custom, metav1.ApplyOptions{FieldManager: o.driver.Operator.Name + "-lock", Force: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// holder is a pod of another operator, and the lock that it holds.
type holder struct{ pod, lock client.ObjectKey }

// otherOperator returns the holder of the lock in any of the namespaces but the own one; nil where there is none. The
// lock excludes only operators of one namespace, and the driver may be in another one than this operator: where the
// operator that made it runs, if it still does.
//
// The namespaces must be such as administrators gave to operators of the driver: anybody can make a lock.
func (o *operator) otherOperator(ctx context.Context, c client.Client, namespaces []string) (*holder, error) {
	for _, namespace := range namespaces {
		if namespace == o.namespace {
			continue // that lock is ours
		}
		lock := client.ObjectKey{Namespace: namespace, Name: o.driver.Operator.Lock}
		pod, err := lockHolder(ctx, c, lock)
		if err != nil {
			return nil, err
		}
		held := 0.0
		if pod != "" {
			held = 1
		}
		waitingForLock.WithLabelValues(o.driver.CSIName, namespace).Set(held)
		if pod != "" {
			return &holder{client.ObjectKey{Namespace: namespace, Name: pod}, lock}, nil
		}
	}
	return nil, nil
}

// lockHolder returns the name of the pod that holds a lock and has not ended; "" if none does.
func lockHolder(ctx context.Context, c client.Client, lock client.ObjectKey) (string, error) {
	held := &corev1.ConfigMap{}
	if err := c.Get(ctx, lock, held); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading the lock %s: %w", lock, err)
	}
	for _, owner := range held.OwnerReferences {
		// The operator may list pods, to see who uses volumes; another permission is not needed.
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(lock.Namespace), client.MatchingFields{metav1.ObjectNameField: owner.Name}); err != nil {
			return "", fmt.Errorf("reading the pod %s/%s, which owns the lock %s: %w", lock.Namespace, owner.Name, lock, err)
		}
		for _, pod := range pods.Items { // If there is none, the lock is about to be collected.
			if pod.UID == owner.UID && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				return pod.Name, nil
			}
		}
	}
	return "", nil
}

// lockWait is whose lock the companions wait for.
type lockWait struct {
	mu      sync.Mutex
	message string // "" for none
	changed chan struct{}
}

func newLockWait() *lockWait { return &lockWait{changed: make(chan struct{})} }

func (w *lockWait) set(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if message != w.message {
		w.message = message
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// get returns the message and a channel that is closed when that changes.
func (w *lockWait) get() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.message, w.changed
}

// awaitOtherOperators waits until no other operator is active in any namespace that is known to be an operator's of
// the driver, as the cluster and the ClusterCSIDriver show.
func (o *operator) awaitOtherOperators(ctx context.Context, customResource wishes) error {
	c, err := client.New(o.cfg, client.Options{})
	if err != nil {
		return err
	}
	find := func(ctx context.Context) (*holder, error) {
		observed, err := placement.Observe(ctx, c, o.driver, o.namespace, customResource.metadata())
		if err != nil {
			return nil, err
		}
		return o.otherOperator(ctx, c, placement.Decide(o.driver, observed).Believed)
	}
	return wait.PollUntilContextCancel(ctx, lockPollMax, true, func(ctx context.Context) (bool, error) {
		other, err := find(ctx)
		switch {
		case err != nil:
			klog.Errorf("looking for other operators of %s: %v", o.driver.CSIName, err)
			return false, nil
		case other == nil:
			o.lockWait.set("")
			return true, nil
		}
		klog.Infof("another operator of %s is active, in pod %s: waiting for its end", o.driver.CSIName, other.pod)
		o.lockWait.set(fmt.Sprintf("what comes with the driver is left to the operator in pod %s, which holds the lock %s, until it is gone: "+
			"delete its Subscription and its ClusterServiceVersion", other.pod, other.lock.Name))
		return false, nil
	})
}

// reportLockWait tells in a condition of companions that wait, until ctx ends.
func (o *operator) reportLockWait(ctx context.Context, c *clients) error {
	for told := ""; ; {
		message, changed := o.lockWait.get()
		if message != told {
			status := applyoperatorv1.OperatorStatus()
			if message != "" {
				status = status.WithConditions(applyoperatorv1.OperatorCondition().WithType(o.lockCondition()).
					WithStatus(operatorv1.ConditionTrue).WithReason("WaitingForLock").WithMessage(message))
			}
			if err := c.customResource.ApplyOperatorStatus(ctx, o.driver.ConditionPrefix+"OperatorLock", status); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				return err
			}
			told = message
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// leaveToOther says in a condition that another operator looks after the driver, until that has ended.
func (o *operator) leaveToOther(ctx context.Context, c *clients, namespaces []string, other *holder) error {
	if err := o.reportNamespace(ctx, c, operatorv1.ConditionTrue, "OtherOperatorActive", fmt.Sprintf(
		"the operator in pod %s looks after the driver: it holds the lock %s in namespace %s. "+
			"The driver is left to it until it is gone: delete its Subscription and its ClusterServiceVersion",
		other.pod, other.lock.Name, other.lock.Namespace)); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	return runAll(ctx, []func(context.Context) error{
		func(ctx context.Context) error { return o.onlyReport(ctx, c) },
		func(ctx context.Context) error {
			defer end()
			return wait.PollUntilContextCancel(ctx, lockPollMax, false, func(ctx context.Context) (bool, error) {
				other, err := o.otherOperator(ctx, c.unguarded, namespaces)
				return other == nil, err
			})
		},
	})
}
