package efs

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// Network has the subnets that mount targets are in.
type Network interface {
	// Place returns where a subnet is.
	Place(subnet string) (vpc, zone, zoneID string, found bool)
	// AddInterface adds a network interface, and returns its address. It fails if a security group is not of the subnet's VPC.
	AddInterface(id, subnet string, groups []string) (address string, err error)
	RemoveInterface(id string)
}

// A span is how long something exists.
type span struct {
	ready time.Time
	gone  time.Time // zero until it is deleted
}

// state returns the state at a time. The state is empty after the deletion.
func (s span) state(now time.Time) string {
	switch {
	case !s.gone.IsZero() && !now.Before(s.gone):
		return ""
	case !s.gone.IsZero():
		return "deleting"
	case now.Before(s.ready):
		return "creating"
	default:
		return "available"
	}
}

// lock locks the state, and removes deleted resources.
func (s *Service) lock() {
	s.mu.Lock()
	now := time.Now()
	for id, fs := range s.fileSystems {
		if fs.span.state(now) == "" {
			delete(s.fileSystems, id)
			for point, ap := range s.accessPoints {
				if ap.FileSystemID == id {
					delete(s.accessPoints, point)
				}
			}
		}
	}
	for id, m := range s.mountTargets {
		if m.span.state(now) == "" {
			delete(s.mountTargets, id)
		}
	}
}

// settle returns the time when a change that begins now takes effect.
func (s *Service) settle() time.Time { return time.Now().Add(s.options.Settle) }

// FileSystems returns all file systems, sorted by ID.
func (s *Service) FileSystems() []FileSystem {
	s.lock()
	defer s.mu.Unlock()
	var all []FileSystem
	for _, fs := range s.fileSystems {
		all = append(all, *fs)
	}
	slices.SortFunc(all, func(a, b FileSystem) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// MountTargets returns all mount targets, sorted by ID.
func (s *Service) MountTargets() []MountTarget {
	s.lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.mountTargets), func(a, b MountTarget) int { return strings.Compare(a.ID, b.ID) })
}

// createFileSystem creates a file system, once for each token.
func (s *Service) createFileSystem(r *gateway.Request) (any, *gateway.Error) {
	var asked struct {
		CreationToken        string
		Encrypted            bool
		AvailabilityZoneName string
		Tags                 []tag
	}
	if err := json.Unmarshal(r.Body, &asked); err != nil {
		return nil, gateway.Errorf("BadRequest", "The request cannot be read: %v", err)
	}
	if n := len(asked.CreationToken); n == 0 || n > maxClientToken {
		return nil, gateway.Errorf("ValidationException", "1 validation error detected: Value at 'creationToken' failed to satisfy constraint: Member must have length between 1 and %d", maxClientToken)
	}
	given, err := readTags(asked.Tags)
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	for _, other := range s.fileSystems {
		if other.Owner == r.Principal.Account && other.CreationToken == asked.CreationToken {
			return nil, &gateway.Error{Status: http.StatusConflict, Code: "FileSystemAlreadyExists", Message: "File system '" + other.ID + "' already exists with creation token '" + asked.CreationToken + "'",
				Details: map[string]string{"FileSystemId": other.ID}}
		}
	}
	fs := &FileSystem{ID: gateway.NewID("fs-"), CreationToken: asked.CreationToken, Zone: asked.AvailabilityZoneName, Owner: r.Principal.Account, Tags: given,
		Unencrypted: !asked.Encrypted, created: time.Now(), span: span{ready: s.settle()}}
	s.fileSystems[fs.ID] = fs
	item := s.fileSystemItem(fs)
	item.LifeCycleState = "creating"
	return item, nil
}

// deleteFileSystem deletes a file system with its access points. With mount targets it cannot be deleted.
func (s *Service) deleteFileSystem(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id := short(r.Parameters["Id"])
	fs := s.fileSystem(r, id)
	if fs == nil {
		return nil, noFileSystem(id)
	}
	for _, m := range s.mountTargets {
		if m.FileSystemID == id {
			return nil, &gateway.Error{Status: http.StatusConflict, Code: "FileSystemInUse", Message: "The file system '" + id + "' has mount targets created in it."}
		}
	}
	if fs.span.gone.IsZero() {
		fs.span.gone = s.settle()
	}
	return nil, nil
}

