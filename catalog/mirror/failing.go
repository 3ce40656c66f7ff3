package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-csi/berth/internal/oci"
)

// inspectionTime is the time limit for the manifests of one image.
const inspectionTime = 10 * time.Minute

// maxStrikes is the number of consecutive failed images after which a registry is given up.
const maxStrikes = 3

// An image is slow if it takes longer than shortTime plus one second for each slowRate bytes.
const (
	shortTime = 10 * time.Second
	slowRate  = 4 << 10
)

// strikes counts, for each registry, the consecutive images that failed for a reason that may affect the registry's other images.
type strikes struct {
	mu     sync.Mutex
	byHost map[string]int
}

// slowness limits the total extra time of all slow images: otherwise, a catalog with many images that each take a little less than their
// time limit could delay a mirror for days.
type slowness struct {
	mu sync.Mutex
	// spent is the extra time of all slow images so far, beyond the time that makes an image slow. most is the limit for spent.
	spent, most time.Duration
}

// each calls do for an image, with a time limit, unless the image's registry was given up. size includes parts that are copied with
// another image, because this image waits for them.
func (s *strikes) each(ctx context.Context, reference string, size int64, slow *slowness, limit time.Duration, do func(context.Context) error) error {
	host := hostOf(reference)
	if s.count(host, 0) >= maxStrikes {
		return &outError{host}
	}
	short := shortTime + time.Duration(size/slowRate)*time.Second
	why := ""
	if spent := slow.add(0); short+max(0, slow.most-spent) < limit {
		limit, why = short+max(0, slow.most-spent), fmt.Sprintf(", and other slow images have taken %s", spent.Round(time.Second))
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	err := do(within)
	slow.add(max(0, time.Since(begin)-short))
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		err = &lateError{fmt.Errorf("it took longer than %s%s: %w", limit.Round(time.Second), why, err)}
	}
	switch {
	case err == nil:
		s.count(host, -maxStrikes)
	case isOfImage(err) && !oci.IsAbsent(err):
		s.count(host, 1)
	}
	return err
}

// add adds to the extra time of slow images, and returns the sum.
func (s *slowness) add(more time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += more
	return s.spent
}

// count adds to the strikes of a registry, and returns them.
func (s *strikes) count(host string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHost == nil {
		s.byHost = map[string]int{}
	}
	s.byHost[host] = max(0, s.byHost[host]+n)
	return s.byHost[host]
}

// outError is the error for an image whose registry was given up.
type outError struct{ host string }

func (e *outError) Error() string { return "registry " + e.host + " has failed" }

// lateError is an error of an image that took too long.
type lateError struct{ error }

func (e *lateError) Unwrap() error { return e.error }

// isOfImage reports whether an error is about one image, and not about the destination. If so, other images may be fine.
func isOfImage(err error) bool {
	late, out := (*lateError)(nil), (*outError)(nil)
	return oci.IsOfSource(err) || errors.As(err, &late) || errors.As(err, &out)
}
