package provision

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/aws/ownership"
	"github.com/berth-csi/berth/internal/aws/removal"
	cloud "github.com/berth-csi/berth/lab/aws"
	cloudec2 "github.com/berth-csi/berth/lab/aws/ec2"
	cloudefs "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/test/administrator"
)

// localZone is a zone that cannot have mount targets.
const localZone = "us-east-1-bos-1a"

// place is a fake AWS with the nodes of a cluster in two zones.
type place struct {
	*cloud.Cloud
	t       *testing.T
	admin   *administrator.Administrator
	request Request
	workers string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return newPlaceThatSettles(t, 20*time.Millisecond)
}

func newPlaceThatSettles(t *testing.T, settle time.Duration) *place {
	t.Helper()
	p := &place{t: t, Cloud: cloud.Start(t, cloud.Options{Settle: settle, LocalZones: []string{localZone}})}
	p.admin = administrator.New(t, p.Cloud)
	p.workers = p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "workers"}).ID
	p.request = Request{Cluster: "mine-x7k2p", Name: "efs", Tags: map[string]string{"team": "storage"},
		AccessPoints: []AccessPoint{{"/a", 1000, 1000, "0755"}, {"/b/c", 2000, 3000, "0700"}}}
	for i := range 4 {
		p.addNode(p.Zones()[i%2].Name)
	}
	return p
}

// create creates the resources of the request, and returns the reports: kind, whether it existed, and its subject.
func (p *place) create(ctx context.Context, dryRun bool) (reported []string, err error) {
	err = Create(ctx, p.admin.Clients, p.request, dryRun, func(r Resource) {
		reported = append(reported, fmt.Sprintf("%s %s, found: %v, ID: %v", r.Kind, r.About, r.Found, r.ID != ""))
	})
	return reported, err
}

// addNode adds a node in another zone.
func (p *place) addNode(zone string) {
	p.t.Helper()
	subnet, err := p.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-1", Zone: zone})
	require.NoError(p.t, err)
	node, err := p.EC2.AddInstance(cloudec2.Instance{Type: "m5.large", Zone: zone, Subnet: subnet.ID, SecurityGroups: []string{p.workers}})
	require.NoError(p.t, err)
	p.request.Instances = append(p.request.Instances, node.ID)
}

// checkOnce fails the test unless each resource exists once.
func (p *place) checkOnce() {
	p.t.Helper()
	systems, points := p.EFS.FileSystems(), p.EFS.AccessPoints()
	if len(systems) != 1 || systems[0].Tags["kubernetes.io/cluster/mine-x7k2p"] != "owned" || systems[0].Tags["team"] != "storage" || systems[0].Unencrypted {
		p.t.Errorf("the file systems are %+v", systems)
	}
	var paths []string
	for _, point := range points {
		paths = append(paths, point.RootDirectory.Path)
		assert.Equalf(p.t, "owned", point.Tags["kubernetes.io/cluster/mine-x7k2p"], "access point %s has the tags %v", point.ID, point.Tags)
	}
	if slices.Sort(paths); !slices.Equal(paths, []string{"/a", "/b/c"}) {
		p.t.Errorf("the access points have the paths %q", paths)
	}
	groups := slices.DeleteFunc(p.EC2.SecurityGroups(), func(g cloudec2.SecurityGroup) bool { return g.ID == p.workers })
	if len(groups) != 1 || !slices.Equal(groups[0].Ingress, []cloudec2.Ingress{{Protocol: "tcp", FromPort: 2049, ToPort: 2049, Group: p.workers}}) {
		p.t.Errorf("the security groups are %+v", groups)
	}
	targets := p.EFS.MountTargets()
	var zones []string
	for _, target := range targets {
		zones = append(zones, target.Zone)
	}
	if slices.Sort(zones); !slices.Equal(zones, []string{p.Zones()[0].Name, p.Zones()[1].Name}) {
		p.t.Errorf("the mount targets are in the zones %q", zones)
	}
}

