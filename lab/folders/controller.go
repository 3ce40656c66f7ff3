// Package folders has the services of a CSI driver whose volumes are folders below a folder that all nodes share. It is
// for tests: it does not limit the size of a volume's content.
package folders

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// defaultBytes is the size of a volume whose request names no size: 1 GiB.
const defaultBytes = 1 << 30

// Controller creates, resizes and deletes volumes, and takes snapshots of them.
type Controller struct {
	csi.UnimplementedControllerServer
	Store Store
	// Features are the optional features.
	Features
}

// Features are the features that only some drivers have.
type Features struct {
	// Attaches says that a volume must be attached to a node, one at a time.
	Attaches bool
	// Clones says that a volume can be a copy of another one.
	Clones bool
	// Parameters says that classes may have parameters. The record of a volume or a snapshot keeps them.
	Parameters bool
	// Modifies says that parameters of a volume can be changed.
	Modifies bool
	// GrowsAlone says that nodes need not be told when a volume has grown.
	GrowsAlone bool
	// MountGroup says that nodes mount a volume for the group of a pod.
	MountGroup bool
	// Nodes reports whether a node with an ID exists, for attaching volumes; nil accepts all IDs.
	Nodes func(id string) bool
}

// Capabilities returns the capabilities of the controller.
func (f Features) Capabilities() []csi.ControllerServiceCapability_RPC_Type {
	all := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	}
	if f.Attaches {
		all = append(all, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	if f.Clones {
		all = append(all, csi.ControllerServiceCapability_RPC_CLONE_VOLUME)
	}
	if f.Modifies {
		all = append(all, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	}
	return all
}

func (c Controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, capability := range c.Capabilities() {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: capability}}})
	}
	return response, nil
}

func (c Controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if request.Name == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume has no name")
	}
	if err := checkCapabilities(request.VolumeCapabilities); err != nil {
		return nil, err
	}
	if err := c.checkParameters(request.Parameters); err != nil {
		return nil, err
	}
	bytes, err := sizeOf(request.CapacityRange)
	if err != nil {
		return nil, err
	}
	source, from, err := c.source(request.VolumeContentSource, bytes)
	if err != nil {
		return nil, err
	}
	want := Record{Name: request.Name, Bytes: bytes, Source: source, Created: time.Now().UTC(), Parameters: merged(request.Parameters, request.MutableParameters)}
	id, got, err := c.Store.create(Volumes, want, from)
	if err != nil {
		return nil, answer(err)
	}
	if !fits(request.CapacityRange, got.Bytes) || got.Source != source {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s has %d bytes and the source %q, want the size %v and the source %q",
			request.Name, got.Bytes, got.Source, request.CapacityRange, source)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: got.Bytes, ContentSource: request.VolumeContentSource}}, nil
}

// checkParameters accepts the sidecars' parameters in every class.
func (f Features) checkParameters(parameters map[string]string) error {
	for name := range parameters {
		if !f.Parameters && !strings.HasPrefix(name, "csi.storage.k8s.io/") {
			return status.Errorf(codes.InvalidArgument, "the class has the parameter %q, want none", name)
		}
	}
	return nil
}

// merged returns parameters with changes.
func merged(parameters, changes map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, parameters)
	maps.Copy(all, changes)
	return all
}

// ControllerModifyVolume changes parameters of a volume.
func (c Controller) ControllerModifyVolume(_ context.Context, request *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if !c.Modifies {
		return nil, status.Error(codes.Unimplemented, "volumes cannot be changed")
	}
	if request.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request has no volume ID")
	}
	_, err := c.Store.change(request.VolumeId, func(volume *Record) error {
		volume.Parameters = merged(volume.Parameters, request.MutableParameters)
		return nil
	})
	return &csi.ControllerModifyVolumeResponse{}, answer(err)
}

// source returns the ID and the folder of the volume or snapshot that a new volume of a size is to copy.
func (c Controller) source(source *csi.VolumeContentSource, bytes int64) (id, folder string, err error) {
	if source == nil {
		return "", "", nil
	}
	kind := Snapshots
	switch {
	case source.GetSnapshot() != nil:
		id = source.GetSnapshot().SnapshotId
	case source.GetVolume() != nil && c.Clones:
		kind, id = Volumes, source.GetVolume().VolumeId
	default:
		return "", "", status.Errorf(codes.InvalidArgument, "a volume cannot be created from %v", source)
	}
	original, err := c.Store.Get(kind, id)
	if err != nil {
		return "", "", answer(err)
	}
	if bytes < original.Bytes {
		return "", "", status.Errorf(codes.OutOfRange, "the volume is to have %d bytes, and its source had %d", bytes, original.Bytes)
	}
	folder, err = c.Store.content(kind, id)
	return id, folder, err
}

func (c Controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if request.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request has no volume ID")
	}
	if volume, err := c.Store.Get(Volumes, request.VolumeId); err == nil && volume.Node != "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %s; it cannot be deleted", request.VolumeId, volume.Node)
	}
	return &csi.DeleteVolumeResponse{}, answer(c.Store.remove(Volumes, request.VolumeId))
}

