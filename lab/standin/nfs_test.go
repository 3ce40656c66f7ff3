package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestNFSSources: the mount sources for volumes' attributes, and the refusals.
func TestNFSSources(t *testing.T) {
	for name, test := range map[string]struct {
		attributes map[string]string
		flags      []string
		readonly   bool
		want       string // source, options and permissions
		refuse     string
	}{
		"of Manila":     {attributes: map[string]string{"server": "10.0.0.1", "share": "/shares/a", "shareID": "x"}, want: "10.0.0.1:/shares/a  0777"},
		"options":       {attributes: map[string]string{"server": "a.test", "share": "/", "mountOptions": "nfsvers=4.1,hard"}, flags: []string{"noatime"}, readonly: true, want: "a.test:/ noatime,ro,nfsvers=4.1,hard 0777"},
		"permissions":   {attributes: map[string]string{"server": "a.test", "share": "/b", "mountPermissions": "0700"}, want: "a.test:/b  0700"},
		"folder":        {attributes: map[string]string{"server": "a.test", "share": "/b/", "subDir": "${pvc.metadata.namespace}/c", "csi.storage.k8s.io/pvc/namespace": "web"}, want: "a.test:/b/web/c  0777"},
		"IPv6":          {attributes: map[string]string{"server": "fd00::1", "share": "/b"}, want: "[fd00::1]:/b  0777"},
		"no server":     {attributes: map[string]string{"share": "/b"}, refuse: "server is a required parameter"},
		"no share":      {attributes: map[string]string{"server": "a.test"}, refuse: "share is a required parameter"},
		"no number":     {attributes: map[string]string{"server": "a.test", "share": "/b", "mountPermissions": "rwx"}, refuse: "invalid mountPermissions rwx"},
		"another share": {attributes: map[string]string{"server": "a.test", "share": "/b", "subDir": "../c"}, refuse: "invalid volume source"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nfsNode{permissions: 0o777}.parse(&csi.NodePublishVolumeRequest{VolumeContext: test.attributes, Readonly: test.readonly, VolumeCapability: &csi.VolumeCapability{
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: test.flags}}}})
			if test.refuse != "" {
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.refuse) {
					t.Errorf("got %+v, %v; want %q", got, err, test.refuse)
				}
				return
			}
			fields := strings.SplitN(test.want, " ", 3)
			if err != nil || got.source != fields[0] || strings.Join(got.options, ",") != fields[1] || os.FileMode(got.permissions) != map[string]os.FileMode{"0777": 0o777, "0700": 0o700}[fields[2]] {
				t.Errorf("got %+v, %v; want %s", got, err, test.want)
			}
		})
	}
}

// TestNFSPublish: the plugin makes the folder, gives it the permissions, and removes it when it unmounts.
func TestNFSPublish(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root unmounts")
	}
	target := filepath.Join(t.TempDir(), "pods", "mount")
	mounted, refused := "", error(nil)
	n := nfsNode{permissions: 0o777, mount: func(_ context.Context, source, target string, options []string) error {
		mounted = source + " " + strings.Join(options, ",")
		return refused
	}}
	request := &csi.NodePublishVolumeRequest{VolumeId: "share", TargetPath: target, VolumeContext: map[string]string{"server": "a.test", "share": "/b"}, VolumeCapability: capability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)}
	if _, err := n.NodePublishVolume(t.Context(), request); err != nil || mounted != "a.test:/b " {
		t.Errorf("it mounted %q, %v", mounted, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the folder is %v, %v; want the permissions 0777", info, err)
	}
	refused = errors.New("access denied by server")
	_, err := n.NodePublishVolume(t.Context(), request)
	wantCode(t, "a mount that is refused", err, codes.Internal)
	for range 2 {
		_, err := n.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "share", TargetPath: target})
		assert.NoError(t, err)
	}
	_, err = os.Stat(target)
	assert.Truef(t, os.IsNotExist(err), "%s: %v, want it to be gone", target, err)
}