// checkGone destroys the cluster's storage, and fails the test unless nothing is left.
func (p *place) checkGone() {
	p.t.Helper()
	inventory, err := removal.Find(p.t.Context(), p.admin.Clients, p.request.Cluster)
	if err == nil {
		err = removal.Delete(p.t.Context(), p.admin.Clients, inventory, nil)
	}
	require.NoError(p.t, err)
	if n := len(p.EFS.FileSystems()) + len(p.EFS.AccessPoints()) + len(p.EFS.MountTargets()); n > 0 || len(p.EC2.SecurityGroups()) != 1 {
		p.t.Errorf("%d resources of EFS are left, and the security groups %+v", n, p.EC2.SecurityGroups())
	}
}

// TestCreate creates all resources and finds them the next time, and removal also finds them.
func TestCreate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	list := func(found, id bool) []string {
		var lines []string
		for _, line := range []string{"security group mine-x7k2p-efs", "file system mine-x7k2p-efs", "mount target us-east-1a", "mount target us-east-1b", "access point /a", "access point /b/c"} {
			lines = append(lines, fmt.Sprintf("%s, found: %v, ID: %v", line, found, id))
		}
		return lines
	}
	for _, step := range []struct {
		name   string
		dryRun bool
		want   []string
	}{
		{"a dry run", true, list(false, false)}, {"create", false, list(false, true)},
		{"again", false, list(true, true)}, {"another dry run", true, list(true, true)},
	} {
		got, err := p.create(t.Context(), step.dryRun)
		require.NoError(t, err, step.name)
		assert.Emptyf(t, cmp.Diff(step.want, got), "%s (-want +got)", step.name)
		if step.name == "a dry run" && len(p.EFS.FileSystems())+len(p.EC2.SecurityGroups()) != 1 {
			t.Error("the dry run has created something")
		}
	}
	p.checkOnce()
	p.checkGone()
}

// TestUnsupportedZones: zones in which EFS has no mount targets are left out, and named.
func TestUnsupportedZones(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.addNode(localZone)
	p.addNode(p.Zones()[2].Name)
	p.Inject(gateway.Fault{Action: "CreateMountTarget", Times: 1, Error: &gateway.Error{Status: http.StatusBadRequest, Code: "UnsupportedAvailabilityZone", Message: "not here"}})
	leftOut := func(dryRun bool) (zones []string) {
		t.Helper()
		require.NoError(t, Create(t.Context(), p.admin.Clients, p.request, dryRun, func(r Resource) {
			if r.LeftOut != "" && r.Kind == removal.MountTarget && r.ID == "" && !r.Found {
				zones = append(zones, r.About)
			}
		}))
		return zones
	}
	if got := leftOut(true); !slices.Equal(got, []string{localZone}) {
		t.Errorf("a dry run leaves out %q", got)
	}
	got, targets := leftOut(false), p.EFS.MountTargets()
	if len(got) != 2 || !slices.Contains(got, localZone) || len(targets) != 2 {
		t.Errorf("it leaves out %q, and the mount targets are %+v; want the Local Zone and another one left out", got, targets)
	}
	if got := leftOut(false); !slices.Equal(got, []string{localZone}) || len(p.EFS.MountTargets()) != 3 {
		t.Errorf("once AWS supports the other, it leaves out %q, and the mount targets are %+v", got, p.EFS.MountTargets())
	}

	p = newPlace(t)
	p.request.Instances = nil
	p.addNode(localZone)
	for _, dryRun := range []bool{true, false} {
		_, err := p.create(t.Context(), dryRun)
		assert.ErrorContainsf(t, err, "none of the zones with nodes", "dry run: %v", dryRun)
	}
	if n := len(p.EFS.FileSystems()); n > 0 {
		t.Errorf("%d file systems were created", n)
	}
}

// TestKilled ends the process before each request, and begins again.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.admin.KillAtEach(t, 10, func(ctx context.Context) error {
		_, err := p.create(ctx, false)
		return err
	})
	p.checkOnce()
	p.checkGone()
}