// ControllerPublishVolume attaches a volume to a node.
func (c Controller) ControllerPublishVolume(_ context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if request.VolumeId == "" || request.NodeId == "" || request.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID, a node ID or a capability")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	_, err := c.Store.change(request.VolumeId, func(volume *Record) error {
		if c.Nodes != nil && !c.Nodes(request.NodeId) {
			return status.Errorf(codes.NotFound, "there is no node %s", request.NodeId)
		}
		if volume.Node != "" && volume.Node != request.NodeId {
			return status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %s; it cannot be attached to node %s, too", request.VolumeId, volume.Node, request.NodeId)
		}
		volume.Node = request.NodeId
		return nil
	})
	return &csi.ControllerPublishVolumeResponse{}, answer(err)
}

// ControllerUnpublishVolume detaches a volume. A volume that is gone counts as detached.
func (c Controller) ControllerUnpublishVolume(_ context.Context, request *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if request.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request has no volume ID")
	}
	_, err := c.Store.change(request.VolumeId, func(volume *Record) error {
		if request.NodeId == "" || volume.Node == request.NodeId {
			volume.Node = ""
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return &csi.ControllerUnpublishVolumeResponse{}, answer(err)
}

func (c Controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.VolumeId == "" || len(request.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or capabilities")
	}
	if _, err := c.Store.Get(Volumes, request.VolumeId); err != nil {
		return nil, answer(err)
	}
	if err := checkCapabilities(request.VolumeCapabilities); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.VolumeContext, VolumeCapabilities: request.VolumeCapabilities, Parameters: request.Parameters}}, nil
}

// ControllerExpandVolume changes the size of a volume. Each node that uses the volume must be told.
func (c Controller) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if request.VolumeId == "" || request.CapacityRange == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a size")
	}
	volume, err := c.Store.change(request.VolumeId, func(volume *Record) error {
		bytes := max(request.CapacityRange.RequiredBytes, volume.Bytes)
		if !fits(request.CapacityRange, bytes) {
			return status.Errorf(codes.OutOfRange, "volume %s has %d bytes, want the size %v: a volume does not shrink", request.VolumeId, volume.Bytes, request.CapacityRange)
		}
		volume.Bytes = bytes
		return nil
	})
	if err != nil {
		return nil, answer(err)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: volume.Bytes, NodeExpansionRequired: !c.GrowsAlone}, nil
}

func (c Controller) CreateSnapshot(_ context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if request.Name == "" || request.SourceVolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a name or a volume ID")
	}
	if err := c.checkParameters(request.Parameters); err != nil {
		return nil, err
	}
	volume, err := c.Store.Get(Volumes, request.SourceVolumeId)
	if err != nil {
		return nil, answer(err)
	}
	from, err := c.Store.content(Volumes, request.SourceVolumeId)
	if err != nil {
		return nil, answer(err)
	}
	want := Record{Name: request.Name, Bytes: volume.Bytes, Source: request.SourceVolumeId, Created: time.Now().UTC(), Parameters: request.Parameters}
	id, got, err := c.Store.create(Snapshots, want, from)
	if err != nil {
		return nil, answer(err)
	}
	if got.Source != request.SourceVolumeId {
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s is of volume %s, want %s", request.Name, got.Source, request.SourceVolumeId)
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: id, SourceVolumeId: got.Source, SizeBytes: got.Bytes,
		CreationTime: timestamppb.New(got.Created), ReadyToUse: true}}, nil
}

func (c Controller) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if request.SnapshotId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request has no snapshot ID")
	}
	return &csi.DeleteSnapshotResponse{}, answer(c.Store.remove(Snapshots, request.SnapshotId))
}

// sizeOf returns the size, in bytes, of a new volume.
func sizeOf(wanted *csi.CapacityRange) (int64, error) {
	least, limit := wanted.GetRequiredBytes(), wanted.GetLimitBytes()
	if least < 0 || limit < 0 || limit != 0 && limit < least {
		return 0, status.Errorf(codes.InvalidArgument, "the wanted size is %v, which no volume has", wanted)
	}
	if least == 0 {
		least = defaultBytes
		if limit != 0 {
			least = min(least, limit)
		}
	}
	return least, nil
}

// fits reports whether a size is wanted.
func fits(wanted *csi.CapacityRange, bytes int64) bool {
	return bytes >= wanted.GetRequiredBytes() && (wanted.GetLimitBytes() == 0 || bytes <= wanted.GetLimitBytes())
}

// checkCapabilities accepts volumes that any number of nodes mount.
func checkCapabilities(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "the request has no capabilities")
	}
	for _, capability := range capabilities {
		if capability.GetMount() == nil || capability.AccessMode == nil {
			return status.Errorf(codes.InvalidArgument, "the volume is to be used as %v; want one that is mounted", capability)
		}
	}
	return nil
}

// answer returns the answer of gRPC for an error of the store.
func answer(err error) error {
	switch {
	case err == nil:
		return nil
	case status.Code(err) != codes.Unknown:
		return err
	case errors.Is(err, fs.ErrNotExist):
		return status.Error(codes.NotFound, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}
