package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
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

// process is the running operator, as the kernel shows it.
type process struct{ folder string }

// process returns the operator's process, once it runs.
func (a *arena) process() process {
	a.Helper()
	var found process
	a.await("the operator's process", func(context.Context) error {
		programs, err := filepath.Glob("/proc/[0-9]*/exe")
		if err != nil {
			return err
		}
		for _, link := range programs {
			if program, err := os.Readlink(link); err == nil && program == a.program {
				found = process{filepath.Dir(link)}
				return nil
			}
		}
		return errors.New("there is none")
	})
	return found
}

// memory returns the resident memory of a process and its maximum so far, in MiB.
func (a *arena) memory(p process) (now, peak float64) {
	a.Helper()
	status, err := os.ReadFile(filepath.Join(p.folder, "status"))
	if err != nil {
		a.Fatal(err)
	}
	in := map[string]float64{}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			if in[fields[0]], err = strconv.ParseFloat(fields[1], 64); err != nil {
				a.Fatal(err)
			}
		}
	}
	return in["VmRSS:"] / 1024, in["VmHWM:"] / 1024
}

// worked returns the CPU time of the process, in ticks of 10 ms.
func (p process) worked() (ticks int, err error) {
	stat, err := os.ReadFile(filepath.Join(p.folder, "stat"))
	if err != nil {
		return 0, err
	}
	// The third field follows the program's name, which may contain anything. The CPU times are fields 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[14-3 : 16-3] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks, nil
}

// awaitIdle waits until the operator has nothing to do except periodic work.
func (a *arena) awaitIdle(p process) {
	a.Helper()
	const span = 3 * time.Second
	before, since := -1, time.Now()
	a.await("the operator to be idle", func(context.Context) error {
		if time.Since(since) < span {
			return errors.New("the last measurement was just now")
		}
		now, err := p.worked()
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
