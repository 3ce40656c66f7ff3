package leader

import (
	"context"
	"fmt"
	"sync"

	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

// An APIWait is the wait of the API controllers for other operators of the driver. The API controllers run beside the
// cycles; each cycle reports the wait in the status of its ClusterCSIDriver.
type APIWait struct {
	driver drivers.Driver

	mu      sync.Mutex
	message string // "" while there is no wait
	changed chan struct{}
}

// NewAPIWait returns a wait that has not begun.
func NewAPIWait(driver drivers.Driver) *APIWait {
	return &APIWait{driver: driver, changed: make(chan struct{})}
}

// set sets the message, and reports whether it has changed.
func (w *APIWait) set(message string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if message == w.message {
		return false
	}
	w.message = message
	close(w.changed)
	w.changed = make(chan struct{})
	return true
}

// get returns the message and a channel that is closed when the message changes.
func (w *APIWait) get() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.message, w.changed
}

// Until waits until no other operator holds the lock in any of the namespaces that the function namespaces returns. Administrators must
// have given these namespaces to operators of the driver.
func (w *APIWait) Until(ctx context.Context, lock *Lock, c client.Client, namespaces func(context.Context) ([]string, error)) error {
	find := func(ctx context.Context) (*Holder, error) {
		candidates, err := namespaces(ctx)
		if err != nil {
			return nil, err
		}
		return lock.OtherHolder(ctx, c, candidates)
	}
	return wait.PollUntilContextCancel(ctx, PollInterval, true, func(ctx context.Context) (bool, error) {
		other, err := find(ctx)
		switch {
		case err != nil:
			klog.ErrorS(err, "Failed to look for other operators", "driver", w.driver.CSIName)
			return false, nil
		case other == nil:
			w.set("")
			return true, nil
		}
		if w.set(fmt.Sprintf("this operator leaves the driver's APIs to another operator, whose pod %s holds the lock %s, until that operator is gone: "+
			"delete the other operator's Subscription and ClusterServiceVersion", other.Pod, other.Lock.Name)) {
			klog.InfoS("Waiting: another operator of the driver is active", "driver", w.driver.CSIName, "pod", other.Pod, "lock", other.Lock)
		}
		return false, nil
	})
}

// Report reports the wait in a condition, until ctx ends.
func (w *APIWait) Report(ctx context.Context, reporter *clustercsidriver.Reporter) error {
	for reported := ""; ; {
		message, changed := w.get()
		if message != reported {
			conditions := applyoperatorv1.OperatorStatus()
			if message != "" {
				conditions = conditions.WithConditions(waitCondition(w.driver, message))
			}
			err := reporter.ApplyOperatorStatus(ctx, w.driver.ConditionPrefix+"OperatorLock", conditions)
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				return err
			}
			reported = message
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