// TestFaults: AWS throttles, does not work for a while, and answers get lost. Nothing is created twice.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]gateway.Fault{
		"throttled":   {Kind: gateway.Throttled, Times: 5},
		"unavailable": {Kind: gateway.Unavailable, Times: 5},
		"no answers":  {Kind: gateway.Broken, Times: 5},
		"lost":        {Kind: gateway.Broken, Times: 5, After: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			for _, action := range []string{"DescribeInstances", "DescribeSecurityGroups", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "DescribeFileSystems", "CreateFileSystem",
				"DescribeMountTargets", "CreateMountTarget", "DescribeAccessPoints", "CreateAccessPoint"} {
				fault.Action = action
				p.Inject(fault)
			}
			_, err := p.create(t.Context(), false)
			require.NoError(t, err)
			p.checkOnce()
			p.checkGone()
		})
	}
}

// TestRefused: a conflicting resource is named, and nothing is created on top of it.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*place)
		want    string
	}{
		"no nodes":         {func(p *place) { p.request.Instances = nil }, "no nodes with an instance"},
		"no cluster":       {func(p *place) { p.request.Cluster = "" }, "the infrastructure ID is"},
		"somebody's group": {func(p *place) { p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "mine-x7k2p-efs"}) }, "exists, but is not the cluster's"},
		"two networks": {func(p *place) {
			subnet, _ := p.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-2", Zone: p.Zones()[2].Name})
			node, _ := p.EC2.AddInstance(cloudec2.Instance{Type: "m5.large", Zone: p.Zones()[2].Name, Subnet: subnet.ID})
			p.request.Instances = append(p.request.Instances, node.ID)
		}, `the VPCs ["vpc-1" "vpc-2"], want one`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			test.prepare(p)
			_, err := p.create(t.Context(), false)
			assert.ErrorContains(t, err, test.want)
			if n := len(p.EFS.FileSystems()); n > 0 {
				t.Errorf("%d file systems were created", n)
			}
		})
	}
}

