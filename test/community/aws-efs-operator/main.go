// Command aws-efs-operator stands for the program in the pod of the community operator, whose objects package community
// creates. It only waits for a signal.
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
