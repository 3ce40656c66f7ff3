package efs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// A fileSystemItem is a file system as DescribeFileSystems returns it.
type fileSystemItem struct {
	OwnerID              string `json:"OwnerId"`
	CreationToken        string
	FileSystemID         string `json:"FileSystemId"`
	FileSystemARN        string `json:"FileSystemArn"`
	CreationTime         float64
	LifeCycleState       string
	Name                 string `json:",omitempty"`
	NumberOfMountTargets int
	SizeInBytes          map[string]int64
	PerformanceMode      string
	Encrypted            bool
	ThroughputMode       string
	AvailabilityZoneName string `json:",omitempty"`
	AvailabilityZoneID   string `json:"AvailabilityZoneId,omitempty"`
	Tags                 []tag
}

func (s *Service) describeFileSystems(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id, token := short(r.Parameters["FileSystemId"]), r.Parameters["CreationToken"]
	if id != "" && s.fileSystem(r, id) == nil {
		return nil, noFileSystem(id)
	}
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(s.fileSystems)), func(other string) bool {
		return s.fileSystem(r, other) == nil || id != "" && other != id || token != "" && s.fileSystems[other].CreationToken != token
	})
	ids, next, err := page(r, ids, "MaxItems", "Marker")
	if err != nil {
		return nil, err
	}
	var result struct {
		Marker      string `json:",omitempty"`
		FileSystems []fileSystemItem
		NextMarker  string `json:",omitempty"`
	}
	result.Marker, result.NextMarker, result.FileSystems = r.Parameters["Marker"], next, []fileSystemItem{}
	for _, id := range ids {
		result.FileSystems = append(result.FileSystems, s.fileSystemItem(s.fileSystems[id]))
	}
	return result, nil
}

func (s *Service) fileSystemItem(fs *FileSystem) fileSystemItem {
	targets := 0
	for _, m := range s.mountTargets {
		if m.FileSystemID == fs.ID {
			targets++
		}
	}
	return fileSystemItem{
		OwnerID: fs.Owner, CreationToken: fs.CreationToken, FileSystemID: fs.ID, FileSystemARN: s.arn(fs.Owner, "file-system", fs.ID), CreationTime: float64(fs.created.Unix()),
		LifeCycleState: fs.span.state(time.Now()), Name: fs.Tags["Name"], NumberOfMountTargets: targets, SizeInBytes: map[string]int64{"Value": 6144},
		PerformanceMode: "generalPurpose", Encrypted: !fs.Unencrypted, ThroughputMode: "elastic", AvailabilityZoneName: fs.Zone, AvailabilityZoneID: fs.ZoneID, Tags: tags(fs.Tags),
	}
}

type mountTargetItem struct {
	OwnerID              string `json:"OwnerId"`
	MountTargetID        string `json:"MountTargetId"`
	FileSystemID         string `json:"FileSystemId"`
	SubnetID             string `json:"SubnetId"`
	LifeCycleState       string
	IPAddress            string `json:"IpAddress"`
	AvailabilityZoneName string
	AvailabilityZoneID   string `json:"AvailabilityZoneId"`
}

// describeMountTargets lists the mount targets of a file system, of an access point's file system, or a single one.
func (s *Service) describeMountTargets(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id, fs := r.Parameters["MountTargetId"], short(r.Parameters["FileSystemId"])
	if ap := short(r.Parameters["AccessPointId"]); ap != "" {
		if s.accessPoint(r, ap) == nil {
			return nil, noAccessPoint(ap)
		}
		fs = s.accessPoints[ap].FileSystemID
	}
	switch m, ok := s.mountTargets[id]; {
	case id == "" && fs == "":
		return nil, gateway.Errorf("BadRequest", "One of FileSystemId, MountTargetId and AccessPointId must be given.")
	case id != "" && (!ok || s.fileSystem(r, m.FileSystemID) == nil):
		return nil, noMountTarget(id)
	case fs != "" && s.fileSystem(r, fs) == nil:
		return nil, noFileSystem(fs)
	}
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(s.mountTargets)), func(other string) bool {
		return id != "" && other != id || fs != "" && s.mountTargets[other].FileSystemID != fs
	})
	ids, next, err := page(r, ids, "MaxItems", "Marker")
	if err != nil {
		return nil, err
	}
	var result struct {
		Marker       string `json:",omitempty"`
		MountTargets []mountTargetItem
		NextMarker   string `json:",omitempty"`
	}
	result.Marker, result.NextMarker, result.MountTargets = r.Parameters["Marker"], next, []mountTargetItem{}
	for _, id := range ids {
		result.MountTargets = append(result.MountTargets, s.mountTargetItem(s.mountTargets[id]))
	}
	return result, nil
}

func (s *Service) mountTargetItem(m MountTarget) mountTargetItem {
	return mountTargetItem{
		OwnerID: s.fileSystems[m.FileSystemID].Owner, MountTargetID: m.ID, FileSystemID: m.FileSystemID,
		SubnetID: cmp.Or(m.subnet, "subnet-"+strings.TrimPrefix(m.ID, "fsmt-")), LifeCycleState: cmp.Or(m.State, m.span.state(time.Now())),
		IPAddress: m.IP, AvailabilityZoneName: m.Zone, AvailabilityZoneID: m.ZoneID,
	}
}
