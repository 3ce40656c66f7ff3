// Package provision creates an EFS file system for a cluster: encrypted, with a mount target in each zone that has nodes, a
// security group that admits the nodes, and access points. All have the cluster's tag, so that package removal deletes them.
//
// The name or token of each resource is computed from the cluster's ID, so that Create is idempotent and can be interrupted.
package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/client"
	"github.com/berth-csi/berth/internal/aws/ownership"
	"github.com/berth-csi/berth/internal/aws/removal"
)

// nfs is the TCP port of mount targets.
const nfs = 2049

// Permissions are the permissions that Create needs. The creation of a mount target creates a network interface in the caller's name.
var Permissions = []string{
	"ec2:DescribeInstances", "ec2:DescribeSecurityGroups", "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress", "ec2:CreateTags",
	"ec2:DescribeSubnets", "ec2:DescribeNetworkInterfaces", "ec2:DescribeNetworkInterfaceAttribute", "ec2:CreateNetworkInterface",
	"elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeMountTargets", "elasticfilesystem:DescribeMountTargetSecurityGroups", "elasticfilesystem:DescribeAccessPoints",
	"elasticfilesystem:DescribeReplicationConfigurations", "elasticfilesystem:DescribeFileSystemPolicy", "elasticfilesystem:DescribeLifecycleConfiguration",
	"elasticfilesystem:CreateFileSystem", "elasticfilesystem:CreateMountTarget", "elasticfilesystem:CreateAccessPoint", "elasticfilesystem:TagResource",
}

// Request says what to create.
type Request struct {
	Cluster ownership.Cluster
	// Name distinguishes the file systems of a cluster.
	Name string
	// Tags are further tags, such as the Infrastructure's.
	Tags map[string]string
	// Instances are the IDs of the cluster's nodes.
	Instances    []string
	AccessPoints []AccessPoint
	// TrustedPoints are the IDs of access points that may be root in the directories of the requested ones.
	TrustedPoints []string
}

// AccessPoint is an access point to create. AWS creates the directory at the first mount.
type AccessPoint struct {
	// Path is absolute, with at most four directories.
	Path string
	// UID and GID are the user that accesses files, and that owns the directory.
	UID, GID int64
	// Permissions are the permissions of the directory, in octal, such as "0755".
	Permissions string
}

// Resource is a resource that was created or found.
type Resource struct {
	Kind removal.Kind `json:"kind"`
	// ID is empty if a dry run would create the resource.
	ID string `json:"id,omitempty"`
	// About is a zone, a path or a name.
	About string `json:"about,omitempty"`
	// Found says that it already existed.
	Found bool `json:"found"`
	// LeftOut says why it is not created. It is empty otherwise.
	LeftOut string `json:"leftOut,omitempty"`
}

// Schema is the schema of Report as JSON.
const Schema = "berth.aws-create.v1"

// Report lists the created resources, as JSON.
type Report struct {
	Schema string `json:"schema"`
	// Cluster is the infrastructure ID.
	Cluster string `json:"cluster"`
	// Region is the region of AWS.
	Region string `json:"region"`
	// DryRun says that nothing was created.
	DryRun    bool       `json:"dryRun"`
	Resources []Resource `json:"resources"`
}

// creator creates the resources of a request.
type creator struct {
	*client.Clients
	Request
	dryRun bool
	report func(Resource)
}

// Create creates the missing resources, and waits until all are available. It calls report for each resource. In a dry run it only
// reads.
func Create(ctx context.Context, clients *client.Clients, request Request, dryRun bool, report func(Resource)) error {
	if err := request.Cluster.Check(); err != nil {
		return err
	}
	c := creator{clients, request, dryRun, report}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	group, err := c.securityGroup(ctx, nodes)
	if err != nil {
		return err
	}
	fileSystem, err := c.fileSystem(ctx)
	if err != nil {
		return err
	}
	if err := c.mountTargets(ctx, fileSystem, group, nodes); err != nil {
		return err
	}
	return c.accessPoints(ctx, fileSystem)
}

// network describes the nodes' network.
type network struct {
	vpc string
	// subnets has one subnet for each zone, without the zones in leftOut.
	subnets map[string]string
	// leftOut are the zones that cannot have mount targets, with the reasons.
	leftOut map[string]string
	// groups are the security groups of the nodes.
	groups []string
}

