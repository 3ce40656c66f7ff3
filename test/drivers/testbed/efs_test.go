package testbed

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	efssdk "github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/stretchr/testify/require"

	driver "github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/nfs"
)

// TestExportsOfEFS: a mount gets the root directory of its access point, and only on its own file system.
func TestExportsOfEFS(t *testing.T) {
	const first, second, host = "fs-0000000000000000a", "fs-0000000000000000b", ".efs.us-east-1.amazonaws.com"
	region := StartAWS(t, driver.Driver, aws.Options{})
	files := AddFileSystems(t, region, efs.FileSystem{ID: first}, efs.FileSystem{ID: second})
	client := efssdk.NewFromConfig(region.Configure(t, region.AddUser(t, "admin", "elasticfilesystem:*")))
	create := func(token string, info *types.CreationInfo) string {
		t.Helper()
		id, path := first, "/team"
		made, err := client.CreateAccessPoint(t.Context(), &efssdk.CreateAccessPointInput{
			ClientToken: &token, FileSystemId: &id, RootDirectory: &types.RootDirectory{Path: &path, CreationInfo: info},
		})
		require.NoError(t, err)
		return *made.AccessPointId
	}
	owner, mode := int64(os.Getuid()), "750"
	ownerless, owned := create("1", nil), create("2", &types.CreationInfo{OwnerUid: &owner, OwnerGid: &owner, Permissions: &mode})
	root := files.Folder(first)
	for _, tc := range []struct {
		name    string
		request nfs.Request
		folder  string
		err     error
	}{
		{"the root directory does not exist", nfs.Request{Path: "/", Host: first + host, FileSystem: first, AccessPoint: ownerless}, "", syscall.EACCES},
		{"it is made", nfs.Request{Path: "/", Host: first + host, FileSystem: first, AccessPoint: owned}, filepath.Join(root, "team"), nil},
		{"and exists then", nfs.Request{Path: "/", Host: first + host, FileSystem: first, AccessPoint: ownerless}, filepath.Join(root, "team"), nil},
		{"no access point", nfs.Request{Path: "/", Host: first + host, FileSystem: first}, root, nil},
		{"no TLS", nfs.Request{Path: "/team", Host: first + host}, filepath.Join(root, "team"), nil},
		{"a folder that does not exist", nfs.Request{Path: "/other", Host: first + host, FileSystem: first}, "", syscall.ENOENT},
		{"out of the root directory", nfs.Request{Path: "/../..", Host: first + host, FileSystem: first, AccessPoint: owned}, filepath.Join(root, "team"), nil},
		{"an unknown access point", nfs.Request{Path: "/", Host: first + host, FileSystem: first, AccessPoint: "fsap-0"}, "", syscall.EACCES},
		{"that of another file system", nfs.Request{Path: "/", Host: second + host, FileSystem: second, AccessPoint: owned}, "", syscall.EACCES},
		{"the tunnel leads to another one", nfs.Request{Path: "/", Host: second + host, FileSystem: first, AccessPoint: owned}, "", syscall.EACCES},
	} {
		if folder, err := files.export(tc.request); folder != tc.folder || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %q, %v; want %q, %v", tc.name, folder, err, tc.folder, tc.err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "team")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the root directory is %v, %v; want the permissions of its access point", info, err)
	}
}