// TestSquatted: somebody else in the account has created resources with the cluster's names and tag.
func TestSquatted(t *testing.T) {
	t.Parallel()
	mine := map[string]string{"kubernetes.io/cluster/mine-x7k2p": "owned"}
	fileSystem := func(p *place, encrypted bool) *string {
		made, err := p.admin.Clients.EFS.CreateFileSystem(p.t.Context(), &efs.CreateFileSystemInput{CreationToken: aws.String("berth-mine-x7k2p-efs"), Encrypted: &encrypted, Tags: efsTags(mine)})
		require.NoError(p.t, err)
		return made.FileSystemId
	}
	pointIn := func(p *place, id *string, token string, user *efstypes.PosixUser, tags map[string]string, root efstypes.RootDirectory) {
		require.NoError(p.t, p.admin.Clients.Poll(p.t.Context(), func(ctx context.Context) (bool, error) {
			_, err := p.admin.Clients.EFS.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{ClientToken: &token, FileSystemId: id, Tags: efsTags(tags), PosixUser: user, RootDirectory: &root})
			return err == nil, err
		}))
	}
	point := func(p *place, path string, user *efstypes.PosixUser, tags map[string]string) {
		pointIn(p, fileSystem(p, true), "evil", user, tags, efstypes.RootDirectory{Path: &path})
	}
	squatted := func(p *place, fs cloudefs.FileSystem) {
		fs.CreationToken, fs.Tags = "berth-mine-x7k2p-efs", mine
		p.EFS.AddFileSystem(fs)
	}
	for name, test := range map[string]struct {
		prepare func(*place)
		want    []string
	}{
		"a file system": {func(p *place) { fileSystem(p, false) }, []string{"it is not encrypted"}},
		"a file system in one zone": {func(p *place) {
			squatted(p, cloudefs.FileSystem{Zone: p.Zones()[0].Name})
		}, []string{"its files are in zone us-east-1a alone"}},
		"a file system that is replicated to another account": {func(p *place) {
			squatted(p, cloudefs.FileSystem{ReplicatedTo: &cloudefs.Replica{FileSystemID: "fs-0e", Region: "eu-west-1", OwnerID: "666666666666", Status: "ENABLED"}})
		}, []string{"it is replicated to file system fs-0e in region eu-west-1 of account 666666666666"}},
		"a file system whose policy lets another account in": {func(p *place) {
			squatted(p, cloudefs.FileSystem{Policy: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::666666666666:root"},"Action":["elasticfilesystem:ClientMount"]}]}`})
		}, []string{"its policy allows elasticfilesystem:ClientMount to arn:aws:iam::666666666666:root"}},
		"a file system whose policy allows everything": {func(p *place) {
			squatted(p, cloudefs.FileSystem{Policy: `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"elasticfilesystem:*"}]}`})
		}, []string{"its policy allows elasticfilesystem:* to *"}},
		"a file system whose lifecycle archives files": {func(p *place) {
			squatted(p, cloudefs.FileSystem{ToArchive: "AFTER_1_DAY"})
		}, []string{"its lifecycle moves files to Archive (AFTER_1_DAY)"}},
		"a file system that is backed up": {func(p *place) {
			squatted(p, cloudefs.FileSystem{BackedUp: true})
		}, []string{"it is backed up automatically"}},
		"a group": {func(p *place) {
			evil := p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "evil"}).ID
			p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "mine-x7k2p-efs", Tags: map[string]string{"kubernetes.io/cluster/mine-x7k2p": "owned", removal.GroupTag: ""},
				Ingress: []cloudec2.Ingress{{Protocol: "tcp", FromPort: 0, ToPort: 65535, Group: evil}}})
		}, []string{"admits sg-", "at ports 0-65535"}},
		"a group of another kind": {func(p *place) {
			p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "mine-x7k2p-efs", Tags: mine})
		}, []string{"lacks the tag " + removal.GroupTag}},
		"an access point": {func(p *place) {
			point(p, "/b/c", &efstypes.PosixUser{Uid: aws.Int64(0), Gid: aws.Int64(0)}, mine)
		}, []string{"its user is 0:0", "want user 2000:3000 and permissions 0700"}},
		"an access point of user 0 above the requested one": {func(p *place) {
			point(p, "/", &efstypes.PosixUser{Uid: aws.Int64(0), Gid: aws.Int64(0)}, mine)
		}, []string{"whoever mounts through it is user 0 in /, and so in /a", "--trust-access-point fsap-"}},
		"an access point of user 0 for the same directory, without the tag": {func(p *place) {
			point(p, "/b/c", &efstypes.PosixUser{Uid: aws.Int64(0), Gid: aws.Int64(1)}, nil)
		}, []string{"whoever mounts through it is user 0 in /b/c, and so in /b/c"}},
		"an access point of user 0 for the same directory, beside one as requested": {func(p *place) {
			_, err := p.create(p.t.Context(), false)
			require.NoError(p.t, err)
			pointIn(p, &p.EFS.FileSystems()[0].ID, "evil", &efstypes.PosixUser{Uid: aws.Int64(0), Gid: aws.Int64(0)}, mine, efstypes.RootDirectory{Path: aws.String("/b/c")})
		}, []string{"whoever mounts through it is user 0 in /b/c, and so in /b/c"}},
		"an access point above the requested one, of its user": {func(p *place) {
			point(p, "/", &efstypes.PosixUser{Uid: aws.Int64(1000), Gid: aws.Int64(1)}, mine)
		}, []string{"whoever mounts through it is user 1000 in /, and so in /a", "--trust-access-point fsap-"}},
		"an access point for the same directory, of its user, without the tag": {func(p *place) {
			point(p, "/b/c", &efstypes.PosixUser{Uid: aws.Int64(2000), Gid: aws.Int64(3000)}, nil)
		}, []string{"whoever mounts through it is user 2000 in /b/c, and so in /b/c"}},
		"an access point in whose directory the requested one's group may write": {func(p *place) {
			p.request.AccessPoints[1].Permissions = "0770"
			point(p, "/b", &efstypes.PosixUser{Uid: aws.Int64(1), Gid: aws.Int64(1), SecondaryGids: []int64{3000}}, nil)
		}, []string{"whoever mounts through it is in group 3000 in /b, and so in /b/c"}},
		"an access point above a directory in which everybody may write": {func(p *place) {
			p.request.AccessPoints[1].Permissions = "0777"
			point(p, "/b", &efstypes.PosixUser{Uid: aws.Int64(1), Gid: aws.Int64(1)}, nil)
		}, []string{"whoever mounts through it is user 1 (the permissions 0777 let everybody write) in /b, and so in /b/c"}},
		"an access point without a user": {func(p *place) { point(p, "/b", nil, mine) }, []string{"whoever mounts through it is any user that a client says in /b, and so in /b/c"}},
		"a mount target": {func(p *place) {
			id, evil := fileSystem(p, true), p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "evil"}).ID
			subnet, err := p.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-1", Zone: p.Zones()[0].Name})
			require.NoError(p.t, err)
			require.NoError(p.t, p.admin.Clients.Poll(p.t.Context(), func(ctx context.Context) (bool, error) {
				_, err := p.admin.Clients.EFS.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: id, SubnetId: &subnet.ID, SecurityGroups: []string{evil}})
				return err == nil, err
			}))
		}, []string{"it has the security group sg-", "want only the security group mine-x7k2p-efs"}},
		"our own access point, without the tag": {func(p *place) {
			_, err := p.create(p.t.Context(), false)
			require.NoError(p.t, err)
			for _, point := range p.EFS.AccessPoints() {
				_, err := p.admin.Clients.EFS.UntagResource(p.t.Context(), &efs.UntagResourceInput{ResourceId: &point.ID, TagKeys: []string{"kubernetes.io/cluster/mine-x7k2p"}})
				require.NoError(p.t, err)
			}
		}, []string{"access point fsap-", "exists, but is not the cluster's: its tags are Name=mine-x7k2p-efs, team=storage; want the tag kubernetes.io/cluster/mine-x7k2p=owned"}},
		"our own access point, with another user": {func(p *place) {
			_, err := p.create(p.t.Context(), false)
			require.NoError(p.t, err)
			p.request.AccessPoints[1].UID = 2001
		}, []string{"its user is 2000:3000", "want user 2001:3000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			test.prepare(p)
			for _, dryRun := range []bool{true, false} {
				_, err := p.create(t.Context(), dryRun)
				for _, want := range test.want {
					assert.ErrorContainsf(t, err, want, "dry run: %v: the error", dryRun)
				}
			}
		})
	}
}

