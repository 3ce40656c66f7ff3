// Package efs is a fake Amazon EFS, as far as CSI drivers need it. It speaks the REST protocol of the API version
// 2015-02-01. Its limits and errors follow the API reference.
package efs

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// name is the name of the service in signatures, ARNs and policies.
const name = "elasticfilesystem"

// Options are the settings of a Service.
type Options struct {
	Partition, Region, Account string
	// MaxAccessPoints is the limit for each file system. Zero means 10000, the quota of a new account.
	MaxAccessPoints int
	// Settle is how long file systems and mount targets are in the states creating and deleting. If it is zero, only the response to the
	// request that creates one shows such a state.
	Settle time.Duration
	// Network has the subnets for mount targets that clients create. Nil means no subnets.
	Network Network
}

// FileSystem is a file system.
type FileSystem struct {
	ID, CreationToken string
	// Zone is the zone of a file system in one zone. It is empty for others.
	Zone, ZoneID string
	// Owner is the account. Empty means the service's account.
	Owner string
	Tags  map[string]string
	// Unencrypted is whether files are stored in plain text.
	Unencrypted bool
	// Policy is its policy, in JSON. Most have none.
	Policy string
	// ReplicatedTo is the file system in another region and account to which it is replicated, if any.
	ReplicatedTo *Replica
	// BackedUp says that AWS Backup copies it automatically.
	BackedUp bool
	// ToIA and ToArchive say when its lifecycle moves files to other storage classes, such as AFTER_30_DAYS. Most are empty.
	ToIA, ToArchive string

	created time.Time
	span    span
}

// Replica is the destination of a replication.
type Replica struct {
	FileSystemID string `json:"FileSystemId"`
	Region       string
	OwnerID      string `json:"OwnerId"`
	Status       string
}

// MountTarget makes a file system reachable in a zone.
type MountTarget struct {
	ID, FileSystemID, Zone, ZoneID, IP string
	// State overrides the state of its life cycle.
	State string

	vpc, subnet string
	groups      []string
	span        span
}

// PosixUser is the user that accesses files through an access point.
type PosixUser struct {
	UID           *int64  `json:"Uid"`
	GID           *int64  `json:"Gid"`
	SecondaryGIDs []int64 `json:"SecondaryGids,omitempty"`
}

// CreationInfo is how the root directory of an access point is made.
type CreationInfo struct {
	OwnerUID    *int64 `json:"OwnerUid"`
	OwnerGID    *int64 `json:"OwnerGid"`
	Permissions string
}

// RootDirectory is the directory that an access point shows.
type RootDirectory struct {
	Path         string        `json:",omitempty"`
	CreationInfo *CreationInfo `json:",omitempty"`
}

// AccessPoint is an access point of a file system.
type AccessPoint struct {
	ID, ClientToken, FileSystemID string
	PosixUser                     *PosixUser
	RootDirectory                 RootDirectory
	Tags                          map[string]string

	owner string
}

// Service is the file systems of a region. Use New.
type Service struct {
	options Options

	mu           sync.Mutex
	fileSystems  map[string]*FileSystem
	mountTargets map[string]MountTarget
	accessPoints map[string]*AccessPoint
}

// New returns a service without file systems.
func New(options Options) *Service {
	if options.MaxAccessPoints == 0 {
		options.MaxAccessPoints = 10000
	}
	return &Service{options: options, fileSystems: map[string]*FileSystem{}, mountTargets: map[string]MountTarget{}, accessPoints: map[string]*AccessPoint{}}
}

// AddFileSystem adds a file system. Its ID is chosen if it is empty.
func (s *Service) AddFileSystem(fs FileSystem) FileSystem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fs.ID == "" {
		fs.ID = gateway.NewID("fs-")
	}
	if fs.CreationToken == "" {
		fs.CreationToken = fs.ID
	}
	if fs.Owner == "" {
		fs.Owner = s.options.Account
	}
	if fs.Tags = maps.Clone(fs.Tags); fs.Tags == nil {
		fs.Tags = map[string]string{}
	}
	fs.created = time.Now()
	s.fileSystems[fs.ID] = &fs
	return fs
}

// AddMountTarget adds a mount target. Its ID is chosen if it is empty.
func (s *Service) AddMountTarget(m MountTarget) (MountTarget, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.fileSystems[m.FileSystemID]; !ok {
		return MountTarget{}, fmt.Errorf("mount target is for file system %q, want one that was added", m.FileSystemID)
	}
	if m.ID == "" {
		m.ID = gateway.NewID("fsmt-")
	}
	s.mountTargets[m.ID] = m
	return m, nil
}

