package cluster

import (
	"context"
	"fmt"
	"sync"
)

// inProcess are the components of a cluster that run inside of the keeper.
type inProcess struct {
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

func newInProcess() *inProcess {
	life, end := context.WithCancel(context.Background())
	return &inProcess{life: life, end: end}
}

// run runs a component until stop. While ctx lives (the cluster starts), it calls died if the component ends; later
// it only logs that.
func (r *inProcess) run(ctx context.Context, name string, component func(context.Context) error, died func(error)) {
	r.running.Go(func() {
		err := component(r.life)
		if r.life.Err() != nil {
			return
		}
		note("%s ended: %v", name, err)
		if ctx.Err() == nil {
			died(fmt.Errorf("%s ended while the cluster started: %w", name, err))
		}
	})
}

// stop stops all components and waits until they have ended.
func (r *inProcess) stop() {
	r.end()
	r.running.Wait()
}
