package ec2

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// Volume is an EBS volume.
type Volume struct {
	ID, Type, Zone string
	// Size is in GiB.
	Size int32
	// Throughput is in MiB/s.
	IOPS, Throughput       int32
	Encrypted, MultiAttach bool
	// SnapshotID or SourceID names the volume's origin, if it has one.
	SnapshotID, SourceID string
	Tags                 Tags
	Attachments          []Attachment

	created time.Time
	ready   time.Time // zero until the disk is there
}

// Volumes returns all volumes, sorted by ID.
func (s *Service) Volumes() []Volume {
	s.lock()
	defer s.mu.Unlock()
	var all []Volume
	for _, id := range slices.Sorted(maps.Keys(s.volumes)) {
		all = append(all, s.volumes[id].copy())
	}
	return all
}

func (v *Volume) copy() Volume {
	c := *v
	c.Tags, c.Attachments = maps.Clone(v.Tags), slices.Clone(v.Attachments)
	return c
}

func noVolume(id string) *gateway.Error {
	return gateway.Errorf("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
}

// lock locks the state and completes settled changes.
func (s *Service) lock() {
	s.mu.Lock()
	now := time.Now()
	for _, v := range s.volumes {
		v.Attachments = slices.DeleteFunc(v.Attachments, func(a Attachment) bool { return !a.gone.IsZero() && !now.Before(a.gone) })
	}
	for _, m := range s.modifications {
		if v, ok := s.volumes[m.target.ID]; ok && !m.applied && settled(m.ready) {
			m.applied = true
			v.Size, v.Type, v.IOPS, v.Throughput, v.MultiAttach = m.target.Size, m.target.Type, m.target.IOPS, m.target.Throughput, m.target.MultiAttach
		}
	}
}

// settled reports whether a change has happened. at is the time of the change, or zero while the time is not known.
func settled(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }

func (s *Service) state(v *Volume) string {
	switch {
	case !settled(v.ready):
		return "creating"
	case len(v.Attachments) > 0:
		return "in-use"
	}
	return "available"
}

type volumeItem struct {
	ID          string           `xml:"volumeId"`
	Size        int32            `xml:"size"`
	SnapshotID  string           `xml:"snapshotId"`
	SourceID    string           `xml:"sourceVolumeId,omitempty"`
	Zone        string           `xml:"availabilityZone"`
	ZoneID      string           `xml:"availabilityZoneId"`
	State       string           `xml:"status"`
	Created     string           `xml:"createTime"`
	Type        string           `xml:"volumeType"`
	IOPS        int32            `xml:"iops,omitempty"`
	Throughput  int32            `xml:"throughput,omitempty"`
	Encrypted   bool             `xml:"encrypted"`
	MultiAttach bool             `xml:"multiAttachEnabled"`
	Attachments []attachmentItem `xml:"attachmentSet>item"`
	Tags        []tagItem        `xml:"tagSet>item"`
}

func (s *Service) volumeItem(v *Volume) volumeItem {
	item := volumeItem{
		ID: v.ID, Size: v.Size, SnapshotID: v.SnapshotID, SourceID: v.SourceID, Zone: v.Zone, ZoneID: s.zoneID(v.Zone), State: s.state(v), Created: timestamp(v.created),
		Type: v.Type, IOPS: v.IOPS, Throughput: v.Throughput, Encrypted: v.Encrypted, MultiAttach: v.MultiAttach, Tags: v.Tags.items(),
	}
	for _, a := range v.Attachments {
		item.Attachments = append(item.Attachments, s.attachmentItem(v.ID, a, s.attachmentState(a)))
	}
	return item
}

func (s *Service) zoneID(name string) string {
	for _, z := range s.options.Zones {
		if z.Name == name {
			return z.ID
		}
	}
	return ""
}

type createVolumeResult struct {
	reply
	volumeItem
}

// requestedVolume reads the parameters that CreateVolume and CopyVolumes share.
func requestedVolume(r *gateway.Request) (v Volume, err *gateway.Error) {
	v = Volume{Type: r.Parameters["VolumeType"], MultiAttach: r.Parameters["MultiAttachEnabled"] == "true"}
	for name, value := range map[string]*int32{"Size": &v.Size, "Iops": &v.IOPS, "Throughput": &v.Throughput} {
		if *value, err = number(r, name); err != nil {
			return Volume{}, err
		}
	}
	v.Tags, err = tagsFor(r, "volume")
	return v, err
}

func (s *Service) createVolume(r *gateway.Request) (any, *gateway.Error) {
	v, err := requestedVolume(r)
	if err != nil {
		return nil, err
	}
	v.Encrypted = r.Parameters["Encrypted"] == "true" || r.Parameters["KmsKeyId"] != ""
	v.SnapshotID = r.Parameters["SnapshotId"]
	if v.Type == "" {
		v.Type = "gp2"
	}
	if v.Zone, err = s.zone(r); err != nil {
		return nil, err
	}
	s.lock()
	if v.SnapshotID != "" {
		if err := s.restore(&v); err != nil {
			s.mu.Unlock()
			return nil, err
		}
	}
	item, err := s.add(r, v)
	if err != nil {
		return nil, err
	}
	return &createVolumeResult{volumeItem: item}, nil
}

// zone returns the requested zone of a volume, by its name or its ID.
func (s *Service) zone(r *gateway.Request) (string, *gateway.Error) {
	name, id := r.Parameters["AvailabilityZone"], r.Parameters["AvailabilityZoneId"]
	switch {
	case name == "" && id == "":
		return "", gateway.Errorf("MissingParameter", "The request must contain the parameter AvailabilityZone or AvailabilityZoneId")
	case name != "" && id != "":
		return "", gateway.Errorf("InvalidParameterCombination", "The parameters AvailabilityZone and AvailabilityZoneId cannot be specified together")
	}
	for _, z := range s.options.Zones {
		if z.Name == name || z.ID == id {
			return z.Name, nil
		}
	}
	return "", gateway.Errorf("InvalidZone.NotFound", "The zone '%s' does not exist.", name+id)
}

// restore fills in the fields that a volume takes from its snapshot. The caller holds the lock.
func (s *Service) restore(v *Volume) *gateway.Error {
	snapshot, ok := s.snapshots[v.SnapshotID]
	switch {
	case !ok:
		return noSnapshot(v.SnapshotID)
	case !settled(snapshot.ready):
		return gateway.Errorf("IncorrectState", "Snapshot is in invalid state - pending")
	case v.Size == 0:
		v.Size = snapshot.Size
	case v.Size < snapshot.Size:
		return gateway.Errorf("InvalidParameterValue", "Volume of %dGiB is smaller than snapshot '%s', expect size >= %dGiB", v.Size, v.SnapshotID, snapshot.Size)
	}
	v.Encrypted = v.Encrypted || snapshot.Encrypted
	return nil
}

type copyVolumesResult struct {
	reply
	Items []volumeItem `xml:"volumeSet>item"`
}

// copyVolumes clones a volume, in the same zone.
func (s *Service) copyVolumes(r *gateway.Request) (any, *gateway.Error) {
	v, err := requestedVolume(r)
	if err != nil {
		return nil, err
	}
	s.lock()
	v.SourceID = r.Parameters["SourceVolumeId"]
	source, ok := s.volumes[v.SourceID]
	switch {
	case !ok:
		err = noVolume(v.SourceID)
	case s.state(source) == "creating":
		err = gateway.Errorf("IncorrectState", "The volume '%s' is in the 'creating' state.", v.SourceID)
	case v.Size != 0 && v.Size < source.Size:
		err = gateway.Errorf("InvalidParameterValue", "Volume of %dGiB is smaller than its source '%s', expect size >= %dGiB", v.Size, v.SourceID, source.Size)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	v.Zone, v.Encrypted = source.Zone, source.Encrypted
	if v.Size == 0 {
		v.Size = source.Size
	}
	if v.Type == "" {
		v.Type = source.Type
	}
	item, err := s.add(r, v)
	if err != nil {
		return nil, err
	}
	return &copyVolumesResult{Items: []volumeItem{item}}, nil
}

// add adds a volume, once for each client token. The caller holds the lock, which add releases.
func (s *Service) add(r *gateway.Request, v Volume) (volumeItem, *gateway.Error) {
	parameters := fmt.Sprint(r.Action, v) // before defaults; fmt prints maps in order
	given := r.Parameters["ClientToken"]
	if used, ok := s.tokens[given]; ok && given != "" {
		defer s.mu.Unlock()
		existing, ok := s.volumes[used.volumeID]
		if !ok || used.parameters != parameters {
			return volumeItem{}, gateway.Errorf("IdempotentParameterMismatch", "The client token you have provided is associated with a resource that is already deleted, or the request uses the same client token with different parameters")
		}
		return s.volumeItem(existing), nil
	}
	if v.Size == 0 {
		s.mu.Unlock()
		return volumeItem{}, gateway.Errorf("MissingParameter", "The request must contain the parameter size/snapshot")
	}
	err := shape(&v)
	if err == nil {
		err = dryRun(r)
	}
	if err != nil {
		s.mu.Unlock()
		return volumeItem{}, err
	}
	v.ID, v.created = gateway.NewID("vol-"), time.Now()
	s.volumes[v.ID] = &v
	if given != "" {
		s.tokens[given] = token{parameters, v.ID}
	}
	item := s.volumeItem(&v)
	disk := v.copy()
	s.mu.Unlock()

	if err := s.disks(func(d Disks) error { return d.Create(disk) }); err != nil {
		s.lock()
		defer s.mu.Unlock()
		delete(s.volumes, v.ID)
		delete(s.tokens, given)
		return volumeItem{}, err
	}
	s.lock()
	defer s.mu.Unlock()
	v.ready = time.Now().Add(s.options.Settle)
	return item, nil
}

func (s *Service) deleteVolume(r *gateway.Request) (any, *gateway.Error) {
	id := r.Parameters["VolumeId"]
	s.lock()
	v, ok := s.volumes[id]
	var err *gateway.Error
	switch {
	case !ok:
		err = noVolume(id)
	case len(v.Attachments) > 0:
		err = gateway.Errorf("VolumeInUse", "Volume %s is currently attached to %s", id, v.Attachments[0].InstanceID)
	case s.state(v) == "creating":
		err = gateway.Errorf("IncorrectState", "The volume '%s' is in the 'creating' state.", id)
	default:
		err = dryRun(r)
	}
	if err == nil {
		delete(s.volumes, id)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &done{Return: true}, s.disks(func(d Disks) error { return d.Delete(id) })
}

type describeVolumesResult struct {
	reply
	Items     []volumeItem `xml:"volumeSet>item"`
	NextToken string       `xml:"nextToken,omitempty"`
}

func (s *Service) describeVolumes(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	page, next, err := s.selectVolumes(r)
	if err != nil {
		return nil, err
	}
	result := &describeVolumesResult{NextToken: next}
	for _, id := range page {
		result.Items = append(result.Items, s.volumeItem(s.volumes[id]))
	}
	return result, nil
}

// selectVolumes returns the IDs of the page of volumes that a request is for. The caller holds the lock.
func (s *Service) selectVolumes(r *gateway.Request) ([]string, string, *gateway.Error) {
	wanted, err := readFilters(r, "volume-id", "status", "availability-zone", "size", "snapshot-id", "volume-type",
		"attachment.instance-id", "attachment.device", "attachment.status", "tag-key")
	if err != nil {
		return nil, "", err
	}
	ids, err := selectIDs(r, "VolumeId", "vol-", "InvalidVolume.NotFound", "volume", s.volumes)
	if err != nil {
		return nil, "", err
	}
	if err := dryRun(r); err != nil {
		return nil, "", err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		v := s.volumes[id]
		attributes := map[string][]string{"volume-id": {id}, "status": {s.state(v)}, "availability-zone": {v.Zone}, "size": {fmt.Sprint(v.Size)},
			"snapshot-id": {v.SnapshotID}, "volume-type": {v.Type}}
		for _, a := range v.Attachments {
			attributes["attachment.instance-id"] = append(attributes["attachment.instance-id"], a.InstanceID)
			attributes["attachment.device"] = append(attributes["attachment.device"], a.Device)
			attributes["attachment.status"] = append(attributes["attachment.status"], s.attachmentState(a))
		}
		return !wanted.match(attributes, v.Tags)
	})
	return s.paginate(r, ids, 5)
}

type statusItem struct {
	ID      string       `xml:"volumeId"`
	Zone    string       `xml:"availabilityZone"`
	Status  string       `xml:"volumeStatus>status"`
	Details []detailItem `xml:"volumeStatus>details>item"`
}

type detailItem struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
}

type describeVolumeStatusResult struct {
	reply
	Items     []statusItem `xml:"volumeStatusSet>item"`
	NextToken string       `xml:"nextToken,omitempty"`
}

func (s *Service) describeVolumeStatus(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	page, next, err := s.selectVolumes(r)
	if err != nil {
		return nil, err
	}
	result := &describeVolumeStatusResult{NextToken: next}
	for _, id := range page {
		result.Items = append(result.Items, statusItem{ID: id, Zone: s.volumes[id].Zone, Status: "ok", Details: []detailItem{
			{"io-enabled", "passed"}, {"io-performance", "not-applicable"}, {"initialization-state", "completed"}}})
	}
	return result, nil
}