// fileSystem returns a file system that a caller can see, or nil: for a caller, file systems of other accounts do not
// exist. The lock must be held, here and in accessPoint.
func (s *Service) fileSystem(r *gateway.Request, id string) *FileSystem {
	if fs := s.fileSystems[id]; fs != nil && fs.Owner == r.Principal.Account {
		return fs
	}
	return nil
}

// accessPoint returns an access point that a caller can see, or nil.
func (s *Service) accessPoint(r *gateway.Request, id string) *AccessPoint {
	if ap := s.accessPoints[id]; ap != nil && ap.owner == r.Principal.Account {
		return ap
	}
	return nil
}

// AccessPoints returns all access points, sorted by ID.
func (s *Service) AccessPoints() []AccessPoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []AccessPoint
	for _, id := range slices.Sorted(maps.Keys(s.accessPoints)) {
		ap := *s.accessPoints[id]
		ap.Tags = maps.Clone(ap.Tags)
		all = append(all, ap)
	}
	return all
}

// Gateway returns the service for the gateway.
func (s *Service) Gateway() gateway.Service {
	return gateway.Service{
		Name: name,
		Read: read,
		Handlers: map[string]gateway.Handler{
			"DescribeFileSystems": s.describeFileSystems, "CreateFileSystem": s.createFileSystem, "DeleteFileSystem": s.deleteFileSystem,
			"DescribeMountTargets": s.describeMountTargets, "CreateMountTarget": s.createMountTarget, "DeleteMountTarget": s.deleteMountTarget,
			"DescribeMountTargetSecurityGroups": s.describeMountTargetSecurityGroups,
			"DescribeReplicationConfigurations": s.describeReplicationConfigurations, "DescribeFileSystemPolicy": s.describeFileSystemPolicy,
			"DescribeLifecycleConfiguration": s.describeLifecycleConfiguration, "DescribeBackupPolicy": s.describeBackupPolicy,
			"DescribeAccessPoints": s.describeAccessPoints, "CreateAccessPoint": s.createAccessPoint, "DeleteAccessPoint": s.deleteAccessPoint,
			"TagResource": s.tagResource, "UntagResource": s.untagResource, "ListTagsForResource": s.listTags,
		},
		Also: func(r *gateway.Request) []string {
			if strings.HasPrefix(r.Action, "Create") && r.Parameters["Tags.1.Key"] != "" {
				return []string{"TagResource"}
			}
			return nil
		},
		Write: func(w http.ResponseWriter, r *gateway.Request, response any) {
			status := http.StatusOK
			switch r.Action {
			case "DeleteAccessPoint", "DeleteFileSystem", "DeleteMountTarget":
				status = http.StatusNoContent
			case "CreateFileSystem":
				status = http.StatusCreated
			}
			answer(w, r, status, response)
		},
		Fail: func(w http.ResponseWriter, r *gateway.Request, err *gateway.Error) {
			w.Header().Set("X-Amzn-Errortype", err.Code)
			body := map[string]string{"ErrorCode": err.Code, "Message": err.Message}
			maps.Copy(body, err.Details)
			answer(w, r, err.Status, body)
		},
		Refusals: gateway.Refusals{
			Unsigned:    gateway.Error{Status: http.StatusForbidden, Code: "MissingAuthenticationTokenException", Message: "Missing Authentication Token"},
			Unknown:     gateway.Error{Status: http.StatusForbidden, Code: "UnrecognizedClientException", Message: "The security token included in the request is invalid."},
			Signature:   gateway.Error{Status: http.StatusForbidden, Code: "InvalidSignatureException", Message: "The request signature we calculated does not match the signature you provided."},
			Expired:     gateway.Error{Status: http.StatusForbidden, Code: "ExpiredTokenException", Message: "The security token included in the request is expired"},
			Throttled:   gateway.Error{Status: http.StatusBadRequest, Code: "ThrottlingException", Message: "Rate exceeded"},
			Unavailable: gateway.Error{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: "An error occurred on the server side."},
			Denied:      gateway.Error{Status: http.StatusForbidden, Code: "AccessDeniedException", Message: "User: %s is not authorized to perform: %s on the specified resource"},
		},
	}
}

// route is the method and path of an action.
type route struct {
	method  string
	path    *regexp.Regexp // its group is the ID
	actions string
}

