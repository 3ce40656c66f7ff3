// Package leader makes sure that only one operator of a driver is active, with the leader-for-life lock that all
// operators of the driver use.
package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
	"github.com/operator-framework/operator-lib/leader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/lock"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/operator/transport"
)

const (
	// PollInterval bounds how long a new operator waits after the old one is gone.
	PollInterval = 2 * time.Second
	// reportInterval is how often the operator reports that it waits for the lock in its own namespace.
	reportInterval = 10 * time.Second
)

// A Lock is the leader-for-life lock of a driver's operators: a ConfigMap in an operator's namespace, owned by the pod
// that holds it, so that it is free only after the pod has ended. Earlier operators of the driver use the same lock.
// Therefore an old and a new operator are never active together, however their Deployments roll out.
type Lock struct {
	driver    drivers.Driver
	namespace string // the operator's
	cfg       *rest.Config
	metrics   *metrics.Metrics
}

// NewLock returns the lock for an operator in a namespace.
func NewLock(driver drivers.Driver, namespace string, cfg *rest.Config, metrics *metrics.Metrics) *Lock {
	return &Lock{driver: driver, namespace: namespace, cfg: cfg, metrics: metrics}
}

// Acquire waits until this pod holds the lock. A wait shows in the log, in a metric and, while no operator is active, in
// a condition, but not in the pod's readiness: in a rolling update, the pod that holds the lock is deleted only after
// the new one is ready. Outside of a cluster no pod can own the lock, and Acquire returns without it.
func (l *Lock) Acquire(ctx context.Context) error {
	c, err := client.New(l.cfg, client.Options{})
	if err != nil {
		return err
	}
	waiting, acquired := context.WithCancel(ctx)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		l.reportWait(waiting, c)
	}()
	defer func() {
		acquired()
		<-reported
		l.metrics.WaitingForLock.WithLabelValues(l.driver.CSIName, l.namespace).Set(0)
	}()
	key := l.keyIn(l.namespace)
	for {
		err := leader.Become(ctx, key.Name, leader.WithClient(lockClient{c, key, l.driver.Operator.Name}), func(c *leader.Config) error {
			c.MaxBackoffInterval = PollInterval
			return nil
		})
		switch {
		case errors.Is(err, leader.ErrNoNamespace):
			klog.InfoS("Not running in a pod: continuing without the lock", "lock", key)
			return nil
		case !errors.Is(err, errLeaderOnNotReadyNode):
			return err
		}
		klog.InfoS("Waiting for the lock", "lock", key, "reason", err)
		select {
		case <-time.After(PollInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reportWait reports that this operator waits for the lock in its own namespace, until ctx ends.
func (l *Lock) reportWait(ctx context.Context, c client.Client) {
	began := metav1.Now()
	for {
		select {
		case <-time.After(reportInterval):
		case <-ctx.Done():
			return
		}
		if err := l.report(ctx, c, began); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to report the wait for the lock", "clusterCSIDriver", l.driver.CSIName)
		}
	}
}

// report reports once that this operator waits for the lock in its own namespace. It writes the condition only while no
// operator is active: an active one removes the condition with each status that it writes.
func (l *Lock) report(ctx context.Context, c client.Client, began metav1.Time) error {
	l.metrics.WaitingForLock.WithLabelValues(l.driver.CSIName, l.namespace).Set(1)
	key := l.keyIn(l.namespace)
	holder, err := lock.Holder(ctx, c, key)
	if err != nil {
		return err
	}
	wait := waitFor(key, holder, began)
	klog.InfoS("Waiting for the lock", "lock", key, "message", wait.message)
	if wait.active && holder.Spec.ServiceAccountName == l.driver.Operator.Name {
		return nil
	}
	if wait.active { // whoever may write ConfigMaps here can name any pod
		wait.message += fmt.Sprintf(". Its service account is %q, but an operator of the driver has %q: if it is no operator, delete the ConfigMap",
			holder.Spec.ServiceAccountName, l.driver.Operator.Name)
	}
	return l.applyCondition(ctx, wait.message, wait.since)
}

// A lockWait is an operator's wait for the lock in its own namespace.
type lockWait struct {
	message string
	// active says that the holder is an active operator, as far as the cluster shows.
	active bool
	// since is when active last changed. It is the same for all operators that wait for one holder. Otherwise they would replace each
	// other's condition forever.
	since metav1.Time
}

// waitFor describes the wait for a lock. holder is nil if no pod holds it. began is when this operator began to wait.
func waitFor(key client.ObjectKey, holder *corev1.Pod, began metav1.Time) lockWait {
	waits := fmt.Sprintf("the operator in namespace %s waits for the lock, ConfigMap %s", key.Namespace, key)
	if holder == nil {
		return lockWait{message: waits + ", which belongs to no pod that runs. If it is not garbage-collected with its owner, delete it", since: began}
	}
	ready := corev1.PodCondition{LastTransitionTime: holder.CreationTimestamp}
	for _, condition := range holder.Status.Conditions {
		if condition.Type == corev1.PodReady {
			ready = condition
		}
	}
	wait := lockWait{active: ready.Status == corev1.ConditionTrue, since: ready.LastTransitionTime}
	held := fmt.Sprintf("%s, which pod %s on node %s holds", waits, holder.Name, cmp.Or(holder.Spec.NodeName, "<none>"))
	switch {
	case holder.DeletionTimestamp != nil:
		wait.message = fmt.Sprintf("%s. That pod is being deleted, and its node has not ended it. Its credentials expire at %s, and then this operator takes over. "+
			"To let it take over at once, make sure that the node is off, and run %s",
			held, holder.DeletionTimestamp.Add(lock.TokenExpiry).UTC().Format(time.RFC3339), escape.Command("oc -n %s delete pod %s --force --grace-period=0", key.Namespace, holder.Name))
	case wait.active:
		wait.message = held + ". If that is a pod of another operator, delete its Subscription and its ClusterServiceVersion"
	default:
		wait.message = fmt.Sprintf("%s. That pod is not ready. If its node is lost, Kubernetes deletes the pod five minutes later; otherwise find out what is wrong with it, "+
			"or run %s", held, escape.Command("oc -n %s delete pod %s", key.Namespace, holder.Name))
	}
	return wait
}

// applyCondition writes the condition of the wait to the ClusterCSIDriver, if it exists, and nothing else.
func (l *Lock) applyCondition(ctx context.Context, message string, since metav1.Time) error {
	custom := applyoperatorv1.ClusterCSIDriver(l.driver.CSIName).WithStatus(applyoperatorv1.ClusterCSIDriverStatus().WithConditions(
		waitCondition(l.driver, message).WithLastTransitionTime(since)))
	c, err := operatorclient.NewForConfig(l.cfg)
	if err != nil {
		return err
	}
	_, err = c.OperatorV1().ClusterCSIDrivers().ApplyStatus(ctx, custom, metav1.ApplyOptions{FieldManager: l.driver.Operator.Name + "-lock", Force: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func waitCondition(driver drivers.Driver, message string) *applyoperatorv1.OperatorConditionApplyConfiguration {
	return applyoperatorv1.OperatorCondition().WithType(driver.ConditionPrefix + "OperatorLock" + operatorv1.OperatorStatusTypeDegraded).
		WithStatus(operatorv1.ConditionTrue).WithReason("WaitingForLock").WithMessage(message)
}

func (l *Lock) keyIn(namespace string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: l.driver.Operator.Lock}
}

// A Holder is a pod of another operator, and the lock that it holds.
type Holder struct{ Pod, Lock client.ObjectKey }

// OtherHolder returns the holder of the lock in any of the namespaces except the operator's own; nil if there is none.
// A lock excludes only operators in its namespace, and the driver may be in another namespace, if an operator there
// installed it.
//
// Administrators must have given these namespaces to operators of the driver, because any tenant can create a lock.
func (l *Lock) OtherHolder(ctx context.Context, c client.Client, namespaces []string) (*Holder, error) {
	for _, namespace := range namespaces {
		if namespace == l.namespace {
			continue // this operator holds that lock
		}
		key := l.keyIn(namespace)
		pod, err := lock.Holder(ctx, c, key) // it lists pods, which the operator may do anyway
		if err != nil {
			return nil, err
		}
		held := 0.0
		if pod != nil {
			held = 1
		}
		l.metrics.WaitingForLock.WithLabelValues(l.driver.CSIName, namespace).Set(held)
		if pod != nil {
			return &Holder{client.ObjectKeyFromObject(pod), key}, nil
		}
	}
	return nil, nil
}

// A lockClient is the client for operator-lib's leader election. It writes only the lock, so RBAC rules can be limited
// to the lock's name. OLM copies permissions in the operator's namespace to all namespaces, so a permission to delete
// an ended operator's pod would be a permission to delete any pod.
type lockClient struct {
	client.Client
	key          client.ObjectKey // of the lock
	fieldManager string
}

// errLeaderOnNotReadyNode says that the pod that holds the lock is on a node that is not ready, and may still run.
var errLeaderOnNotReadyNode = errors.New("the pod that holds the lock is on a node that is not ready, and may still run")

// Create creates the lock. It fails if the lock exists.
func (c lockClient) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	created := &unstructured.Unstructured{Object: content}
	created.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	created.SetResourceVersion(transport.CreateOnly)
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(created), client.ForceOwnership, client.FieldOwner(c.fieldManager))
	if apierrors.IsConflict(err) {
		return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), created.GetName())
	}
	return err
}

