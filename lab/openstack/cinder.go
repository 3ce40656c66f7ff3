package openstack

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// volumeTypes are the types of volumes; the first is the default. Volumes of multiattachType can be attached more than once.
var volumeTypes = []string{"standard", "fast", multiattachType}

const multiattachType = "shared"

// pageLimit is the maximum number of objects in one response of Cinder.
const pageLimit = 1000

// blockStorage is the state of Cinder.
type blockStorage struct {
	volumes   []*Volume
	snapshots []*VolumeSnapshot
}

// Volume is a volume of Cinder.
type Volume struct {
	ID, Name, Description, Project string
	Status                         string
	Type, Zone                     string
	Size                           int // GiB
	Metadata                       map[string]string
	SnapshotID, SourceID           string // the snapshot or the volume that it was created from
	Attachments                    []Attachment
	Created                        time.Time

	empty bool // its creation has failed, so it has no content to delete
}

// VolumeSnapshot is a snapshot of a volume.
type VolumeSnapshot struct {
	ID, Name, Description, Project string
	Status, VolumeID               string
	Size                           int // GiB
	Metadata                       map[string]string
	Created                        time.Time
}

// Volumes returns the volumes of all projects.
func (c *Cloud) Volumes() []Volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var list []Volume
	for _, v := range c.volumes.volumes {
		list = append(list, v.copy())
	}
	return list
}

// ResetVolumes changes the status of volumes from error to available, as an administrator of the cloud does with: openstack volume set
// --state available ID.
func (c *Cloud) ResetVolumes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	for _, v := range c.volumes.volumes {
		if v.Status == "error" {
			v.Status = "available"
		}
	}
}

func (v *Volume) copy() Volume {
	volume := *v
	volume.Attachments, volume.Metadata = slices.Clone(v.Attachments), maps.Clone(v.Metadata)
	return volume
}

// VolumeSnapshots returns the snapshots of volumes of all projects.
func (c *Cloud) VolumeSnapshots() []VolumeSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var list []VolumeSnapshot
	for _, s := range c.volumes.snapshots {
		list = append(list, *s)
	}
	return list
}

func (c *Cloud) cinderService() service {
	return service{name: Cinder, prefix: "/volume/v3/{project}", versions: versions{major: 3, max: 71, header: "X-OpenStack-Volume-API-Version", standard: "volume"},
		routes: []route{
			{"POST /volumes", "volume:create", c.createVolume},
			{"GET /volumes/detail", "volume:get_all", c.listVolumes},
			{"GET /volumes/{id}", "volume:get", c.getVolume},
			{"DELETE /volumes/{id}", "volume:delete", c.deleteVolume},
			{"POST /volumes/{id}/action", "volume:extend", c.extendVolume},
			{"POST /snapshots", "volume:create_snapshot", c.createVolumeSnapshot},
			{"GET /snapshots", "volume:get_all_snapshots", c.listVolumeSnapshots},
			{"GET /snapshots/detail", "volume:get_all_snapshots", c.listVolumeSnapshots},
			{"GET /snapshots/{id}", "volume:get_snapshot", c.getVolumeSnapshot},
			{"DELETE /snapshots/{id}", "volume:delete_snapshot", c.deleteVolumeSnapshot},
			{"GET /os-availability-zone", "volume:availability_zone_list", c.listZones(Cinder)},
			{"GET /backups/{id}", "backup:get", c.getBackup},
		}}
}

func (c *Cloud) findVolume(of *project, id string) *Volume {
	for _, v := range c.volumes.volumes {
		if v.ID == id && v.Project == of.name {
			return v
		}
	}
	return nil
}

func (c *Cloud) findVolumeSnapshot(of *project, id string) *VolumeSnapshot {
	for _, s := range c.volumes.snapshots {
		if s.ID == id && s.Project == of.name {
			return s
		}
	}
	return nil
}

