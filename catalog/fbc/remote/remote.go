// Package remote reads the catalog of a running CatalogSource over gRPC, as OLM does, and keeps it in memory.
package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/catalog/fbc"
)

// timeout is how long reading a catalog may take. OLM itself gives up after that long.
const timeout = time.Minute

// maxSize bounds the bytes of a catalog, because it is kept in memory. The largest public catalogs take a third of it.
const maxSize = 256 << 20

// Read reads the catalog that a CatalogSource serves. The list of bundles has no ClusterServiceVersions for bundles that
// OLM unpacks from images; Read fetches them one by one for the detailed packages only. It dials the address of the
// CatalogSource. If that is unreachable from here, as a Service is from outside the cluster, it forwards a port to the pod
// that serves the catalog, through the API server.
//
// Its errors name the CatalogSource, the attempts and the remedy.
func Read(ctx context.Context, config *rest.Config, source *v1alpha1.CatalogSource, detailed ...string) (_ *fbc.Catalog, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not read within %s", timeout))
	defer cancel()
	connection, err := connect(ctx, config, source)
	if err != nil {
		return nil, about(source, err)
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	served, err := fetch(ctx, connection.registry, detailed, maxSize)
	if err != nil {
		return nil, about(source, fmt.Errorf("its server at %s: %w; see the log of that server, and check that the catalog is valid", connection.via, err))
	}
	if len(served.Packages) == 0 {
		return nil, about(source, fmt.Errorf("its server at %s has no packages; check that it is the intended catalog", connection.via))
	}
	c, err := parse(served)
	if err != nil {
		return nil, about(source, err)
	}
	return c, nil
}

// about adds the name of the CatalogSource to an error.
func about(source *v1alpha1.CatalogSource, err error) error {
	return fmt.Errorf("reading the catalog of CatalogSource %s/%s: %w", source.Namespace, source.Name, err)
}

// parse makes a catalog from the documents of a server.
func parse(served *declcfg.DeclarativeConfig) (*fbc.Catalog, error) {
	c, faults, err := fbc.Parse("the catalog", served)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 { // OLM skips bundles that it cannot read, but a prediction needs all of them
		return nil, fmt.Errorf("the catalog is not valid: %s", faults[0].Message)
	}
	return c, nil
}
