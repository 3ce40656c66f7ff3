package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"gopkg.in/gcfg.v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/standin/backend"
)

// vSphereConfig is the configuration of the driver, in the fields that decide how it logs in.
type vSphereConfig struct {
	Global struct {
		ClusterID    string `gcfg:"cluster-id"`
		User         string
		Password     string
		Port         string
		InsecureFlag bool `gcfg:"insecure-flag"`
		Datacenters  string
	}
	VirtualCenter map[string]*struct {
		User         string
		Password     string
		Port         string
		InsecureFlag bool `gcfg:"insecure-flag"`
		Datacenters  string
	}
	Labels struct {
		TopologyCategories string `gcfg:"topology-categories"`
		Zone               string
		Region             string
	}
}

// readVSphereConfig reads and checks the file that the variable VSPHERE_CSI_CONFIG names. The errors are the real driver's.
func readVSphereConfig() (*vSphereConfig, error) {
	config := &vSphereConfig{}
	file := cmp.Or(os.Getenv("VSPHERE_CSI_CONFIG"), "/etc/cloud/csi-vsphere.conf")
	if err := gcfg.FatalOnly(gcfg.ReadFileInto(config, file)); err != nil {
		return nil, fmt.Errorf("failed to read config. Error: %w", err)
	}
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("failed to read config. Error: %w", err)
	}
	return config, nil
}

func (c *vSphereConfig) check() error {
	switch {
	case len(c.VirtualCenter) == 0:
		return errors.New("no Virtual Center hosts defined")
	case len(c.Global.ClusterID) > 64:
		return errors.New("cluster id must not exceed 64 characters")
	case len(c.VirtualCenter) > 1 && strings.TrimSpace(c.Labels.TopologyCategories) == "":
		return errors.New("vsphere CSI config requires topology categories for several vCenters")
	case c.Labels.TopologyCategories != "" && c.Labels.Zone+c.Labels.Region != "":
		return errors.New("zone and region parameters should be skipped when topologyCategories is specified")
	}
	for server, of := range c.VirtualCenter {
		of.User, of.Password = cmp.Or(of.User, c.Global.User), cmp.Or(of.Password, c.Global.Password)
		switch {
		case server == "":
			return errors.New("vsphere.conf does not have the VirtualCenter IP address specified")
		case of.User == "":
			return errors.New("username is missing")
		case !strings.ContainsAny(of.User, `@\`):
			return errors.New("username is invalid, make sure it is a fully qualified domain username")
		case of.Password == "":
			return errors.New("password is missing")
		}
	}
	return nil
}

// login returns the driver's credentials for the first vCenter.
func (c *vSphereConfig) login() (backend.Login, error) {
	server := slices.Sorted(maps.Keys(c.VirtualCenter))[0]
	of := c.VirtualCenter[server]
	return backend.Login{"server": server, "user": of.User, "password": of.Password, "datacenters": cmp.Or(of.Datacenters, c.Global.Datacenters), "cluster": c.Global.ClusterID}, nil
}

// Where the driver and its syncer serve metrics. No flag changes that.
const (
	vSphereMetrics       = ":2112"
	vSphereSyncerMetrics = ":2113"
)

// vSphere is the vSphere driver.
func vSphere(ctx context.Context, _ *flag.FlagSet) error {
	d := driver{
		name: "csi.vsphere.vmware.com", endpoint: os.Getenv("CSI_ENDPOINT"), backend: backend.Address, folder: backend.Folder,
		features:   folders.Features{Attaches: true, Parameters: true},
		parameters: []string{"storagepolicyname", "datastoreurl", "fstype", "storagepool"},
		refused:    func(name string) error { return fmt.Errorf("invalid param: %q", name) },
	}
	if d.endpoint == "" {
		return errors.New("CSI endpoint cannot be empty, please set the env variable")
	}
	if os.Getenv("X_CSI_MODE") == "node" {
		name := os.Getenv("NODE_NAME")
		if name == "" {
			return errors.New("ENV NODE_NAME is not set")
		}
		limit, err := strconv.ParseInt(cmp.Or(os.Getenv("MAX_VOLUMES_PER_NODE"), "59"), 10, 64)
		if err != nil {
			return fmt.Errorf("MAX_VOLUMES_PER_NODE: %w", err)
		}
		d.info = func(context.Context) (*csi.NodeGetInfoResponse, error) {
			return &csi.NodeGetInfoResponse{NodeId: name, MaxVolumesPerNode: limit}, nil
		}
		return d.serve(ctx)
	}
	config, err := readVSphereConfig()
	if err != nil {
		return err
	}
	d.login, d.metrics = config.login, vSphereMetrics
	return d.serve(ctx)
}

// syncerLease is the name of the Lease of the syncer's leader.
const syncerLease = "vsphere-syncer"

// vSphereSyncer is the syncer of the vSphere driver, which tells vCenter about claims. It only elects its leader here.
func vSphereSyncer(ctx context.Context, flags *flag.FlagSet) error {
	if _, err := readVSphereConfig(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveMetrics(ctx, vSphereSyncerMetrics) })
	if valueOf[bool](flags, "leader-election") {
		group.Go(func() error { return lead(ctx, flags) })
	}
	return group.Wait()
}

// lead waits until this process is the leader, and fails when it is not anymore.
func lead(ctx context.Context, flags *flag.FlagSet) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	namespace := cmp.Or(valueOf[string](flags, "leader-election-namespace"), os.Getenv("CSI_NAMESPACE"))
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: syncerLease}, Client: api.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: valueOf[time.Duration](flags, "leader-election-lease-duration"), RenewDeadline: valueOf[time.Duration](flags, "leader-election-renew-deadline"),
		RetryPeriod: valueOf[time.Duration](flags, "leader-election-retry-period"),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { log.Print("this syncer leads") },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("another syncer leads")
}
