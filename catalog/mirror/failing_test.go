package mirror

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestSlowImagesTogether: many images, each a little faster than its limit, take the limit of one together, and images that are as
// fast as a slow line allows go on afterwards.
func TestSlowImagesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s strikes
		slow := slowness{most: time.Hour}
		takes := func(reference string, size int64, wait time.Duration) error {
			return s.each(t.Context(), reference, size, &slow, time.Hour, func(ctx context.Context) error {
				select {
				case <-time.After(wait):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		begin, refused := time.Now(), ""
		for i := range 300 {
			if err := takes(fmt.Sprintf("h%d.slow.example/image", i), 0, 59*time.Minute); err != nil {
				refused = err.Error()
			}
		}
		if took, most := time.Since(begin), time.Hour+300*shortTime+59*time.Minute; took > most || !strings.Contains(refused, "it took longer than 10s, and other slow images have taken 1h0m0s") {
			t.Errorf("they took %s, want at most %s; the last said %s", took, most, refused)
		}
		for range 10 {
			assert.NoError(t, takes("honest.example/image", 20<<20, 57*time.Minute), "an image of 20 MiB at 6 KiB a second")
		}
	})
}
