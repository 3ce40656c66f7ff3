package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/process"
	"github.com/berth-csi/berth/test/journey"
)

// BenchmarkOperator measures the operator of each driver as OLM runs it, from its bundle and with the bundle's
// permissions.
//
//   - install: the seconds from the creation of the ClusterCSIDriver until all objects of the driver exist, also as a
//     multiple of the time of a client that only creates them, one after the other or all at once.
//   - settled: once a driver is installed, the operator's resident memory, now and at most, and its requests to the API
//     server.
func BenchmarkOperator(b *testing.B) {
	for _, driver := range registry.Packaged() {
		b.Run(driver.Name, func(b *testing.B) {
			w := newEnvironment(b, driver, cluster.Options{Durable: true})
			w.serveCatalog()
			w.subscribe(nil)
			w.checkOperatorProcess()
			b.Run("install", func(b *testing.B) { w.with(b).benchmarkInstall(b) })
			b.Run("settled", func(b *testing.B) { w.with(b).benchmarkSettled(b) })
		})
	}
}

// with returns the same environment for another benchmark.
func (w *environment) with(b *testing.B) *environment {
	other := *w
	other.t = b
	return &other
}

func (w *environment) benchmarkInstall(b *testing.B) {
	var installed, oneByOne, atOnce time.Duration
	for b.Loop() {
		oneByOne += w.createObjects(1)
		w.deleteObjects()
		atOnce += w.createObjects(len(w.driverObjects()))
		w.deleteObjects()
		w.step(func(ctx context.Context, c client.Client) error {
			return journey.InstallDriver(ctx, c, w.driver.CSIName)
		})
		installed += w.installTime()
		w.uninstall()
	}
	b.ReportMetric(installed.Seconds()/float64(b.N), "s-install")
	b.ReportMetric(installed.Seconds()/oneByOne.Seconds(), "x-one-by-one")
	b.ReportMetric(installed.Seconds()/atOnce.Seconds(), "x-at-once")
	b.ReportMetric(0, "ns/op") // of the whole loop, which says nothing
}

// createObjects creates the driver's objects as the administrator, some of them at a time, and returns
// how long that took.
func (w *environment) createObjects(atATime int) time.Duration {
	w.t.Helper()
	objects := w.driverObjects()
	creating := errgroup.Group{}
	creating.SetLimit(atATime)
	began := time.Now()
	for _, object := range objects {
		creating.Go(func() error { return w.Client().Create(w.t.Context(), object) })
	}
	require.NoError(w.t, creating.Wait())
	return time.Since(began)
}

// deleteObjects deletes the objects of createObjects, and waits until they are gone.
func (w *environment) deleteObjects() {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		var gone []client.Object
		for _, object := range w.driverObjects() {
			if err := c.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
				return err
			}
			gone = append(gone, object)
		}
		return journey.Gone(ctx, c, gone...)
	})
}

// installTime returns how long it took from the last creation of the ClusterCSIDriver until the last
// object of the driver was there, as the API server saw it.
func (w *environment) installTime() time.Duration {
	w.t.Helper()
	var asked, done time.Time
	created := 0
	for _, event := range w.Audit(w.t) {
		switch {
		case event.Verb == "create" && event.Resource == "clustercsidrivers":
			asked, created = event.Received, 0
		case event.User == w.account.User() && event.Code == 201 && event.Resource != "events" && !asked.IsZero():
			created++
			done = event.Answered
		}
	}
	// Manila's operator also writes the Secret with its driver's login.
	if want := len(w.driverObjects()); created < want {
		w.t.Fatalf("the operator created %d objects, want at least %d", created, want)
	}
	return done.Sub(asked)
}

// uninstall deletes the ClusterCSIDriver and waits until it, and with it the driver, is gone.
func (w *environment) uninstall() {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
		if err := c.Delete(ctx, custom); err != nil {
			return err
		}
		return journey.Gone(ctx, c, custom)
	})
}

const (
	// quiet is how long an operator writes nothing before it counts as settled.
	quiet = 15 * time.Second
	// observed is how long a settled operator is observed. An action of every minute shows twice.
	observed = 2 * time.Minute
)

func (w *environment) benchmarkSettled(b *testing.B) {
	w.step(func(ctx context.Context, c client.Client) error {
		return journey.InstallDriver(ctx, c, w.driver.CSIName)
	})
	w.awaitQuiet()
	var requests, writes int
	for b.Loop() {
		since := time.Now()
		time.Sleep(observed)
		for _, event := range w.requestsSince(since) {
			requests++
			if isWrite(event) {
				writes++
			}
		}
	}
	minutes := observed.Minutes() * float64(b.N)
	b.ReportMetric(float64(requests)/minutes, "requests/min")
	b.ReportMetric(float64(writes)/minutes, "writes/min")
	operator, err := process.Find(w.program, "")
	require.NoError(b, err)
	resident, peak, err := operator.Memory()
	require.NoError(b, err)
	anonymous, err := operator.Anonymous()
	require.NoError(b, err)
	b.ReportMetric(resident, "MiB-rss")
	b.ReportMetric(peak, "MiB-rss-peak")
	b.ReportMetric(anonymous, "MiB-anonymous")
	b.ReportMetric(0, "ns/op")
	w.uninstall()
}

func (w *environment) awaitQuiet() {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the operator to settle", func(context.Context) error {
		if i := slices.IndexFunc(w.requestsSince(time.Now().Add(-quiet)), isWrite); i >= 0 {
			return fmt.Errorf("it has written within %s", quiet)
		}
		return nil
	})
}

// requestsSince returns the operator's requests since a moment.
func (w *environment) requestsSince(since time.Time) []cluster.AuditEvent {
	w.t.Helper()
	return slices.DeleteFunc(w.requests(), func(event cluster.AuditEvent) bool { return event.Received.Before(since) })
}

func isWrite(event cluster.AuditEvent) bool {
	return !slices.Contains([]string{"get", "list", "watch"}, event.Verb)
}
