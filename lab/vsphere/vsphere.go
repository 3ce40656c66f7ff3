// Package vsphere simulates a vCenter that speaks the real protocol, with govmomi's simulator: a datacenter, a compute cluster with
// hosts, and users who log in. It lacks CNS, so the driver cannot create volumes.
package vsphere

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
)

// The credentials that the vCenter accepts, and the names of its objects.
const (
	User           = "harbour@vsphere.local"
	Password       = `pa"ss`
	Datacenter     = "DC0"
	ComputeCluster = "/DC0/host/DC0_C0"
)

// CloudConfig returns the cloud configuration of a cluster that finds the vCenter at an address, "IP:port". Nobody trusts the vCenter's
// certificate.
func CloudConfig(t testing.TB, address string) string {
	t.Helper()
	server, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("vcenter:\n  %s:\n    server: %[1]s\n    port: %s\n    insecureFlag: true\n    datacenters: [%s]\n", server, port, Datacenter)
}

// VCenter is a vCenter.
type VCenter struct {
	model  *simulator.Model
	server *simulator.Server
}

// Start starts a vCenter of a recent version until the test ends.
func Start(t testing.TB) *VCenter {
	t.Helper()
	v := &VCenter{model: simulator.VPX()}
	if err := v.model.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.model.Remove)
	v.SetVersion("8.0.2.0")
	v.SetHosts("8.0.2.0")
	v.model.Service.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	v.model.Service.Listen = &url.URL{User: url.UserPassword(User, Password), Host: "127.0.0.1:0"}
	v.server = v.model.Service.NewServer()
	t.Cleanup(v.server.Close)
	return v
}

// ListensAt returns its address, "IP:port".
func (v *VCenter) ListensAt() string { return v.server.URL.Host }

// CA returns the authority of its certificate, in PEM format.
func (v *VCenter) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.server.Certificate().Raw})
}

// SetVersion sets the version of the vCenter.
func (v *VCenter) SetVersion(version string) {
	v.model.Map().Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.ApiVersion = version
}

// SetHosts sets the version of the hosts in the compute cluster. The host outside of it stays old.
func (v *VCenter) SetHosts(version string) {
	for _, entity := range v.model.Map().All("HostSystem") {
		host := v.model.Map().Get(entity.Reference()).(*simulator.HostSystem)
		host.Config.Product.ApiVersion = "5.5"
		if host.Parent.Type == "ClusterComputeResource" {
			host.Config.Product.ApiVersion = version
		}
	}
}

// Spec returns such a cluster's platform spec in Infrastructure. Only the cloud configuration can hold any port.
func Spec(t testing.TB, address string) *configv1.VSpherePlatformSpec {
	t.Helper()
	server, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return &configv1.VSpherePlatformSpec{
		VCenters: []configv1.VSpherePlatformVCenterSpec{{Server: server, Datacenters: []string{Datacenter}}},
		FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{{
			Name: "one", Region: "north", Zone: "one", Server: server,
			Topology: configv1.VSpherePlatformTopology{
				Datacenter: Datacenter, ComputeCluster: ComputeCluster, Networks: []string{"DC0_DVPG0"}, Datastore: "/DC0/datastore/LocalDS_0",
			},
		}},
	}
}

// Credentials returns the credentials of such a cluster, as the installer writes them.
func Credentials(address string) map[string][]byte {
	server, _, _ := net.SplitHostPort(address)
	return map[string][]byte{server + ".username": []byte(User), server + ".password": []byte(Password)}
}

// Sessions returns the users who are logged in, apart from the one that asks.
func (v *VCenter) Sessions(t testing.TB) (users []string) {
	t.Helper()
	address := &url.URL{Scheme: "https", Host: v.ListensAt(), Path: "/sdk", User: url.UserPassword(User, Password)}
	client, err := govmomi.NewClient(t.Context(), address, true)
	if err != nil {
		t.Fatal(err)
	}
	own, err := client.SessionManager.UserSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var manager mo.SessionManager
	if err := client.RetrieveOne(t.Context(), *client.ServiceContent.SessionManager, []string{"sessionList"}, &manager); err != nil {
		t.Fatal(err)
	}
	for _, session := range manager.SessionList {
		if session.Key != own.Key {
			users = append(users, session.UserName)
		}
	}
	return users
}
