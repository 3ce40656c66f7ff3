// Command sample is the CSI driver that drivers/sample defines. Its volumes are folders, see package folders.
//
// It registers itself with the kubelet, which other drivers leave to the sidecar node-driver-registrar.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/berth-csi/berth/lab/folders"
)

// driverName is the name of the CSIDriver.
const driverName = "csi.sharedresource.openshift.io"

// program is the process of the driver. The fields are its flags.
type program struct {
	endpoint     string
	folder       string
	node         string
	registration string
	plugin       string
	level        int
}

func main() {
	var p program
	flag.StringVar(&p.endpoint, "endpoint", "unix:///csi/csi.sock", "`URL` of the socket to serve the CSI on")
	flag.StringVar(&p.folder, "folder", "/volumes", "`FOLDER` that all nodes share, for the volumes")
	flag.StringVar(&p.node, "node", "", "`NAME` of the node to mount volumes on; the controller has none")
	flag.StringVar(&p.registration, "registration", "", "`FOLDER` in which the kubelet looks for the sockets of drivers")
	flag.StringVar(&p.plugin, "kubelet-path", "", "`PATH` at which the kubelet finds the endpoint's socket")
	flag.IntVar(&p.level, "v", 2, "`LEVEL` of the log: 2 for calls that fail, 4 for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := p.run(ctx, flag.Args()); err != nil {
		log.Fatalf("sample: %v", err)
	}
}

// run serves until ctx ends.
func (p program) run(ctx context.Context, args []string) error {
	socket, ok := strings.CutPrefix(p.endpoint, "unix://")
	if !ok || socket == "" || len(args) > 0 {
		return fmt.Errorf("--endpoint is %q and the arguments are %q; want a URL such as unix:///csi/csi.sock and no arguments", p.endpoint, args)
	}
	if (p.registration == "") != (p.plugin == "") {
		return fmt.Errorf("--registration is %q and --kubelet-path is %q; want both or none", p.registration, p.plugin)
	}
	volumes, err := folders.OpenStore(p.folder)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	verbose := p.level >= 4
	group.Go(func() error {
		return folders.Serve(ctx, socket, verbose, func(s *grpc.Server) {
			csi.RegisterIdentityServer(s, identity{})
			csi.RegisterControllerServer(s, folders.Controller{Store: volumes})
			csi.RegisterNodeServer(s, folders.Node{Store: volumes, Info: p.info})
		})
	})
	if p.registration != "" {
		group.Go(func() error {
			return folders.Serve(ctx, filepath.Join(p.registration, driverName+"-reg.sock"), verbose, func(s *grpc.Server) {
				registration.RegisterRegistrationServer(s, registrar{path: p.plugin})
			})
		})
	}
	return group.Wait()
}

func (p program) info(context.Context) (*csi.NodeGetInfoResponse, error) {
	if p.node == "" {
		return nil, status.Error(codes.FailedPrecondition, "this is no node: the driver was started without --node")
	}
	return &csi.NodeGetInfoResponse{NodeId: p.node}, nil
}

// identity is the driver's identity service.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1.0.0"}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{
			Type: csi.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// registrar tells the kubelet where the driver is.
type registrar struct {
	registration.UnimplementedRegistrationServer
	path string // of the driver's socket, for the kubelet
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driverName, Endpoint: r.path, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus ends the driver if the kubelet refused it. Its next start registers it again.
func (r registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		log.Fatalf("sample: the kubelet did not register the driver: %s", status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}
