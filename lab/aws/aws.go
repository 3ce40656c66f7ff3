// Package aws is a fake AWS: EC2 and EFS in one region, STS, and the metadata of instances, in the protocols that the AWS SDKs speak.
// Requests must be signed with credentials that the cloud knows and that have not expired. Whoever signs needs permission for each
// action. All requests are recorded.
package aws

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-csi/berth/lab/authority"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/aws/iam"
	"github.com/berth-csi/berth/lab/aws/metadata"
	"github.com/berth-csi/berth/lab/aws/sts"
)

// Options are the settings of a Cloud. All are optional.
type Options struct {
	// Partition, Region and Account are "aws", "us-east-1" and "111122223333" by default.
	Partition, Region, Account string
	// TLS makes all services use certificates of the cloud's own CA, as in a private region.
	TLS bool
	// Listen returns the listener for a service: "ec2", "efs", "sts" or "metadata". By default each listens at a free port
	// of 127.0.0.1. A thread in a network namespace must create the listener there.
	Listen func(service string) (net.Listener, error)
	// Hosts are further names and addresses that are in the certificates.
	Hosts []string
	// Settle is how long volumes, snapshots, attachments and modifications are in their first state.
	Settle time.Duration
	// Disks may be nil.
	Disks ec2.Disks
	// LocalZones are the names of further zones, such as "us-east-1-bos-1a", which have nodes but no file systems.
	LocalZones []string
	// MaxAccessPoints is for each file system. By default it is 10000.
	MaxAccessPoints int
	// SessionLifetime is how long sessions of roles last. By default the client decides, at least 15 minutes.
	SessionLifetime time.Duration
}

// Cloud is an AWS with one region.
type Cloud struct {
	// EC2 and EFS are the services' state.
	EC2 *ec2.Service
	EFS *efs.Service
	// IAM records who may call them.
	IAM *iam.Directory

	*gateway.Gateway

	options Options
	zones   []ec2.Zone
	ca      *authority.Authority
	urls    map[string]string
}

// Start starts a cloud until the test ends. Its zones are the region's name with "a", "b" and "c" appended.
func Start(t testing.TB, options Options) *Cloud {
	t.Helper()
	setDefault(&options.Partition, "aws")
	setDefault(&options.Region, "us-east-1")
	setDefault(&options.Account, "111122223333")
	if options.Listen == nil {
		options.Listen = func(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	}
	c := &Cloud{IAM: iam.NewDirectory(options.Partition), options: options, urls: map[string]string{}}
	for i, letter := range []string{"a", "b", "c"} {
		c.zones = append(c.zones, ec2.Zone{Name: options.Region + letter, ID: fmt.Sprintf("use1-az%d", i+1)})
	}
	zones := slices.Clone(c.zones)
	for i, name := range options.LocalZones {
		zones = append(zones, ec2.Zone{Name: name, ID: fmt.Sprintf("use1-local%d-az1", i+1), Local: true})
	}
	c.EC2 = ec2.New(ec2.Options{Region: options.Region, Account: options.Account, Zones: zones, Settle: options.Settle, Disks: options.Disks})
	c.EFS = efs.New(efs.Options{Partition: options.Partition, Region: options.Region, Account: options.Account, MaxAccessPoints: options.MaxAccessPoints,
		Settle: options.Settle, Network: c.EC2})
	c.Gateway = gateway.New(options.Region, c.IAM)
	if options.TLS {
		ca, err := authority.New("CA of a fake AWS")
		if err != nil {
			t.Fatal(err)
		}
		c.ca = ca
	}
	for name, service := range map[string]gateway.Service{"ec2": c.EC2.Gateway(), "efs": c.EFS.Gateway(), "sts": sts.New(c.IAM, options.SessionLifetime).Gateway()} {
		c.urls[name] = c.serve(t, name, c.Gateway.Serve(service), options.TLS)
	}
	return c
}

func setDefault(value *string, to string) {
	if *value == "" {
		*value = to
	}
}

// serve serves until the test ends, and returns the URL.
func (c *Cloud) serve(t testing.TB, name string, handler http.Handler, secure bool) string {
	t.Helper()
	listener, err := c.options.Listen(name)
	if err != nil {
		t.Fatalf("the fake AWS cannot listen for %s: %v", name, err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	if secure {
		host, _, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if server.TLS, err = c.ca.Config(append([]string{host}, c.options.Hosts...)); err != nil {
			t.Fatal(err)
		}
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		server.CloseClientConnections() // of requests that wait
		server.Close()
	})
	return server.URL
}

// Region returns the name of the region.
func (c *Cloud) Region() string { return c.options.Region }

// Zones returns the region's zones, without Local Zones.
func (c *Cloud) Zones() []ec2.Zone { return c.zones }

// URL returns the endpoint of a service: "ec2", "efs" or "sts".
func (c *Cloud) URL(service string) string { return c.urls[service] }

// CA returns the certificate of the cloud's CA as PEM, or nothing without TLS.
func (c *Cloud) CA() []byte {
	if c.ca == nil {
		return nil
	}
	return c.ca.PEM()
}

// AddUser adds a user of the cloud's account whose policy allows the actions.
func (c *Cloud) AddUser(t testing.TB, name string, actions ...string) iam.Credentials {
	t.Helper()
	made, err := c.IAM.AddUser(c.options.Account, name, actions...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Metadata is the metadata service of an instance.
type Metadata struct {
	*metadata.Service
	// URL is its endpoint.
	URL string
}

// StartMetadata serves the metadata of an instance until the test ends, without TLS.
func (c *Cloud) StartMetadata(t testing.TB, i ec2.Instance) Metadata {
	t.Helper()
	place := metadata.Place{Partition: c.options.Partition, Region: c.options.Region, Account: c.options.Account}
	for _, z := range c.zones {
		if z.Name == i.Zone {
			place.ZoneID = z.ID
		}
	}
	service := metadata.New(i, place)
	return Metadata{service, c.serve(t, "metadata", service, false)}
}

// Environment returns the variables that lead AWS SDKs to the cloud and to no other address. Without metadata, they
// tell the SDKs not to look for it. The variables name a file of the CA's certificate, if the cloud has one, but no
// credentials.
func (c *Cloud) Environment(t testing.TB, m *Metadata) []string {
	t.Helper()
	nowhere := filepath.Join(t.TempDir(), "none")
	variables := []string{
		"AWS_REGION=" + c.options.Region,
		"AWS_ENDPOINT_URL=" + "http://127.0.0.1:9", // for services that the cloud does not have: nothing listens there
		"AWS_ENDPOINT_URL_EC2=" + c.urls["ec2"],
		"AWS_ENDPOINT_URL_EFS=" + c.urls["efs"],
		"AWS_ENDPOINT_URL_STS=" + c.urls["sts"],
		"AWS_CONFIG_FILE=" + nowhere,
		"AWS_SHARED_CREDENTIALS_FILE=" + nowhere,
	}
	if m == nil {
		variables = append(variables, "AWS_EC2_METADATA_DISABLED=true", "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:9")
	} else {
		variables = append(variables, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+m.URL)
	}
	if c.ca != nil {
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, c.ca.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		variables = append(variables, "AWS_CA_BUNDLE="+file)
	}
	return variables
}

// Variables returns the variables that hold credentials.
func Variables(c iam.Credentials) []string {
	return []string{"AWS_ACCESS_KEY_ID=" + c.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + c.SecretAccessKey, "AWS_SESSION_TOKEN=" + c.SessionToken}
}
