package efs

//lint:file-ignore ST1005 errors are in the words of the real driver, which tests and pages compare

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/berth-csi/berth/lab/folders"
)

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{Type: &csi.ControllerServiceCapability_Rpc{
		Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}}}}}, nil
}

// The parameters that the provisioner adds: the names of claims and volumes.
const (
	claimName  = "csi.storage.k8s.io/pvc/name"
	claimSpace = "csi.storage.k8s.io/pvc/namespace"
	volumeName = "csi.storage.k8s.io/pv/name"
)

// class holds the parameters of a StorageClass.
type class struct {
	fileSystem, base, directory, permissions, zone string
	// uid and gid are -1 to choose them from the range.
	uid, gid, least, most          int64
	reuse, tags, unique, zonedOnly bool
}

// invalid returns the error for a request that can never succeed.
func invalid(format string, a ...any) error {
	return status.Errorf(codes.InvalidArgument, format, a...)
}

// parseClass parses the parameters of a StorageClass. Unknown ones are ignored.
func (d *driver) parseClass(parameters map[string]string) (c class, err error) {
	flag := func(name string, ordinary bool) (value bool) {
		value = ordinary
		if text, has := parameters[name]; has && err == nil {
			if value, err = strconv.ParseBool(text); err != nil {
				err = invalid("Invalid value for %s parameter", name)
			}
		}
		return value
	}
	c = class{
		fileSystem: strings.TrimSpace(parameters["fileSystemId"]), base: parameters["basePath"], directory: parameters["subPathPattern"],
		permissions: parameters["directoryPerms"], zone: parameters["az"], reuse: flag("reuseAccessPoint", false), tags: true,
	}
	if d.version.zones {
		c.zonedOnly, c.tags = flag("enforceZoneAffinity", false), flag("enableTagging", true)
	}
	if err != nil {
		return c, err
	}
	unique, notBool := strconv.ParseBool(parameters["ensureUniqueDirectory"])
	c.unique = unique || notBool != nil
	switch mode, has := parameters["provisioningMode"]; {
	case !c.tags && len(d.tags) > 0:
		return c, invalid("enableTagging is false but the driver is configured with --tags; set enableTagging=true or remove the --tags flag")
	case !has:
		return c, invalid("Missing provisioningMode parameter")
	case mode != "efs-ap":
		return c, invalid("Provisioning mode %s is not supported. Only Access point provisioning: 'efs-ap' is supported", mode)
	case c.fileSystem == "":
		return c, invalid("Missing fileSystemId parameter")
	}
	return c, c.parseIDs(parameters, d.version.accessPoints)
}

// firstID is the least ID that is chosen if a class has no range.
const firstID = 50000

// parseIDs parses the IDs that users and groups have, or the range of IDs to choose from.
func (c *class) parseIDs(parameters map[string]string, count int64) (err error) {
	number := func(name string, least int64) int64 {
		text, has := parameters[name]
		if !has || err != nil {
			return least - 1
		}
		n, notNumber := strconv.ParseInt(text, 10, 64)
		switch {
		case notNumber != nil:
			err = invalid("Failed to parse invalid %s: %v", name, notNumber)
		case n < least && least == 0:
			err = invalid("%s must be greater or equal than 0", name)
		case n < least:
			err = invalid("%s must be greater than 0", name)
		}
		return n
	}
	c.uid, c.gid = number("uid", 0), number("gid", 0)
	c.least, c.most = number("gidRangeStart", 1), number("gidRangeEnd", 1)
	_, begins := parameters["gidRangeStart"]
	_, ends := parameters["gidRangeEnd"]
	switch {
	case err != nil:
		return err
	case ends && !begins:
		return invalid("Missing gidRangeStart parameter")
	case begins && !ends:
		return invalid("Missing gidRangeEnd parameter")
	case !begins:
		c.least, c.most = firstID, firstID+count
	case c.most <= c.least:
		return invalid("gidRangeEnd must be greater than gidRangeStart")
	}
	return nil
}

