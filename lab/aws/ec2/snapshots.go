package ec2

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// Snapshot is a snapshot of a volume.
type Snapshot struct {
	ID, VolumeID, Description string
	// Size is the volume's, in GiB.
	Size      int32
	Encrypted bool
	Tags      Tags

	started time.Time
	ready   time.Time // zero until the content is kept
}

// Snapshots returns all snapshots, sorted by ID.
func (s *Service) Snapshots() []Snapshot {
	s.lock()
	defer s.mu.Unlock()
	var all []Snapshot
	for _, id := range slices.Sorted(maps.Keys(s.snapshots)) {
		snapshot := *s.snapshots[id]
		snapshot.Tags = maps.Clone(snapshot.Tags)
		all = append(all, snapshot)
	}
	return all
}

func noSnapshot(id string) *gateway.Error {
	return gateway.Errorf("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
}

type snapshotItem struct {
	ID          string    `xml:"snapshotId"`
	VolumeID    string    `xml:"volumeId"`
	State       string    `xml:"status"`
	Started     string    `xml:"startTime"`
	Progress    string    `xml:"progress"`
	OwnerID     string    `xml:"ownerId"`
	Size        int32     `xml:"volumeSize"`
	Description string    `xml:"description"`
	Encrypted   bool      `xml:"encrypted"`
	StorageTier string    `xml:"storageTier"`
	Tags        []tagItem `xml:"tagSet>item"`
}

func (s *Service) snapshotItem(snapshot *Snapshot) snapshotItem {
	item := snapshotItem{ID: snapshot.ID, VolumeID: snapshot.VolumeID, State: "pending", Started: timestamp(snapshot.started), OwnerID: s.options.Account,
		Size: snapshot.Size, Description: snapshot.Description, Encrypted: snapshot.Encrypted, StorageTier: "standard", Tags: snapshot.Tags.items()}
	if settled(snapshot.ready) {
		item.State, item.Progress = "completed", "100%"
	}
	return item
}

type createSnapshotResult struct {
	reply
	snapshotItem
}

// createSnapshot makes a new snapshot for each request: EC2 has no client token for it.
func (s *Service) createSnapshot(r *gateway.Request) (any, *gateway.Error) {
	tags, err := tagsFor(r, "snapshot")
	if err != nil {
		return nil, err
	}
	id := r.Parameters["VolumeId"]
	s.lock()
	v, ok := s.volumes[id]
	switch {
	case !ok:
		err = noVolume(id)
	case s.state(v) == "creating":
		err = gateway.Errorf("IncorrectState", "The volume '%s' is in the 'creating' state.", id)
	default:
		err = dryRun(r)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	snapshot := &Snapshot{ID: gateway.NewID("snap-"), VolumeID: id, Description: r.Parameters["Description"], Size: v.Size, Encrypted: v.Encrypted, Tags: tags, started: time.Now()}
	s.snapshots[snapshot.ID] = snapshot
	item, content := s.snapshotItem(snapshot), *snapshot
	s.mu.Unlock()

	if err := s.disks(func(d Disks) error { return d.Snapshot(content) }); err != nil {
		s.lock()
		defer s.mu.Unlock()
		delete(s.snapshots, snapshot.ID)
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	snapshot.ready = time.Now().Add(s.options.Settle)
	return &createSnapshotResult{snapshotItem: item}, nil
}

func (s *Service) deleteSnapshot(r *gateway.Request) (any, *gateway.Error) {
	id := r.Parameters["SnapshotId"]
	s.lock()
	_, ok := s.snapshots[id]
	err := dryRun(r)
	if !ok {
		err = noSnapshot(id)
	}
	if err == nil {
		delete(s.snapshots, id)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &done{Return: true}, s.disks(func(d Disks) error { return d.Delete(id) })
}

type describeSnapshotsResult struct {
	reply
	Items     []snapshotItem `xml:"snapshotSet>item"`
	NextToken string         `xml:"nextToken,omitempty"`
}

func (s *Service) describeSnapshots(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "snapshot-id", "volume-id", "status", "owner-id", "tag-key")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	ids, err := selectIDs(r, "SnapshotId", "snap-", "InvalidSnapshot.NotFound", "snapshot", s.snapshots)
	if err != nil {
		return nil, err
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	owners := list(r, "Owner")
	ids = slices.DeleteFunc(ids, func(id string) bool {
		item := s.snapshotItem(s.snapshots[id])
		attributes := map[string][]string{"snapshot-id": {id}, "volume-id": {item.VolumeID}, "status": {item.State}, "owner-id": {item.OwnerID}}
		owned := len(owners) == 0 || slices.Contains(owners, "self") || slices.Contains(owners, item.OwnerID)
		return !owned || !wanted.match(attributes, s.snapshots[id].Tags)
	})
	page, next, err := s.paginate(r, ids, 5)
	if err != nil {
		return nil, err
	}
	result := &describeSnapshotsResult{NextToken: next}
	for _, id := range page {
		result.Items = append(result.Items, s.snapshotItem(s.snapshots[id]))
	}
	return result, nil
}
