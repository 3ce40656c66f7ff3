package main

//lint:file-ignore ST1005 errors are in the words of the real driver, which tests and pages compare

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/nfs/client"
)

// nfsFlags are the flags of csi-driver-nfs 4.13.
var nfsFlags = map[string]any{
	"default-ondelete-policy":           "",
	"drivername":                        "nfs.csi.k8s.io",
	"enable-snapshot-compression":       true,
	"endpoint":                          "unix://tmp/csi.sock",
	"mount-permissions":                 uint64(0),
	"nodeid":                            "",
	"remove-archived-volume-path":       false,
	"use-tar-command-in-snapshot":       false,
	"vol-stats-cache-expire-in-minutes": 10,
	"working-mount-dir":                 "/tmp",
}

// nfsPlugin mounts shares, for the driver for Manila on the same node. Unlike the real one, it has no controller, which
// nobody uses there, and it keeps no measurements.
func nfsPlugin(ctx context.Context, flags *flag.FlagSet) error {
	socket, ok := strings.CutPrefix(valueOf[string](flags, "endpoint"), "unix://")
	if !ok {
		return fmt.Errorf("the endpoint is %q, want a URL such as unix:///csi/csi.sock", valueOf[string](flags, "endpoint"))
	}
	plugin := nfsNode{id: valueOf[string](flags, "nodeid"), permissions: valueOf[uint64](flags, "mount-permissions"), mount: mountNFS}
	return folders.Serve(ctx, path.Join("/", socket), true, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, identity{driver: driver{name: valueOf[string](flags, "drivername")}})
		csi.RegisterNodeServer(s, plugin)
	})
}

// nfsNode mounts shares on its node.
type nfsNode struct {
	csi.UnimplementedNodeServer
	id string
	// permissions are the permissions that a mounted folder gets; 0 leaves them unchanged.
	permissions uint64
	mount       func(ctx context.Context, source, target string, options []string) error
}

func (n nfsNode) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.id}, nil
}

func (nfsNode) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, capability := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, csi.NodeServiceCapability_RPC_UNKNOWN,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: capability}}})
	}
	return response, nil
}

// nfsVolume holds a volume's attributes. Others are ignored.
type nfsVolume struct {
	source      string
	options     []string
	permissions uint64
}

func (n nfsNode) parse(request *csi.NodePublishVolumeRequest) (nfsVolume, error) {
	v := nfsVolume{options: slices.Clone(request.VolumeCapability.GetMount().GetMountFlags()), permissions: n.permissions}
	if request.Readonly {
		v.options = append(v.options, "ro")
	}
	attributes := map[string]string{}
	for name, value := range request.VolumeContext {
		attributes[strings.ToLower(name)] = value
	}
	for _, required := range []string{"server", "share"} {
		if attributes[required] == "" {
			return v, status.Errorf(codes.InvalidArgument, "%s is a required parameter", required)
		}
	}
	if more := attributes["mountoptions"]; more != "" {
		v.options = append(v.options, more)
	}
	if text := attributes["mountpermissions"]; text != "" {
		var err error
		if v.permissions, err = strconv.ParseUint(text, 8, 32); err != nil {
			return v, status.Errorf(codes.InvalidArgument, "invalid mountPermissions %s", text)
		}
	}
	server := attributes["server"]
	if ip := net.ParseIP(server); ip != nil && ip.To4() == nil {
		server = "[" + server + "]"
	}
	v.source = server + ":" + attributes["share"]
	if folder := attributes["subdir"]; folder != "" {
		folder = strings.NewReplacer("${pvc.metadata.name}", attributes["csi.storage.k8s.io/pvc/name"], "${pvc.metadata.namespace}", attributes["csi.storage.k8s.io/pvc/namespace"],
			"${pv.metadata.name}", attributes["csi.storage.k8s.io/pv/name"]).Replace(folder)
		v.source = strings.TrimRight(v.source, "/") + "/" + folder
	}
	if slices.Contains(strings.Split(v.source, "/"), "..") {
		return v, status.Errorf(codes.InvalidArgument, "invalid volume source %q: it leads out of the share", v.source)
	}
	return v, nil
}

