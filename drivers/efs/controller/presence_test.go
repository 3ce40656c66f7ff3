package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws"
	fakeefs "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/gateway"
)

// TestFindAccessPoints: access points in the cluster's account and region are found, and missing mount targets of the
// nodes' zones are reported.
func TestFindAccessPoints(t *testing.T) {
	t.Parallel()
	c := newTagsCloud(t, aws.Options{})
	zones := []string{c.Zones()[0].Name, c.Zones()[1].Name}
	mountTarget := func(fileSystem, zone, state string) {
		t.Helper()
		if _, err := c.EFS.AddMountTarget(fakeefs.MountTarget{FileSystemID: fileSystem, Zone: zone, State: state}); err != nil {
			t.Fatal(err)
		}
	}
	everywhere, nowhere, oneZone := c.fileSystem(), c.fileSystem(), c.fileSystem()
	foreign := c.EFS.AddFileSystem(fakeefs.FileSystem{Owner: "210987654321"}).ID
	for _, zone := range zones {
		mountTarget(everywhere, zone, "")
	}
	mountTarget(oneZone, zones[0], "")
	mountTarget(oneZone, zones[1], "creating")
	for range 120 { // more than a page
		c.accessPoint(everywhere)
	}
	id := func(handle string) string { return handle[strings.LastIndex(handle, ":")+1:] }
	last, unreached, halfReached := id(c.accessPoint(everywhere)), id(c.accessPoint(nowhere)), id(c.accessPoint(oneZone))

	for name, tc := range map[string]struct {
		fileSystem, accessPoint string
		zones                   []string
		want, says              string
	}{
		"in each zone":                        {everywhere, last, zones, "Found", "each zone with nodes has a mount target"},
		"nodes without a zone":                {everywhere, last, nil, "Found", ""},
		"nodes in a Local Zone":               {everywhere, last, append(zones[:1:1], c.Region()+"-bos-1a"), "Found", ""},
		"nodes that are elsewhere":            {everywhere, last, []string{"eu-west-1a"}, "Found", ""},
		"an access point that does not exist": {everywhere, "fsap-0fedcba9876543210", zones, "AccessPointNotFound", "has no such access point"},
		"of another file system":              {everywhere, unreached, zones, "AccessPointNotFound", ""},
		"a file system that does not exist":   {"fs-0fedcba9876543210", last, zones, "FileSystemNotFound", "has no such file system"},
		"a file system ID that cannot be one": {"fs-0fed", last, zones, "FileSystemNotFound", "has no such file system in"},
		"a file system of another account":    {foreign, last, zones, "FileSystemNotFound", "unless it is of another account"},
		"no mount target":                     {nowhere, unreached, zones, "MountTargetMissing", "in zones " + zones[0] + ", " + zones[1] + ", so pods"},
		"a mount target that is not ready":    {oneZone, halfReached, zones, "MountTargetMissing", "in zone " + zones[1] + ", so pods"},
		"a mount target where the nodes are":  {oneZone, halfReached, zones[:1], "Found", ""},
	} {
		t.Run(name, func(t *testing.T) {
			with := access{Infrastructure: c.infrastructure(), Credentials: keyPair(c.key), Wait: func(context.Context, bool) error { return nil }}
			found, err := find(t.Context(), with, tc.fileSystem, []string{tc.accessPoint}, tc.zones)
			require.NoError(t, err)
			require.Len(t, found, 1)
			got := found[tc.accessPoint]
			if got.reason != tc.want || got.present != (tc.want == "Found") || !strings.Contains(got.message, tc.says) {
				t.Errorf("got %+v, want %s with %q", got, tc.want, tc.says)
			}
		})
	}
}

// TestFindAccessPointsRefused: what AWS does not say is an error, not an absence.
func TestFindAccessPointsRefused(t *testing.T) {
	t.Parallel()
	c := newTagsCloud(t, aws.Options{})
	fileSystem := c.fileSystem()
	handle := c.accessPoint(fileSystem)
	for _, action := range []string{"DescribeMountTargets", "DescribeAccessPoints"} {
		withdraw := c.Inject(gateway.Fault{Service: "elasticfilesystem", Action: action, Kind: gateway.Denied})
		with := access{Infrastructure: c.infrastructure(), Credentials: keyPair(c.key), Wait: func(context.Context, bool) error { return nil }}
		found, err := find(t.Context(), with, fileSystem, []string{handle[strings.LastIndex(handle, ":")+1:]}, nil)
		if err == nil || !strings.Contains(err.Error(), "CredentialsRequest openshift-aws-efs-csi-driver-tags lists") || found != nil {
			t.Errorf("without %s: found %v, error %v", action, found, err)
		}
		withdraw()
	}
	want := []string{"elasticfilesystem:DescribeAccessPoints", "elasticfilesystem:DescribeMountTargets", "elasticfilesystem:TagResource"}
	assert.Equal(t, want, requestedActions(t), "actions of the CredentialsRequest")
}

// find looks for access points of a file system.
func find(ctx context.Context, with access, fileSystem string, ids, zones []string) (map[string]finding, error) {
	c, err := connect(with)
	if err != nil {
		return nil, err
	}
	defer c.close()
	s, _ := c.do(ctx, fileSystem, &job{sought: ids, zones: zones}, nil)
	return s.findings, s.err
}
