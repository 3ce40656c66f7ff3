package cluster

import "context"

// Until waits until check returns nil or ctx ends; then the error tells what it waited for and the
// last that check had to say.
func Until(ctx context.Context, what string, check func(context.Context) error) error {
	return await(ctx, what, check)
}
