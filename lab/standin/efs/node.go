package efs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/lab/folders"
)

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	response := &csi.NodeGetInfoResponse{NodeId: d.place.instance, MaxVolumesPerNode: d.MostVolumes}
	if d.version.zones && d.place.zone != "" {
		response.AccessibleTopology = topology(d.place.zone)
	}
	return response, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	if d.Volumes.On {
		response.Capabilities = []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_GET_VOLUME_STATS}}}}
	}
	return response, nil
}

// NodePublishVolume mounts a volume for a pod.
func (d *driver) NodePublishVolume(ctx context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target := request.TargetPath
	switch {
	case target == "":
		return nil, invalid("Target path not provided")
	case request.VolumeCapability == nil:
		return nil, invalid("Volume capability not provided")
	}
	if err := d.version.check([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, invalid("Volume capability not supported: %v", err)
	}
	if d.mounting != nil {
		select {
		case d.mounting <- struct{}{}:
			defer func() { <-d.mounting }()
		default:
			return nil, status.Errorf(codes.Aborted, "The number of concurrent mount calls is %d, which has reached the limit", d.MostMounts)
		}
	}
	from, err := d.version.sourceOf(request, d.place.zone)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not create dir %q: %v", target, err)
	}
	mounted, err := folders.IsMounted(target)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if mounted {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := d.mount(ctx, from, target); err != nil {
		_ = os.Remove(target) // for the kubelet, which tries again
		return nil, status.Errorf(codes.Internal, "Could not mount %q at %q: %v", from.fileSystem+":"+from.path, target, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// attributes are the parsed attributes of a volume.
type attributes struct {
	path            string
	options         []string
	plain, accounts bool // without TLS, of another account
}

// parseAttributes parses the attributes of a volume. zone is the node's.
func (v Version) parseAttributes(all map[string]string, zone string) (a attributes, err error) {
	a.path = "/"
	boolean := func(name, value string) bool {
		is, notBool := strconv.ParseBool(value)
		if notBool != nil {
			err = invalid("Volume context property %q must be a boolean value: %v", name, notBool)
		}
		return is
	}
	for name, value := range all {
		switch lower := strings.ToLower(name); {
		case lower == "storage.kubernetes.io/csiprovisioneridentity":
		case lower == "path" && v.pathAttribute:
			if !filepath.IsAbs(value) {
				return a, invalid("Volume context property %q must be an absolute path", name)
			}
			a.path = filepath.Clean(value)
		case lower == "encryptintransit":
			a.plain = !boolean(name, value)
		case lower == attributeAddress:
			if v.zones && net.ParseIP(value) == nil {
				return a, invalid("Volume context property %q=%q is not a valid IP address", name, value)
			}
			a.options = append(a.options, attributeAddress+"="+value)
		case lower == attributeAddresses && v.zones:
			addresses := map[string]string{}
			if err := json.Unmarshal([]byte(value), &addresses); err != nil {
				return a, invalid("Failed to parse %s: %v", attributeAddresses, err)
			}
			if len(addresses) > 0 {
				a.options = append(a.options, attributeAddress+"="+prefer(addresses, zone))
			}
		case lower == attributeByName:
			a.accounts = boolean(name, value)
		default:
			return a, invalid("Volume context property %s not supported.", name)
		}
	}
	return a, err
}

// sourceOf returns the mount source for a request.
func (v Version) sourceOf(request *csi.NodePublishVolumeRequest, zone string) (source, error) {
	a, err := v.parseAttributes(request.VolumeContext, zone)
	if err != nil {
		return source{}, err
	}
	h, err := v.parseHandle(request.VolumeId)
	if err != nil {
		return source{}, err
	}
	if h.kind != typeEFS {
		return source{}, invalid("file systems of S3 Files are not supported here, want one of EFS")
	}
	s := source{h.fileSystem, a.path, a.options}
	if h.path != "" {
		s.path = h.path
	}
	add := func(option string) {
		if !slices.Contains(s.options, option) {
			s.options = append(s.options, option)
		}
	}
	if h.accessPoint != "" {
		add("accesspoint=" + h.accessPoint)
		add("tls")
	}
	if !a.plain {
		add("tls")
	}
	if a.accounts {
		add(attributeByName)
	}
	if request.Readonly {
		add("ro")
	}
	for _, flag := range request.VolumeCapability.GetMount().GetMountFlags() {
		flag = strings.ToLower(flag)
		if other, is := strings.CutPrefix(flag, "accesspoint="); is {
			klog.Warningf("Use of 'accesspoint' under mountOptions is deprecated with this driver. Specify the access point in the volumeHandle instead")
			if h.accessPoint != "" && other != h.accessPoint {
				return source{}, invalid("Found conflicting access point IDs in mountOptions (%s) and volumeHandle (%s)", other, h.accessPoint)
			}
		}
		switch {
		case flag == "tls" && a.plain:
			return source{}, invalid("Found tls in mountOptions but encryptInTransit is false")
		case strings.HasPrefix(flag, "awscredsuri"):
			klog.Warning("awscredsuri mount option is not supported by efs-csi-driver.")
		default:
			add(flag)
		}
	}
	return s, nil
}

// NodeUnpublishVolume unmounts a volume. The kubelet removes the folder.
func (d *driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if request.TargetPath == "" {
		return nil, invalid("Target path not provided")
	}
	if err := folders.Unmount(request.TargetPath); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not unmount %q: %v", request.TargetPath, err)
	}
	d.volumes.forget(request.VolumeId)
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats returns how full a volume was when that was last measured.
func (d *driver) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	switch {
	case request.VolumeId == "":
		return nil, invalid("Volume ID not provided")
	case request.VolumePath == "":
		return nil, invalid("Volume Path not provided")
	}
	if _, err := os.Stat(request.VolumePath); errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "Volume Path %s does not exist", request.VolumePath)
	} else if err != nil {
		return nil, status.Errorf(codes.Internal, "Failed to invoke stat on volume path %s: %v", request.VolumePath, err)
	}
	h, err := d.version.parseHandle(request.VolumeId)
	if err != nil {
		return nil, err
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{d.volumes.of(request.VolumeId, h.fileSystem, request.VolumePath)}}, nil
}