// choose returns the first ID of the range that is not the group of an access point. It tries no more IDs than needed: the file system can
// have only count access points.
func (c class) choose(points []accessPoint, count int64) (int64, error) {
	used := map[int64]bool{}
	for _, p := range points {
		if p.user != nil {
			used[*p.user.Gid] = true
		}
	}
	for id := c.least; id <= min(c.most, c.least+count); id++ {
		if !used[id] {
			return id, nil
		}
	}
	return 0, status.Errorf(codes.Internal, "Failed to locate a free GID for given file system: %s. Please create a new storage class with a new file-system", c.fileSystem)
}

// directoryOf returns the root directory of the access point for a volume.
func (c class) directoryOf(name string, parameters map[string]string) (string, error) {
	if c.directory != "" {
		name = strings.NewReplacer("${.PVC.name}", parameters[claimName], "${.PVC.namespace}", parameters[claimSpace], "${.PV.name}", parameters[volumeName]).Replace(c.directory)
		if strings.Contains(name, "${") || strings.Contains(name, "}") {
			return "", invalid("Path specified \"%s\" contains invalid elements. Can only contain [.PV.name .PVC.name .PVC.namespace]", c.directory)
		}
		if c.unique {
			name += "-" + string(uuid.NewUUID())
		}
	}
	directory := path.Join("/", c.base, name)
	switch {
	case len(directory) > 100:
		return "", invalid("Proposed path '%s' exceeds EFS limit of 100 characters", directory)
	case strings.Count(directory, "/") > 5:
		return "", invalid("Proposed path '%s' EFS limit of 4 subdirectories", directory)
	}
	return directory, nil
}

// fits fails unless the class could have created this existing access point. With exact, IDs that the class names must be equal, even if
// they are not in the range. All other IDs must be in the range.
func (c class) fits(p accessPoint, exact bool) error {
	within := func(what string, got *int64, want int64) error {
		switch {
		case exact && want >= 0 && *got != want:
			return fmt.Errorf("Access point found but its %s is incorrect", what)
		case (!exact || want < 0) && (*got < c.least || *got > c.most):
			return fmt.Errorf("Access point found but its %s is outside the specified range", what)
		}
		return nil
	}
	switch {
	case !strings.HasPrefix(strings.TrimPrefix(p.directory, "/"), strings.TrimPrefix(c.base, "/")):
		return errors.New("Access point found but has different base path than what's specified in storage class")
	case p.user == nil:
		return errors.New("Access point found but PosixUser is nil")
	}
	return errors.Join(within("GID", p.user.Gid, c.gid), within("UID", p.user.Uid, c.uid))
}

// roleOf returns EFS as the driver sees it or, if a request's secrets name a role, as that role sees it, the role, and whether nodes find
// mount targets by name.
func (d *driver) roleOf(secrets map[string]string) (a account, role string, byName bool, err error) {
	if text, has := secrets["crossaccount"]; has {
		if byName, err = strconv.ParseBool(text); err != nil {
			return account{}, "", false, invalid("crossaccount parameter must have boolean value.")
		}
	}
	role = secrets["awsRoleArn"]
	a, err = d.account(role, secrets["externalId"])
	if err != nil {
		err = status.Errorf(codes.Unauthenticated, "Unable to initialize aws cloud: %v. Please verify role has the correct AWS permissions for cross account mount", err)
	}
	return a, role, byName, err
}

// refused returns the answer for an error of EFS.
func refused(what string, err error) error {
	switch {
	case errors.Is(err, errDenied):
		return status.Errorf(codes.Unauthenticated, "Access Denied. Please ensure you have the right AWS permissions: %v", err)
	case errors.Is(err, errNotFound):
		return invalid("File System does not exist: %v", err)
	}
	return status.Errorf(codes.Internal, "%s: %v", what, err)
}

