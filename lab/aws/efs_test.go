package aws_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	efssdk "github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/iam"
)

var fileSystem = efs.FileSystem{ID: "fs-0123456789abcdef0"}

func startEFS(t *testing.T, options aws.Options) (*aws.Cloud, *efssdk.Client, string) {
	t.Helper()
	c := aws.Start(t, options)
	id := c.EFS.AddFileSystem(fileSystem).ID
	return c, efssdk.NewFromConfig(c.Configure(t, c.AddUser(t, "driver", "elasticfilesystem:*"))), id
}

// accessPoint returns the driver's request to create an access point.
func accessPoint(fs, token string, tags ...types.Tag) *efssdk.CreateAccessPointInput {
	return &efssdk.CreateAccessPointInput{
		ClientToken: &token, FileSystemId: &fs, Tags: tags, PosixUser: &types.PosixUser{Uid: sdk.Int64(1000), Gid: sdk.Int64(2000)},
		RootDirectory: &types.RootDirectory{Path: sdk.String("/pvc-1"), CreationInfo: &types.CreationInfo{OwnerUid: sdk.Int64(1000), OwnerGid: sdk.Int64(2000), Permissions: sdk.String("700")}},
	}
}

func efsTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

func TestAccessPoints(t *testing.T) {
	c, client, fs := startEFS(t, aws.Options{})
	ctx := t.Context()
	made, err := client.CreateAccessPoint(ctx, accessPoint(fs, "pvc-1", efsTag("efs.csi.aws.com/cluster", "true"), efsTag("Name", "one")))
	if err != nil || made.LifeCycleState != types.LifeCycleStateCreating || *made.Name != "one" {
		t.Fatalf("got %+v, error %v", made, err)
	}
	assert.Equal(t, "arn:aws:elasticfilesystem:us-east-1:111122223333:access-point/"+*made.AccessPointId, *made.AccessPointArn, "the ARN")
	again, err := client.CreateAccessPoint(ctx, accessPoint(fs, "pvc-1", efsTag("Name", "one"), efsTag("efs.csi.aws.com/cluster", "true")))
	require.NoError(t, err)
	assert.Equalf(t, *made.AccessPointId, *again.AccessPointId, "the same request gives %+v", again)
	_, err = client.CreateAccessPoint(ctx, accessPoint(fs, "pvc-1"))
	var exists *types.AccessPointAlreadyExists
	if !errors.As(err, &exists) || *exists.AccessPointId != *made.AccessPointId {
		t.Errorf("got the error %v, want AccessPointAlreadyExists with %s", err, *made.AccessPointId)
	}
	_, err = client.CreateAccessPoint(ctx, accessPoint("fs-0aaaaaaaaaaaaaaaa", "pvc-2"))
	assert.ErrorAs(t, err, new(*types.FileSystemNotFound))
	seen, err := client.DescribeAccessPoints(ctx, &efssdk.DescribeAccessPointsInput{AccessPointId: made.AccessPointArn})
	if err != nil || *seen.AccessPoints[0].PosixUser.Gid != 2000 || *seen.AccessPoints[0].RootDirectory.Path != "/pvc-1" {
		t.Errorf("got %+v, error %v", seen, err)
	}
	_, err = client.DeleteAccessPoint(ctx, &efssdk.DeleteAccessPointInput{AccessPointId: made.AccessPointId})
	assert.NoError(t, err)
	_, err = client.DeleteAccessPoint(ctx, &efssdk.DeleteAccessPointInput{AccessPointId: made.AccessPointId})
	assert.ErrorAs(t, err, new(*types.AccessPointNotFound))
	assert.Empty(t, c.EFS.AccessPoints())
}

