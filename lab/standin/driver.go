package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/standin/backend"
)

// driver is a process of a CSI driver.
type driver struct {
	// name is the name of the CSIDriver.
	name     string
	endpoint string
	metrics  string // the address at which metrics are served, "" for none
	features folders.Features
	// alsoOnNode says that a volume can be used by several pods at the same time, and alsoOnNodes that nodes can share it.
	alsoOnNode, alsoOnNodes bool
	// topology is the key of the topology that decides where a volume is; "" for none.
	topology string
	// parameters are the parameters of a StorageClass, in lower case; mutable are the changeable ones, and
	// snapshotParameters the parameters of a VolumeSnapshotClass. refused returns the error for a wrong one.
	parameters, mutable, snapshotParameters []string
	refused                                 func(parameter string) error
	// login returns the driver's credentials. It is nil for a driver without a login.
	login func() (backend.Login, error)
	// info describes the node; nil for the controller.
	info func(context.Context) (*csi.NodeGetInfoResponse, error)
	// backend is the address of the backend, and folder where nodes have its folder.
	backend, folder string
	// created is called after a volume was created, and staging before one is mounted. They may be nil.
	created func(context.Context, *csi.CreateVolumeRequest, *csi.Volume) error
	staging func(context.Context, *csi.NodeStageVolumeRequest) error
}

// serve serves the CSI until ctx ends.
func (d driver) serve(ctx context.Context) error {
	socket, ok := strings.CutPrefix(d.endpoint, "unix://")
	if !ok {
		return fmt.Errorf("the endpoint is %q, want a URL such as unix:///csi/csi.sock", d.endpoint)
	}
	group, ctx := errgroup.WithContext(ctx)
	if d.metrics != "" {
		group.Go(func() error { return serveMetrics(ctx, d.metrics) })
	}
	register, closed, err := d.service()
	if err != nil {
		return err
	}
	defer closed()
	group.Go(func() error {
		return folders.Serve(ctx, socket, true, func(s *grpc.Server) {
			csi.RegisterIdentityServer(s, identity{driver: d})
			register(s)
		})
	})
	return group.Wait()
}

// service returns a function that registers the services of the controller or of a node.
func (d driver) service() (register func(*grpc.Server), closed func(), err error) {
	if d.info != nil {
		store, err := folders.OpenStore(d.folder)
		if err != nil {
			return nil, nil, fmt.Errorf("the backend's folder: %w", err)
		}
		mounts := node{Node: folders.Node{Store: store, Features: d.features, Info: d.info}, driver: d}
		return func(s *grpc.Server) { csi.RegisterNodeServer(s, mounts) }, func() {}, nil
	}
	// Variables for proxies are for the cloud that the real driver calls.
	connection, err := grpc.NewClient("passthrough:///"+d.backend, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return nil, nil, err
	}
	calls := controller{driver: d, backend: csi.NewControllerClient(connection)}
	return func(s *grpc.Server) { csi.RegisterControllerServer(s, calls) }, func() { connection.Close() }, nil
}

// serveMetrics serves metrics at an address until ctx ends.
func serveMetrics(ctx context.Context, address string) error {
	return serveHTTP(ctx, address, map[string]http.Handler{"/metrics": promhttp.Handler()})
}

// serveHTTP serves handlers, by their paths, at an address until ctx ends.
func serveHTTP(ctx context.Context, address string, handlers map[string]http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle(path, handler)
	}
	server := &http.Server{Handler: mux}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// identity is the driver's identity service.
type identity struct {
	csi.UnimplementedIdentityServer
	driver driver
}

func (i identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.driver.name, VendorVersion: "stand-in"}, nil
}

func (i identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if i.driver.topology != "" {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	response := &csi.GetPluginCapabilitiesResponse{}
	for _, service := range services {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}}})
	}
	response.Capabilities = append(response.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}})
	return response, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// controller forwards its sidecars' requests to the backend.
type controller struct {
	csi.UnimplementedControllerServer
	driver  driver
	backend csi.ControllerClient
}