// nodes reads the nodes' network.
func (c creator) nodes(ctx context.Context) (network, error) {
	if len(c.Instances) == 0 {
		return network{}, errors.New("the cluster has no nodes with an instance of EC2 in spec.providerID, so it is not known where mount targets are needed")
	}
	found, groups, vpcs := network{subnets: map[string]string{}, leftOut: map[string]string{}}, map[string]bool{}, map[string]bool{}
	for chunk := range slices.Chunk(c.Instances, 100) {
		page, err := c.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: chunk})
		if err != nil {
			return network{}, fmt.Errorf("reading the instances of the nodes: %w", err)
		}
		for _, reservation := range page.Reservations {
			for _, i := range reservation.Instances {
				if i.SubnetId == nil || i.Placement == nil {
					continue // it is terminated
				}
				zone, subnet := aws.ToString(i.Placement.AvailabilityZone), aws.ToString(i.SubnetId)
				if old := found.subnets[zone]; !isRegional(zone, c.EFS.Options().Region) {
					found.leftOut[zone] = "EFS has no mount targets in Local Zones and Wavelength Zones"
				} else if old == "" || subnet < old {
					found.subnets[zone] = subnet
				}
				vpcs[aws.ToString(i.VpcId)] = true
				for _, group := range i.SecurityGroups {
					groups[aws.ToString(group.GroupId)] = true
				}
			}
		}
	}
	if len(vpcs) != 1 {
		return network{}, fmt.Errorf("the nodes are in the VPCs %q, want one: a file system has mount targets in one VPC", slices.Sorted(maps.Keys(vpcs)))
	}
	if err := found.mustHaveZone(); err != nil {
		return network{}, err
	}
	found.vpc, found.groups = slices.Sorted(maps.Keys(vpcs))[0], slices.Sorted(maps.Keys(groups))
	return found, nil
}

// isRegional reports whether a zone is an Availability Zone of the region: its name is the region's with a letter.
func isRegional(zone, region string) bool {
	letter, of := strings.CutPrefix(zone, region)
	return of && len(letter) == 1
}

// mustHaveZone returns an error if all zones with nodes are left out.
func (n network) mustHaveZone() error {
	if len(n.subnets) > 0 {
		return nil
	}
	var why []string
	for _, zone := range slices.Sorted(maps.Keys(n.leftOut)) {
		why = append(why, zone+": "+n.leftOut[zone])
	}
	return fmt.Errorf("none of the zones with nodes can have a mount target: %s; add nodes in an Availability Zone of the region", strings.Join(why, "; "))
}

// name is the name of the security group, and of the file system.
func (c creator) name() string { return c.Cluster.Name(c.Name) }

// tags returns the tags of a resource.
func (c creator) tags(more map[string]string) map[string]string {
	tags := maps.Clone(c.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	key, value := c.Cluster.Tag()
	tags[key], tags["Name"] = value, c.name()
	maps.Copy(tags, more)
	return tags
}

// mustBeOurs returns an error unless the tags of a resource with our name or token show that it is the cluster's.
func (c creator) mustBeOurs(what string, tags map[string]string) error {
	if claim := c.Cluster.Of(tags); !claim.Mine || claim.Kept != "" {
		key, value := c.Cluster.Tag()
		return fmt.Errorf("%s exists, but is not the cluster's: its tags are %s; want the tag %s=%s and of no other cluster; if it is the cluster's, give it the tag; otherwise use another --name",
			what, listTags(tags), key, value)
	}
	return nil
}

// listTags lists tags for a message.
func listTags(tags map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, key+"="+tags[key])
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// securityGroup returns a security group that admits the nodes. The ID is empty if a dry run would create it.
func (c creator) securityGroup(ctx context.Context, nodes network) (string, error) {
	group, err := c.findGroup(ctx, nodes.vpc)
	if err != nil {
		return "", err
	}
	if group == nil && c.dryRun {
		c.report(Resource{Kind: removal.SecurityGroup, About: c.name()})
		return "", nil
	}
	existed := group != nil
	if group == nil {
		_, err := c.EC2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			VpcId: &nodes.vpc, GroupName: aws.String(c.name()), Description: aws.String(c.Cluster.GroupDescription()),
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: ec2Tags(c.tags(map[string]string{removal.GroupTag: ""}))}},
		})
		if err != nil && client.CodeOf(err) != "InvalidGroup.Duplicate" { // it was created by a request whose answer was lost
			return "", fmt.Errorf("creating security group %s: %w", c.name(), err)
		}
		if err := c.Poll(ctx, func(ctx context.Context) (bool, error) {
			if group, err = c.findGroup(ctx, nodes.vpc); err != nil || group != nil {
				return true, err
			}
			return false, errors.New("AWS does not list it yet")
		}); err != nil {
			return "", fmt.Errorf("waiting for security group %s: %w", c.name(), err)
		}
	}
	if err := c.mustAdmitOnly(group, nodes.groups); err != nil {
		return "", err
	}
	if err := c.admit(ctx, group, nodes.groups); err != nil {
		return "", err
	}
	c.report(Resource{Kind: removal.SecurityGroup, ID: aws.ToString(group.GroupId), About: c.name(), Found: existed})
	return aws.ToString(group.GroupId), nil
}

