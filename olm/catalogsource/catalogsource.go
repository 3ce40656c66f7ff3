// Package catalogsource models how OLM reaches the catalogs that CatalogSources offer.
package catalogsource

import (
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"google.golang.org/grpc/connectivity"
)

// NotConnected is the connection state of a CatalogSource that OLM has not tried to reach yet.
const NotConnected = "not made yet"

// ConnectionState returns the last state of OLM's gRPC connection to a CatalogSource, or NotConnected.
func ConnectionState(source *v1alpha1.CatalogSource) string {
	if connection := source.Status.GRPCConnectionState; connection != nil && connection.LastObservedState != "" {
		return connection.LastObservedState
	}
	return NotConnected
}

// Reachable reports whether OLM's resolver can list a catalog. OLM sends the request in any state of the connection. On
// a READY connection it succeeds. On an IDLE one, gRPC connects first: a connection becomes idle when the server closes
// it or when nobody has used it for half an hour. In all other states the last attempt to connect has failed or has not
// finished.
func Reachable(source *v1alpha1.CatalogSource) bool {
	switch ConnectionState(source) {
	case connectivity.Ready.String(), connectivity.Idle.String():
		return true
	}
	return false
}
