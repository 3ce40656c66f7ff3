package efs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/lab/aws"
	cloud "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/gateway"
)

const fileSystem = "fs-0123456789abcdef0"

// region is a region of AWS with a file system, and a driver in it.
type region struct {
	*aws.Cloud
	*driver
}

// newRegion starts a region until the test ends. Its file systems have at most some access points.
func newRegion(t *testing.T, version Version, most int, options Options) region {
	t.Helper()
	c := aws.Start(t, aws.Options{Region: "sea-west-1", MaxAccessPoints: most})
	c.EFS.AddFileSystem(cloud.FileSystem{ID: fileSystem})
	user := c.AddUser(t, "efs", "elasticfilesystem:*")
	d := &driver{Options: options, version: version, tags: parseTags(options.Tags, version.escapes), temporary: t.TempDir()}
	d.account = func(string, string) (account, error) {
		return account{efs.NewFromConfig(c.Config("efs", user)), version}, nil
	}
	return region{c, d}
}

var shared = []*csi.VolumeCapability{{
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
}}

// ask asks for a volume, with the parameters of every class and some more.
func (r region) ask(name string, parameters ...string) (*csi.Volume, error) {
	all := map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fileSystem, "directoryPerms": "700"}
	for _, parameter := range parameters {
		key, value, _ := strings.Cut(parameter, "=")
		if all[key] = value; value == "" {
			delete(all, key)
		}
	}
	response, err := r.CreateVolume(context.Background(), &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: shared, Parameters: all})
	return response.GetVolume(), err
}

// create creates a volume, and returns the access point.
func (r region) create(t *testing.T, name string, parameters ...string) cloud.AccessPoint {
	t.Helper()
	volume, err := r.ask(name, parameters...)
	require.NoError(t, err)
	for _, point := range r.EFS.AccessPoints() {
		if strings.HasSuffix(volume.VolumeId, fileSystem+"::"+point.ID) {
			return point
		}
	}
	t.Fatalf("EFS has no access point of %s", volume.VolumeId)
	return cloud.AccessPoint{}
}

func gid(point cloud.AccessPoint) int64 { return *point.PosixUser.GID }

// TestAccessPoints: an access point has the IDs, the directory, the tags and the client token that the real driver chooses, and a
// request that is repeated makes no other one.
func TestAccessPoints(t *testing.T) {
	for _, version := range []Version{V2, V3} {
		t.Run(version.Number, func(t *testing.T) {
			r := newRegion(t, version, 100, Options{Tags: "team:harbour"})
			first := r.create(t, "pvc-1", "basePath=/claims")
			if gid(first) != firstID || *first.PosixUser.UID != firstID || first.ClientToken != "pvc-1" || first.RootDirectory.Path != "/claims/pvc-1" ||
				*first.RootDirectory.CreationInfo.OwnerGID != firstID || first.RootDirectory.CreationInfo.Permissions != "700" {
				t.Errorf("got %+v", first)
			}
			assert.Equal(t, map[string]string{"efs.csi.aws.com/cluster": "true", "team": "harbour"}, first.Tags, "it has the tags")
			assert.Equal(t, first.ID, r.create(t, "pvc-1", "basePath=/claims").ID, "the repeated request made")
			second := r.create(t, "pvc-2")
			if gid(second) != firstID+1 || len(r.EFS.AccessPoints()) != 2 {
				t.Errorf("the second one has the group %d; there are %d", gid(second), len(r.EFS.AccessPoints()))
			}
			_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: fileSystem + "::" + first.ID})
			require.NoError(t, err)
			assert.EqualValues(t, firstID, gid(r.create(t, "pvc-3")), "the next one has the free group")
			if chosen := r.create(t, "pvc-4", "uid=1001", "gid=1002"); gid(chosen) != 1002 || *chosen.PosixUser.UID != 1001 {
				t.Errorf("with IDs in its class, it is %+v", chosen.PosixUser)
			}
			volume, err := r.ask("pvc-4", "uid=1001", "gid=1002")
			if want := map[bool]string{true: "efs:fs-", false: "fs-"}[version.types]; err != nil || !strings.HasPrefix(volume.VolumeId, want) {
				t.Errorf("the handle is %v, %v; want the prefix %s", volume, err, want)
			}
			// EFS has an access point for the token that differs. The earlier version compares even IDs of a class with the range.
			_, err = r.ask("pvc-4", "uid=1001", "gid=1002", "directoryPerms=755")
			if want := map[bool]codes.Code{true: codes.OK, false: codes.AlreadyExists}[version.exact]; status.Code(err) != want {
				t.Errorf("a request that is repeated with other permissions: %v, want %v", err, want)
			}
		})
	}
}

