package main

import (
	"errors"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/standin/backend"
)

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func capability(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	assert.Equalf(t, want, status.Code(err), "%s: %v", what, err)
}

// TestAttachments: a volume is attached to one node at a time, mounted nowhere else, and not deleted meanwhile.
func TestAttachments(t *testing.T) {
	store := startBackend(t, backend.Options{})
	controller := csi.NewControllerClient(dial(t, serve(t, block, store)))
	single := capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
	request := &csi.CreateVolumeRequest{Name: "hold", VolumeCapabilities: []*csi.VolumeCapability{single}, Parameters: map[string]string{"skuName": "Premium_LRS"}}
	made, err := controller.CreateVolume(t.Context(), request)
	require.NoError(t, err)
	id := made.Volume.VolumeId
	attach := func(node string) error {
		_, err := controller.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: single})
		return err
	}
	for range 2 {
		wantCode(t, "attach", attach("pier-1"), codes.OK)
	}
	wantCode(t, "attach to another node", attach("pier-2"), codes.FailedPrecondition)
	_, err = controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, "delete what is attached", err, codes.FailedPrecondition)
	if volume, err := store.Get(folders.Volumes, id); err != nil || volume.Node != "pier-1" || volume.Parameters["skuName"] != "Premium_LRS" {
		t.Errorf("the backend has %+v, %v", volume, err)
	}
	other := csi.NewNodeClient(dial(t, serve(t, block.on("pier-2"), store)))
	_, err = other.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: t.TempDir(), VolumeCapability: single})
	wantCode(t, "mount on another node", err, codes.FailedPrecondition)
	for range 2 {
		_, err = controller.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "pier-1"})
		wantCode(t, "detach", err, codes.OK)
	}
	_, err = controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, "delete", err, codes.OK)
}

// TestRefusals: wrong parameters, modes that the driver does not have, and logins that the backend does not know.
func TestRefusals(t *testing.T) {
	store := startBackend(t, backend.Options{Login: func(login backend.Login) error {
		if login["user"] != "harbour" {
			return errors.New("who is " + login["user"])
		}
		return nil
	}})
	controller := csi.NewControllerClient(dial(t, serve(t, block, store)))
	single, shared := capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER), capability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
	_, err := controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "a", VolumeCapabilities: []*csi.VolumeCapability{shared}})
	wantCode(t, "share", err, codes.InvalidArgument)
	_, err = controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "a", VolumeCapabilities: []*csi.VolumeCapability{single}, Parameters: map[string]string{"skunam": ""}})
	wantCode(t, "a parameter", err, codes.InvalidArgument)
	assert.Empty(t, store.Calls(), "the backend got")
	_, err = controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "a", VolumeCapabilities: []*csi.VolumeCapability{single}})
	wantCode(t, "log in", err, codes.PermissionDenied)
}
