package scale

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// unlimited is a limit on requests per second that no controller reaches. With it, a benchmark measures how the
// operator keeps up with the binder. Without it, the binder mostly waits for its budget.
const unlimited = 100_000

// BenchmarkTenThousand creates SharedVolumes until there are a hundred, a thousand and ten thousand, and measures the
// time for each. With all of them, and as many other objects as in a large cluster, it measures the operator's
// memory, its restart, and its memory when a tenant attacks it.
func BenchmarkTenThousand(b *testing.B) {
	a := newArena(b, unlimited)
	crowd := a.team()
	grown := b.Run("growth", func(b *testing.B) { a.in(b).growth(crowd) })
	if grown {
		b.Run("standing", func(b *testing.B) { a.in(b).standing() })
		b.Run("attacked", func(b *testing.B) { a.in(b).attacked() })
	}
}

// in returns the arena for a sub-benchmark.
func (a *arena) in(b *testing.B) *arena {
	part := *a
	part.B = b
	return &part
}

// growth reports the time per SharedVolume when a namespace has few and many, created at once. It leaves all of them,
// and the operator.
func (a *arena) growth(namespace string) {
	a.Helper()
	small, medium, large := few(100, 20), few(1000, 200), few(10_000, 2000)
	each, made := map[int][]float64{}, 0
	a.warmUp()
	for _, step := range []struct{ scale, upTo int }{{small, small}, {small, 2 * small}, {small, 3 * small}, {medium, medium}, {large, large}} {
		n := step.upTo - made
		took := a.untilBound(namespace, n, func() {
			a.atOnce(n, func(ctx context.Context, i int) error { return a.share(ctx, namespace, made+i) })
		})
		made = step.upTo
		each[step.scale] = append(each[step.scale], took.Seconds()*1000/float64(n))
		a.say("%d bound in %.2f s, so there are %d", n, took.Seconds(), made)
		a.awaitIdle(a.process())
	}
	for _, scale := range []int{small, medium, large} {
		a.ReportMetric(median(each[scale]), fmt.Sprintf("ms/object-up-to-%d", scale))
	}
	a.ReportMetric(median(each[large])/median(each[small]), "x-small")
	a.ReportMetric(slices.Max(each[small])/slices.Min(each[small]), "x-small-spread")
	a.ReportMetric(0, "ns/op")
}
