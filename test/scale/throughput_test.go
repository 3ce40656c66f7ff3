package scale

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// budgetTime is how long a controller must be at rest until it may make as many requests at once as ever.
const budgetTime = 3 * time.Second

// BenchmarkThroughput has SharedVolumes created at once, and takes the time until all their claims are
// Bound: with the operator, and with a bare client that does what must be done and no more. The same
// binder serves both, with OpenShift's limit on its requests.
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

// bareClient makes n SharedVolumes and all that they are made into, with the least of writes, and
// returns how long it takes until all claims are Bound. It leaves nothing of them.
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

// make makes one SharedVolume, its claim and its volume, and says at once that it is Ready, which the
// operator may say only once it is true. So it makes three writes where the operator makes four, and
// waits for nothing between them.
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

// makePair makes a claim and a volume in the order that the binder settles with the fewest writes.
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
			StorageClassName: ptr.To(""),
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

// round is what the operator was given to do at once.
type round struct {
	namespace string
	n         int // SharedVolumes
	began     time.Time
	time      time.Duration // until all claims were Bound
}

// operator has n SharedVolumes created at once, once the operator runs. It leaves both.
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

// warmUp starts the operator and has it serve one SharedVolume, so that its caches and connections are
// there.
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

// cost is what a round took of the API server.
type cost struct {
	writesIn, writesOut float64 // for each SharedVolume, until Ready and until gone
	lists               int     // of all that SharedVolumes are made of, after the operator's start
}

// finish deletes a round's SharedVolumes, ends the operator, and returns what that took.
func (a *arena) finish(r round) cost {
	a.Helper()
	process := a.process()
	a.awaitIdle(process)
	ready := time.Now()
	gone := a.remove(r.namespace, sharedVolumes)
	a.say("%d gone in %.2f s", r.n, gone.Seconds())
	a.awaitIdle(process)
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