// TestMountTargetThatIsNotComplete: AWS does not show the security groups of a mount target that others are just creating, in a zone without
// nodes. Create waits for them.
func TestMountTargetThatIsNotComplete(t *testing.T) {
	p := newPlaceThatSettles(t, 500*time.Millisecond)
	made, err := p.admin.Clients.EFS.CreateFileSystem(t.Context(), &efs.CreateFileSystemInput{CreationToken: aws.String(p.request.Cluster.FileSystemToken("efs")), Encrypted: aws.Bool(true),
		Tags: []efstypes.Tag{{Key: aws.String("kubernetes.io/cluster/mine-x7k2p"), Value: aws.String("owned")}}})
	require.NoError(t, err)
	evil := p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "evil"}).ID
	subnet, err := p.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-1", Zone: p.Zones()[2].Name})
	require.NoError(t, err)
	require.NoError(t, p.admin.Clients.Poll(t.Context(), func(ctx context.Context) (bool, error) {
		_, err := p.admin.Clients.EFS.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: made.FileSystemId, SubnetId: &subnet.ID, SecurityGroups: []string{evil}})
		return err == nil, err
	}))
	_, err = p.create(t.Context(), false)
	assert.ErrorContains(t, err, "it has the security group "+evil)
}

// TestSettingsOfAdministrators: a policy that narrows who mounts a file system, and a lifecycle and backups of one in use, are no differences.
func TestSettingsOfAdministrators(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := p.create(t.Context(), false)
	require.NoError(t, err)
	fs := p.EFS.FileSystems()[0]
	fs.ToIA, fs.BackedUp = "AFTER_30_DAYS", true
	fs.Policy = `{"Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":["elasticfilesystem:ClientMount","elasticfilesystem:ClientWrite"],"Condition":{"Bool":{"elasticfilesystem:AccessedViaMountTarget":"true"}}},` +
		`{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + fs.Owner + `:role/nodes"},"Action":"elasticfilesystem:ClientRootAccess"},{"Effect":"Deny","Principal":"*","Action":"*"}]}`
	p.EFS.AddFileSystem(fs)
	_, err = p.create(t.Context(), false)
	assert.NoError(t, err, "a second run refuses them")
}