// findGroup returns the security group of the name, or nil.
func (c creator) findGroup(ctx context.Context, vpc string) (*ec2types.SecurityGroup, error) {
	found, err := c.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		{Name: aws.String("vpc-id"), Values: []string{vpc}}, {Name: aws.String("group-name"), Values: []string{c.name()}},
	}})
	if err != nil {
		return nil, fmt.Errorf("looking for security group %s: %w", c.name(), err)
	}
	if len(found.SecurityGroups) == 0 {
		return nil, nil
	}
	group := found.SecurityGroups[0]
	return &group, c.mustBeOurs("security group "+aws.ToString(group.GroupId), client.EC2Tags(group.Tags))
}

// mustAdmitOnly returns an error if a security group admits anything but members of groups to the NFS port: somebody else in the
// account may have created it.
func (c creator) mustAdmitOnly(group *ec2types.SecurityGroup, members []string) error {
	var differences []string
	if _, marked := client.EC2Tags(group.Tags)[removal.GroupTag]; !marked {
		differences = append(differences, "it lacks the tag "+removal.GroupTag)
	}
	for _, p := range group.IpPermissions {
		asked := aws.ToString(p.IpProtocol) == "tcp" && aws.ToInt32(p.FromPort) == nfs && aws.ToInt32(p.ToPort) == nfs
		var from []string
		for _, pair := range p.UserIdGroupPairs {
			if id := aws.ToString(pair.GroupId); !asked || !slices.Contains(members, id) {
				from = append(from, id)
			}
		}
		for _, r := range p.IpRanges {
			from = append(from, aws.ToString(r.CidrIp))
		}
		for _, r := range p.Ipv6Ranges {
			from = append(from, aws.ToString(r.CidrIpv6))
		}
		for _, list := range p.PrefixListIds {
			from = append(from, aws.ToString(list.PrefixListId))
		}
		if len(from) > 0 {
			differences = append(differences, fmt.Sprintf("it admits %s at ports %d-%d of protocol %s", strings.Join(from, ", "), aws.ToInt32(p.FromPort), aws.ToInt32(p.ToPort), aws.ToString(p.IpProtocol)))
		}
	}
	return c.mustBeAsAsked("security group "+aws.ToString(group.GroupId), "that only the nodes are admitted, at port 2049 of protocol tcp", differences)
}

// mustBeAsAsked returns an error that lists the differences between the existing and the requested resource, if any.
func (c creator) mustBeAsAsked(what, want string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("%s exists, but is not what was asked for: %s; want %s. Find out who made it; change or delete it, or use another --name",
		what, strings.Join(differences, "; "), want)
}

// admit lets the members of security groups connect to the NFS port.
func (c creator) admit(ctx context.Context, group *ec2types.SecurityGroup, members []string) error {
	if c.dryRun {
		return nil
	}
	for _, member := range members {
		admits := slices.ContainsFunc(group.IpPermissions, func(p ec2types.IpPermission) bool {
			return aws.ToString(p.IpProtocol) == "tcp" && aws.ToInt32(p.FromPort) <= nfs && nfs <= aws.ToInt32(p.ToPort) &&
				slices.ContainsFunc(p.UserIdGroupPairs, func(pair ec2types.UserIdGroupPair) bool { return aws.ToString(pair.GroupId) == member })
		})
		if admits {
			continue
		}
		// AWS refuses a request as a whole if one of its rules exists already.
		_, err := c.EC2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: group.GroupId, IpPermissions: []ec2types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(nfs), ToPort: aws.Int32(nfs), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: aws.String(member)}},
		}}})
		if err != nil && client.CodeOf(err) != "InvalidPermission.Duplicate" {
			return fmt.Errorf("admitting the nodes in security group %s: %w", aws.ToString(group.GroupId), err)
		}
	}
	return nil
}

