// Command release builds Berth's artefacts from the commit that is checked out, and pushes them to a registry: images
// of the programs for each architecture, and images of bundles and catalogs that refer to them by digest. The same
// commit always gives the same digests. It needs Go and git, and no container engine. The image of the EFS driver is
// built with buildah, if it is asked for.
//
// Everything is pushed by digest first. Tags are set at the end, when everything behind them exists, so that a failed
// release leaves nothing that anybody would install. The next run pushes only the missing parts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/berth-csi/berth/internal/oci"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	registry      string
	architectures []string
	pins          string
	base          string
	efsDriver     string
	output        string
	layout        string
	key           string
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r, err := newRelease(ctx, o)
	if err != nil {
		return err
	}
	return r.close(r.run(ctx))
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.registry, "registry", "", "`PREFIX` of the repositories to push to, such as registry.example.com/team (required)")
	architectures := flags.String("architectures", strings.Join(oci.Architectures, ","), "architectures of the images")
	flags.StringVar(&o.pins, "pins", "", "YAML `FILE` with lines IMAGE: PULLSPEC for images that are elsewhere, such as in a mirror")
	flags.StringVar(&o.base, "must-gather-base", mustGatherBase, "`IMAGE` with bash, awk, sed and tar to build must-gather's image on")
	flags.StringVar(&o.efsDriver, "efs-driver", "", "YAML `FILE` that says how to build the EFS driver's image; without it, bundles name an image that others have built")
	flags.StringVar(&o.output, "output", "bin/release", "`DIR` for programs and for artifacts that are not pushed")
	flags.StringVar(&o.layout, "layout", "", "`DIR` to write all images to as well, in the OCI layout")
	flags.StringVar(&o.key, "key", "", "`FILE` or URI of the key to sign with, as cosign takes it; COSIGN_PASSWORD has its password")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.registry == "" || flags.NArg() > 0 {
		return o, errors.New("want a registry, such as make release REGISTRY=registry.example.com/team")
	}
	o.registry = strings.TrimSuffix(o.registry, "/")
	o.architectures = strings.Split(*architectures, ",")
	return o, nil
}
