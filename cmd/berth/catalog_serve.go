package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/server"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/cmd/internal/faults"
)

// catalogServe holds the flags of "berth catalog serve".
type catalogServe struct {
	address string
	metrics string
}

func newCatalogServeCommand() *cobra.Command {
	o := &catalogServe{}
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve a catalog to OLM over gRPC",
		Long: `Serve the catalog in a folder over the protocol of CatalogSources of type grpc, until this command is
interrupted. Once the folder has changed and stays unchanged for a second, the catalog is read again,
and later requests are answered from the new one over the same connections. (OLM itself asks again only
after half an hour, or when it reconnects.) A catalog that is not valid is not served: the command fails,
or keeps serving the catalog that it has.

The protocol has no encryption and no authentication, so the default address is on loopback. When
the server is ready, it prints its address to standard error; port 0 means any free port. It answers
gRPC health checks. With --metrics-address, it also serves /metrics and /healthz over HTTP.`,
		Example: `  berth catalog serve catalog

  # On any free port, with metrics
  berth catalog serve catalog --address 127.0.0.1:0 --metrics-address 127.0.0.1:8080`,
		Args:              takes("DIR"),
		ValidArgsFunction: completing(folders, nothing),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&o.address, "address", server.DefaultAddress, "`HOST:PORT` address to listen on")
	cmd.Flags().StringVar(&o.metrics, "metrics-address", "", "`HOST:PORT` address to serve /metrics and /healthz on (default none)")
	return cmd
}

func (o *catalogServe) run(cmd *cobra.Command, dir string) error {
	stop := startProgress(cmd.ErrOrStderr(), "reading "+dir)
	defer stop()
	err := server.Serve(cmd.Context(), dir, server.Options{
		Address:        o.address,
		MetricsAddress: o.metrics,
		Report: func(e server.Event) {
			stop()
			switch {
			case e.Listening:
				cmd.PrintErrf("serving %s on %s\n", dir, e.Address)
				if e.MetricsAddress != nil {
					cmd.PrintErrf("metrics on http://%s/metrics\n", e.MetricsAddress)
				}
			case e.Err != nil:
				for _, line := range faults.Lines(&faults.Listed{Head: dir + " has changed and is not valid; still serving the earlier catalog:", Faults: e.Err}) {
					cmd.PrintErrln(line)
				}
			default:
				cmd.PrintErrf("%s has changed; now serving %s\n", dir, contents(e.Catalog))
			}
		},
	})
	if err != nil {
		return cmp.Or(source.Mistaken(dir, source.WantCatalog), err)
	}
	return nil
}
