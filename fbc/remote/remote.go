// Package remote reads what a running CatalogSource serves, as OLM reads it: over gRPC.
package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/fbc"
)

// limit is how long reading a catalog may take. OLM itself gives up after that long.
const limit = time.Minute

// Catalog is what a CatalogSource served when it was read. It is kept in a temporary folder.
type Catalog struct{ *fbc.Catalog }

// Close removes the folder. Bundles have no Details any more then.
func (c *Catalog) Close() error { return os.RemoveAll(c.Dir) }

// Read reads all that a CatalogSource serves. Of bundles that OLM takes from images it leaves out what the
// catalog says of their ClusterServiceVersions, but for those of detailed packages: that is asked for one by
// one. It dials the address that the CatalogSource has, and where that cannot be reached from here, as that
// of a Service cannot from outside the cluster, a port of the pod that serves, by way of the API server.
//
// An error says which CatalogSource it was, what was tried, and what to do.
func Read(ctx context.Context, config *rest.Config, source *v1alpha1.CatalogSource, detailed ...string) (_ *Catalog, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not read within %s", limit))
	defer cancel()
	connection, err := connect(ctx, config, source)
	if err != nil {
		return nil, about(source, err)
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	served, err := ask(ctx, connection, detailed)
	if err != nil {
		return nil, about(source, fmt.Errorf("its server at %s: %w; see the log of that server, and whether the catalog is valid", connection.via, err))
	}
	if len(served.Packages) == 0 {
		return nil, about(source, fmt.Errorf("its server at %s has no packages; see whether the catalog is the one that is wanted", connection.via))
	}
	read, err := store(ctx, served)
	if err != nil {
		return nil, about(source, err)
	}
	return read, nil
}

// about says of an error which CatalogSource it is about.
func about(source *v1alpha1.CatalogSource, err error) error {
	return fmt.Errorf("reading what CatalogSource %s/%s serves: %w", source.Namespace, source.Name, err)
}

// store writes a catalog into a temporary folder and reads it from there.
func store(ctx context.Context, served *declcfg.DeclarativeConfig) (_ *Catalog, err error) {
	dir, err := os.MkdirTemp("", "berth-catalog-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the catalog: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := declcfg.WriteFS(*served, dir, declcfg.WriteJSON, ".json"); err != nil {
		return nil, fmt.Errorf("keeping the catalog: %w", err)
	}
	read, faults, err := fbc.Read(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("keeping the catalog: %w", err)
	}
	if len(faults) > 0 { // OLM does without the bundles that it cannot read, too, but nobody should foretell from half a catalog
		return nil, fmt.Errorf("the catalog is not valid: %s", faults[0].Message)
	}
	return &Catalog{read}, nil
}