func TestAccessPointLimits(t *testing.T) {
	_, client, fs := startEFS(t, aws.Options{MaxAccessPoints: 1})
	for name, tc := range map[string]struct {
		change func(*efssdk.CreateAccessPointInput)
		code   string
	}{
		"token": {func(i *efssdk.CreateAccessPointInput) { i.ClientToken = sdk.String(strings.Repeat("x", 65)) }, "ValidationException"},
		"path":  {func(i *efssdk.CreateAccessPointInput) { i.RootDirectory.Path = sdk.String("pvc") }, "ValidationException"},
		"long path": {func(i *efssdk.CreateAccessPointInput) {
			i.RootDirectory.Path = sdk.String("/" + strings.Repeat("x", 100))
		}, "ValidationException"},
		"deep path":   {func(i *efssdk.CreateAccessPointInput) { i.RootDirectory.Path = sdk.String("/a/b/c/d/e") }, "BadRequest"},
		"permissions": {func(i *efssdk.CreateAccessPointInput) { i.RootDirectory.CreationInfo.Permissions = sdk.String("900") }, "ValidationException"},
		"user":        {func(i *efssdk.CreateAccessPointInput) { i.PosixUser.Uid = sdk.Int64(1 << 32) }, "ValidationException"},
	} {
		t.Run(name, func(t *testing.T) {
			input := accessPoint(fs, "pvc-1")
			tc.change(input)
			_, err := client.CreateAccessPoint(t.Context(), input)
			aws.WantCode(t, err, tc.code)
		})
	}
	_, err := client.CreateAccessPoint(t.Context(), accessPoint(fs, "pvc-1"))
	require.NoError(t, err)
	_, err = client.CreateAccessPoint(t.Context(), accessPoint(fs, "pvc-2"))
	assert.ErrorAs(t, err, new(*types.AccessPointLimitExceeded))
}

func TestEFSTags(t *testing.T) {
	c, client, fs := startEFS(t, aws.Options{})
	ctx := t.Context()
	made, err := client.CreateAccessPoint(ctx, accessPoint(fs, "pvc-1"))
	require.NoError(t, err)
	tag := func(tags ...types.Tag) error {
		_, err := client.TagResource(ctx, &efssdk.TagResourceInput{ResourceId: made.AccessPointArn, Tags: tags})
		return err
	}
	for _, good := range []types.Tag{efsTag("team:of/the ship", "über + 1=@x_."), efsTag(strings.Repeat("ü", 128), strings.Repeat("ü", 256)), efsTag("empty", ""), efsTag("awsome", "x")} {
		assert.NoErrorf(t, tag(good), "tag %s=%s", *good.Key, *good.Value)
	}
	for _, bad := range []types.Tag{efsTag(`a\b`, "x"), efsTag("x", `a\b`), efsTag("aws:x", "x"), efsTag("AWS:x", "x"), efsTag("x", "a;b"), efsTag("x", "a\nb"),
		efsTag(strings.Repeat("x", 129), ""), efsTag("x", strings.Repeat("x", 257))} {
		aws.WantCode(t, tag(bad), "ValidationException")
		_, err := client.CreateAccessPoint(ctx, accessPoint(fs, "pvc-bad", bad))
		aws.WantCode(t, err, "ValidationException")
	}
	var many []types.Tag
	for i := range 47 {
		many = append(many, efsTag(fmt.Sprint("key-", i), ""))
	}
	aws.WantCode(t, tag(many...), "BadRequest") // with the four from above
	assert.NoError(t, tag(many[1:]...))
	var keys []string
	for list := efssdk.NewListTagsForResourcePaginator(client, &efssdk.ListTagsForResourceInput{ResourceId: made.AccessPointId, MaxResults: sdk.Int32(20)}); list.HasMorePages(); {
		page, err := list.NextPage(ctx)
		require.NoError(t, err)
		for _, tag := range page.Tags {
			keys = append(keys, *tag.Key)
		}
	}
	if slices.Sort(keys); len(slices.Compact(keys)) != 50 {
		t.Errorf("got %d tags, want 50: %q", len(keys), keys)
	}
	_, err = client.UntagResource(ctx, &efssdk.UntagResourceInput{ResourceId: made.AccessPointId, TagKeys: []string{"team:of/the ship", "empty"}})
	assert.NoError(t, err)
	_, err = client.UntagResource(ctx, &efssdk.UntagResourceInput{ResourceId: made.AccessPointId, TagKeys: []string{"aws:elasticfilesystem:default-backup"}})
	aws.WantCode(t, err, "ValidationException")
	if left := c.EFS.AccessPoints()[0].Tags; len(left) != 48 || left["awsome"] != "x" {
		t.Errorf("got %d tags: %v", len(left), left)
	}

	// A user without permission to tag may not create tagged resources.
	limited := efssdk.NewFromConfig(c.Configure(t, c.AddUser(t, "limited", "elasticfilesystem:CreateAccessPoint")))
	_, err = limited.CreateAccessPoint(ctx, accessPoint(fs, "pvc-2", efsTag("a", "b")))
	assert.Contains(t, aws.WantCode(t, err, "AccessDeniedException"), "elasticfilesystem:TagResource", "the message")
}