// CreateVolume creates an access point, or finds the one that an earlier request has created.
func (d *driver) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	switch {
	case request.Name == "":
		return nil, invalid("Volume name not provided")
	case len(request.VolumeCapabilities) == 0:
		return nil, invalid("Volume capabilities not provided")
	}
	if err := d.version.check(request.VolumeCapabilities); err != nil {
		return nil, invalid("Volume capabilities not supported: %v", err)
	}
	for _, capability := range request.VolumeCapabilities {
		if kind := capability.GetMount().GetFsType(); kind != "" && kind != typeEFS {
			return nil, invalid("Volume fstype not supported: invalid fstype: %s", kind)
		}
	}
	c, err := d.parseClass(request.Parameters)
	if err != nil {
		return nil, err
	}
	a, role, byName, err := d.roleOf(request.Secrets)
	if err != nil {
		return nil, err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	point, err := d.provide(ctx, a, c, request)
	if err != nil {
		return nil, err
	}
	volume := &csi.Volume{CapacityBytes: request.CapacityRange.GetRequiredBytes(), VolumeId: d.version.handleOf(point), VolumeContext: map[string]string{}}
	if role != "" {
		if err := d.reach(ctx, a, c, byName, volume.VolumeContext); err != nil {
			return nil, err
		}
	}
	if c.zonedOnly {
		zone, err := a.zoneOf(ctx, c.fileSystem)
		if err != nil {
			return nil, refused("Failed to describe file system for one zone AZ discovery", err)
		}
		if zone != "" {
			volume.AccessibleTopology = []*csi.Topology{topology(zone)}
		}
	}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

// provide returns the access point of a volume, which it creates unless there is one.
func (d *driver) provide(ctx context.Context, a account, c class, request *csi.CreateVolumeRequest) (accessPoint, error) {
	token := request.Name
	if c.reuse {
		token = fmt.Sprintf("%x", sha256.Sum256([]byte(request.Parameters[claimName])))
		existing, found, err := a.byToken(ctx, token, c.fileSystem)
		switch {
		case err != nil:
			return accessPoint{}, fmt.Errorf("failed to find access point: %w", err)
		case found && d.version.types: // the earlier version takes any
			return existing, d.mustFit(c, existing)
		case found:
			return existing, nil
		}
	}
	want := accessPointRequest{fileSystem: c.fileSystem, token: token, permissions: c.permissions, uid: c.uid, gid: c.gid}
	var err error
	if want.directory, err = c.directoryOf(request.Name, request.Parameters); err != nil {
		return accessPoint{}, err
	}
	if c.tags {
		want.tags = map[string]string{Name + "/cluster": "true"}
		maps.Copy(want.tags, d.tags)
	}
	if c.uid < 0 || c.gid < 0 {
		points, err := a.list(ctx, c.fileSystem)
		if err != nil {
			return accessPoint{}, refused("Failed to fetch Access Points or Describe File System", err)
		}
		chosen, err := c.choose(points, d.version.accessPoints)
		if err != nil {
			return accessPoint{}, err
		}
		if c.uid < 0 {
			want.uid = chosen
		}
		if c.gid < 0 {
			want.gid = chosen
		}
	}
	made, err := a.create(ctx, want)
	switch {
	case errors.Is(err, errExists):
		existing, found, err := a.byToken(ctx, token, c.fileSystem)
		if err != nil || !found {
			return accessPoint{}, fmt.Errorf("No access point for client token %s was returned: %w", token, err)
		}
		return existing, d.mustFit(c, existing)
	case errors.Is(err, errDenied):
		return accessPoint{}, refused("", err)
	case err != nil:
		return accessPoint{}, status.Errorf(codes.Internal, "Failed to create Access point in File System %s : %v", c.fileSystem, err)
	}
	return made, nil
}

func (d *driver) mustFit(c class, existing accessPoint) error {
	if err := c.fits(existing, d.version.exact); err != nil {
		return status.Errorf(codes.AlreadyExists, "Invalid existing access point: %v", err)
	}
	return nil
}

// Names of volume attributes.
const (
	attributeAddress   = "mounttargetip"
	attributeAddresses = "mounttargetipmap"
	attributeByName    = "crossaccount"
)

// reach adds to a volume's attributes how nodes find the mount targets of a file system of another account.
func (d *driver) reach(ctx context.Context, a account, c class, byName bool, attributes map[string]string) error {
	if byName {
		attributes[attributeByName] = "true"
		return nil
	}
	addresses, err := a.mountTargets(ctx, c.fileSystem)
	switch {
	case err != nil && !d.version.zones:
		return nil // the earlier version hopes that nodes find one
	case err != nil:
		return status.Errorf(codes.Internal, "Failed to describe mount targets for file system %s: %v", c.fileSystem, err)
	case c.zone != "" || !d.version.zones:
		attributes[attributeAddress] = prefer(addresses, c.zone)
		return nil
	}
	text, err := json.Marshal(addresses)
	attributes[attributeAddresses] = string(text)
	return err
}

// DeleteVolume deletes an access point, with its directory if the driver is to do that. A handle of another driver
// counts as deleted.
func (d *driver) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	a, role, byName, err := d.roleOf(request.Secrets)
	if err != nil {
		return nil, err
	}
	if request.VolumeId == "" {
		return nil, invalid("Volume ID not provided")
	}
	h, err := d.version.parseHandle(request.VolumeId)
	if err != nil || h.accessPoint == "" {
		return &csi.DeleteVolumeResponse{}, nil
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	if d.DeleteRootDir {
		point, err := a.describe(ctx, h.accessPoint, h.fileSystem)
		switch {
		case errors.Is(err, errNotFound):
			return &csi.DeleteVolumeResponse{}, nil
		case errors.Is(err, errDenied):
			return nil, refused("", err)
		case err != nil:
			return nil, status.Errorf(codes.Internal, "Could not get describe Access Point: %s , error: %v", h.accessPoint, err)
		}
		options := []string{"tls", "iam"}
		if role != "" && byName {
			options = append(options, attributeByName)
		} else if role != "" {
			if addresses, err := a.mountTargets(ctx, h.fileSystem); err == nil {
				options = append(options, attributeAddress+"="+prefer(addresses, d.place.zone))
			}
		}
		if err := d.deleteDirectory(ctx, source{h.fileSystem, "/", options}, point); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	if err := a.delete(ctx, h.accessPoint); err != nil && !errors.Is(err, errNotFound) {
		if errors.Is(err, errDenied) {
			return nil, refused("", err)
		}
		return nil, status.Errorf(codes.Internal, "Failed to Delete volume %s: %v", request.VolumeId, err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// deleteDirectory mounts a file system for as long as it takes to delete the directory of an access point.
func (d *driver) deleteDirectory(ctx context.Context, root source, point accessPoint) (err error) {
	folder := filepath.Join(d.temporary, point.id)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("Could not create dir %q: %w", folder, err)
	}
	if err := d.mount(ctx, root, folder); err != nil {
		return errors.Join(fmt.Errorf("Could not mount %q at %q: %w", root.fileSystem, folder, err), os.Remove(folder))
	}
	defer func() {
		// Nothing that is mounted is removed.
		if unmountErr := folders.Unmount(folder); unmountErr != nil {
			err = errors.Join(err, fmt.Errorf("Could not unmount %q: %w", folder, unmountErr))
			return
		}
		err = errors.Join(err, os.Remove(folder))
	}()
	inside, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer inside.Close()
	directory := strings.Trim(path.Clean("/"+point.directory), "/")
	if directory == "" {
		return nil
	}
	if info, err := inside.Stat(directory); err != nil || !info.IsDir() {
		return nil
	}
	if err := inside.RemoveAll(directory); err != nil {
		return fmt.Errorf("Could not delete access point root directory %q: %w", point.directory, err)
	}
	return nil
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	switch {
	case request.VolumeId == "":
		return nil, invalid("Volume ID not provided")
	case len(request.VolumeCapabilities) == 0:
		return nil, invalid("Volume capabilities not provided")
	}
	if _, err := d.version.parseHandle(request.VolumeId); err != nil {
		return nil, status.Errorf(codes.NotFound, "Volume not found, err: %v", err)
	}
	response := &csi.ValidateVolumeCapabilitiesResponse{}
	if d.version.check(request.VolumeCapabilities) == nil {
		response.Confirmed = &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: request.VolumeCapabilities}
	}
	return response, nil
}

// modes are the supported access modes.
var modes = []csi.VolumeCapability_AccessMode_Mode{csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER}

// check fails if the driver lacks a requested access mode.
func (v Version) check(capabilities []*csi.VolumeCapability) error {
	for _, capability := range capabilities {
		mode := capability.GetAccessMode().GetMode()
		switch {
		case !slices.Contains(modes, mode):
			return fmt.Errorf("invalid access mode: %s", mode)
		case capability.GetMount() == nil:
			return errors.New("only filesystem volumes are supported")
		case v.types && slices.Contains(capability.GetMount().MountFlags, attributeByName):
			return errors.New("mount option 'crossaccount' cannot be set manually. The CSI driver automatically configures this based on Kubernetes secrets")
		}
	}
	return nil
}

func topology(zone string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{corev1.LabelTopologyZone: zone}}
}
