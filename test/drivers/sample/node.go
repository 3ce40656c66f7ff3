package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// node mounts volumes on its node.
type node struct {
	csi.UnimplementedNodeServer
	name  string
	store store
}

func (n node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	if n.name == "" {
		return nil, status.Error(codes.FailedPrecondition, "this is no node: the driver was started without --node")
	}
	return &csi.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, capability := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: capability}}})
	}
	return response, nil
}

// NodeStageVolume mounts a volume once for the node.
func (n node) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if request.VolumeId == "" || request.StagingTargetPath == "" || request.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID, a path or a capability")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	content, err := n.store.content(volumes, request.VolumeId)
	if err != nil {
		return nil, answer(err)
	}
	return &csi.NodeStageVolumeResponse{}, answer(bind(content, request.StagingTargetPath, false))
}

func (node) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if request.VolumeId == "" || request.StagingTargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a path")
	}
	return &csi.NodeUnstageVolumeResponse{}, answer(unmount(request.StagingTargetPath))
}

// NodePublishVolume mounts a volume, which is mounted for the node, for a pod.
func (n node) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if request.VolumeId == "" || request.StagingTargetPath == "" || request.TargetPath == "" || request.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID, a path or a capability")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	if _, err := n.store.get(volumes, request.VolumeId); err != nil {
		return nil, answer(err)
	}
	if err := os.MkdirAll(request.TargetPath, 0o750); err != nil {
		return nil, answer(err)
	}
	return &csi.NodePublishVolumeResponse{}, answer(bind(request.StagingTargetPath, request.TargetPath, request.Readonly))
}

func (node) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if request.VolumeId == "" || request.TargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a path")
	}
	if err := unmount(request.TargetPath); err != nil {
		return nil, answer(err)
	}
	if err := os.Remove(request.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, answer(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume reports the size that the controller gave the volume: a folder need not be changed for it.
func (n node) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if request.VolumeId == "" || request.VolumePath == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a path")
	}
	volume, err := n.store.get(volumes, request.VolumeId)
	if err != nil {
		return nil, answer(err)
	}
	if _, err := os.Stat(request.VolumePath); err != nil {
		return nil, answer(err)
	}
	if !fits(request.CapacityRange, volume.Bytes) {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s has %d bytes, want the size %v", request.VolumeId, volume.Bytes, request.CapacityRange)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: volume.Bytes}, nil
}
