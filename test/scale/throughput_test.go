package scale

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// budgetTime is how long a controller must be idle to get its full burst of requests back.
const budgetTime = 3 * time.Second

// BenchmarkThroughput creates SharedVolumes at once, and measures the time until all their claims are Bound: with the
// operator, and with a bare client that makes only the necessary requests. The same binder serves both, with
// OpenShift's limit on its requests.
func BenchmarkThroughput(b *testing.B) {
	a := newArena(b, 0)
	n := few(1000, 100)
	var floors, times, ratios, in, out []float64
	lists := 0
	for range 3 {
		floor := a.bareClient(a.Namespace(b), n)
		ours := a.operator(a.team(), n)
		did := a.finish(ours)
		floors, times = append(floors, floor.Seconds()), append(times, ours.time.Seconds())
		ratios = append(ratios, ours.time.Seconds()/floor.Seconds())
		in, out, lists = append(in, did.writesIn), append(out, did.writesOut), lists+did.lists
	}
	b.ReportMetric(median(floors), "s-floor")
	b.ReportMetric(median(times), "s")
	b.ReportMetric(median(ratios), "x-floor")
	b.ReportMetric(median(in), "writes-in/object")
	b.ReportMetric(median(out), "writes-out/object")
	b.ReportMetric(float64(lists), "lists")
	b.ReportMetric(0, "ns/op")
}

// bareClient creates n SharedVolumes and their objects with as few writes as possible, and returns the time until all
// claims are Bound. It removes all of them.
func (a *arena) bareClient(namespace string, n int) time.Duration {
	a.Helper()
	time.Sleep(budgetTime)
	took := a.untilBound(namespace, n, func() {
		a.atOnce(n, func(ctx context.Context, i int) error { return a.make(ctx, namespace, i) })
	})
	a.say("%d bound in %.2f s by a bare client", n, took.Seconds())
	a.remove(namespace, sharedVolumes, claims, volumes)
	return took
}

// make creates one SharedVolume, its claim and its volume, and sets its status to Ready at once, which the operator
// may do only when it is true. So it makes three writes instead of the operator's four, and waits for nothing between
// them.
func (a *arena) make(ctx context.Context, namespace string, i int) error {
	sv := sharedVolume(namespace, i)
	if err := a.client.Create(ctx, sv); err != nil {
		return err
	}
	if err := a.makePair(ctx, namespace, sv.Name, sv.Spec.FileSystemID+"::"+sv.Spec.AccessPointID); err != nil {
		return err
	}
	sv.Status.Phase = v1alpha1.Ready
	return a.client.Status().Update(ctx, sv)
}

// makePair creates a claim and a volume in the order that needs the fewest writes of the binder.
func (a *arena) makePair(ctx context.Context, namespace, name, handle string) error {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	labels := map[string]string{"bare-client": namespace + "." + name}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pvc-" + name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      modes,
			Resources:        corev1.VolumeResourceRequirements{Requests: size},
			Selector:         &metav1.LabelSelector{MatchLabels: labels},
			StorageClassName: new(""),
		},
	}
	if err := a.client.Create(ctx, claim); err != nil {
		return err
	}
	return a.client.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "bare-" + string(claim.UID), Labels: labels},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes,
			Capacity:    size,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: a.driver.CSIName, VolumeHandle: handle}},
		},
	})
}

// round is one measurement of the operator.
type round struct {
	namespace string
	n         int // SharedVolumes
	began     time.Time
	time      time.Duration // until all claims were Bound
}

// operator creates n SharedVolumes at once while the operator runs. It leaves both.
func (a *arena) operator(namespace string, n int) round {
	a.Helper()
	a.warmUp()
	time.Sleep(budgetTime)
	r := round{namespace: namespace, n: n, began: time.Now()}
	r.time = a.untilBound(namespace, n, func() {
		a.atOnce(n, func(ctx context.Context, i int) error { return a.share(ctx, namespace, i) })
	})
	a.say("%d bound in %.2f s", n, r.time.Seconds())
	return r
}

// warmUp starts the operator and lets it serve one SharedVolume, so that it has filled its caches and opened its
// connections.
func (a *arena) warmUp() {
	a.Helper()
	a.start()
	namespace := a.team()
	a.untilBound(namespace, 1, func() {
		if err := a.share(a.Context(), namespace, 0); err != nil {
			a.Fatal(err)
		}
	})
	a.remove(namespace, sharedVolumes)
	a.awaitIdle(a.process())
}

// cost is the load of a round on the API server.
type cost struct {
	writesIn, writesOut float64 // for each SharedVolume, until Ready and until gone
	lists               int     // of SharedVolumes and their objects, after the operator's start
}

// finish deletes a round's SharedVolumes, stops the operator, and returns the cost.
func (a *arena) finish(r round) cost {
	a.Helper()
	operator := a.process()
	a.awaitIdle(operator)
	ready := time.Now()
	gone := a.remove(r.namespace, sharedVolumes)
	a.say("%d gone in %.2f s", r.n, gone.Seconds())
	a.awaitIdle(operator)
	a.stop()

	var did cost
	for _, request := range a.requests(r.began) {
		switch {
		case request.Verb == "list":
			did.lists++
		case isWrite(request) && request.Received.Before(ready):
			did.writesIn += 1 / float64(r.n)
		case isWrite(request):
			did.writesOut += 1 / float64(r.n)
		}
	}
	return did
}
