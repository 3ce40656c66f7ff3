package controller

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/openstack"
)

func TestFindZones(t *testing.T) {
	type zones = []openstack.Zone
	for name, test := range map[string]struct {
		nova, cinder zones
		want         string
	}{
		"one, as clouds are installed": {zones{{Name: "nova"}}, zones{{Name: "nova"}}, "true"},
		"the same":                     {zones{{Name: "a"}, {Name: "b"}}, zones{{Name: "b"}, {Name: "a"}}, "true"},
		"Cinder has another one, too":  {zones{{Name: "a"}}, zones{{Name: "a"}, {Name: "b"}}, "true"},
		"Nova has another one, too":    {zones{{Name: "a"}, {Name: "b"}}, zones{{Name: "a"}}, "false"},
		"others":                       {zones{{Name: "a"}, {Name: "b"}}, zones{{Name: "nova"}, {Name: "ceph"}}, "false"},
		"one of Nova's is down":        {zones{{Name: "a"}, {Name: "b", Down: true}}, zones{{Name: "a"}}, "true"},
		"one of Cinder's is down":      {zones{{Name: "a"}, {Name: "b"}}, zones{{Name: "a"}, {Name: "b", Down: true}}, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := openstack.StartWith(t, openstack.Options{TLS: true})
			cloud.SetZones(openstack.Nova, test.nova...)
			cloud.SetZones(openstack.Cinder, test.cinder...)
			got, err := findZones(t.Context(), cloudOf(cloud), map[string]string{drivers.CABundleKey: string(cloud.CA())}, nil)
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"enable_topology": test.want}, got)
		})
	}
}

func cloudOf(cloud *openstack.Cloud) drivers.Cloud {
	return drivers.Cloud{Credentials: map[string][]byte{"clouds.yaml": cloud.CloudsYAML()}}
}

// TestZonesAsTheDriverAsks: the cloud is asked where, and trusting whom, the driver's pods ask it.
func TestZonesAsTheDriverAsks(t *testing.T) {
	cloud := openstack.StartWith(t, openstack.Options{TLS: true})
	config := func(global string) map[string]string {
		return map[string]string{"config": "[Global]\n" + global + "\n"}
	}
	for name, test := range map[string]struct {
		source map[string]string
		fails  string // "" if the zones are found
	}{
		"no CA":                                {nil, "certificate signed by unknown authority"},
		"the administrator's CA":               {map[string]string{drivers.CABundleKey: string(cloud.CA())}, ""},
		"certificates do not matter":           {config("tls-insecure = true"), ""},
		"a region without services":            {config("tls-insecure = yes\nregion = sea-9"), "looking for Nova"},
		"an endpoint type as services name it": {config("tls-insecure = yes\nos-endpoint-type = internalURL"), ""},
		"an endpoint type as clouds name it":   {config("tls-insecure = yes\nos-endpoint-type = public"), ""},
		"a malformed configuration":            {map[string]string{"config": "region = sea-1"}, "openshift-config/cinder-csi-config, key config"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findZones(t.Context(), cloudOf(cloud), nil, test.source)
			if test.fails == "" && (err != nil || got["enable_topology"] != "true") {
				t.Errorf("found %v, error %v; want the zones", got, err)
			}
			if test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails) || !strings.Contains(err.Error(), "openshift-config/cinder-csi-config")) {
				t.Errorf("found %v, error %v; want one about %s that names the ConfigMap to say it in", got, err, test.fails)
			}
		})
	}
}

// TestZonesThatAreNotKnown: what cannot be found out is no answer.
func TestZonesThatAreNotKnown(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*openstack.Cloud)
		want   string
	}{
		"Nova refuses": {func(c *openstack.Cloud) {
			c.Inject(openstack.Fault{Service: openstack.Nova, Code: http.StatusForbidden})
		}, "asking Nova at "},
		"Cinder fails": {func(c *openstack.Cloud) {
			c.Inject(openstack.Fault{Service: openstack.Cinder, Code: http.StatusServiceUnavailable})
		}, "asking Cinder at "},
		"Nova has none":    {func(c *openstack.Cloud) { c.SetZones(openstack.Nova) }, "no availability zone is available"},
		"Cinder's is down": {func(c *openstack.Cloud) { c.SetZones(openstack.Cinder, openstack.Zone{Name: "nova", Down: true}) }, "asking Cinder at "},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := openstack.Start(t)
			test.change(cloud)
			_, err := findZones(t.Context(), cloudOf(cloud), nil, nil)
			assert.ErrorContains(t, err, test.want)
		})
	}
}
