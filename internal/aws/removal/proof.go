package removal

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/ownership"
)

// Whoever may set tags, but delete nothing, can give somebody else's resource the cluster's tags. So Find also checks properties that were
// chosen when the resource was created, and that nobody can change. Volumes have no such property: only their tags say who created them.

// drivers matches the tokens of access points that EFS drivers create: the name of the volume, or a hash if a StorageClass makes volumes
// share an access point. The AWS CLI, AWS's console and Terraform choose other tokens.
var drivers = regexp.MustCompile(`^(pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64})$`)

// snapshotDescription is the description that the EBS driver gives to a snapshot of a volume.
const snapshotDescription = "Created by AWS EBS CSI driver for volume "

// prover says which resources were created for a cluster.
type prover struct {
	ownership.Cluster
	// trusted are the IDs of resources whose tags an administrator believes.
	trusted []string
}

// unproven says why a resource is kept if only its tags say that it is the cluster's. It returns "" if trusted has id.
func (p prover) unproven(id, found, want string) string {
	if slices.Contains(p.trusted, id) {
		return ""
	}
	return fmt.Sprintf("its tags say that it is the cluster's, but it has %s, want %s: somebody else may have set the tags. To delete it all the same, add --trust-tags-of %s", found, want, id)
}

// fileSystem says why a file system with the cluster's tag is kept, or "".
func (p prover) fileSystem(fs efstypes.FileSystemDescription) string {
	token := aws.ToString(fs.CreationToken)
	if p.CreatedFileSystem(token, aws.ToString(fs.Name)) {
		return ""
	}
	return p.unproven(aws.ToString(fs.FileSystemId), fmt.Sprintf("the creation token %q", token), fmt.Sprintf("%q, with which berth aws create begins", p.FileSystemToken("")))
}

// accessPoint says why an access point with the cluster's tag is kept, or "". Drivers of all clusters create access points alike: in a file
// system that was not created for the cluster, only the tag says which cluster an access point belongs to.
func (p prover) accessPoint(point efstypes.AccessPointDescription, inOurs bool) string {
	token, fs, path := aws.ToString(point.ClientToken), aws.ToString(point.FileSystemId), ""
	if point.RootDirectory != nil {
		path = aws.ToString(point.RootDirectory.Path)
	}
	switch {
	case slices.Contains(p.trusted, fs):
		return ""
	case !inOurs:
		return p.unproven(fs, "a file system that was not created for the cluster, "+fs, "one that was")
	case drivers.MatchString(token) || token == ownership.PointToken(fs, path):
		return ""
	}
	return p.unproven(aws.ToString(point.AccessPointId), fmt.Sprintf("the token %q", token), "one that the driver or berth aws create chooses")
}

// snapshot says why a snapshot with the cluster's tags is kept, or "".
func (p prover) snapshot(s ec2types.Snapshot) string {
	description, want := aws.ToString(s.Description), snapshotDescription+aws.ToString(s.VolumeId)
	if description == want {
		return ""
	}
	return p.unproven(aws.ToString(s.SnapshotId), fmt.Sprintf("the description %q", description), fmt.Sprintf("%q", want))
}

// securityGroup says why a security group with the cluster's tags is kept, or "".
func (p prover) securityGroup(group ec2types.SecurityGroup) string {
	description, name := aws.ToString(group.Description), aws.ToString(group.GroupName)
	if description == p.GroupDescription() && strings.HasPrefix(name, p.Name("")) {
		return ""
	}
	return p.unproven(aws.ToString(group.GroupId), fmt.Sprintf("the name %q and the description %q", name, description),
		fmt.Sprintf("%q in front and %q", p.Name(""), p.GroupDescription()))
}