// fileSystem returns the file system. The ID is empty if a dry run would create it.
func (c creator) fileSystem(ctx context.Context) (string, error) {
	token := c.Cluster.FileSystemToken(c.Name)
	found, err := c.findFileSystem(ctx, token)
	if err != nil {
		return "", err
	}
	existed := found != nil && found.LifeCycleState != efstypes.LifeCycleStateDeleting
	if !existed && c.dryRun {
		c.report(Resource{Kind: removal.FileSystem, About: c.name()})
		return "", nil
	}
	if err := c.Poll(ctx, func(ctx context.Context) (bool, error) {
		switch found, err = c.findFileSystem(ctx, token); {
		case err != nil:
			return true, err
		case found == nil: // a file system of the token that is being deleted is gone now
			_, err := c.EFS.CreateFileSystem(ctx, &efs.CreateFileSystemInput{
				CreationToken: &token, Encrypted: aws.Bool(true), PerformanceMode: efstypes.PerformanceModeGeneralPurpose, ThroughputMode: efstypes.ThroughputModeElastic,
				Tags: efsTags(c.tags(nil)),
			})
			return unlessExists(err, "FileSystemAlreadyExists")
		case found.LifeCycleState == efstypes.LifeCycleStateAvailable:
			return true, nil
		case found.LifeCycleState == efstypes.LifeCycleStateError:
			return true, errors.New("AWS says that it is in state error")
		}
		return false, fmt.Errorf("it is %s", found.LifeCycleState)
	}); err != nil {
		return "", fmt.Errorf("waiting for file system %s: %w", c.name(), err)
	}
	c.report(Resource{Kind: removal.FileSystem, ID: aws.ToString(found.FileSystemId), About: c.name(), Found: existed})
	return aws.ToString(found.FileSystemId), nil
}

// unlessExists is the result of a poll that has created a resource. If AWS says that it exists already, by an error of this code, the next
// poll shows it.
func unlessExists(err error, code string) (done bool, _ error) {
	switch {
	case err == nil:
		return false, errors.New("AWS does not list it yet")
	case client.CodeOf(err) == code:
		return false, fmt.Errorf("AWS does not list it yet, and says: %w", err)
	}
	return true, err
}

// findFileSystem returns the file system with a token, or nil.
func (c creator) findFileSystem(ctx context.Context, token string) (*efstypes.FileSystemDescription, error) {
	page, err := c.EFS.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{CreationToken: &token})
	if err != nil {
		return nil, fmt.Errorf("looking for file system %s: %w", c.name(), err)
	}
	if len(page.FileSystems) == 0 {
		return nil, nil
	}
	fs := page.FileSystems[0]
	if fs.LifeCycleState == efstypes.LifeCycleStateDeleting {
		return &fs, nil
	}
	what := "file system " + aws.ToString(fs.FileSystemId)
	if err := c.mustBeOurs(what, client.EFSTags(fs.Tags)); err != nil {
		return nil, err
	}
	differences, err := c.settingDifferences(ctx, fs)
	if err != nil {
		return nil, err
	}
	return &fs, c.mustBeAsAsked(what, "it encrypted, with a key of its account, with performance mode "+string(efstypes.PerformanceModeGeneralPurpose)+
		", without a replication or a lifecycle, and without a policy that allows others than this account more than to mount it", append(differencesOf(fs), differences...))
}

// differencesOf says how a file system differs from the request. Whoever has the key of another account can take all
// data away.
func differencesOf(fs efstypes.FileSystemDescription) (all []string) {
	if !aws.ToBool(fs.Encrypted) {
		all = append(all, "it is not encrypted")
	}
	if key, owner := aws.ToString(fs.KmsKeyId), aws.ToString(fs.OwnerId); key != "" && owner != "" && !strings.Contains(key, ":"+owner+":") {
		all = append(all, fmt.Sprintf("it is encrypted with %s, the key of another account than %s", key, owner))
	}
	if fs.PerformanceMode != "" && fs.PerformanceMode != efstypes.PerformanceModeGeneralPurpose {
		all = append(all, fmt.Sprintf("its performance mode is %s", fs.PerformanceMode))
	}
	if p := fs.FileSystemProtection; p != nil && p.ReplicationOverwriteProtection == efstypes.ReplicationOverwriteProtectionDisabled {
		all = append(all, "a replication may overwrite it")
	}
	return all
}

