package controller

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/gcfg.v1"

	"github.com/berth-csi/berth/drivers"
	fake "github.com/berth-csi/berth/lab/vsphere"
)

// start starts a vCenter, and returns the information about it in a cluster.
func start(t *testing.T) (*fake.VCenter, drivers.Cloud) {
	t.Helper()
	v := fake.Start(t)
	return v, drivers.Cloud{
		Namespace: "harbour", Config: fake.CloudConfig(t, v.ListensAt()), Credentials: fake.Credentials(v.ListensAt()),
		Infrastructure: &configv1.Infrastructure{
			Spec:   configv1.InfrastructureSpec{PlatformSpec: configv1.PlatformSpec{VSphere: fake.Spec(t, v.ListensAt())}},
			Status: configv1.InfrastructureStatus{InfrastructureName: "harbour-x7k2p"},
		},
	}
}

func TestClasses(t *testing.T) {
	for _, tc := range []struct {
		name string
		// change changes the cluster's information, or the vCenter.
		change  func(*fake.VCenter, *drivers.Cloud)
		leftOut []string // parts of each sentence
		err     string   // a part of it
	}{
		{name: "all is well"},
		{name: "an old vCenter", leftOut: []string{"the vCenter has version 6.7.3, and the driver needs 7.0.2"}, change: func(v *fake.VCenter, _ *drivers.Cloud) {
			v.SetVersion("6.7.3")
		}},
		{name: "old hosts", leftOut: []string{"DC0_C0_H0 of /DC0/host/DC0_C0 has version 7.0.1.0", "DC0_C0_H1", "DC0_C0_H2"},
			change: func(v *fake.VCenter, _ *drivers.Cloud) { v.SetHosts("7.0.1.0") }},
		{name: "no such datacenter", leftOut: []string{"no datacenter elsewhere"}, change: func(_ *fake.VCenter, c *drivers.Cloud) {
			c.Infrastructure.Spec.PlatformSpec.VSphere.VCenters[0].Datacenters = []string{"DC0", "elsewhere"}
		}},
		{name: "no such compute cluster", leftOut: []string{"no compute cluster /DC0/host/none"}, change: func(_ *fake.VCenter, c *drivers.Cloud) {
			c.Infrastructure.Spec.PlatformSpec.VSphere.FailureDomains[0].Topology.ComputeCluster = "/DC0/host/none"
		}},
		{name: "a wrong password", err: "logging in as wrong@vsphere.local, of Secret vmware-vsphere-cloud-credentials", change: func(_ *fake.VCenter, c *drivers.Cloud) {
			for key := range c.Credentials {
				c.Credentials[key] = []byte("wrong@vsphere.local")
			}
		}},
		{name: "a certificate that nobody trusts", err: "certificate", change: func(_ *fake.VCenter, c *drivers.Cloud) {
			c.Config = strings.Replace(c.Config, "insecureFlag: true", "insecureFlag: false", 1)
		}},
		{name: "a certificate of an authority that the cluster trusts", change: func(v *fake.VCenter, c *drivers.Cloud) {
			c.Config = strings.Replace(c.Config, "insecureFlag: true", "insecureFlag: false", 1)
			c.TrustedCABundle = string(v.CA())
		}},
		{name: "no credentials", err: `the keys 127.0.0.1.username and 127.0.0.1.password`, change: func(_ *fake.VCenter, c *drivers.Cloud) { c.Credentials = nil }},
		{name: "no vCenter", err: "no vCenter is known", change: func(_ *fake.VCenter, c *drivers.Cloud) {
			c.Config, c.Infrastructure.Spec.PlatformSpec.VSphere = "", nil
		}},
		{name: "no ID", err: "status.infrastructureName", change: func(_ *fake.VCenter, c *drivers.Cloud) { c.Infrastructure.Status.InfrastructureName = "" }},
		{name: "a broken configuration", err: "Infrastructure cluster names in spec.cloudConfig", change: func(_ *fake.VCenter, c *drivers.Cloud) { c.Config = "global: [" }},
		{name: "nobody answers", err: "refused", change: func(_ *fake.VCenter, c *drivers.Cloud) {
			c.Infrastructure.Spec.PlatformSpec.VSphere.VCenters[0].Port = 1
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, cloud := start(t)
			if tc.change != nil {
				tc.change(v, &cloud)
			}
			found, leftOut, err := classes(t.Context(), cloud)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			if len(leftOut) != len(tc.leftOut) || (len(found) == 1) != (len(tc.leftOut) == 0) {
				t.Errorf("%d classes, left out %q; want %q", len(found), leftOut, tc.leftOut)
			}
			for i, part := range tc.leftOut {
				if i < len(leftOut) && !strings.Contains(strings.Join(leftOut, " "), part) {
					t.Errorf("left out %q, want %q in it", leftOut, part)
				}
			}
			assert.Empty(t, v.Sessions(t), "sessions are left open")
		})
	}
}

