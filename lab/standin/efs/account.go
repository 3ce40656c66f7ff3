package efs

//lint:file-ignore ST1005 errors are in the words of the real driver, which tests and pages compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// account is EFS as one principal sees it.
type account struct {
	api     *efs.Client
	version Version
}

// The errors of EFS that the driver tells apart.
var (
	errDenied   = errors.New("Access denied")
	errNotFound = errors.New("Resource was not found")
	errExists   = errors.New("Resource already exists")
)

// errorsByCode has these errors by EFS's code.
var errorsByCode = map[string]error{
	"AccessDeniedException": errDenied, "AccessPointAlreadyExists": errExists,
	"FileSystemNotFound": errNotFound, "AccessPointNotFound": errNotFound,
}

// newAccount returns EFS as the driver itself sees it, or a role that it assumes.
func newAccount(ctx context.Context, region, role, externalID string, adaptive bool, counted *requests, version Version) (account, error) {
	if strings.EqualFold(os.Getenv("AWS_USE_FIPS_ENDPOINT"), "true") && !strings.HasPrefix(region, "us-") && !strings.HasPrefix(region, "ca-") {
		return account{}, fmt.Errorf("FIPS endpoints are not available in region %s", region)
	}
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithRetryer(func() aws.Retryer {
		if adaptive {
			return retry.NewAdaptiveMode()
		}
		return retry.NewStandard()
	}))
	if err != nil {
		return account{}, err
	}
	if role != "" {
		settings.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(settings), role, func(o *stscreds.AssumeRoleOptions) {
			if externalID != "" {
				o.ExternalID = &externalID
			}
		}))
	}
	return account{efs.NewFromConfig(settings, func(o *efs.Options) { o.APIOptions = append(o.APIOptions, counted.count) }), version}, nil
}

// translate returns an error that the driver knows, or wraps it with the failed call.
func translate(what string, err error) error {
	var failure smithy.APIError
	if errors.As(err, &failure) && errorsByCode[failure.ErrorCode()] != nil {
		return errorsByCode[failure.ErrorCode()]
	}
	return fmt.Errorf("%s: %w", what, err)
}

// accessPoint is an access point. Its user has no IDs if it maps to none.
type accessPoint struct {
	id, fileSystem, directory, token string
	user                             *types.PosixUser
}

func read(p types.AccessPointDescription) accessPoint {
	return accessPoint{aws.ToString(p.AccessPointId), aws.ToString(p.FileSystemId), aws.ToString(p.RootDirectory.Path), aws.ToString(p.ClientToken), p.PosixUser}
}

// accessPointRequest is an access point to be created.
type accessPointRequest struct {
	fileSystem, token, directory, permissions string
	uid, gid                                  int64
	tags                                      map[string]string
}

func (a account) create(ctx context.Context, w accessPointRequest) (accessPoint, error) {
	input := &efs.CreateAccessPointInput{
		ClientToken: &w.token, FileSystemId: &w.fileSystem,
		PosixUser: &types.PosixUser{Uid: &w.uid, Gid: &w.gid},
		RootDirectory: &types.RootDirectory{Path: &w.directory,
			CreationInfo: &types.CreationInfo{OwnerUid: &w.uid, OwnerGid: &w.gid, Permissions: &w.permissions}},
	}
	for key, value := range w.tags {
		input.Tags = append(input.Tags, types.Tag{Key: &key, Value: &value})
	}
	made, err := a.api.CreateAccessPoint(ctx, input)
	if err != nil {
		return accessPoint{}, translate("Failed to create access point", err)
	}
	return accessPoint{id: *made.AccessPointId, fileSystem: *made.FileSystemId}, nil
}

func (a account) delete(ctx context.Context, id string) error {
	if _, err := a.api.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: &id}); err != nil {
		return translate("Failed to delete access point "+id, err)
	}
	return nil
}

// describe returns an access point of a file system. Only the later version notices if it belongs to another one.
func (a account) describe(ctx context.Context, id, fileSystem string) (accessPoint, error) {
	found, err := a.api.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &id})
	if err != nil {
		return accessPoint{}, translate("Describe Access Point failed", err)
	}
	if len(found.AccessPoints) != 1 {
		return accessPoint{}, fmt.Errorf("DescribeAccessPoint failed. Expected exactly 1 access point, got %d", len(found.AccessPoints))
	}
	p := read(found.AccessPoints[0])
	if a.version.types && p.fileSystem != fileSystem {
		return accessPoint{}, fmt.Errorf("access point %s does not belong to filesystem %s", id, fileSystem)
	}
	return p, nil
}

// pageSize is how many access points are on a page at most.
const pageSize = 1000

// list lists the access points of a file system: all, or only the first page.
func (a account) list(ctx context.Context, fileSystem string) ([]accessPoint, error) {
	return a.listPages(ctx, fileSystem, pageSize)
}

// listPages is like list, with pages of the given size.
func (a account) listPages(ctx context.Context, fileSystem string, size int32) (all []accessPoint, err error) {
	input := &efs.DescribeAccessPointsInput{FileSystemId: &fileSystem, MaxResults: &size}
	for {
		page, err := a.api.DescribeAccessPoints(ctx, input)
		if err != nil {
			return nil, translate("List Access Points failed", err)
		}
		for _, p := range page.AccessPoints {
			all = append(all, read(p))
		}
		if page.NextToken == nil || !a.version.lists {
			return all, nil
		}
		input.NextToken = page.NextToken
	}
}

// byToken returns the access point that a client token has created, and whether there is one.
func (a account) byToken(ctx context.Context, token, fileSystem string) (accessPoint, bool, error) {
	all, err := a.list(ctx, fileSystem)
	if err != nil {
		return accessPoint{}, false, err
	}
	at := slices.IndexFunc(all, func(p accessPoint) bool { return p.token == token })
	if at < 0 {
		return accessPoint{}, false, nil
	}
	return all[at], true, nil
}

// zoneOf returns the zone of a file system, "" if it is in all of them.
func (a account) zoneOf(ctx context.Context, fileSystem string) (string, error) {
	found, err := a.api.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &fileSystem})
	if err != nil {
		return "", translate("Describe File System failed", err)
	}
	if len(found.FileSystems) != 1 {
		return "", fmt.Errorf("DescribeFileSystem failed. Expected exactly 1 file system, got %d", len(found.FileSystems))
	}
	return aws.ToString(found.FileSystems[0].AvailabilityZoneName), nil
}

// mountTargets returns the addresses of a file system's mount targets that are available, by their zones.
func (a account) mountTargets(ctx context.Context, fileSystem string) (map[string]string, error) {
	found, err := a.api.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{FileSystemId: &fileSystem})
	if err != nil {
		return nil, translate("Describe Mount Targets failed", err)
	}
	addresses := map[string]string{}
	for _, target := range found.MountTargets {
		if target.LifeCycleState == types.LifeCycleStateAvailable {
			addresses[aws.ToString(target.AvailabilityZoneName)] = aws.ToString(target.IpAddress)
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("No mount target for file system %s is in available state. Please retry in 5 minutes.", fileSystem)
	}
	return addresses, nil
}

// prefer returns the address in a zone, or another one if the zone has no address.
func prefer(addresses map[string]string, zone string) string {
	if address, ok := addresses[zone]; ok {
		return address
	}
	var all []string
	for _, address := range addresses {
		all = append(all, address)
	}
	return all[rand.IntN(len(all))]
}
