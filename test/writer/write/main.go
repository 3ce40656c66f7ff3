// Command write writes to a file until it is told to end: see package writer.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-csi/berth/test/writer"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "write: want the path of a new file")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := writer.Run(ctx, os.Args[1], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "write: %v\n", err)
		os.Exit(1)
	}
}
