// Command opm is opm's face of Berth without the rest: the program of the base image of catalogs. It needs less memory than berth, of
// which a catalog's pod has little.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-csi/berth/cmd/internal/opm"
	"github.com/berth-csi/berth/findings/escape"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := opm.New()
	root.SetErr(escape.Messages(os.Stderr))
	os.Exit(opm.Execute(ctx, root, os.Args[1:]))
}
