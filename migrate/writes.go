package migrate

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeLimit is how long a write that is under way may take after its context has ended.
const writeLimit = 20 * time.Second

// Writer returns a client that completes a write even if its context ends meanwhile, for example by a signal: otherwise nobody would know
// whether the API server has carried it out. Once the context has ended, the client starts no more writes.
func (c Cluster) Writer() client.Client { return writer{c.Client} }

type writer struct{ client.Client }

func (w writer) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return finish(ctx, func(ctx context.Context) error { return w.Client.Create(ctx, object, options...) })
}

func (w writer) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return finish(ctx, func(ctx context.Context) error { return w.Client.Update(ctx, object, options...) })
}

func (w writer) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return finish(ctx, func(ctx context.Context) error { return w.Client.Patch(ctx, object, patch, options...) })
}

func (w writer) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return finish(ctx, func(ctx context.Context) error { return w.Client.Delete(ctx, object, options...) })
}

// finish calls write with a context that ends writeLimit after ctx. It does not call write if ctx has ended already.
func finish(ctx context.Context, write func(context.Context) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(writeLimit, cancel) })()
	return write(writing)
}
