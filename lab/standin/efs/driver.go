// Package efs is a driver in place of the CSI driver of Amazon EFS, whose module no proxy serves. It stands for two
// versions: each takes and refuses the volume handles, attributes, mount options and parameters of classes that the
// real one does, with its messages, and makes access points by EFS's own API, with the group IDs, directories, tags and
// client tokens that the real one would choose. It mounts like mount.efs, but by itself: it resolves the name of a file
// system, and shows the server of package nfs the certificate that names file system and access point.
//
// Known differences from the real driver:
//
//   - Package client mounts: bind mounts of a folder that the server chooses. Writers keep their user, as nothing maps
//     it to the access point's; the directory of an access point has the owner that its creation says. Unmounting never
//     hangs, so nothing is forced.
//   - There are no tunnels, so no state in /var/run/efs, no watchdog, and no configuration in /etc/amazon/efs.
//     Arguments about efs-utils are checked for their form and have no effect. A mount depends on no other process.
//   - The option iam needs credentials, from the role of the instance alone. No request is signed with them.
//   - If the name of a file system cannot be resolved, nobody asks EFS for an address, as in an image without botocore.
//   - File systems of S3 Files are refused, and so are IDs of file systems in ConfigMaps and Secrets.
//   - The root directory of a file system is never deleted, not even as the directory of an access point.
//   - One lock serializes changes of access points, where the real one has a lock for each of them.
//   - The usage of a volume is measured at the first question; the real one waits 5 to 15 minutes first.
//   - It does not run in ECS.
package efs

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/lab/folders"
)

// Name is the name of the CSIDriver.
const Name = "efs.csi.aws.com"

// Version is the behaviour of a version of the driver.
type Version struct {
	Number string
	// accessPoints is how many access points the version expects of a file system. Its default range of group IDs has one more.
	accessPoints int64
	// lists says that it lists all access points, and not only the first accessPoints of them.
	lists bool
	// types says that volume handles begin with the type of the file system, as in "efs:fs-0123::fsap-4567", that IDs in them
	// are checked, and that handles without type are taken, too.
	types bool
	// exact says that an access point that exists already may have IDs outside of the range, if the class wants them.
	exact bool
	// zones says that it names the zones of nodes and of file systems in one zone.
	zones bool
	// pathAttribute says that the directory can be a volume attribute.
	pathAttribute bool
	// escapes says that tags can have spaces and colons, after a backslash.
	escapes bool
	// keepsTaints says that the variable DISABLE_TAINT_WATCHER makes it leave taints alone.
	keepsTaints bool
}

// The versions.
var (
	V2 = Version{Number: "v2.1.11", accessPoints: 1000, pathAttribute: true}
	V3 = Version{Number: "v3.4.1", accessPoints: 10000, lists: true, types: true, exact: true, zones: true, escapes: true, keepsTaints: true}
)

// Options are the arguments that make a difference here.
type Options struct {
	Endpoint, Tags string
	// DeleteRootDir deletes the directory of an access point with it.
	DeleteRootDir bool
	// AdaptiveRetry slows requests down when EFS throttles them.
	AdaptiveRetry bool
	Metrics       Metrics
	Volumes       VolumeMetrics
	// MostVolumes is how many volumes a node says it can have, 0 if it says nothing.
	MostVolumes int64
	// MostMounts is how many mounts can be under way at the same time, 0 for any number.
	MostMounts int64
}

// driver is a process of the driver, which has all services.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	Options
	version Version
	place   place
	tags    map[string]string
	// account calls EFS as the driver, or in a role.
	account func(role, externalID string) (account, error)
	// mount mounts a file system.
	mount func(context.Context, source, string) error
	// temporary is where the controller mounts a file system to delete a directory.
	temporary string
	volumes   *measurements
	mounting  chan struct{} // has room for the mounts under way; nil for any number

	changing sync.Mutex // of access points
}