// TestRootsOfAdministrators: an administrator may have access points that cannot change anything in the requested ones' directories, or that
// the request names.
func TestRootsOfAdministrators(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.request.AccessPoints = append(p.request.AccessPoints, AccessPoint{"/b", 0, 0, "0755"}) // asked for, and contains /b/c
	_, err := p.create(t.Context(), false)
	require.NoError(t, err)
	add := func(path string, uid int64) string {
		t.Helper()
		made, err := p.admin.Clients.EFS.CreateAccessPoint(t.Context(), &efs.CreateAccessPointInput{ClientToken: aws.String(fmt.Sprint(path, uid)), FileSystemId: &p.EFS.FileSystems()[0].ID,
			PosixUser: &efstypes.PosixUser{Uid: &uid, Gid: &uid}, RootDirectory: &efstypes.RootDirectory{Path: &path}})
		require.NoError(t, err)
		return *made.AccessPointId
	}
	add("/", 1500)
	add("/a/below", 0)
	add("/ab", 0)
	_, err = p.create(t.Context(), false)
	assert.NoError(t, err, "access points that change nothing in the directories of the requested ones")
	root := add("/", 0)
	_, err = p.create(t.Context(), false)
	assert.ErrorContains(t, err, "access point "+root+" exists, but was not asked for")
	p.request.TrustedPoints = []string{root}
	_, err = p.create(t.Context(), false)
	assert.NoError(t, err, "an access point that the administrator trusts")
}

// TestPolicyDifferences: policies of each form.
func TestPolicyDifferences(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		`{"Statement":[]}`: "",
		`{"Statement":[{"Effect":"Allow","Principal":{"AWS":"111111111111"},"Action":"elasticfilesystem:ClientMount"}]}`:                                      "",
		`{"Statement":[{"Effect":"Allow","NotPrincipal":{"AWS":"111111111111"},"Action":"elasticfilesystem:ClientMount"}]}`:                                   "its policy allows elasticfilesystem:ClientMount to all but some",
		`{"Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"NotAction":"elasticfilesystem:ClientMount"}]}`:                                              "its policy allows all but some actions to *",
		`{"Statement":[{"Effect":"Allow","Principal":{"Service":"x.amazonaws.com"},"Action":"elasticfilesystem:ClientMount"}]}`:                               "its policy allows elasticfilesystem:ClientMount to Service x.amazonaws.com",
		`{"Statement":[{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam::111111111111:role/a","222222222222"]},"Action":"elasticfilesystem:ClientMount"}]}`: "its policy allows elasticfilesystem:ClientMount to 222222222222, arn:aws:iam::111111111111:role/a",
		`{"Statement":{"Effect":"Allow","Principal":"*","Action":"elasticfilesystem:ReplicationRead"}}`:                                                       "its policy allows elasticfilesystem:ReplicationRead to *",
		`{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::222222222222:role/::111111111111:/a"},"Action":"elasticfilesystem:ClientMount"}]}`:  "its policy allows elasticfilesystem:ClientMount to arn:aws:iam::222222222222:role/::111111111111:/a",
		`no JSON`: "its policy cannot be read: invalid character 'o' in literal null (expecting 'u')",
	} {
		assert.Equal(t, want, strings.Join(policyDifferences(policy, "111111111111"), "; "), policy)
	}
}

