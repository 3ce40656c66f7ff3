package client

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// EC2 holds the operations of EC2 that Berth calls, as functions. In programs that look up methods by name, as templates do, the linker
// keeps every method of a type that is stored in an interface: for the SDK's client, these are some 700 operations.
type EC2 struct {
	AuthorizeSecurityGroupIngress operation[ec2.AuthorizeSecurityGroupIngressInput, ec2.AuthorizeSecurityGroupIngressOutput]
	CreateSecurityGroup           operation[ec2.CreateSecurityGroupInput, ec2.CreateSecurityGroupOutput]
	DeleteSecurityGroup           operation[ec2.DeleteSecurityGroupInput, ec2.DeleteSecurityGroupOutput]
	DeleteSnapshot                operation[ec2.DeleteSnapshotInput, ec2.DeleteSnapshotOutput]
	DeleteVolume                  operation[ec2.DeleteVolumeInput, ec2.DeleteVolumeOutput]
	DescribeInstances             operation[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
	DescribeSecurityGroups        operation[ec2.DescribeSecurityGroupsInput, ec2.DescribeSecurityGroupsOutput]
	DescribeSnapshots             operation[ec2.DescribeSnapshotsInput, ec2.DescribeSnapshotsOutput]
	DescribeVolumes               operation[ec2.DescribeVolumesInput, ec2.DescribeVolumesOutput]
}

type operation[In, Out any] func(context.Context, *In, ...func(*ec2.Options)) (*Out, error)

// NewEC2 returns the operations of a client of the SDK.
func NewEC2(c *ec2.Client) EC2 {
	return EC2{
		AuthorizeSecurityGroupIngress: c.AuthorizeSecurityGroupIngress,
		CreateSecurityGroup:           c.CreateSecurityGroup,
		DeleteSecurityGroup:           c.DeleteSecurityGroup,
		DeleteSnapshot:                c.DeleteSnapshot,
		DeleteVolume:                  c.DeleteVolume,
		DescribeInstances:             c.DescribeInstances,
		DescribeSecurityGroups:        c.DescribeSecurityGroups,
		DescribeSnapshots:             c.DescribeSnapshots,
		DescribeVolumes:               c.DescribeVolumes,
	}
}

// SecurityGroups returns a paginator over security groups.
func (c EC2) SecurityGroups(in *ec2.DescribeSecurityGroupsInput) *ec2.DescribeSecurityGroupsPaginator {
	return ec2.NewDescribeSecurityGroupsPaginator(groups(c.DescribeSecurityGroups), in)
}

// Snapshots returns a paginator over snapshots.
func (c EC2) Snapshots(in *ec2.DescribeSnapshotsInput) *ec2.DescribeSnapshotsPaginator {
	return ec2.NewDescribeSnapshotsPaginator(snapshots(c.DescribeSnapshots), in)
}

// Volumes returns a paginator over volumes.
func (c EC2) Volumes(in *ec2.DescribeVolumesInput) *ec2.DescribeVolumesPaginator {
	return ec2.NewDescribeVolumesPaginator(volumes(c.DescribeVolumes), in)
}

// These types turn the functions into the interfaces that the SDK's paginators need.
type (
	groups    operation[ec2.DescribeSecurityGroupsInput, ec2.DescribeSecurityGroupsOutput]
	snapshots operation[ec2.DescribeSnapshotsInput, ec2.DescribeSnapshotsOutput]
	volumes   operation[ec2.DescribeVolumesInput, ec2.DescribeVolumesOutput]
)

func (call groups) DescribeSecurityGroups(ctx context.Context, in *ec2.DescribeSecurityGroupsInput, options ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	return call(ctx, in, options...)
}

func (call snapshots) DescribeSnapshots(ctx context.Context, in *ec2.DescribeSnapshotsInput, options ...func(*ec2.Options)) (*ec2.DescribeSnapshotsOutput, error) {
	return call(ctx, in, options...)
}

func (call volumes) DescribeVolumes(ctx context.Context, in *ec2.DescribeVolumesInput, options ...func(*ec2.Options)) (*ec2.DescribeVolumesOutput, error) {
	return call(ctx, in, options...)
}
