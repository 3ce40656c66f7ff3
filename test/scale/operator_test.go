package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/process"
)

// start starts the operator. It does not wait until the operator runs.
func (a *arena) start() { a.scaleOperator(1) }

// stop stops the operator and waits until it is gone, and its lock as well, so that the next one can start.
// Kubernetes collects the lock, which takes longer the more objects there are.
func (a *arena) stop() {
	a.Helper()
	began := time.Now()
	a.scaleOperator(0)
	a.await("the operator to end", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := a.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"name": a.driver.Operator.Name}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("pod %s still exists", pods.Items[0].Name)
		}
		lock := client.ObjectKey{Namespace: namespace, Name: a.driver.Operator.Lock}
		err := a.client.Get(ctx, lock, &corev1.ConfigMap{})
		if err == nil {
			return fmt.Errorf("the lock %s still exists", lock)
		}
		return client.IgnoreNotFound(err)
	})
	a.say("the operator has ended and its lock is gone after %.1f s", time.Since(began).Seconds())
}

func (a *arena) scaleOperator(replicas int) {
	a.Helper()
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = namespace, a.driver.Operator.Name
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if err := a.client.Patch(a.Context(), deployment, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		a.Fatal(err)
	}
}

// user is the operator's user name.
func (a *arena) user() string {
	return "system:serviceaccount:" + namespace + ":" + a.driver.Operator.Name
}

// requests returns the operator's requests since a time about SharedVolumes and their objects.
func (a *arena) requests(since time.Time) []cluster.AuditEvent {
	a.Helper()
	var found []cluster.AuditEvent
	for _, event := range a.AuditOf(a, cluster.Requests{User: a.user()}) {
		switch event.Resource {
		case "sharedvolumes", "persistentvolumeclaims", "persistentvolumes":
			if !event.Received.Before(since) {
				found = append(found, event)
			}
		}
	}
	return found
}

func isWrite(event cluster.AuditEvent) bool {
	return event.Verb != "get" && event.Verb != "list" && event.Verb != "watch"
}

// process returns the operator's process, once it runs.
func (a *arena) process() (found process.Process) {
	a.Helper()
	a.await("the operator's process", func(context.Context) (err error) {
		found, err = process.Find(a.program, "")
		return err
	})
	return found
}

// memory returns the resident memory of a process and its maximum so far, in MiB.
func (a *arena) memory(p process.Process) (now, peak float64) {
	a.Helper()
	now, peak, err := p.Memory()
	if err != nil {
		a.Fatal(err)
	}
	return now, peak
}

// awaitIdle waits until the operator has nothing to do except periodic work.
func (a *arena) awaitIdle(p process.Process) {
	a.Helper()
	const span = 3 * time.Second
	before, since := -1, time.Now()
	a.await("the operator to be idle", func(context.Context) error {
		if time.Since(since) < span {
			return errors.New("the last measurement was just now")
		}
		now, err := p.Worked()
		if err != nil {
			return err
		}
		did := now - before
		if before >= 0 && did <= int(span/(10*time.Millisecond))/50 { // 2 % of the time
			return nil
		}
		before, since = now, time.Now()
		return fmt.Errorf("it worked for %d ticks in %v", did, span)
	})
}