func (c *Cloud) createVolume(r *request) (reply, error) {
	asked, err := decode[struct {
		Name, Description string
		Size              int
		Type              string `json:"volume_type"`
		Zone              string `json:"availability_zone"`
		Snapshot          string `json:"snapshot_id"`
		Source            string `json:"source_volid"`
		Backup            string `json:"backup_id"`
		Metadata          map[string]string
	}](r, "volume")
	if err != nil {
		return reply{}, err
	}
	volume := &Volume{ID: newUUID(), Name: asked.Name, Description: asked.Description, Project: r.project.name, Status: "creating", Type: asked.Type,
		Zone: asked.Zone, Size: asked.Size, Metadata: asked.Metadata, SnapshotID: asked.Snapshot, SourceID: asked.Source, Created: time.Now()}
	if volume.Type == "" {
		volume.Type = volumeTypes[0]
	}
	if volume.Zone == "" {
		volume.Zone = shareZone
	}
	switch {
	case !slices.Contains(volumeTypes, volume.Type):
		return reply{}, notFound("Volume type with name %s could not be found.", volume.Type)
	case volume.Zone != shareZone:
		return reply{}, badRequest("Availability zone '%s' is invalid.", volume.Zone)
	case asked.Backup != "":
		return reply{}, notFound("Backup %s could not be found.", asked.Backup)
	}
	if volume.SnapshotID != "" {
		snapshot := c.findVolumeSnapshot(r.project, volume.SnapshotID)
		switch {
		case snapshot == nil:
			return reply{}, notFound("Snapshot %s could not be found.", volume.SnapshotID)
		case snapshot.Status != "available":
			return reply{}, badRequest("Invalid snapshot: Originating snapshot status must be one of 'available' values")
		case volume.Size == 0:
			volume.Size = snapshot.Size
		case volume.Size < snapshot.Size:
			return reply{}, badRequest("Invalid input received: Volume size '%d'GB cannot be smaller than the snapshot size %dGB. They must be >= original snapshot size.",
				volume.Size, snapshot.Size)
		}
	}
	if volume.SourceID != "" {
		source := c.findVolume(r.project, volume.SourceID)
		switch {
		case source == nil:
			return reply{}, notFound("Volume %s could not be found.", volume.SourceID)
		case source.Status != "available" && source.Status != "in-use":
			return reply{}, badRequest("Invalid volume: Originating volume status must be one of 'available, in-use' values")
		case volume.Size == 0:
			volume.Size = source.Size
		case volume.Size < source.Size:
			return reply{}, badRequest("Invalid input received: Volume size '%d'GB cannot be smaller than original volume size  %dGB. They must be >= original volume size.",
				volume.Size, source.Size)
		}
	}
	if volume.Size < 1 {
		return reply{}, badRequest("Invalid input received: Volume size '%d' must be an integer and greater than 0", volume.Size)
	}
	if err := c.checkVolumeQuota(r.project, 1, 0, volume.Size); err != nil {
		return reply{}, err
	}
	c.volumes.volumes = append(c.volumes.volumes, volume)
	result := volume.describe(r.project)
	_, fails := c.fails(CreateVolume)
	if create := c.servers.disks.Create; create != nil && !fails {
		fails = create(volume.copy()) != nil
	}
	c.later(func() {
		if volume.Status, volume.empty = "available", fails; fails {
			volume.Status = "error"
		}
	})
	return accepted(map[string]any{"volume": result})
}

func (c *Cloud) checkVolumeQuota(of *project, volumes, snapshots, gigabytes int) error {
	hasVolumes, hasSnapshots, hasGigabytes := 0, 0, 0
	for _, v := range c.volumes.volumes {
		if v.Project == of.name {
			hasVolumes, hasGigabytes = hasVolumes+1, hasGigabytes+v.Size
		}
	}
	for _, s := range c.volumes.snapshots {
		if s.Project == of.name {
			hasSnapshots, hasGigabytes = hasSnapshots+1, hasGigabytes+s.Size
		}
	}
	switch {
	case exceeds(c.quota.Gigabytes, hasGigabytes, gigabytes):
		return overLimit("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested %dG, quota is %dG and %dG has been consumed.",
			gigabytes, c.quota.Gigabytes, hasGigabytes)
	case exceeds(c.quota.Volumes, hasVolumes, volumes):
		return overLimit("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", c.quota.Volumes)
	case exceeds(c.quota.VolumeSnapshots, hasSnapshots, snapshots):
		return overLimit("SnapshotLimitExceeded: Maximum number of snapshots allowed (%d) exceeded", c.quota.VolumeSnapshots)
	}
	return nil
}

func (v *Volume) describe(in *project) map[string]any {
	attachments := []any{}
	for _, a := range v.Attachments {
		attachments = append(attachments, map[string]any{"id": v.ID, "attachment_id": a.ID, "volume_id": v.ID, "server_id": a.Instance.ID,
			"host_name": nil, "device": a.Device, "attached_at": timestamp(a.created)})
	}
	return map[string]any{"id": v.ID, "name": v.Name, "description": v.Description, "status": v.Status, "size": v.Size, "availability_zone": v.Zone,
		"created_at": timestamp(v.Created), "updated_at": nil, "volume_type": v.Type, "metadata": orEmpty(v.Metadata), "snapshot_id": orNull(v.SnapshotID),
		"source_volid": orNull(v.SourceID), "bootable": "false", "encrypted": false, "multiattach": v.Type == multiattachType, "attachments": attachments,
		"consistencygroup_id": nil, "replication_status": nil, "os-vol-tenant-attr:tenant_id": in.id, "links": []any{}}
}