// TestTokenTaken: an access point in another file system, or for another directory, has the token.
func TestTokenTaken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	points := p.request.AccessPoints
	p.request.AccessPoints = nil
	_, err := p.create(t.Context(), false)
	require.NoError(t, err)
	own, other := p.EFS.FileSystems()[0].ID, p.EFS.AddFileSystem(cloudefs.FileSystem{}).ID
	token := ownership.PointToken(own, points[0].Path)
	_, err = p.admin.Clients.EFS.CreateAccessPoint(t.Context(), &efs.CreateAccessPointInput{ClientToken: &token, FileSystemId: &other})
	require.NoError(t, err)
	p.request.AccessPoints = points
	_, err = p.create(t.Context(), false)
	assert.ErrorContains(t, err, "of file system "+other+" has the token "+token)

	token = ownership.PointToken(own, points[1].Path)
	_, err = p.admin.Clients.EFS.CreateAccessPoint(t.Context(), &efs.CreateAccessPointInput{ClientToken: &token, FileSystemId: &own, Tags: efsTags(map[string]string{"kubernetes.io/cluster/mine-x7k2p": "owned"}),
		PosixUser: &efstypes.PosixUser{Uid: aws.Int64(1), Gid: aws.Int64(1)}, RootDirectory: &efstypes.RootDirectory{Path: aws.String("/elsewhere")}})
	require.NoError(t, err)
	p.request.AccessPoints = points[1:]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = p.create(ctx, false)
	assert.ErrorContains(t, err, "for /elsewhere has the token "+token)
}

// TestDeleting: resources that are being deleted are created again once they are gone.
func TestDeleting(t *testing.T) {
	t.Parallel()
	p := newPlaceThatSettles(t, 500*time.Millisecond)
	create := func() {
		t.Helper()
		_, err := p.create(t.Context(), false)
		require.NoError(t, err)
		p.checkOnce()
	}
	deleteTargets := func() {
		t.Helper()
		for _, target := range p.EFS.MountTargets() {
			_, err := p.admin.Clients.EFS.DeleteMountTarget(t.Context(), &efs.DeleteMountTargetInput{MountTargetId: &target.ID})
			require.NoError(t, err)
		}
	}
	create()
	deleteTargets()
	create()

	deleteTargets()
	own := p.EFS.FileSystems()[0].ID
	require.NoError(t, p.admin.Clients.Poll(t.Context(), func(ctx context.Context) (bool, error) {
		_, err := p.admin.Clients.EFS.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &own})
		return err == nil, err
	}))
	reported, err := p.create(t.Context(), true)
	assert.NoError(t, err)
	assert.Contains(t, reported, "file system mine-x7k2p-efs, found: false, ID: false", "a dry run")
	create()
	assert.NotEqualf(t, own, p.EFS.FileSystems()[0].ID, "file system %s was not deleted", own)
}

// TestStaleRules: AWS lists a rule of the security group late, and refuses requests with it. The other rules are added all the same.
func TestStaleRules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	masters := p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "masters"}).ID
	group := p.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "mine-x7k2p-efs", Ingress: []cloudec2.Ingress{{Protocol: "tcp", FromPort: 2049, ToPort: 2049, Group: p.workers}}}).ID
	c := creator{Clients: p.admin.Clients, Request: p.request}
	require.NoError(t, c.admit(t.Context(), &ec2types.SecurityGroup{GroupId: &group}, []string{p.workers, masters}))
	for _, g := range p.EC2.SecurityGroups() {
		if g.ID == group && len(g.Ingress) != 2 {
			t.Errorf("its rules are %+v, want two", g.Ingress)
		}
	}
}

// TestKeyOfAnotherAccount: whoever made the file system first must not have chosen a key that others can take away.
func TestKeyOfAnotherAccount(t *testing.T) {
	for key, want := range map[string]int{
		"arn:aws:kms:us-east-1:111122223333:key/1": 0, "arn:aws:kms:us-east-1:999999999999:key/1": 1, "": 0,
	} {
		fs := efstypes.FileSystemDescription{Encrypted: aws.Bool(true), OwnerId: aws.String("111122223333"), KmsKeyId: &key}
		assert.Lenf(t, differencesOf(fs), want, "key %q", key)
	}
}
