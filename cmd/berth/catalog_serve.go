package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/server"
)

// catalogServe is the command line of "berth catalog serve".
type catalogServe struct {
	address string
	metrics string
}

func newCatalogServeCommand() *cobra.Command {
	o := &catalogServe{}
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Answer OLM from a catalog, over gRPC",
		Long: `Serve the catalog in a folder by the protocol that a CatalogSource of type grpc speaks, until this
command is interrupted. When the folder changes, and a second later has not changed again, the
catalog is read anew, and later requests are answered from that, over the same connections. (OLM
itself asks again only after half an hour, or when it connects anew.) A catalog that is not valid
is not served: the command ends, or goes on with what it has.

The protocol has no encryption and no authentication, so the default address is on loopback. When
the server is ready it prints its address on standard error; port 0 takes a free one. It answers
gRPC health checks. With --metrics-address it also answers /metrics and /healthz over HTTP.`,
		Example: `  berth catalog serve catalog

  # On any free port, with metrics
  berth catalog serve catalog --address 127.0.0.1:0 --metrics-address 127.0.0.1:8080`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&o.address, "address", server.DefaultAddress, "`HOST:PORT` to listen on")
	cmd.Flags().StringVar(&o.metrics, "metrics-address", "", "`HOST:PORT` to answer /metrics and /healthz on (default none)")
	return cmd
}

func (o *catalogServe) run(cmd *cobra.Command, dir string) error {
	return server.Serve(cmd.Context(), dir, server.Options{
		Address:        o.address,
		MetricsAddress: o.metrics,
		Report: func(e server.Event) {
			switch {
			case e.Listening:
				cmd.PrintErrf("serving %s on %s\n", dir, e.Address)
				if e.MetricsAddress != nil {
					cmd.PrintErrf("metrics on http://%s/metrics\n", e.MetricsAddress)
				}
			case e.Err != nil:
				for _, line := range linesOf(&headed{dir + " has changed and is not valid; still serving what it was:", e.Err}) {
					cmd.PrintErrln(line)
				}
			default:
				cmd.PrintErrf("%s has changed; now serving %s\n", dir, contents(e.Catalog))
			}
		},
	})
}