func (c *Cloud) listVolumes(r *request) (reply, error) {
	query := r.URL.Query()
	var found []listed
	for _, v := range slices.Backward(c.volumes.volumes) { // the newest first
		if v.Project == r.project.name && matches(query, map[string]string{"name": v.Name, "status": v.Status, "availability_zone": v.Zone}) {
			found = append(found, listed{v.ID, v.describe(r.project)})
		}
	}
	return c.page("volumes", found, r)
}

// listed is an object in a list.
type listed struct {
	id   string
	view any
}

// page returns the part of a list that the request's parameters limit and marker ask for, with a link to the next part.
func (c *Cloud) page(name string, list []listed, r *request) (reply, error) {
	query := r.URL.Query()
	if marker := query.Get("marker"); marker != "" {
		at := slices.IndexFunc(list, func(l listed) bool { return l.id == marker })
		if at < 0 {
			return reply{}, badRequest("marker [%s] not found", marker)
		}
		list = list[at+1:]
	}
	limit := pageLimit
	if text := query.Get("limit"); text != "" {
		asked, err := strconv.Atoi(text)
		if err != nil || asked < 0 {
			return reply{}, badRequest("limit param must be a non-negative integer")
		}
		limit = min(limit, asked)
	}
	body := map[string]any{}
	if len(list) > limit {
		list = list[:limit]
		if limit > 0 {
			next := url.Values{}
			maps.Copy(next, query)
			next.Set("marker", list[limit-1].id)
			body[name+"_links"] = []any{map[string]any{"rel": "next", "href": c.url + r.URL.Path + "?" + next.Encode()}}
		}
	}
	views := []any{}
	for _, l := range list {
		views = append(views, l.view)
	}
	body[name] = views
	return ok(body)
}

func (c *Cloud) getVolume(r *request) (reply, error) {
	volume := c.findVolume(r.project, r.PathValue("id"))
	if volume == nil {
		return reply{}, notFound("Volume %s could not be found.", r.PathValue("id"))
	}
	return ok(map[string]any{"volume": volume.describe(r.project)})
}

