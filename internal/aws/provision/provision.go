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
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/client"
	"github.com/berth-csi/berth/internal/aws/ownership"
	"github.com/berth-csi/berth/internal/aws/removal"
)

// nfs is the TCP port of mount targets.
const nfs = 2049

// Permissions are the permissions that Create needs. AWS creates a mount target's network interface with the caller's permissions.
var Permissions = []string{
	"ec2:DescribeInstances", "ec2:DescribeSecurityGroups", "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress", "ec2:CreateTags",
	"ec2:DescribeSubnets", "ec2:DescribeNetworkInterfaces", "ec2:DescribeNetworkInterfaceAttribute", "ec2:CreateNetworkInterface",
	"elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeMountTargets", "elasticfilesystem:DescribeMountTargetSecurityGroups", "elasticfilesystem:DescribeAccessPoints",
	"elasticfilesystem:DescribeReplicationConfigurations", "elasticfilesystem:DescribeFileSystemPolicy", "elasticfilesystem:DescribeLifecycleConfiguration", "elasticfilesystem:DescribeBackupPolicy",
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
	// TrustedPoints are the IDs of access points that may write in the directories of the requested ones.
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
	// subnets has one subnet for each zone, except the zones in leftOut.
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

// name returns the name of the security group and of the file system.
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
		return fmt.Errorf("%s exists, but is not the cluster's: its tags are %s; want the tag %s=%s, and no tag of another cluster; if it is the cluster's, give it the tag; otherwise use another --name",
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