// NodePublishVolume mounts a share for a pod.
func (n nfsNode) NodePublishVolume(ctx context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	switch {
	case request.VolumeCapability == nil:
		return nil, status.Error(codes.InvalidArgument, "Volume capability missing in request")
	case request.VolumeId == "":
		return nil, status.Error(codes.InvalidArgument, "Volume ID missing in request")
	case request.TargetPath == "":
		return nil, status.Error(codes.InvalidArgument, "Target path not provided")
	}
	volume, err := n.parse(request)
	if err != nil {
		return nil, err
	}
	if mounted, err := folders.IsMounted(request.TargetPath); err != nil || mounted {
		return &csi.NodePublishVolumeResponse{}, err
	}
	if err := os.MkdirAll(request.TargetPath, 0o750); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if err := n.mount(ctx, volume.source, request.TargetPath, volume.options); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if volume.permissions > 0 {
		if err := unix.Chmod(request.TargetPath, uint32(volume.permissions)); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// nfsTimeout is how long a mount is tried.
const nfsTimeout = 110 * time.Second

// mountNFS mounts a source such as "server:/path", as mount(8) and mount.nfs do. The error is their output.
func mountNFS(ctx context.Context, source, target string, options []string) error {
	failed := func(output string) error {
		return fmt.Errorf("mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs -o %s %s %s\nOutput: mount.nfs: %s\n",
			strings.Join(options, ","), source, target, output)
	}
	server, path, _ := strings.Cut(source, ":/")
	m := client.Mount{Path: "/" + path, Options: client.Defaults()}
	m.Retry = nfsTimeout
	for option := range strings.SplitSeq(strings.Join(options, ","), ",") {
		if option != "" && !m.Apply(option) {
			return failed("an incorrect mount option was specified")
		}
	}
	found, err := net.DefaultResolver.LookupHost(ctx, strings.Trim(server, "[]"))
	if err != nil {
		return failed(fmt.Sprintf("Failed to resolve server %s: Name or service not known", server))
	}
	m.Address = found[0]
	if err := m.Attach(target); err != nil {
		return failed(client.Explain(err, source, target))
	}
	return nil
}

// NodeUnpublishVolume unmounts a share, and removes the folder.
func (nfsNode) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	switch {
	case request.VolumeId == "":
		return nil, status.Error(codes.InvalidArgument, "Volume ID missing in request")
	case request.TargetPath == "":
		return nil, status.Error(codes.InvalidArgument, "Target path missing in request")
	}
	err := folders.Unmount(request.TargetPath)
	if err == nil {
		err = os.Remove(request.TargetPath)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "failed to unmount target %q: %v", request.TargetPath, err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats returns how full the file system of a share is.
func (nfsNode) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if request.VolumeId == "" || request.VolumePath == "" {
		return nil, status.Error(codes.InvalidArgument, "the request lacks a volume ID or a path")
	}
	var whole unix.Statfs_t
	err := unix.Statfs(request.VolumePath, &whole)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, status.Errorf(codes.NotFound, "path %s does not exist", request.VolumePath)
	case err != nil:
		return nil, status.Errorf(codes.Internal, "failed to get metrics: %v", err)
	}
	usage := func(unit csi.VolumeUsage_Unit, size int64, total, free, available uint64) *csi.VolumeUsage {
		return &csi.VolumeUsage{Unit: unit, Total: int64(total) * size, Used: int64(total-free) * size, Available: int64(available) * size}
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		usage(csi.VolumeUsage_BYTES, whole.Bsize, whole.Blocks, whole.Bfree, whole.Bavail),
		usage(csi.VolumeUsage_INODES, 1, whole.Files, whole.Ffree, whole.Ffree),
	}}, nil
}
