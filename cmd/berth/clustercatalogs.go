package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/remote"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
)

// readClusterCatalogs reads the ClusterCatalogs of a cluster from catalogd, into a folder that done removes. If a catalog cannot be read,
// its Fault says why.
func readClusterCatalogs(ctx context.Context, config *rest.Config, authority []byte) (all []*prediction.ClusterCatalog, done func() error, err error) {
	reader, err := client.New(config, client.Options{})
	if err != nil {
		return nil, nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: clusterextension.Kind.Group, Version: clusterextension.Kind.Version, Kind: "ClusterCatalogList"})
	if err := reader.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("listing ClusterCatalogs: %w", err)
	}
	folder, err := os.MkdirTemp("", "berth-catalogs-")
	if err != nil {
		return nil, nil, err
	}
	done = func() error { return os.RemoveAll(folder) }
	for i := range list.Items {
		c := prediction.ClusterCatalogOf(&list.Items[i])
		if !c.Disabled {
			c.Content, c.Fault = download(ctx, config, &list.Items[i], filepath.Join(folder, fmt.Sprint(i)), authority)
		}
		if ctx.Err() != nil {
			return nil, nil, errors.Join(context.Cause(ctx), done())
		}
		all = append(all, c)
	}
	return all, done, nil
}

// download copies the catalog that catalogd serves for a ClusterCatalog to a folder, and reads it there.
func download(ctx context.Context, config *rest.Config, object *unstructured.Unstructured, folder string, authority []byte) (*fbc.Catalog, error) {
	if status, reason, message := clusterextension.Condition(object, "Serving"); status != "True" {
		return nil, fmt.Errorf("it is not served: %s: %s", reason, message)
	}
	base, _, _ := unstructured.NestedString(object.Object, "status", "urls", "base")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(folder, "catalog.json"))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(remote.Download(ctx, config, base, authority, file), file.Close()); err != nil {
		return nil, err
	}
	c, err := rules.LoadPart(ctx, folder, rules.Look)
	if err != nil {
		return nil, err
	}
	c.Dir = "ClusterCatalog " + object.GetName()
	return c.Catalog, nil
}