// TestReuse: a class can find the access point of a claim of the same name, such as after a cluster was lost.
func TestReuse(t *testing.T) {
	r := newRegion(t, V3, 100, Options{})
	first := r.create(t, "pvc-1", "reuseAccessPoint=true", "csi.storage.k8s.io/pvc/name=website")
	assert.Equal(t, first.ID, r.create(t, "pvc-2", "reuseAccessPoint=true", "csi.storage.k8s.io/pvc/name=website").ID)
	_, err := r.ask("pvc-3", "reuseAccessPoint=true", "csi.storage.k8s.io/pvc/name=website", "basePath=/other")
	assert.Equalf(t, codes.AlreadyExists, status.Code(err), "with another base path: %v", err)
	assert.NotEqual(t, first.ID, r.create(t, "pvc-4", "reuseAccessPoint=true", "csi.storage.k8s.io/pvc/name=shop").ID, "another claim got the same access point")
}

// TestDirectories: classes can name directories after claims.
func TestDirectories(t *testing.T) {
	r := newRegion(t, V2, 100, Options{})
	named := []string{"subPathPattern=${.PVC.namespace}/${.PVC.name}", "csi.storage.k8s.io/pvc/name=website", "csi.storage.k8s.io/pvc/namespace=web"}
	assert.Equal(t, "/web/website", r.create(t, "pvc-1", append(named, "ensureUniqueDirectory=false")...).RootDirectory.Path, "the directory")
	if got := r.create(t, "pvc-2", named...).RootDirectory.Path; !strings.HasPrefix(got, "/web/website-") || len(got) != len("/web/website-")+36 {
		t.Errorf("the directory is %s, want one that no other has", got)
	}
}

// TestLimits: each version chooses from as many groups as it expects access points, and EFS has its own limit.
func TestLimits(t *testing.T) {
	r := newRegion(t, V2, 3, Options{})
	for _, name := range []string{"pvc-1", "pvc-2"} {
		r.create(t, name, "gidRangeStart=1000", "gidRangeEnd=1001")
	}
	if _, err := r.ask("pvc-3", "gidRangeStart=1000", "gidRangeEnd=1001"); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "Failed to locate a free GID") {
		t.Errorf("with no group left in the range: %v", err)
	}
	r.create(t, "pvc-3")
	if _, err := r.ask("pvc-4"); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "AccessPointLimitExceeded") {
		t.Errorf("with as many access points as EFS allows: %v", err)
	}
	var points []accessPoint
	for id := int64(firstID); id <= firstID+1000; id++ {
		points = append(points, accessPoint{user: &types.PosixUser{Gid: &id, Uid: &id}})
	}
	for _, test := range []struct {
		version Version
		wide    bool
		want    int64
	}{{V2, false, 0}, {V2, true, 0}, {V3, false, firstID + 1001}, {V3, true, firstID + 1001}} {
		c := class{least: firstID, most: firstID + test.version.accessPoints}
		if test.wide {
			c.most = 1 << 31
		}
		if got, err := c.choose(points, test.version.accessPoints); got != test.want || (err == nil) != (test.want > 0) {
			t.Errorf("%s, range to %d: after 1001 groups comes %d, %v; want %d", test.version.Number, c.most, got, err, test.want)
		}
	}
}

// TestListing: the later version sees the access points of all pages.
func TestListing(t *testing.T) {
	for _, version := range []Version{V2, V3} {
		r := newRegion(t, version, 100, Options{})
		for i := range 3 {
			r.create(t, fmt.Sprintf("pvc-%d", i))
		}
		a, err := r.account("", "")
		require.NoError(t, err)
		want := map[bool]int{false: 2, true: 3}[version.lists]
		if all, err := a.listPages(t.Context(), fileSystem, 2); len(all) != want || err != nil {
			t.Errorf("%s sees %d access points, %v; want %d of 3", version.Number, len(all), err, want)
		}
	}
}

