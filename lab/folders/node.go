package folders

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Node mounts volumes on its node.
type Node struct {
	csi.UnimplementedNodeServer
	// Info describes the node. It fails where there is no node.
	Info  func(context.Context) (*csi.NodeGetInfoResponse, error)
	Store Store
	// Features are the features of the controller.
	Features
}

func (n Node) NodeGetInfo(ctx context.Context, _ *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return n.Info(ctx)
}

func (n Node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	capabilities := []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	if !n.GrowsAlone {
		capabilities = append(capabilities, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
	}
	if n.MountGroup {
		capabilities = append(capabilities, csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	}
	for _, capability := range capabilities {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: capability}}})
	}
	return response, nil
}

// checkAttached fails unless a volume that must be attached to a node is attached to this one.
func (n Node) checkAttached(ctx context.Context, id string) error {
	volume, err := n.Store.Get(Volumes, id)
	if err != nil || !n.Attaches {
		return answer(err)
	}
	info, err := n.Info(ctx)
	if err != nil {
		return err
	}
	if volume.Node != info.NodeId {
		return status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %q, not to this node, %s", id, volume.Node, info.NodeId)
	}
	return nil
}

// NodeStageVolume mounts a volume once for the node.
func (n Node) NodeStageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if request.VolumeId == "" || request.StagingTargetPath == "" || request.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID, a path or a capability")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	if err := n.checkAttached(ctx, request.VolumeId); err != nil {
		return nil, err
	}
	content, err := n.Store.content(Volumes, request.VolumeId)
	if err != nil {
		return nil, answer(err)
	}
	if group := request.VolumeCapability.GetMount().GetVolumeMountGroup(); group != "" {
		if err := n.give(content, group); err != nil {
			return nil, answer(err)
		}
	}
	return &csi.NodeStageVolumeResponse{}, answer(bind(content, request.StagingTargetPath, false))
}

func (Node) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if request.VolumeId == "" || request.StagingTargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a path")
	}
	return &csi.NodeUnstageVolumeResponse{}, answer(Unmount(request.StagingTargetPath))
}

// NodePublishVolume mounts a volume, which is mounted for the node, for a pod.
func (n Node) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if request.VolumeId == "" || request.StagingTargetPath == "" || request.TargetPath == "" || request.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID, a path or a capability")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	if _, err := n.Store.Get(Volumes, request.VolumeId); err != nil {
		return nil, answer(err)
	}
	if err := os.MkdirAll(request.TargetPath, 0o750); err != nil {
		return nil, answer(err)
	}
	return &csi.NodePublishVolumeResponse{}, answer(bind(request.StagingTargetPath, request.TargetPath, request.Readonly))
}

func (Node) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if request.VolumeId == "" || request.TargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a path")
	}
	if err := Unmount(request.TargetPath); err != nil {
		return nil, answer(err)
	}
	if err := os.Remove(request.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, answer(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume reports the size that the controller gave the volume: a folder need not be changed for it.
func (n Node) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if request.VolumeId == "" || request.VolumePath == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a path")
	}
	volume, err := n.Store.Get(Volumes, request.VolumeId)
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
