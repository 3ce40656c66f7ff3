package ec2

import (
	"slices"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// maxModifications is how often a volume can be modified within a day.
const maxModifications = 4

// modification is a change of a volume.
type modification struct {
	before, target Volume
	started        time.Time
	ready          time.Time // zero until the disk has the new size
	applied        bool
}

func (s *Service) modificationState(m *modification) string {
	switch {
	case !settled(m.ready):
		return "modifying"
	case !settled(m.ready.Add(s.options.Settle)):
		return "optimizing"
	}
	return "completed"
}

type modificationItem struct {
	VolumeID            string `xml:"volumeId"`
	State               string `xml:"modificationState"`
	OriginalSize        int32  `xml:"originalSize"`
	OriginalIOPS        int32  `xml:"originalIops,omitempty"`
	OriginalThroughput  int32  `xml:"originalThroughput,omitempty"`
	OriginalType        string `xml:"originalVolumeType"`
	OriginalMultiAttach bool   `xml:"originalMultiAttachEnabled"`
	TargetSize          int32  `xml:"targetSize"`
	TargetIOPS          int32  `xml:"targetIops,omitempty"`
	TargetThroughput    int32  `xml:"targetThroughput,omitempty"`
	TargetType          string `xml:"targetVolumeType"`
	TargetMultiAttach   bool   `xml:"targetMultiAttachEnabled"`
	Progress            int    `xml:"progress"`
	Started             string `xml:"startTime"`
	Ended               string `xml:"endTime,omitempty"`
}

func (s *Service) modificationItem(m *modification) modificationItem {
	item := modificationItem{
		VolumeID: m.target.ID, State: s.modificationState(m), Started: timestamp(m.started),
		OriginalSize: m.before.Size, OriginalIOPS: m.before.IOPS, OriginalThroughput: m.before.Throughput, OriginalType: m.before.Type, OriginalMultiAttach: m.before.MultiAttach,
		TargetSize: m.target.Size, TargetIOPS: m.target.IOPS, TargetThroughput: m.target.Throughput, TargetType: m.target.Type, TargetMultiAttach: m.target.MultiAttach,
	}
	switch item.State {
	case "optimizing":
		item.Progress = 50
	case "completed":
		item.Progress, item.Ended = 100, timestamp(m.ready.Add(s.options.Settle))
	}
	return item
}

type modifyVolumeResult struct {
	reply
	Item modificationItem `xml:"volumeModification"`
}

func (s *Service) modifyVolume(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	m, err := s.change(r)
	if err == nil {
		err = dryRun(r)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	s.modifications = append(s.modifications, m)
	item := s.modificationItem(m)
	s.mu.Unlock()

	if err := s.disks(func(d Disks) error { return d.Resize(m.target) }); err != nil {
		s.lock()
		defer s.mu.Unlock()
		s.modifications = slices.DeleteFunc(s.modifications, func(other *modification) bool { return other == m })
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	m.ready = time.Now().Add(s.options.Settle)
	return &modifyVolumeResult{Item: item}, nil
}

// change returns the modification that a request asks for. The caller holds the lock.
func (s *Service) change(r *gateway.Request) (*modification, *gateway.Error) {
	id := r.Parameters["VolumeId"]
	v, ok := s.volumes[id]
	if !ok {
		return nil, noVolume(id)
	}
	if s.state(v) == "creating" {
		return nil, gateway.Errorf("IncorrectState", "The volume '%s' is in the 'creating' state.", id)
	}
	recent := 0
	for _, m := range s.modifications {
		if m.target.ID != id {
			continue
		}
		if state := s.modificationState(m); state != "completed" {
			return nil, gateway.Errorf("IncorrectModificationState", "Cannot modify volume %s, because a modification of it is in the state '%s'.", id, state)
		}
		if time.Since(m.started) < 24*time.Hour {
			recent++
		}
	}
	if recent >= maxModifications {
		return nil, gateway.Errorf("VolumeModificationRateExceeded", "You've reached the maximum modification rate per volume limit: %d within 24 hours.", maxModifications)
	}
	target := v.copy()
	if kind := r.Parameters["VolumeType"]; kind != "" && kind != v.Type {
		target.Type, target.IOPS, target.Throughput = kind, 0, 0
	}
	if text, ok := r.Parameters["MultiAttachEnabled"]; ok {
		target.MultiAttach = text == "true"
	}
	for name, value := range map[string]*int32{"Size": &target.Size, "Iops": &target.IOPS, "Throughput": &target.Throughput} {
		given, err := number(r, name)
		if err != nil {
			return nil, err
		}
		if given != 0 {
			*value = given
		}
	}
	if target.Size < v.Size {
		return nil, gateway.Errorf("InvalidParameterValue", "New size cannot be smaller than existing size")
	}
	if l := limits[target.Type]; l.defaultIOPS != nil && l.maxIOPS == 0 && r.Parameters["Iops"] == "" {
		target.IOPS = 0 // follows from the size
	}
	if err := shape(&target); err != nil {
		return nil, err
	}
	return &modification{before: v.copy(), target: target, started: time.Now()}, nil
}

type describeModificationsResult struct {
	reply
	Items     []modificationItem `xml:"volumeModificationSet>item"`
	NextToken string             `xml:"nextToken,omitempty"`
}

// describeModifications returns the latest modification of each volume. A volume that is named must have one.
func (s *Service) describeModifications(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "volume-id", "modification-state")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	ids, err := selectIDs(r, "VolumeId", "vol-", "InvalidVolume.NotFound", "volume", s.volumes)
	if err != nil {
		return nil, err
	}
	latest := map[string]*modification{}
	for _, m := range s.modifications {
		latest[m.target.ID] = m
	}
	var modified []string
	for _, id := range ids {
		switch m, ok := latest[id]; {
		case ok:
			if wanted.match(map[string][]string{"volume-id": {id}, "modification-state": {s.modificationState(m)}}, nil) {
				modified = append(modified, id)
			}
		case r.Parameters["VolumeId.1"] != "":
			return nil, gateway.Errorf("InvalidVolumeModification.NotFound", "Modification for volume '%s' does not exist.", id)
		}
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	page, next, err := s.paginate(r, modified, 1)
	if err != nil {
		return nil, err
	}
	result := &describeModificationsResult{NextToken: next}
	for _, id := range page {
		result.Items = append(result.Items, s.modificationItem(latest[id]))
	}
	return result, nil
}
