package controller

import (
	"context"
	"fmt"

	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/drivers/openstack"
)

// shareTypes returns the names of Manila's share types that are visible to the cluster's project.
func shareTypes(ctx context.Context, cloud drivers.Cloud) ([]string, error) {
	provider, endpoint, err := openstack.Login(ctx, cloud, manila.Driver.Backend.Secret, false)
	if err != nil {
		return nil, err
	}
	defer provider.HTTPClient.CloseIdleConnections()
	service, err := gopher.NewSharedFileSystemV2(provider, endpoint)
	if err != nil {
		return nil, fmt.Errorf("looking for Manila in Keystone's catalog: %w", err)
	}
	page, err := sharetypes.List(service, sharetypes.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking Manila at %s: %w", service.Endpoint, err)
	}
	types, err := sharetypes.ExtractShareTypes(page)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of Manila at %s: %w", service.Endpoint, err)
	}
	var names []string
	for _, t := range types {
		names = append(names, t.Name)
	}
	return names, nil
}
