package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// defaultBytes is the size of a volume whose request wants none: 1 GiB.
const defaultBytes = 1 << 30

// controller creates, resizes and deletes volumes, and takes snapshots of them.
type controller struct {
	csi.UnimplementedControllerServer
	store store
}

func (controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, capability := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: capability}}})
	}
	return response, nil
}

func (c controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if request.Name == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume has no name")
	}
	if err := checkCapabilities(request.VolumeCapabilities); err != nil {
		return nil, err
	}
	for name := range request.Parameters {
		if !strings.HasPrefix(name, "csi.storage.k8s.io/") {
			return nil, status.Errorf(codes.InvalidArgument, "the StorageClass has the parameter %q, want none", name)
		}
	}
	bytes, err := sizeOf(request.CapacityRange)
	if err != nil {
		return nil, err
	}
	source, from, err := c.source(request.VolumeContentSource, bytes)
	if err != nil {
		return nil, err
	}
	want := record{Name: request.Name, Bytes: bytes, Source: source, Created: time.Now().UTC()}
	id, got, err := c.store.create(volumes, want, from)
	if err != nil {
		return nil, answer(err)
	}
	if !fits(request.CapacityRange, got.Bytes) || got.Source != source {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s has %d bytes and the source %q, want the size %v and the source %q",
			request.Name, got.Bytes, got.Source, request.CapacityRange, source)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: got.Bytes, ContentSource: request.VolumeContentSource}}, nil
}

// source returns the ID of the snapshot that a volume of a size is restored from, and the folder with its content.
func (c controller) source(source *csi.VolumeContentSource, bytes int64) (id, folder string, err error) {
	if source == nil {
		return "", "", nil
	}
	if source.GetSnapshot() == nil {
		return "", "", status.Error(codes.InvalidArgument, "a volume can be created from a snapshot, and from nothing else")
	}
	id = source.GetSnapshot().SnapshotId
	snapshot, err := c.store.get(snapshots, id)
	if err != nil {
		return "", "", answer(err)
	}
	if bytes < snapshot.Bytes {
		return "", "", status.Errorf(codes.OutOfRange, "the volume is to have %d bytes, and that of its snapshot had %d", bytes, snapshot.Bytes)
	}
	folder, err = c.store.content(snapshots, id)
	return id, folder, err
}

func (c controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if request.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request has no volume ID")
	}
	return &csi.DeleteVolumeResponse{}, answer(c.store.remove(volumes, request.VolumeId))
}

func (c controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.VolumeId == "" || len(request.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or capabilities")
	}
	if _, err := c.store.get(volumes, request.VolumeId); err != nil {
		return nil, answer(err)
	}
	if err := checkCapabilities(request.VolumeCapabilities); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.VolumeContext, VolumeCapabilities: request.VolumeCapabilities, Parameters: request.Parameters}}, nil
}

// ControllerExpandVolume changes the size of a volume. Each node that uses the volume must be told.
func (c controller) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if request.VolumeId == "" || request.CapacityRange == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a size")
	}
	volume, err := c.store.get(volumes, request.VolumeId)
	if err != nil {
		return nil, answer(err)
	}
	bytes := max(request.CapacityRange.RequiredBytes, volume.Bytes)
	if !fits(request.CapacityRange, bytes) {
		return nil, status.Errorf(codes.OutOfRange, "volume %s has %d bytes, want the size %v: a volume does not shrink", request.VolumeId, volume.Bytes, request.CapacityRange)
	}
	if bytes > volume.Bytes {
		if err := c.store.resize(request.VolumeId, volume, bytes); err != nil {
			return nil, answer(err)
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: bytes, NodeExpansionRequired: true}, nil
}

func (c controller) CreateSnapshot(_ context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if request.Name == "" || request.SourceVolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a name or a volume ID")
	}
	volume, err := c.store.get(volumes, request.SourceVolumeId)
	if err != nil {
		return nil, answer(err)
	}
	from, err := c.store.content(volumes, request.SourceVolumeId)
	if err != nil {
		return nil, answer(err)
	}
	want := record{Name: request.Name, Bytes: volume.Bytes, Source: request.SourceVolumeId, Created: time.Now().UTC()}
	id, got, err := c.store.create(snapshots, want, from)
	if err != nil {
		return nil, answer(err)
	}
	if got.Source != request.SourceVolumeId {
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s is of volume %s, want %s", request.Name, got.Source, request.SourceVolumeId)
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: id, SourceVolumeId: got.Source, SizeBytes: got.Bytes,
		CreationTime: timestamppb.New(got.Created), ReadyToUse: true}}, nil
}

func (c controller) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if request.SnapshotId == "" {
		return nil, status.Error(codes.InvalidArgument, "the request has no snapshot ID")
	}
	return &csi.DeleteSnapshotResponse{}, answer(c.store.remove(snapshots, request.SnapshotId))
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
	case errors.Is(err, fs.ErrNotExist):
		return status.Error(codes.NotFound, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}