// mountTargets creates a mount target in each zone with nodes that can have one.
func (c creator) mountTargets(ctx context.Context, fileSystem, group string, nodes network) error {
	existing := map[string]efstypes.MountTargetDescription{}
	if fileSystem != "" {
		var err error
		if existing, err = c.findMountTargets(ctx, fileSystem); err != nil {
			return err
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(existing)) {
		if err := c.mustHaveGroup(ctx, existing[zone], group); err != nil {
			return err
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(nodes.subnets)) {
		if _, found := existing[zone]; found || c.dryRun {
			continue
		}
		err := c.createMountTarget(ctx, fileSystem, nodes.subnets[zone], group)
		if client.CodeOf(err) == "UnsupportedAvailabilityZone" {
			delete(nodes.subnets, zone)
			nodes.leftOut[zone] = "EFS does not support the zone"
			continue
		}
		if err != nil && client.CodeOf(err) != "MountTargetConflict" { // the next poll shows it
			return fmt.Errorf("creating a mount target in zone %s, subnet %s: %w", zone, nodes.subnets[zone], err)
		}
	}
	if err := nodes.mustHaveZone(); err != nil {
		return err
	}
	for _, zone := range slices.Sorted(maps.Keys(nodes.leftOut)) {
		c.report(Resource{Kind: removal.MountTarget, About: zone, LeftOut: nodes.leftOut[zone]})
	}
	for _, zone := range slices.Sorted(maps.Keys(nodes.subnets)) {
		_, found := existing[zone]
		r := Resource{Kind: removal.MountTarget, About: zone, Found: found}
		if !c.dryRun || found {
			target, err := c.awaitMountTarget(ctx, fileSystem, zone, nodes.subnets[zone], group)
			if err == nil {
				err = c.mustHaveGroup(ctx, target, group)
			}
			if err != nil {
				return fmt.Errorf("waiting for the mount target in zone %s: %w", zone, err)
			}
			r.ID = aws.ToString(target.MountTargetId)
		}
		c.report(r)
	}
	return nil
}

func (c creator) createMountTarget(ctx context.Context, fileSystem, subnet, group string) error {
	_, err := c.EFS.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: &fileSystem, SubnetId: &subnet, SecurityGroups: []string{group}})
	return err
}

// mustHaveGroup returns an error if a mount target has another security group than the one that admits only the nodes: somebody else in
// the account may have made it. A group that does not exist yet is "". AWS does not show the groups until the mount target is complete.
func (c creator) mustHaveGroup(ctx context.Context, target efstypes.MountTargetDescription, group string) error {
	id := aws.ToString(target.MountTargetId)
	has, err := c.EFS.DescribeMountTargetSecurityGroups(ctx, &efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: &id})
	if code := client.CodeOf(err); code == "MountTargetNotFound" || code == "IncorrectMountTargetState" && target.LifeCycleState != efstypes.LifeCycleStateAvailable {
		return nil // it has gone since it was listed, or is looked at again
	}
	if err != nil {
		return fmt.Errorf("reading the security groups of mount target %s: %w", id, err)
	}
	var differences []string
	for _, other := range has.SecurityGroups {
		if other != group {
			differences = append(differences, "it has the security group "+other)
		}
	}
	return c.mustBeAsAsked("mount target "+id, strings.TrimSpace("only the security group "+c.name()+" "+group), differences)
}

// findMountTargets returns the mount targets of a file system that nobody deletes, by zone.
func (c creator) findMountTargets(ctx context.Context, fileSystem string) (map[string]efstypes.MountTargetDescription, error) {
	found := map[string]efstypes.MountTargetDescription{}
	for pages := efs.NewDescribeMountTargetsPaginator(c.EFS, &efs.DescribeMountTargetsInput{FileSystemId: &fileSystem}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the mount targets of file system %s: %w", fileSystem, err)
		}
		for _, target := range page.MountTargets {
			if target.LifeCycleState != efstypes.LifeCycleStateDeleting {
				found[aws.ToString(target.AvailabilityZoneName)] = target
			}
		}
	}
	return found, nil
}