// createMountTarget creates a mount target: one for each file system and zone, all in one VPC.
func (s *Service) createMountTarget(r *gateway.Request) (any, *gateway.Error) {
	var asked struct {
		FileSystemID   string `json:"FileSystemId"`
		SubnetID       string `json:"SubnetId"`
		SecurityGroups []string
	}
	if err := json.Unmarshal(r.Body, &asked); err != nil {
		return nil, gateway.Errorf("BadRequest", "The request cannot be read: %v", err)
	}
	vpc, zone, zoneID, found := "", "", "", false
	if s.options.Network != nil {
		vpc, zone, zoneID, found = s.options.Network.Place(asked.SubnetID)
	}
	s.lock()
	defer s.mu.Unlock()
	fs := s.fileSystem(r, asked.FileSystemID)
	conflict := func(code, message string) *gateway.Error {
		return &gateway.Error{Status: http.StatusConflict, Code: code, Message: message}
	}
	switch {
	case fs == nil:
		return nil, noFileSystem(asked.FileSystemID)
	case !found:
		return nil, gateway.Errorf("SubnetNotFound", "The subnet ID '%s' does not exist", asked.SubnetID)
	case !s.supports(zone):
		return nil, gateway.Errorf("UnsupportedAvailabilityZone", "Mount targets are not supported in the Availability Zone '%s' of subnet '%s'.", zone, asked.SubnetID)
	case fs.span.state(time.Now()) != "available":
		return nil, conflict("IncorrectFileSystemLifeCycleState", "None of the mount targets can be created because file system '"+fs.ID+"' is in life cycle state '"+fs.span.state(time.Now())+"'.")
	}
	for _, other := range s.mountTargets {
		switch {
		case other.FileSystemID != fs.ID:
		case other.vpc != "" && other.vpc != vpc:
			return nil, conflict("MountTargetConflict", "requested subnet for new mount target is not in the same VPC as existing mount targets")
		case other.Zone == zone:
			return nil, conflict("MountTargetConflict", "mount target already exists in this AZ")
		}
	}
	m := MountTarget{ID: gateway.NewID("fsmt-"), FileSystemID: fs.ID, Zone: zone, ZoneID: zoneID, vpc: vpc, subnet: asked.SubnetID, groups: asked.SecurityGroups, span: span{ready: s.settle()}}
	address, err := s.options.Network.AddInterface(m.ID, asked.SubnetID, asked.SecurityGroups)
	if err != nil {
		return nil, gateway.Errorf("SecurityGroupNotFound", "%v", err)
	}
	m.IP = address
	s.mountTargets[m.ID] = m
	item := s.mountTargetItem(m)
	item.LifeCycleState = "creating"
	return item, nil
}

// supports reports whether a zone can have mount targets: Local Zones and Wavelength Zones, whose names are longer, cannot.
func (s *Service) supports(zone string) bool { return len(zone) == len(s.options.Region)+1 }

// describeMountTargetSecurityGroups lists the security groups of a mount target.
func (s *Service) describeMountTargetSecurityGroups(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id := r.Parameters["Id"]
	m, found := s.mountTargets[id]
	if !found || s.fileSystem(r, m.FileSystemID) == nil {
		return nil, noMountTarget(id)
	}
	if m.span.state(time.Now()) == "creating" {
		return nil, &gateway.Error{Status: http.StatusConflict, Code: "IncorrectMountTargetState", Message: "Mount target '" + id + "' is in life cycle state 'creating'."}
	}
	return struct{ SecurityGroups []string }{append([]string{}, m.groups...)}, nil
}

func (s *Service) deleteMountTarget(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id := r.Parameters["Id"]
	m, found := s.mountTargets[id]
	if !found || s.fileSystem(r, m.FileSystemID) == nil {
		return nil, noMountTarget(id)
	}
	if m.span.gone.IsZero() {
		m.span.gone = s.settle()
		s.mountTargets[id] = m
		if s.options.Network != nil {
			s.options.Network.RemoveInterface(id)
		}
	}
	return nil, nil
}

func noMountTarget(id string) *gateway.Error {
	return &gateway.Error{Status: http.StatusNotFound, Code: "MountTargetNotFound", Message: "Mount target '" + id + "' does not exist."}
}
