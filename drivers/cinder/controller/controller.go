// Package controller finds out for a new cluster whether volumes belong to availability zones.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	volumezones "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/availabilityzones"
	computezones "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/cinder"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/drivers/openstack"
)

// New returns Cinder's own code.
func New() controller.Own { return controller.Own{Find: findZones} }

// findZones decides like OpenShift's operator: volumes belong to zones if Cinder has a zone for each zone of Nova.
func findZones(ctx context.Context, cloud drivers.Cloud, config, source map[string]string) (map[string]string, error) {
	computes, volumes, err := zonesOf(ctx, cloud, config, source)
	if err != nil {
		return nil, fmt.Errorf("cannot find out whether volumes belong to availability zones: %w. The operator asks the cloud once, before it installs the driver. "+
			`If the cloud cannot be asked, set the key %s, to "true" or "false", in ConfigMap %s/%s`, err, cinder.TopologyKey, drivers.DriverConfigNamespace, cinder.Driver.CloudConfig.Source)
	}
	same := !slices.ContainsFunc(computes, func(zone string) bool { return !slices.Contains(volumes, zone) })
	klog.InfoS("Volumes belong to availability zones if Cinder has each zone of Nova", "nova", computes, "cinder", volumes, cinder.TopologyKey, same)
	return map[string]string{cinder.TopologyKey: strconv.FormatBool(same)}, nil
}

// zonesOf returns the available zones of Nova and of Cinder, at least one each.
func zonesOf(ctx context.Context, cloud drivers.Cloud, config, source map[string]string) (computes, volumes []string, err error) {
	login, authorities, err := cinder.Login(config, source) // the same login as in the driver's pods
	if err != nil {
		return nil, nil, err
	}
	cloud.CABundle = authorities
	provider, endpoint, err := openstack.Login(ctx, cloud, cinder.Driver.CloudConfig.Discovery.Secret, slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(login["tls-insecure"])))
	if err != nil {
		return nil, nil, err
	}
	defer provider.HTTPClient.CloseIdleConnections()
	endpoint.Region = cmp.Or(login["region"], endpoint.Region)
	if kind := login["os-endpoint-type"]; kind != "" {
		endpoint.Availability = gophercloud.Availability(strings.TrimSuffix(kind, "URL"))
	}
	nova, err := gopher.NewComputeV2(provider, endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for Nova in Keystone's catalog: %w", err)
	}
	if computes, err = available(ctx, "Nova", nova, computezones.List, func(page pagination.Page) (names []string, err error) {
		zones, err := computezones.ExtractAvailabilityZones(page)
		for _, z := range zones {
			if z.ZoneState.Available {
				names = append(names, z.ZoneName)
			}
		}
		return names, err
	}); err != nil {
		return nil, nil, err
	}
	storage, err := gopher.NewBlockStorageV3(provider, endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for Cinder in Keystone's catalog: %w", err)
	}
	volumes, err = available(ctx, "Cinder", storage, volumezones.List, func(page pagination.Page) (names []string, err error) {
		zones, err := volumezones.ExtractAvailabilityZones(page)
		for _, z := range zones {
			if z.ZoneState.Available {
				names = append(names, z.ZoneName)
			}
		}
		return names, err
	})
	return computes, volumes, err
}

// available returns the names of a service's available zones.
func available(ctx context.Context, name string, service *gophercloud.ServiceClient, list func(*gophercloud.ServiceClient) pagination.Pager,
	names func(pagination.Page) ([]string, error),
) ([]string, error) {
	page, err := list(service).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking %s at %s: %w", name, service.Endpoint, err)
	}
	found, err := names(page)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s at %s: %w", name, service.Endpoint, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("asking %s at %s: %w", name, service.Endpoint, errNoZone)
	}
	slices.Sort(found)
	return found, nil
}

var errNoZone = errors.New("no availability zone is available, want at least one")