func TestVCenters(t *testing.T) {
	const ini = `[Global]
secret-name = "vsphere-creds"
secret-namespace = "kube-system"
insecure-flag = "1"

[Workspace]
server = "one.example.com"
datacenter = "North"
resourcepool-path = "/North/host/blue/Resources"

[VirtualCenter "one.example.com"]
datacenters = "North, South"
port = "444"
`
	const yaml = `# of an installer
global:
  insecureFlag: false
  secretName: vsphere-creds
vcenter:
  one.example.com:
    server: one.example.com
    port: 444
    insecureFlag: true
    datacenters: [North, South]
`
	credentials := map[string][]byte{}
	for _, server := range []string{"one", "two"} {
		credentials[server+".example.com.username"], credentials[server+".example.com.password"] = []byte("pilot@harbour"), []byte("secret")
	}
	login := vCenter{server: "one.example.com", port: 444, insecure: true, datacenters: []string{"North", "South"}, user: "pilot@harbour", password: "secret"}
	inCluster := login
	inCluster.clusters = []string{"/North/host/blue"}
	second := vCenter{server: "two.example.com", port: 443, datacenters: []string{"East"}, clusters: []string{"/East/host/red"}, user: "pilot@harbour", password: "secret"}
	spec := &configv1.VSpherePlatformSpec{
		VCenters: []configv1.VSpherePlatformVCenterSpec{{Server: "two.example.com", Datacenters: []string{"East"}}, {Server: "one.example.com", Datacenters: []string{"North", "South"}}},
		FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{
			{Server: "two.example.com", Topology: configv1.VSpherePlatformTopology{ComputeCluster: "/East/host/red"}},
			{Server: "two.example.com", Topology: configv1.VSpherePlatformTopology{ComputeCluster: "/East/host/red"}}},
	}
	elsewhere := &configv1.VSpherePlatformSpec{
		VCenters: []configv1.VSpherePlatformVCenterSpec{{Server: "one.example.com", Datacenters: []string{"North", "South"}}},
		FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{
			{Server: "one.example.com", Topology: configv1.VSpherePlatformTopology{Datacenter: "South", ComputeCluster: "/North/host/blue"}},
			{Server: "one.example.com", Topology: configv1.VSpherePlatformTopology{Datacenter: "West", ComputeCluster: "/West/host/green"}}},
	}
	withWest := login
	withWest.datacenters, withWest.clusters = []string{"North", "South", "West"}, []string{"/North/host/blue", "/West/host/green"}
	for _, tc := range []struct {
		name   string
		config string
		spec   *configv1.VSpherePlatformSpec
		want   []vCenter
		err    string
	}{
		{name: "an INI file", config: ini, want: []vCenter{inCluster}},
		{name: "YAML", config: yaml, want: []vCenter{login}},
		{name: "Infrastructure names them", config: yaml, spec: spec, want: []vCenter{login, second}},
		{name: "a failure domain in another datacenter", config: yaml, spec: elsewhere, want: []vCenter{withWest}},
		{name: "a broken INI file", config: "[Global\n", err: "no valid INI file"},
		{name: "a port that is none", config: "[VirtualCenter \"one.example.com\"]\nport = https\n", err: `its port is "https"`},
		{name: "something else", config: "<vcenter/>", err: "neither an INI file nor valid YAML"},
		{name: "credentials of another one", config: "[VirtualCenter \"three.example.com\"]\n", err: "three.example.com.username"},
		{name: "nothing", err: "no vCenter is known"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := vCenters(drivers.Cloud{Config: tc.config, Credentials: credentials, Infrastructure: &configv1.Infrastructure{
				Spec: configv1.InfrastructureSpec{PlatformSpec: configv1.PlatformSpec{VSphere: tc.spec}}}})
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(tc.want, got, cmp.AllowUnexported(vCenter{})), "vCenters (-want +got)")
		})
	}
}

