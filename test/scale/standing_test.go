package scale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/test/journey"
)

// standing restarts the operator among many objects, and reports the time until it serves a new SharedVolume, its
// writes about the existing ones, and its memory before and after.
func (a *arena) standing() {
	a.Helper()
	if err := journey.InstallDriver(a.Context(), a.client, a.driver.CSIName); err != nil {
		a.Fatal(err)
	}
	a.surround(few(20_000, 1000), few(5_000, 250))
	before := a.process()
	a.awaitIdle(before)
	lived, livedPeak := a.memory(before)
	a.stop()

	namespace := a.team()
	began := time.Now()
	took := a.untilBound(namespace, 1, func() {
		if err := a.share(a.Context(), namespace, 0); err != nil {
			a.Fatal(err)
		}
		a.start()
	})
	a.say("serves again after %.1f s", took.Seconds())
	after := a.process()
	a.awaitIdle(after)
	started, startedPeak := a.memory(after)
	writes := -1 // its volume, which has no namespace
	for _, request := range a.requests(began) {
		if isWrite(request) && request.Namespace != namespace {
			writes++
		}
	}
	a.ReportMetric(took.Seconds(), "s-until-ready")
	a.ReportMetric(float64(writes), "writes")
	a.ReportMetric(started, "MiB-rss")
	a.ReportMetric(startedPeak, "MiB-rss-peak")
	a.ReportMetric(lived, "MiB-rss-before")
	a.ReportMetric(livedPeak, "MiB-rss-peak-before")
	a.ReportMetric(0, "ns/op")
}

// surround creates other volumes, as many claims, and pods, which cause little work.
func (a *arena) surround(pairs, pods int) {
	a.Helper()
	a.say("creating %d other volumes and claims, and %d pods", pairs, pods)
	const spread = 20 // namespaces
	var namespaces []string
	for range spread {
		namespaces = append(namespaces, a.Namespace(a))
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	a.atOnce(pairs, func(ctx context.Context, i int) error {
		err := a.client.Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%d", i)},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes:      modes,
				Capacity:         size,
				StorageClassName: "other",
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: "ebs.csi.aws.com", VolumeHandle: fmt.Sprintf("vol-%017x", i)}},
			},
		})
		if err != nil {
			return err
		}
		return a.client.Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[i%spread], Name: fmt.Sprintf("other-%d", i)},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      modes,
				Resources:        corev1.VolumeResourceRequirements{Requests: size},
				StorageClassName: new("other"),
				VolumeName:       "not-there-yet", // otherwise the binder would keep looking for one
			},
		})
	})
	a.atOnce(pods, func(ctx context.Context, i int) error {
		return a.client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[i%spread], Name: fmt.Sprintf("other-%d", i)},
			Spec: corev1.PodSpec{
				SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}},
				Containers:      []corev1.Container{{Name: "main", Image: "example.com/other"}},
			},
		})
	})
	a.say("waiting for the binder to examine all of them")
	a.untilBound(namespaces[0], 1, func() {
		if err := a.makePair(a.Context(), namespaces[0], "last", "fs-01::fsap-01"); err != nil {
			a.Fatal(err)
		}
	})
}
