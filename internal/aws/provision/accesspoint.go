package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/client"
	"github.com/berth-csi/berth/internal/aws/ownership"
	"github.com/berth-csi/berth/internal/aws/removal"
)

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

// createAccessPoint creates an access point. If AWS has one with the same token, that one must be the cluster's, or be about to go.
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
	case other.RootDirectory != nil && aws.ToString(other.RootDirectory.Path) != point.Path:
		return true, fmt.Errorf("%s for %s has the token %s, want none or one for %s; find out who made it, and delete it or use another --name", what, aws.ToString(other.RootDirectory.Path), token, point.Path)
	}
	if err := c.mustBeOurs(what, client.EFSTags(other.Tags)); err != nil {
		return true, err
	}
	return unlessExists(err, "AccessPointAlreadyExists")
}

// findAccessPoint returns the cluster's access point that matches the request, or nil. It returns an error if the cluster's access points
// with that path differ from the request in anything else: they would give applications another user. It also returns an error if the
// access point with the request's token is no longer the cluster's, or if another access point lets clients write in the directory as the
// directory's owner.
func (c creator) findAccessPoint(ctx context.Context, fileSystem string, want AccessPoint) (found *efstypes.AccessPointDescription, _ error) {
	var refused, writes error
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
				writes = cmp.Or(writes, c.mustNotWrite(point, want))
				refused = c.mustBeAsAsked(aws.ToString(point.AccessPointId), fmt.Sprintf("user %d:%d and permissions %s", want.UID, want.GID, want.Permissions), want.differences(point))
			case same && aws.ToString(point.ClientToken) == ownership.PointToken(fileSystem, want.Path):
				return nil, ours
			default:
				if err := c.mustNotWrite(point, want); err != nil {
					return nil, err
				}
			}
		}
	}
	if found != nil {
		return found, writes
	}
	return nil, refused
}

// mustNotWrite returns an error if an access point that was not asked for lets whoever mounts through it change everything in the directory
// of the requested one: somebody else in the account may have made it.
func (c creator) mustNotWrite(point efstypes.AccessPointDescription, in AccessPoint) error {
	id, path, who := aws.ToString(point.AccessPointId), aws.ToString(point.RootDirectory.Path), in.writer(point.PosixUser)
	contains := strings.HasPrefix(in.Path+"/", strings.TrimSuffix(path, "/")+"/")
	asked := slices.ContainsFunc(c.AccessPoints, func(a AccessPoint) bool { return a.Path == path && len(a.differences(point)) == 0 })
	if who == "" || !contains || asked || slices.Contains(c.TrustedPoints, id) {
		return nil
	}
	return fmt.Errorf("access point %s exists, but was not asked for: whoever mounts through it is %s in %s, and so in %s. Find out who made it, and delete it; if it is meant to be there, add --trust-access-point %s",
		id, who, path, in.Path, id)
}

// Bits in the permissions of a directory.
const (
	groupMayWrite     = 0o020
	everybodyMayWrite = 0o002
)

// writer describes the user of another access point if this user may write in the requested directory as its owner may: user 0, the
// owner, the directory's group if that may write, or anybody if all may. It returns "" for other users.
func (want AccessPoint) writer(user *efstypes.PosixUser) string {
	if user == nil {
		return "any user that a client says"
	}
	uid, groups := aws.ToInt64(user.Uid), append([]int64{aws.ToInt64(user.Gid)}, user.SecondaryGids...)
	mode, err := strconv.ParseUint(want.Permissions, 8, 32)
	switch {
	case uid == 0 || uid == want.UID:
		return fmt.Sprintf("user %d", uid)
	case (err != nil || mode&groupMayWrite != 0) && slices.Contains(groups, want.GID):
		return fmt.Sprintf("in group %d", want.GID)
	case mode&everybodyMayWrite != 0:
		return fmt.Sprintf("user %d (the permissions %s let everybody write)", uid, want.Permissions)
	}
	return ""
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