// awaitMountTarget waits until the mount target of a zone is available. One that is deleted has to be gone before another is created.
func (c creator) awaitMountTarget(ctx context.Context, fileSystem, zone, subnet, group string) (target efstypes.MountTargetDescription, err error) {
	err = c.Poll(ctx, func(ctx context.Context) (bool, error) {
		all, err := c.findMountTargets(ctx, fileSystem)
		if err != nil {
			return true, err
		}
		found := false
		target, found = all[zone]
		id := aws.ToString(target.MountTargetId)
		switch {
		case !found:
			return unlessExists(c.createMountTarget(ctx, fileSystem, subnet, group), "MountTargetConflict")
		case target.LifeCycleState == efstypes.LifeCycleStateError:
			return true, fmt.Errorf("AWS says that mount target %s is in state error", id)
		case target.LifeCycleState != efstypes.LifeCycleStateAvailable:
			return false, fmt.Errorf("mount target %s is %s", id, target.LifeCycleState)
		}
		return true, nil
	})
	return target, err
}

// accessPoints creates the access points. EFS creates only one for each token.
func (c creator) accessPoints(ctx context.Context, fileSystem string) error {
	for _, point := range c.AccessPoints {
		id, found, err := c.accessPoint(ctx, fileSystem, point)
		if err != nil {
			return fmt.Errorf("access point %s: %w", point.Path, err)
		}
		c.report(Resource{Kind: removal.AccessPoint, ID: id, About: point.Path, Found: found})
	}
	return nil
}

func (c creator) accessPoint(ctx context.Context, fileSystem string, point AccessPoint) (id string, existed bool, err error) {
	var found *efstypes.AccessPointDescription
	if fileSystem != "" {
		if found, err = c.findAccessPoint(ctx, fileSystem, point); err != nil {
			return "", false, err
		}
	}
	if existed = found != nil; !existed && c.dryRun {
		return "", false, nil
	}
	err = c.Poll(ctx, func(ctx context.Context) (bool, error) {
		switch found, err = c.findAccessPoint(ctx, fileSystem, point); {
		case err != nil:
			return true, err
		case found == nil:
			return c.createAccessPoint(ctx, fileSystem, point)
		case found.LifeCycleState == efstypes.LifeCycleStateError:
			return true, errors.New("AWS says that it is in state error")
		case found.LifeCycleState != efstypes.LifeCycleStateAvailable:
			return false, fmt.Errorf("it is %s", found.LifeCycleState)
		}
		return true, nil
	})
	if err != nil {
		return "", false, err
	}
	return aws.ToString(found.AccessPointId), existed, nil
}

// createAccessPoint creates an access point. If AWS says that one with its token exists, that must be the cluster's, or be about to go.
func (c creator) createAccessPoint(ctx context.Context, fileSystem string, point AccessPoint) (done bool, _ error) {
	token, user := ownership.PointToken(fileSystem, point.Path), &efstypes.PosixUser{Uid: &point.UID, Gid: &point.GID}
	_, err := c.EFS.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{
		ClientToken: &token, FileSystemId: &fileSystem, PosixUser: user, Tags: efsTags(c.tags(nil)),
		RootDirectory: &efstypes.RootDirectory{Path: &point.Path, CreationInfo: &efstypes.CreationInfo{OwnerUid: &point.UID, OwnerGid: &point.GID, Permissions: &point.Permissions}},
	})
	exists := (*efstypes.AccessPointAlreadyExists)(nil)
	if !errors.As(err, &exists) {
		return unlessExists(err, "AccessPointAlreadyExists")
	}
	page, describing := c.EFS.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: exists.AccessPointId})
	switch {
	case client.CodeOf(describing) == "AccessPointNotFound", describing == nil && len(page.AccessPoints) == 0:
		return false, err
	case describing != nil:
		return true, fmt.Errorf("reading access point %s, which has the token %s: %w", aws.ToString(exists.AccessPointId), token, describing)
	}
	other := page.AccessPoints[0]
	what := "access point " + aws.ToString(other.AccessPointId)
	switch of := aws.ToString(other.FileSystemId); {
	case other.LifeCycleState == efstypes.LifeCycleStateDeleting:
		return false, fmt.Errorf("%s, which has its token, is being deleted", what)
	case of != fileSystem:
		return true, fmt.Errorf("%s of file system %s has the token %s, want none or one of file system %s; find out who made it, and delete it or use another --name", what, of, token, fileSystem)
	}
	if err := c.mustBeOurs(what, client.EFSTags(other.Tags)); err != nil {
		return true, err
	}
	return unlessExists(err, "AccessPointAlreadyExists")
}

