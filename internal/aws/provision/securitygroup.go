package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/berth-csi/berth/internal/aws/client"
	"github.com/berth-csi/berth/internal/aws/removal"
)

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

// findGroup returns the security group with the request's name, or nil.
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
	return fmt.Errorf("%s exists, but differs from the request: %s; want %s. Find out who made it; change or delete it, or use another --name",
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
