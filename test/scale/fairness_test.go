package scale

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BenchmarkFairness creates ten thousand SharedVolumes in one namespace, and measures the time until the claim of a
// SharedVolume in another namespace is Bound: alone, and while the ten thousand are not.
func BenchmarkFairness(b *testing.B) {
	a := newArena(b, 0)
	crowd, other, n, made := a.team(), a.team(), few(10_000, 500), 0
	pause := time.Duration(few(1000, 100)) * time.Millisecond // so that one does not overlap the last
	one := func() float64 {
		took := a.untilBound(other, 1, func() {
			require.NoError(b, a.share(b.Context(), other, made))
		})
		made++
		time.Sleep(pause)
		return float64(took.Microseconds()) / 1000
	}
	several := func() (times []float64) {
		for range few(31, 15) {
			times = append(times, one())
		}
		return times
	}

	a.start()
	one() // opens connections
	time.Sleep(budgetTime)
	alone := several()
	a.atOnce(n, func(ctx context.Context, i int) error { return a.share(ctx, crowd, i) })
	a.say("%d are created, and %d not bound yet", n, a.unbound(crowd, n))
	among := several()
	left := a.unbound(crowd, n)
	a.say("%d are not bound yet", left)
	assert.NotZero(b, left, "the crowd was bound too early for a measurement")
	b.ReportMetric(median(alone), "ms-alone")
	b.ReportMetric(median(among), "ms")
	b.ReportMetric(median(among)/median(alone), "x-alone")
	b.ReportMetric(0, "ns/op")
}

// unbound returns how many of n claims of a namespace are missing or not Bound.
func (a *arena) unbound(namespace string, n int) int {
	a.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := a.client.List(a.Context(), &list, client.InNamespace(namespace)); err != nil {
		a.Fatal(err)
	}
	for _, claim := range list.Items {
		if claim.Status.Phase == corev1.ClaimBound {
			n--
		}
	}
	return n
}
