// Command opm is the program in the base image of catalogs: opm's commands and, as grpc_health_probe, OLM's probe of catalogs. It is
// berth without the rest: a catalog's pod has little memory, and each probe needs some.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/berth-csi/berth/cmd/internal/opm"
	"github.com/berth-csi/berth/cmd/internal/probe"
	"github.com/berth-csi/berth/internal/findings/escape"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	if filepath.Base(os.Args[0]) == probe.Name {
		return probe.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	root := opm.New()
	root.SetErr(escape.Messages(os.Stderr))
	return opm.Execute(ctx, root, os.Args[1:])
}