// Run runs the driver until ctx ends.
func Run(ctx context.Context, version Version, o Options) error {
	d := &driver{Options: o, version: version, tags: parseTags(o.Tags, version.escapes), temporary: "/var/lib/csi/pv", volumes: newMeasurements(o.Volumes)}
	if o.MostMounts > 0 {
		d.mounting = make(chan struct{}, o.MostMounts)
	}
	var err error
	if d.place, err = findPlace(ctx); err != nil {
		return err
	}
	requests := newRequests()
	d.account = func(role, externalID string) (account, error) {
		return newAccount(ctx, d.place.region, role, externalID, o.AdaptiveRetry, requests, version)
	}
	d.mount = mounter{d.place}.mount
	listener, err := listen(o.Endpoint)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.Metrics.Address != "" {
		group.Go(func() error { return o.Metrics.serve(ctx, requests) })
	}
	group.Go(func() error { return d.serve(ctx, listener) })
	if !version.keepsTaints || os.Getenv("DISABLE_TAINT_WATCHER") == "" {
		group.Go(func() error {
			removeTaint(ctx)
			return nil
		})
	}
	klog.Infof("Listening for connections on address: %v", listener.Addr())
	return group.Wait()
}

// serve serves all services until ctx ends.
func (d *driver) serve(ctx context.Context, listener net.Listener) error {
	return folders.ServeOn(ctx, listener, logged, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, d)
		csi.RegisterControllerServer(s, d)
		csi.RegisterNodeServer(s, d)
	})
}

// logged logs a failed call in the words of the real driver.
func logged(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	if err != nil {
		klog.Errorf("GRPC error: %v", err)
	}
	return response, err
}

// listen listens where an endpoint says. The socket of an earlier process is replaced.
func listen(endpoint string) (net.Listener, error) {
	at, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("could not parse endpoint: %w", err)
	}
	address := path.Join(at.Host, at.Path)
	switch strings.ToLower(at.Scheme) {
	case "tcp":
		return net.Listen("tcp", address)
	case "unix":
		address = path.Join("/", address)
		if err := os.Remove(address); err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("could not remove unix domain socket %q: %w", address, err)
		}
		return net.Listen("unix", address)
	}
	return nil, fmt.Errorf("unsupported protocol: %s", at.Scheme)
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: d.version.Number + " (stand-in)"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.version.zones {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	response := &csi.GetPluginCapabilitiesResponse{}
	for _, service := range services {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}}})
	}
	return response, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// parseTags parses tags as in "environment:prod region:us-east-1". With escapes, malformed tags are left out; without,
// one tag without a value leaves no tags at all.
func parseTags(text string, escapes bool) map[string]string {
	tags := map[string]string{}
	text = strings.TrimSpace(text)
	if text == "" {
		return tags
	}
	for _, tag := range split(text, ' ', escapes) {
		switch fields := split(tag, ':', escapes); {
		case len(fields) == 2:
			tags[fields[0]] = fields[1]
		case len(fields) == 1 && escapes:
			tags[fields[0]] = ""
		case len(fields) == 1:
			klog.Errorf("Failed to parse input tag string: %v", text)
			return nil
		case !escapes:
			tags[fields[0]] = fields[1]
		default:
			klog.Errorf("Failed to parse input tag: %v", fields)
		}
	}
	return tags
}

// split splits a text at a separator. With escapes, a backslash before the separator, or before another backslash, is
// left out, and the next character is ordinary.
func split(text string, at byte, escapes bool) []string {
	if !escapes {
		return strings.Split(text, string(at))
	}
	var fields []string
	var field strings.Builder
	for i := 0; i < len(text); i++ {
		switch next := i + 1; {
		case text[i] == at:
			fields = append(fields, field.String())
			field.Reset()
		case text[i] == '\\' && next < len(text) && (text[next] == '\\' || text[next] == at):
			field.WriteByte(text[next])
			i++
		default:
			field.WriteByte(text[i])
		}
	}
	return append(fields, field.String())
}