// TestRefusals: requests that can never succeed.
func TestRefusals(t *testing.T) {
	for parameters, want := range map[string]string{
		"provisioningMode=":                     "Missing provisioningMode parameter",
		"provisioningMode=efs-fs":               "Provisioning mode efs-fs is not supported",
		"fileSystemId=":                         "Missing fileSystemId parameter",
		"fileSystemId=fs-0aaaaaaaaaaaaaaaa":     "File System does not exist",
		"uid=x":                                 "Failed to parse invalid uid",
		"uid=-1":                                "uid must be greater or equal than 0",
		"gid=-2":                                "gid must be greater or equal than 0",
		"gidRangeStart=0 gidRangeEnd=10":        "gidRangeStart must be greater than 0",
		"gidRangeStart=10":                      "Missing gidRangeEnd parameter",
		"gidRangeEnd=10":                        "Missing gidRangeStart parameter",
		"gidRangeStart=10 gidRangeEnd=10":       "gidRangeEnd must be greater than gidRangeStart",
		"reuseAccessPoint=maybe":                "Invalid value for reuseAccessPoint parameter",
		"enforceZoneAffinity=maybe":             "Invalid value for enforceZoneAffinity parameter",
		"enableTagging=false":                   "enableTagging is false but the driver is configured with --tags",
		"subPathPattern=${.PVC.uid}":            "contains invalid elements",
		"basePath=/a/b/c/d/e":                   "limit of 4 subdirectories",
		"basePath=/" + strings.Repeat("a", 100): "limit of 100 characters",
	} {
		t.Run(parameters, func(t *testing.T) {
			r := newRegion(t, V3, 100, Options{Tags: "a:b"})
			if _, err := r.ask("pvc-1", strings.Fields(parameters)...); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			assert.Empty(t, r.EFS.AccessPoints(), "EFS has")
		})
	}
	r := newRegion(t, V2, 100, Options{})
	defer r.Inject(gateway.Fault{Action: "CreateAccessPoint", Kind: gateway.Denied})()
	_, err := r.ask("pvc-1")
	assert.Equalf(t, codes.Unauthenticated, status.Code(err), "without permission: %v", err)
}

// TestDelete: the directory of an access point stays, or is deleted with it, and nothing else is.
func TestDelete(t *testing.T) {
	alone(t, unix.CLONE_NEWNS)
	for _, withDirectory := range []bool{false, true} {
		files, outside := t.TempDir(), t.TempDir()
		r := newRegion(t, V2, 100, Options{DeleteRootDir: withDirectory})
		var mounted []string
		r.mount = func(_ context.Context, s source, target string) error {
			mounted = append(mounted, s.fileSystem+":"+s.path+" "+strings.Join(s.options, ","))
			return unix.Mount(files, target, "", unix.MS_BIND, "")
		}
		point := r.create(t, "pvc-1", "basePath=/claims")
		own, other := filepath.Join(files, "claims", "pvc-1"), filepath.Join(files, "claims", "pvc-2")
		for _, folder := range []string{own, other} {
			require.NoError(t, os.MkdirAll(folder, 0o755))
		}
		require.NoError(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600))
		require.NoError(t, os.Symlink(outside, filepath.Join(own, "link")))
		for range 2 {
			_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: fileSystem + "::" + point.ID})
			require.NoError(t, err)
		}
		want := []string{}
		if withDirectory {
			want = append(want, fileSystem+":/ tls,iam")
		}
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(mounted), "it mounted")
		_, err := os.Stat(own)
		assert.Equalf(t, withDirectory, os.IsNotExist(err), "with its directory %v: %v", withDirectory, err)
		for _, kept := range []string{other, filepath.Join(outside, "kept")} {
			_, err := os.Stat(kept)
			assert.NoError(t, err)
		}
		if left, err := os.ReadDir(r.temporary); len(left) > 0 || err != nil {
			t.Errorf("where it mounts are %v, %v", left, err)
		}
		assert.Empty(t, r.EFS.AccessPoints(), "EFS has")
	}
}

// TestDeleteNothing: a handle without an access point counts as deleted.
func TestDeleteNothing(t *testing.T) {
	r := newRegion(t, V3, 100, Options{DeleteRootDir: true})
	for _, id := range []string{"vol-1", fileSystem, fileSystem + ":/a", fileSystem + "::fsap-0aaaaaaaaaaaaaaaa"} {
		_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		assert.NoError(t, err, id)
	}
}
