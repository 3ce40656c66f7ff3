package efs

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// Limits of access points, from the API reference.
const (
	maxClientToken  = 64
	maxPath         = 100
	maxPathDepth    = 4
	maxID           = 1<<32 - 1 // of users and groups
	maxSecondaryIDs = 16
)

var permissions = regexp.MustCompile(`^[0-7]{3,4}$`)

type accessPointItem struct {
	ClientToken    string
	Name           string `json:",omitempty"`
	Tags           []tag
	AccessPointID  string     `json:"AccessPointId"`
	AccessPointARN string     `json:"AccessPointArn"`
	FileSystemID   string     `json:"FileSystemId"`
	PosixUser      *PosixUser `json:",omitempty"`
	RootDirectory  RootDirectory
	OwnerID        string `json:"OwnerId"`
	LifeCycleState string
}

func (s *Service) accessPointItem(ap *AccessPoint, state string) accessPointItem {
	return accessPointItem{ClientToken: ap.ClientToken, Name: ap.Tags["Name"], Tags: tags(ap.Tags), AccessPointID: ap.ID, AccessPointARN: s.arn(ap.owner, "access-point", ap.ID),
		FileSystemID: ap.FileSystemID, PosixUser: ap.PosixUser, RootDirectory: ap.RootDirectory, OwnerID: ap.owner, LifeCycleState: state}
}

// createAccessPoint creates an access point, once for each client token. A second request fails with
// AccessPointAlreadyExists, unless it is the same as the first.
func (s *Service) createAccessPoint(r *gateway.Request) (any, *gateway.Error) {
	var asked struct {
		ClientToken   string
		FileSystemID  string `json:"FileSystemId"`
		PosixUser     *PosixUser
		RootDirectory RootDirectory
		Tags          []tag
	}
	if err := json.Unmarshal(r.Body, &asked); err != nil {
		return nil, gateway.Errorf("BadRequest", "The request cannot be read: %v", err)
	}
	if n := len(asked.ClientToken); n == 0 || n > maxClientToken {
		return nil, gateway.Errorf("ValidationException", "1 validation error detected: Value at 'clientToken' failed to satisfy constraint: Member must have length between 1 and %d", maxClientToken)
	}
	given, err := readTags(asked.Tags)
	if err != nil {
		return nil, err
	}
	if asked.RootDirectory.Path == "" {
		asked.RootDirectory.Path = "/"
	}
	if err := checkUser(asked.PosixUser); err != nil {
		return nil, err
	}
	if err := checkDirectory(asked.RootDirectory); err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	fs := s.fileSystem(r, short(asked.FileSystemID))
	if fs == nil {
		return nil, noFileSystem(asked.FileSystemID)
	}
	ap := &AccessPoint{ClientToken: asked.ClientToken, FileSystemID: fs.ID, PosixUser: asked.PosixUser, RootDirectory: asked.RootDirectory, Tags: given, owner: fs.Owner}
	siblings := 0
	for _, other := range s.accessPoints {
		if other.ClientToken == ap.ClientToken {
			if ap.ID = other.ID; reflect.DeepEqual(ap, other) {
				return s.accessPointItem(other, "available"), nil
			}
			return nil, &gateway.Error{Status: http.StatusConflict, Code: "AccessPointAlreadyExists", Message: "Access point already exists with creation token " + ap.ClientToken,
				Details: map[string]string{"AccessPointId": other.ID}}
		}
		if other.FileSystemID == fs.ID {
			siblings++
		}
	}
	if siblings >= s.options.MaxAccessPoints {
		return nil, &gateway.Error{Status: http.StatusForbidden, Code: "AccessPointLimitExceeded",
			Message: fmt.Sprintf("You have reached the maximum number of access points (%d) for file system '%s'.", s.options.MaxAccessPoints, fs.ID)}
	}
	ap.ID = gateway.NewID("fsap-")
	s.accessPoints[ap.ID] = ap
	return s.accessPointItem(ap, "creating"), nil
}

func checkUser(u *PosixUser) *gateway.Error {
	if u == nil {
		return nil
	}
	if u.UID == nil || u.GID == nil {
		return gateway.Errorf("BadRequest", "Uid and Gid are required in PosixUser.")
	}
	for _, id := range append([]int64{*u.UID, *u.GID}, u.SecondaryGIDs...) {
		if id < 0 || id > maxID {
			return gateway.Errorf("ValidationException", "1 validation error detected: Value '%d' at 'posixUser' failed to satisfy constraint: Member must have value between 0 and %d", id, int64(maxID))
		}
	}
	if len(u.SecondaryGIDs) > maxSecondaryIDs {
		return gateway.Errorf("ValidationException", "1 validation error detected: Value at 'posixUser.secondaryGids' failed to satisfy constraint: Member must have length less than or equal to %d", maxSecondaryIDs)
	}
	return nil
}

func checkDirectory(d RootDirectory) *gateway.Error {
	switch {
	case !strings.HasPrefix(d.Path, "/") || len(d.Path) > maxPath:
		return gateway.Errorf("ValidationException", "1 validation error detected: Value '%s' at 'rootDirectory.path' failed to satisfy constraint: Member must be absolute and have length less than or equal to %d", d.Path, maxPath)
	case strings.Count(strings.TrimSuffix(d.Path, "/"), "/") > maxPathDepth:
		return gateway.Errorf("BadRequest", "Path '%s' has more than %d subdirectories.", d.Path, maxPathDepth)
	case d.CreationInfo == nil:
		return nil
	case d.CreationInfo.OwnerUID == nil || d.CreationInfo.OwnerGID == nil || d.CreationInfo.Permissions == "":
		return gateway.Errorf("BadRequest", "OwnerUid, OwnerGid and Permissions are required in CreationInfo.")
	case !permissions.MatchString(d.CreationInfo.Permissions):
		return gateway.Errorf("ValidationException", "1 validation error detected: Value '%s' at 'rootDirectory.creationInfo.permissions' failed to satisfy constraint: Member must satisfy regular expression pattern: %s", d.CreationInfo.Permissions, permissions)
	}
	return nil
}

func (s *Service) deleteAccessPoint(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id := short(r.Parameters["Id"])
	if s.accessPoint(r, id) == nil {
		return nil, noAccessPoint(id)
	}
	delete(s.accessPoints, id)
	return nil, nil
}

// describeAccessPoints lists all access points, the access points of a file system, or a single one.
func (s *Service) describeAccessPoints(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id, fs := short(r.Parameters["AccessPointId"]), short(r.Parameters["FileSystemId"])
	switch {
	case id != "" && fs != "":
		return nil, gateway.Errorf("BadRequest", "AccessPointId and FileSystemId are mutually exclusive.")
	case id != "" && s.accessPoint(r, id) == nil:
		return nil, noAccessPoint(id)
	case fs != "" && s.fileSystem(r, fs) == nil:
		return nil, noFileSystem(fs)
	}
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(s.accessPoints)), func(other string) bool {
		return s.accessPoint(r, other) == nil || id != "" && other != id || fs != "" && s.accessPoints[other].FileSystemID != fs
	})
	ids, next, err := page(r, ids, "MaxResults", "NextToken")
	if err != nil {
		return nil, err
	}
	var result struct {
		AccessPoints []accessPointItem
		NextToken    string `json:",omitempty"`
	}
	result.NextToken, result.AccessPoints = next, []accessPointItem{}
	for _, id := range ids {
		result.AccessPoints = append(result.AccessPoints, s.accessPointItem(s.accessPoints[id], "available"))
	}
	return result, nil
}