var routes = []route{
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/file-systems()$`), "DescribeFileSystems"},
	{http.MethodPost, regexp.MustCompile(`^/2015-02-01/file-systems()$`), "CreateFileSystem"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/file-systems/replication-configurations()$`), "DescribeReplicationConfigurations"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/file-systems/(.+)/policy$`), "DescribeFileSystemPolicy"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/file-systems/(.+)/lifecycle-configuration$`), "DescribeLifecycleConfiguration"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/file-systems/(.+)/backup-policy$`), "DescribeBackupPolicy"},
	{http.MethodDelete, regexp.MustCompile(`^/2015-02-01/file-systems/(.+)$`), "DeleteFileSystem"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/mount-targets()$`), "DescribeMountTargets"},
	{http.MethodPost, regexp.MustCompile(`^/2015-02-01/mount-targets()$`), "CreateMountTarget"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/mount-targets/(.+)/security-groups$`), "DescribeMountTargetSecurityGroups"},
	{http.MethodDelete, regexp.MustCompile(`^/2015-02-01/mount-targets/(.+)$`), "DeleteMountTarget"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/access-points()$`), "DescribeAccessPoints"},
	{http.MethodPost, regexp.MustCompile(`^/2015-02-01/access-points()$`), "CreateAccessPoint"},
	{http.MethodDelete, regexp.MustCompile(`^/2015-02-01/access-points/(.+)$`), "DeleteAccessPoint"},
	{http.MethodPost, regexp.MustCompile(`^/2015-02-01/resource-tags/(.+)$`), "TagResource"},
	{http.MethodDelete, regexp.MustCompile(`^/2015-02-01/resource-tags/(.+)$`), "UntagResource"},
	{http.MethodGet, regexp.MustCompile(`^/2015-02-01/resource-tags/(.+)$`), "ListTagsForResource"},
}

// read finds the action by method and path. Parameters come from the path ("Id"), the query and the body.
func read(r *gateway.Request) *gateway.Error {
	for _, route := range routes {
		if r.HTTP.Method != route.method {
			continue
		}
		match := route.path.FindStringSubmatch(r.HTTP.URL.Path)
		if match == nil {
			continue
		}
		r.Action, r.Parameters = route.actions, map[string]string{}
		if match[1] != "" {
			r.Parameters["Id"] = match[1]
		}
		flattenQuery(r.HTTP.URL.Query(), r.Parameters)
		if len(r.Body) == 0 {
			return nil
		}
		var body any
		if err := json.Unmarshal(r.Body, &body); err != nil {
			return gateway.Errorf("BadRequest", "The request is not JSON: %v", err)
		}
		flatten("", body, r.Parameters)
		return nil
	}
	return &gateway.Error{Status: http.StatusNotFound, Code: "UnknownOperationException", Message: "There is no " + r.HTTP.Method + " " + r.HTTP.URL.Path}
}

func flattenQuery(query url.Values, into map[string]string) {
	for key, values := range query {
		into[key] = values[0]
		for i, value := range values {
			into[key+"."+strconv.Itoa(i+1)] = value
		}
		if len(values) == 1 {
			delete(into, key+".1")
		}
	}
}

// flatten writes a JSON value into parameters such as "Tags.1.Key".
func flatten(at string, value any, into map[string]string) {
	join := func(key string) string { return strings.TrimPrefix(at+"."+key, ".") }
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			flatten(join(key), child, into)
		}
	case []any:
		for i, child := range v {
			flatten(join(strconv.Itoa(i+1)), child, into)
		}
	case float64:
		into[at] = strconv.FormatFloat(v, 'f', -1, 64)
	case nil:
	default:
		into[at] = fmt.Sprint(v)
	}
}

func answer(w http.ResponseWriter, r *gateway.Request, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Requestid", r.ID)
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	}
}

// page returns a page of sorted IDs and the token for the next, which is the last ID of the page.
func page(r *gateway.Request, ids []string, sizeName, tokenName string) ([]string, string, *gateway.Error) {
	size := 100
	if text := r.Parameters[sizeName]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, "", gateway.Errorf("BadRequest", "%s is %q, want a number from 1 on", sizeName, text)
		}
		size = n
	}
	slices.Sort(ids)
	if token := r.Parameters[tokenName]; token != "" {
		after, ok := strings.CutPrefix(token, r.Action+":")
		if !ok {
			return nil, "", gateway.Errorf("BadRequest", "%s %q is invalid", tokenName, token)
		}
		at, found := slices.BinarySearch(ids, after)
		if found {
			at++
		}
		ids = ids[at:]
	}
	if len(ids) <= size {
		return ids, "", nil
	}
	return ids[:size], r.Action + ":" + ids[size-1], nil
}

func (s *Service) arn(owner, kind, id string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s/%s", s.options.Partition, name, s.options.Region, owner, kind, id)
}

// short returns the ID in an ID or an ARN.
func short(id string) string { return id[strings.LastIndex(id, "/")+1:] }

func noFileSystem(id string) *gateway.Error {
	return &gateway.Error{Status: http.StatusNotFound, Code: "FileSystemNotFound", Message: fmt.Sprintf("File system '%s' does not exist.", id)}
}

func noAccessPoint(id string) *gateway.Error {
	return &gateway.Error{Status: http.StatusNotFound, Code: "AccessPointNotFound", Message: fmt.Sprintf("Access point '%s' does not exist.", id)}
}