// Get reads an object. It presents each ended pod as evicted, because operator-lib frees the lock only of evicted and
// preempted pods, and waits for the deletion of other ended pods.
func (c lockClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if pod, isPod := object.(*corev1.Pod); isPod && lock.Ended(pod, time.Now()) {
		pod.Status.Phase, pod.Status.Reason, pod.DeletionTimestamp = corev1.PodFailed, "Evicted", nil
	}
	return nil
}

// Delete is called when operator-lib wants to delete the pod that holds the lock. It deletes the lock instead, if that
// pod has ended. Otherwise the pod is on a node that is not ready, where it may still be active, and Delete fails.
func (c lockClient) Delete(ctx context.Context, object client.Object, _ ...client.DeleteOption) error {
	if pod, isPod := object.(*corev1.Pod); isPod && lock.Ended(pod, time.Now()) {
		return c.deleteLockOf(ctx, pod)
	}
	return errLeaderOnNotReadyNode
}

func (c lockClient) deleteLockOf(ctx context.Context, pod *corev1.Pod) error {
	held := &corev1.ConfigMap{}
	if err := c.Get(ctx, c.key, held); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !slices.ContainsFunc(held.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == pod.UID }) {
		return nil
	}
	if err := c.Client.Delete(ctx, held, client.Preconditions{UID: &held.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the lock %s of pod %s, which has ended: %w", c.key, pod.Name, err)
	}
	klog.V(2).InfoS("Deleted the lock of a pod that has ended", "lock", c.key, "pod", klog.KObj(pod))
	return nil
}
