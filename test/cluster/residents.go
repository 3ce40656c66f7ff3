package cluster

import (
	"context"
	"fmt"
	"sync"
)

// residents are the parts of a cluster that are no programs of their own but run inside the keeper.
type residents struct {
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

func newResidents() *residents {
	life, end := context.WithCancel(context.Background())
	return &residents{life: life, end: end}
}

// run lets a part live until stop. While ctx lives - a cluster's start - a part that ends is told to
// died; later it is only noted.
func (r *residents) run(ctx context.Context, name string, part func(context.Context) error, died func(error)) {
	r.running.Go(func() {
		err := part(r.life)
		if r.life.Err() != nil {
			return
		}
		note("%s ended: %v", name, err)
		if ctx.Err() == nil {
			died(fmt.Errorf("%s ended while the cluster started: %w", name, err))
		}
	})
}

// stop ends all parts and waits until they ended.
func (r *residents) stop() {
	r.end()
	r.running.Wait()
}
