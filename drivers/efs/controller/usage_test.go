package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	efssdk "github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/aws"
)

// TestCountAccessPoints: all pages are counted, and each call waits for its turn.
func TestCountAccessPoints(t *testing.T) {
	t.Parallel()
	c := newTagsCloud(t, aws.Options{})
	full, other := c.fileSystem(), c.fileSystem()
	for range 230 {
		c.accessPoint(full)
	}
	c.accessPoint(other)
	waits := 0
	with := access{Infrastructure: c.infrastructure(), Credentials: keyPair(c.key),
		Wait: func(context.Context, bool) error { waits++; return nil }}
	if got, err := measure(t.Context(), with, full, nil); err != nil || got.accessPoints != 230 || waits != 3 {
		t.Errorf("counted %d, %v, with %d calls; want 230 with 3", got.accessPoints, err, waits)
	}
	_, err := measure(t.Context(), with, "fs-0fedcba9876543210", nil)
	assert.ErrorContains(t, err, "file system fs-0fedcba9876543210 does not exist in the account")
	with.Credentials["aws_secret_access_key"] = []byte("wrong")
	_, err = measure(t.Context(), with, full, nil)
	assert.ErrorContains(t, err, "Renew the credentials in Secret tags-aws-efs-cloud-credentials", "with a wrong key")
}

// TestSharedGroupIDs: a group ID that the driver has given to several access points is named, unless a class wants that.
func TestSharedGroupIDs(t *testing.T) {
	t.Parallel()
	c := newTagsCloud(t, aws.Options{})
	fileSystem := c.fileSystem()
	byDriver := []types.Tag{{Key: sdk.String("efs.csi.aws.com/cluster"), Value: sdk.String("true")}}
	for i, ap := range []struct {
		group int64
		tags  []types.Tag
	}{
		{50000, byDriver}, {50000, byDriver}, {50000, byDriver}, // as versions before 2.3.1 do
		{50001, byDriver},
		{50002, byDriver}, {50002, nil}, // somebody's own
		{60000, byDriver}, {60000, byDriver}, // a class asks for it
		{1000, byDriver}, {1000, byDriver}, // no class has such a range
		{30000, byDriver}, {30000, byDriver}, // a class has
	} {
		user := &types.PosixUser{Uid: &ap.group, Gid: &ap.group}
		if _, err := c.driver.CreateAccessPoint(t.Context(), &efssdk.CreateAccessPointInput{FileSystemId: &fileSystem, ClientToken: sdk.String(fmt.Sprint(i)), PosixUser: user, Tags: ap.tags}); err != nil {
			t.Fatal(err)
		}
	}
	with := access{Infrastructure: c.infrastructure(), Credentials: keyPair(c.key), Wait: func(context.Context, bool) error { return nil }}
	classes := []storagev1.StorageClass{{}, {Parameters: map[string]string{"gid": "60000"}}, {Parameters: map[string]string{"gidRangeStart": "30000", "gidRangeEnd": "30010"}}}
	got, err := measure(t.Context(), with, fileSystem, classes)
	if want := (usage{accessPoints: 12, shared: []string{"30000", "50000"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("measured %+v, %v, want %+v", got, err, want)
	}
}

// TestAccessPointLimit: the limit depends on the driver's version, by default the default image's.
func TestAccessPointLimit(t *testing.T) {
	for version, want := range map[string]int{"": 1000, "2.1.11": 1000, "v2.3.0": 1000, "2.3.1": 10000, "3.4.1": 10000, "new": 1000} {
		assert.EqualValuesf(t, want, accessPointLimit(map[string]string{"DRIVER_VERSION": version}), "version %q", version)
	}
}

// TestFileSystemsOfClasses: only classes with which the driver creates access points count.
func TestFileSystemsOfClasses(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters map[string]string
		want       string
	}{
		"an access point for each claim": {map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0"}, "fs-0123456789abcdef0"},
		"existing access points":         {nil, ""},
		"another mode":                   {map[string]string{"provisioningMode": "efs-dir", "fileSystemId": "fs-0123456789abcdef0"}, ""},
		"another account": {map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0",
			"csi.storage.k8s.io/provisioner-secret-name": "finance"}, ""},
		"no ID": {map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "../fs-0123456789abcdef0"}, ""},
	} {
		assert.EqualValues(t, tc.want, fileSystemOf(&storagev1.StorageClass{Parameters: tc.parameters}), name)
	}
}

// measure counts the access points of a file system.
func measure(ctx context.Context, with access, fileSystem string, classes []storagev1.StorageClass) (usage, error) {
	c, err := connect(with)
	if err != nil {
		return usage{}, err
	}
	defer c.close()
	counting, counted := &counter{classes: classes, groups: map[int64]int{}}, map[string]usage{}
	_, err = c.do(ctx, fileSystem, &job{counter: counting}, nil)
	err = newTestLoop().noteCount(fileSystem, counting, err, counted)
	return counted[fileSystem], err
}

// TestLargeClasses: of StorageClasses, whoever may write them decides how large they are, and the operator keeps little of each. That changes
// neither the risk of a class nor what it counts for.
func TestLargeClasses(t *testing.T) {
	c := newTestLoop()
	large := strings.Repeat("m", 1<<18)
	var made []string
	for i, parameters := range []map[string]string{
		{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0", "gidRangeStart": "30000", "gidRangeEnd": "30010", "other": large},
		{"provisioningMode": "efs-ap", "subPathPattern": "/" + large, "ensureUniqueDirectory": "false"},
		{"provisioningMode": "efs-ap", "fileSystemId": "fs-" + strings.Repeat("0", 1<<18), "gid": strings.Repeat("1", 1<<18)},
	} {
		class, err := json.Marshal(storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("class-", i), Annotations: map[string]string{"a": large}},
			Provisioner: efs.Driver.CSIName, MountOptions: []string{large}, Parameters: parameters})
		require.NoError(t, err)
		made = append(made, string(class))
	}
	serveLists(t, c, made...)
	classes, risky, err := c.classes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"class-1"}, risky, "classes with a risk")
	kept, err := json.Marshal(classes)
	require.NoError(t, err)
	assert.Less(t, len(kept), 2000, "bytes that are kept")
	require.Len(t, classes, 3)
	assert.Equal(t, "fs-0123456789abcdef0", fileSystemOf(&classes[0]))
	assert.Empty(t, fileSystemOf(&classes[2]), "the file system of an ID that is too long")
	first, last, chosen := groupRange(&classes[0])
	assert.Equal(t, [3]any{int64(30000), int64(30010), true}, [3]any{first, last, chosen}, "the range of group IDs")
	_, _, chosen = groupRange(&classes[2])
	assert.False(t, chosen, "the driver chooses the group ID of a class that says one")
}