// forward sends a call to the backend, with the driver's login.
func forward[Q, A any](ctx context.Context, d driver, request *Q, call func(context.Context, *Q, ...grpc.CallOption) (*A, error)) (*A, error) {
	login, err := d.login()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	text, err := json.Marshal(login)
	if err != nil {
		return nil, err
	}
	return call(metadata.AppendToOutgoingContext(ctx, backend.LoginKey, string(text)), request)
}

func (c controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	capabilities := c.driver.features.Capabilities()
	if c.driver.alsoOnNode {
		capabilities = append(capabilities, csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	}
	for _, capability := range capabilities {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: capability}}})
	}
	return response, nil
}

// checkModes fails if the driver lacks a requested access mode.
func (d driver) checkModes(capabilities []*csi.VolumeCapability) error {
	for _, capability := range capabilities {
		mode := capability.GetAccessMode().GetMode()
		switch mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
			continue
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
			if d.alsoOnNode {
				continue
			}
		case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
			csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
			if d.alsoOnNodes {
				continue
			}
		}
		return status.Errorf(codes.InvalidArgument, "invalid access mode: %v", mode)
	}
	return nil
}

func (c controller) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := c.driver.checkModes(request.VolumeCapabilities); err != nil {
		return nil, err
	}
	if err := c.driver.checkParameters(request.Parameters, c.driver.parameters); err != nil {
		return nil, err
	}
	if err := c.driver.checkParameters(request.MutableParameters, c.driver.mutable); err != nil {
		return nil, err
	}
	response, err := forward(ctx, c.driver, request, c.backend.CreateVolume)
	if err != nil {
		return nil, err
	}
	if preferred := request.GetAccessibilityRequirements().GetPreferred(); c.driver.topology != "" && len(preferred) > 0 {
		response.Volume.AccessibleTopology = []*csi.Topology{{Segments: map[string]string{c.driver.topology: preferred[0].Segments[c.driver.topology]}}}
	}
	response.Volume.VolumeContext = request.Parameters
	if c.driver.created != nil {
		if err := c.driver.created(ctx, request, response.Volume); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return response, nil
}

// checkParameters fails unless all parameters are known.
func (d driver) checkParameters(parameters map[string]string, known []string) error {
	for name := range parameters {
		if !strings.HasPrefix(name, "csi.storage.k8s.io/") && !slices.Contains(known, strings.ToLower(name)) {
			return status.Error(codes.InvalidArgument, d.refused(name).Error())
		}
	}
	return nil
}

func (c controller) ControllerModifyVolume(ctx context.Context, request *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if err := c.driver.checkParameters(request.MutableParameters, c.driver.mutable); err != nil {
		return nil, err
	}
	return forward(ctx, c.driver, request, c.backend.ControllerModifyVolume)
}

func (c controller) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return forward(ctx, c.driver, request, c.backend.DeleteVolume)
}

func (c controller) ValidateVolumeCapabilities(ctx context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return forward(ctx, c.driver, request, c.backend.ValidateVolumeCapabilities)
}

func (c controller) ControllerPublishVolume(ctx context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	return forward(ctx, c.driver, request, c.backend.ControllerPublishVolume)
}

func (c controller) ControllerUnpublishVolume(ctx context.Context, request *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	return forward(ctx, c.driver, request, c.backend.ControllerUnpublishVolume)
}

func (c controller) ControllerExpandVolume(ctx context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	response, err := forward(ctx, c.driver, request, c.backend.ControllerExpandVolume)
	if err != nil {
		return nil, err
	}
	response.NodeExpansionRequired = !c.driver.features.GrowsAlone
	return response, nil
}

func (c controller) CreateSnapshot(ctx context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := c.driver.checkParameters(request.Parameters, c.driver.snapshotParameters); err != nil {
		return nil, err
	}
	return forward(ctx, c.driver, request, c.backend.CreateSnapshot)
}

func (c controller) DeleteSnapshot(ctx context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	return forward(ctx, c.driver, request, c.backend.DeleteSnapshot)
}

// node mounts volumes.
type node struct {
	folders.Node
	driver driver
}

func (n node) NodeStageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if n.driver.staging != nil {
		if err := n.driver.staging(ctx, request); err != nil {
			log.Printf("stage volume %s: %v", request.VolumeId, err)
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return n.Node.NodeStageVolume(ctx, request)
}