// TestUserNeedsDomain: the driver starts only with a user that has a domain, though vCenter lets others log in, too.
func TestUserNeedsDomain(t *testing.T) {
	for user, want := range map[string]bool{
		"pilot@harbour": true, "pilot_1@vsphere.local": true, `HARBOUR\pilot`: true, `harbour.example.com\a-pilot`: true,
		"pilot": false, "@harbour": false, "pilot@": false, `\pilot`: false, `HARBOUR\`: false, `a\b\c`: false, "a@b@c": false, "the pilot@harbour": false,
	} {
		cloud := drivers.Cloud{
			Namespace: "harbour", Config: "[VirtualCenter \"one.example.com\"]\n", Infrastructure: &configv1.Infrastructure{},
			Credentials: map[string][]byte{"one.example.com.username": []byte(user), "one.example.com.password": []byte("secret")},
		}
		_, err := vCenters(cloud)
		if !want && (err == nil || !strings.Contains(err.Error(), "the Secret harbour/vmware-vsphere-cloud-credentials, key one.example.com.username: found "+strconv.Quote(user))) {
			t.Errorf("user %q: error %v, want one that names the key and what was found", user, err)
		}
		if want && err != nil {
			t.Errorf("user %q: %v", user, err)
		}
	}
}

// TestDriverConfig: the parser of the real driver reads the file as it is meant.
func TestDriverConfig(t *testing.T) {
	const password = `a "b" \ # ; c`
	cloud := drivers.Cloud{
		Config:      "[VirtualCenter \"one.example.com\"]\ndatacenters = North\n",
		Credentials: map[string][]byte{"one.example.com.username": []byte(`harbour\pilot`), "one.example.com.password": []byte(password)},
		Infrastructure: &configv1.Infrastructure{
			Spec:   configv1.InfrastructureSpec{PlatformSpec: configv1.PlatformSpec{VSphere: &configv1.VSpherePlatformSpec{FailureDomains: make([]configv1.VSpherePlatformFailureDomainSpec, 2)}}},
			Status: configv1.InfrastructureStatus{InfrastructureName: "harbour-x7k2p"},
		},
	}
	cloud.DriverConfig.VSphere = &operatorv1.VSphereCSIDriverConfigSpec{
		GlobalMaxSnapshotsPerBlockVolume: new(uint32(10)), GranularMaxSnapshotsPerBlockVolumeInVVOL: new(uint32(5)),
	}
	content, err := Content(cloud)
	require.NoError(t, err)
	var got struct {
		Global struct {
			ClusterID           string `gcfg:"cluster-id"`
			ClusterDistribution string `gcfg:"cluster-distribution"`
		}
		Labels struct {
			TopologyCategories string `gcfg:"topology-categories"`
		}
		Snapshot struct {
			Global *int `gcfg:"global-max-snapshots-per-block-volume"`
			VSAN   *int `gcfg:"granular-max-snapshots-per-block-volume-vsan"`
			VVOL   *int `gcfg:"granular-max-snapshots-per-block-volume-vvol"`
		}
		VirtualCenter map[string]*struct {
			Port, User, Password, Datacenters string
			InsecureFlag                      bool `gcfg:"insecure-flag"`
		}
	}
	require.NoErrorf(t, gcfg.ReadStringInto(&got, string(content["cloud.conf"])), "%s", content["cloud.conf"])
	of := got.VirtualCenter["one.example.com"]
	if of == nil || of.User != `harbour\pilot` || of.Password != password || of.Port != "443" || of.Datacenters != "North" || of.InsecureFlag {
		t.Errorf("the vCenter is %+v", of)
	}
	if got.Global.ClusterID != "harbour-x7k2p" || got.Labels.TopologyCategories != "openshift-region, openshift-zone" {
		t.Errorf("the configuration is %+v", got)
	}
	if limits := got.Snapshot; limits.Global == nil || *limits.Global != 10 || limits.VSAN != nil || limits.VVOL == nil || *limits.VVOL != 5 {
		t.Errorf("the limits of snapshots are wrong in:\n%s", content["cloud.conf"])
	}
}