func (c *Cloud) deleteVolume(r *request) (reply, error) {
	volume := c.findVolume(r.project, r.PathValue("id"))
	if volume == nil {
		return reply{}, notFound("Volume %s could not be found.", r.PathValue("id"))
	}
	hasSnapshots := slices.ContainsFunc(c.volumes.snapshots, func(s *VolumeSnapshot) bool { return s.VolumeID == volume.ID })
	if !slices.Contains([]string{"available", "error", "error_restoring", "error_extending", "error_managing"}, volume.Status) || hasSnapshots || len(volume.Attachments) > 0 {
		return reply{}, badRequest("Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be " +
			"migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
	}
	volume.Status = "deleting"
	_, fails := c.fails(DeleteVolume)
	if !fails && !volume.empty {
		fails = c.deleteContent(volume.ID) != nil
	}
	c.later(func() {
		if fails {
			volume.Status = "error_deleting"
			return
		}
		c.volumes.volumes = slices.DeleteFunc(c.volumes.volumes, func(v *Volume) bool { return v == volume })
	})
	return accepted(nil)
}

func (c *Cloud) deleteContent(id string) error {
	if c.servers.disks.Delete == nil {
		return nil
	}
	return c.servers.disks.Delete(id)
}

// extendVolume extends a volume. No other action is simulated.
func (c *Cloud) extendVolume(r *request) (reply, error) {
	volume := c.findVolume(r.project, r.PathValue("id"))
	if volume == nil {
		return reply{}, notFound("Volume %s could not be found.", r.PathValue("id"))
	}
	asked, err := decode[struct {
		Size int `json:"new_size"`
	}](r, "os-extend")
	if err != nil {
		return reply{}, err
	}
	if asked.Size <= volume.Size {
		return reply{}, badRequest("Invalid input received: New size for extend must be greater than current size. (current: %d, extended: %d).", volume.Size, asked.Size)
	}
	before := "available"
	if volume.Status == "in-use" && r.minor >= 42 {
		before = "in-use"
	}
	if volume.Status != before {
		return reply{}, badRequest("Invalid volume: Volume %s status must be '{'status': '%s'}' to extend, currently %s.", volume.ID, before, volume.Status)
	}
	if err := c.checkVolumeQuota(r.project, 0, 0, asked.Size-volume.Size); err != nil {
		return reply{}, err
	}
	volume.Status = "extending"
	_, fails := c.fails(ExtendVolume)
	extended := volume.copy()
	extended.Size = asked.Size
	if !fails {
		fails = c.extendDisks(extended) != nil
	}
	c.later(func() {
		if fails {
			volume.Status = "error_extending"
			return
		}
		volume.Status, volume.Size = before, asked.Size
	})
	return accepted(nil)
}

func (c *Cloud) createVolumeSnapshot(r *request) (reply, error) {
	asked, err := decode[struct {
		Volume            string `json:"volume_id"`
		Name, Description string
		Force             bool
		Metadata          map[string]string
	}](r, "snapshot")
	if err != nil {
		return reply{}, err
	}
	volume := c.findVolume(r.project, asked.Volume)
	if volume == nil {
		return reply{}, notFound("Volume %s could not be found.", asked.Volume)
	}
	if inUse := volume.Status == "in-use" && (asked.Force || r.minor >= 66); volume.Status != "available" && !inUse {
		return reply{}, badRequest("Invalid volume: Volume %s status must be available, but current status is: %s.", volume.ID, volume.Status)
	}
	if err := c.checkVolumeQuota(r.project, 0, 1, volume.Size); err != nil {
		return reply{}, err
	}
	snapshot := &VolumeSnapshot{ID: newUUID(), Name: asked.Name, Description: asked.Description, Project: r.project.name, Status: "creating",
		VolumeID: volume.ID, Size: volume.Size, Metadata: asked.Metadata, Created: time.Now()}
	c.volumes.snapshots = append(c.volumes.snapshots, snapshot)
	result := snapshot.describe()
	_, fails := c.fails(CreateVolumeSnapshot)
	if take := c.servers.disks.Snapshot; take != nil && !fails {
		fails = take(*snapshot) != nil
	}
	c.later(func() {
		if snapshot.Status = "available"; fails {
			snapshot.Status = "error"
		}
	})
	return accepted(map[string]any{"snapshot": result})
}

func (s *VolumeSnapshot) describe() map[string]any {
	return map[string]any{"id": s.ID, "name": s.Name, "description": s.Description, "status": s.Status, "size": s.Size, "volume_id": s.VolumeID,
		"created_at": timestamp(s.Created), "updated_at": nil, "metadata": orEmpty(s.Metadata)}
}

func (c *Cloud) listVolumeSnapshots(r *request) (reply, error) {
	query := r.URL.Query()
	var found []listed
	for _, s := range slices.Backward(c.volumes.snapshots) {
		if s.Project == r.project.name && matches(query, map[string]string{"name": s.Name, "status": s.Status, "volume_id": s.VolumeID}) {
			found = append(found, listed{s.ID, s.describe()})
		}
	}
	return c.page("snapshots", found, r)
}

func (c *Cloud) getVolumeSnapshot(r *request) (reply, error) {
	snapshot := c.findVolumeSnapshot(r.project, r.PathValue("id"))
	if snapshot == nil {
		return reply{}, notFound("Snapshot %s could not be found.", r.PathValue("id"))
	}
	return ok(map[string]any{"snapshot": snapshot.describe()})
}

func (c *Cloud) deleteVolumeSnapshot(r *request) (reply, error) {
	snapshot := c.findVolumeSnapshot(r.project, r.PathValue("id"))
	if snapshot == nil {
		return reply{}, notFound("Snapshot %s could not be found.", r.PathValue("id"))
	}
	if snapshot.Status != "available" && snapshot.Status != "error" {
		return reply{}, badRequest("Invalid snapshot: Snapshot status must be available or error and must not be part of a group.")
	}
	hasContent := snapshot.Status != "error"
	snapshot.Status = "deleting"
	fails := hasContent && c.deleteContent(snapshot.ID) != nil
	c.later(func() {
		if fails {
			snapshot.Status = "error_deleting"
			return
		}
		c.volumes.snapshots = slices.DeleteFunc(c.volumes.snapshots, func(s *VolumeSnapshot) bool { return s == snapshot })
	})
	return accepted(nil)
}

// getBackup always answers 404, because the cloud has no backups. The Cinder CSI driver asks for a backup before it deletes a snapshot.
func (c *Cloud) getBackup(r *request) (reply, error) {
	return reply{}, failure{http.StatusNotFound, "Backup " + r.PathValue("id") + " could not be found."}
}