// findAccessPoint returns the cluster's access point that matches the request, or nil. It returns an error if access points with
// that path differ otherwise: they would give applications another user. The one that was made for the request must still be the cluster's,
// and no other may be root in its directory.
func (c creator) findAccessPoint(ctx context.Context, fileSystem string, want AccessPoint) (found *efstypes.AccessPointDescription, _ error) {
	var refused error
	for pages := efs.NewDescribeAccessPointsPaginator(c.EFS, &efs.DescribeAccessPointsInput{FileSystemId: &fileSystem}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the access points of file system %s: %w", fileSystem, err)
		}
		for _, point := range page.AccessPoints {
			if point.RootDirectory == nil || point.LifeCycleState == efstypes.LifeCycleStateDeleting {
				continue
			}
			same := aws.ToString(point.RootDirectory.Path) == want.Path
			ours := c.mustBeOurs("access point "+aws.ToString(point.AccessPointId), client.EFSTags(point.Tags))
			switch {
			case same && ours == nil && len(want.differences(point)) == 0:
				found = cmp.Or(found, &point)
			case same && ours == nil:
				refused = c.mustBeAsAsked(aws.ToString(point.AccessPointId), fmt.Sprintf("user %d:%d and permissions %s", want.UID, want.GID, want.Permissions), want.differences(point))
			case same && aws.ToString(point.ClientToken) == ownership.PointToken(fileSystem, want.Path):
				return nil, ours
			default:
				if err := c.mustNotBeRoot(point, want); err != nil {
					return nil, err
				}
			}
		}
	}
	if found != nil {
		return found, nil
	}
	return nil, refused
}

// mustNotBeRoot returns an error if an access point that was not asked for lets whoever mounts through it do everything in the directory of
// the requested one: somebody else in the account may have made it.
func (c creator) mustNotBeRoot(point efstypes.AccessPointDescription, in AccessPoint) error {
	id, path, user := aws.ToString(point.AccessPointId), aws.ToString(point.RootDirectory.Path), point.PosixUser
	contains := strings.HasPrefix(in.Path+"/", strings.TrimSuffix(path, "/")+"/")
	asked := slices.ContainsFunc(c.AccessPoints, func(a AccessPoint) bool { return a.Path == path && len(a.differences(point)) == 0 })
	if !contains || asked || user != nil && aws.ToInt64(user.Uid) != 0 || slices.Contains(c.TrustedPoints, id) {
		return nil
	}
	who := "user 0"
	if user == nil {
		who = "any user that a client says"
	}
	return fmt.Errorf("access point %s exists, but was not asked for: whoever mounts through it is %s in %s, and so in %s. Find out who made it, and delete it; if it is meant to be there, add --trust-access-point %s",
		id, who, path, in.Path, id)
}

// differences lists the differences between an access point and the requested one.
func (want AccessPoint) differences(found efstypes.AccessPointDescription) (all []string) {
	switch user := found.PosixUser; {
	case user == nil:
		all = append(all, "it has no user, so each client is the user that it says")
	case aws.ToInt64(user.Uid) != want.UID || aws.ToInt64(user.Gid) != want.GID || len(user.SecondaryGids) > 0:
		all = append(all, fmt.Sprintf("its user is %d:%d, with %d more groups", aws.ToInt64(user.Uid), aws.ToInt64(user.Gid), len(user.SecondaryGids)))
	}
	octal := func(text string) string { return strings.TrimLeft(text, "0") }
	switch made := found.RootDirectory.CreationInfo; {
	case made == nil:
		all = append(all, "it sets no owner for its directory")
	case aws.ToInt64(made.OwnerUid) != want.UID || aws.ToInt64(made.OwnerGid) != want.GID || octal(aws.ToString(made.Permissions)) != octal(want.Permissions):
		all = append(all, fmt.Sprintf("its directory is of %d:%d, with permissions %s", aws.ToInt64(made.OwnerUid), aws.ToInt64(made.OwnerGid), aws.ToString(made.Permissions)))
	}
	return all
}

func ec2Tags(tags map[string]string) (list []ec2types.Tag) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, ec2types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

func efsTags(tags map[string]string) (list []efstypes.Tag) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, efstypes.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}