func TestFileSystems(t *testing.T) {
	c, client, fs := startEFS(t, aws.Options{})
	ctx := t.Context()
	zonal := c.EFS.AddFileSystem(efs.FileSystem{Zone: "us-east-1a", ZoneID: "use1-az1"})
	for _, m := range []efs.MountTarget{{FileSystemID: fs, Zone: "us-east-1a", IP: "10.0.0.1"}, {FileSystemID: fs, Zone: "us-east-1b", IP: "10.0.1.1", State: "creating"}} {
		_, err := c.EFS.AddMountTarget(m)
		require.NoError(t, err)
	}
	all, err := client.DescribeFileSystems(ctx, &efssdk.DescribeFileSystemsInput{})
	require.NoError(t, err)
	assert.Lenf(t, all.FileSystems, 2, "got %+v", all)
	one, err := client.DescribeFileSystems(ctx, &efssdk.DescribeFileSystemsInput{FileSystemId: &zonal.ID})
	if err != nil || len(one.FileSystems) != 1 || *one.FileSystems[0].AvailabilityZoneName != "us-east-1a" {
		t.Errorf("got %+v, error %v", one, err)
	}
	targets, err := client.DescribeMountTargets(ctx, &efssdk.DescribeMountTargetsInput{FileSystemId: &fs})
	require.NoError(t, err)
	assert.Lenf(t, targets.MountTargets, 2, "got %+v", targets)
	_, err = client.DescribeMountTargets(ctx, &efssdk.DescribeMountTargetsInput{FileSystemId: sdk.String("fs-0a")})
	aws.WantCode(t, err, "FileSystemNotFound")
	_, err = client.DescribeMountTargets(ctx, &efssdk.DescribeMountTargetsInput{})
	aws.WantCode(t, err, "BadRequest")
	for i := range 7 {
		_, err := client.CreateAccessPoint(ctx, accessPoint(fs, fmt.Sprint("pvc-", i)))
		require.NoError(t, err)
	}
	seen := map[string]bool{}
	for list := efssdk.NewDescribeAccessPointsPaginator(client, &efssdk.DescribeAccessPointsInput{FileSystemId: &fs, MaxResults: sdk.Int32(3)}); list.HasMorePages(); {
		page, err := list.NextPage(ctx)
		require.NoError(t, err)
		for _, ap := range page.AccessPoints {
			seen[*ap.AccessPointId] = true
		}
	}
	assert.Lenf(t, seen, 7, "got %d access points, want 7", len(seen))
}

// TestFileSystemsOfOtherAccounts: for a caller, they do not exist. A role of their account sees them.
func TestFileSystemsOfOtherAccounts(t *testing.T) {
	const account, user = "210987654321", "arn:aws:iam::111122223333:user/driver"
	c, client, own := startEFS(t, aws.Options{})
	ctx := t.Context()
	foreign := c.EFS.AddFileSystem(efs.FileSystem{Owner: account}).ID
	role := iam.Role{ARN: "arn:aws:iam::" + account + ":role/efs", Actions: []string{"elasticfilesystem:*"}, Trusted: []string{user}}
	theirs := efssdk.NewFromConfig(c.Configure(t, c.IAM.Assume(role, "session", time.Hour)))
	for _, test := range []struct {
		client       *efssdk.Client
		sees, misses string
	}{{client, own, foreign}, {theirs, foreign, own}} {
		all, err := test.client.DescribeFileSystems(ctx, &efssdk.DescribeFileSystemsInput{})
		if err != nil || len(all.FileSystems) != 1 || *all.FileSystems[0].FileSystemId != test.sees {
			t.Errorf("got the file systems %+v (error %v), want only %s", all, err, test.sees)
		}
		_, err = test.client.DescribeFileSystems(ctx, &efssdk.DescribeFileSystemsInput{FileSystemId: &test.misses})
		aws.WantCode(t, err, "FileSystemNotFound")
		_, err = test.client.DescribeMountTargets(ctx, &efssdk.DescribeMountTargetsInput{FileSystemId: &test.misses})
		aws.WantCode(t, err, "FileSystemNotFound")
		_, err = test.client.CreateAccessPoint(ctx, accessPoint(test.misses, "pvc-1"))
		aws.WantCode(t, err, "FileSystemNotFound")
	}
	made, err := theirs.CreateAccessPoint(ctx, accessPoint(foreign, "pvc-1"))
	require.NoError(t, err)
	_, err = client.DeleteAccessPoint(ctx, &efssdk.DeleteAccessPointInput{AccessPointId: made.AccessPointId})
	aws.WantCode(t, err, "AccessPointNotFound")
	_, err = client.TagResource(ctx, &efssdk.TagResourceInput{ResourceId: made.AccessPointId, Tags: []types.Tag{efsTag("a", "b")}})
	aws.WantCode(t, err, "AccessPointNotFound")
}
