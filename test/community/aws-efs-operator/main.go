// Command aws-efs-operator replaces the community operator's program. Package community creates the operator's objects.
// It only waits for a signal.
package main

import (
	"context"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	<-ctx.Done()
}
