package openstack

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Share is a share.
type Share struct {
	ID, Name, Description, Project string
	Status                         string
	Type                           string // name of the share type
	Protocol                       string
	Size                           int // GiB
	Metadata                       map[string]string
	SnapshotID, NetworkID          string
	Rules                          []AccessRule
	Created                        time.Time

	kind ShareType
}

// Shares returns the shares of all projects.
func (c *Cloud) Shares() []Share {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var list []Share
	for _, s := range c.shares.shares {
		share := *s
		share.Rules, share.Metadata = slices.Clone(s.Rules), maps.Clone(s.Metadata)
		list = append(list, share)
	}
	return list
}

func (c *Cloud) createShare(r *request) (reply, error) {
	asked, err := decode[struct {
		Name, Description string
		Protocol          string `json:"share_proto"`
		Size              int
		Type              string            `json:"share_type"`
		Snapshot          string            `json:"snapshot_id"`
		Network           string            `json:"share_network_id"`
		Zone              string            `json:"availability_zone"`
		Metadata          map[string]string `json:"metadata"`
	}](r, "share")
	if err != nil {
		return reply{}, err
	}
	share := &Share{ID: newUUID(), Name: asked.Name, Description: asked.Description, Project: r.project.name, Status: "creating",
		Protocol: strings.ToUpper(asked.Protocol), Size: asked.Size, Metadata: asked.Metadata, SnapshotID: asked.Snapshot, NetworkID: asked.Network, Created: time.Now()}
	if share.Size < 1 {
		return reply{}, badRequest("Invalid input received: Share size '%d' must be an integer and greater than 0.", share.Size)
	}
	if !slices.Contains(protocols, share.Protocol) {
		return reply{}, badRequest("Invalid input received: Invalid share protocol provided: %s. It is either disabled or unsupported. Available protocols: ['%s'].",
			share.Protocol, strings.Join(protocols, "', '"))
	}
	if asked.Zone != "" && asked.Zone != shareZone {
		return reply{}, notFound("AvailabilityZoneNotFound: Availability zone %s could not be found.", asked.Zone)
	}
	if share.SnapshotID != "" {
		snapshot := c.findShareSnapshot(r.project, share.SnapshotID)
		switch {
		case snapshot == nil:
			return reply{}, notFound("ShareSnapshotNotFound: Snapshot %s could not be found.", share.SnapshotID)
		case snapshot.Status != "available":
			return reply{}, badRequest("Invalid share snapshot: status must be 'available'.")
		case share.Size < snapshot.Size:
			return reply{}, badRequest("Invalid input received: Share size '%d' must be equal or greater than snapshot size.", share.Size)
		}
		share.Status = "creating_from_snapshot"
	}
	at := slices.IndexFunc(c.shares.types, func(t ShareType) bool {
		return (t.Name == cmp.Or(asked.Type, "default") || t.ID == asked.Type) && t.visible(r.project)
	})
	if at < 0 {
		return reply{}, notFound("Share type not found.")
	}
	share.kind, share.Type = c.shares.types[at], c.shares.types[at].Name
	if share.NetworkID != "" && c.shares.networks[share.NetworkID] != r.project {
		return reply{}, notFound("Share network %s could not be found.", share.NetworkID)
	}
	if share.kind.Servers && share.NetworkID == "" && share.SnapshotID == "" {
		return reply{}, badRequest("Share network must be set when the driver_handles_share_servers is true.")
	}
	if err := c.checkShareQuota(r.project, 1, share.Size); err != nil {
		return reply{}, err
	}
	c.shares.shares = append(c.shares.shares, share)
	result := share.describe(r, c.url)
	detail, fails := c.fails(CreateShare)
	if share.NetworkID != "" && !share.kind.Servers {
		detail, fails = NoNetwork, true
	}
	c.later(func() {
		if share.Status = "available"; fails || c.makeFiles(share.ID, share.SnapshotID) != nil {
			share.Status = "error"
			c.tell(share.Project, "SHARE", share.ID, detail)
		}
	})
	return ok(map[string]any{"share": result})
}

func (c *Cloud) checkShareQuota(of *project, shares, gigabytes int) error {
	hasShares, hasGigabytes := 0, 0
	for _, s := range c.shares.shares {
		if s.Project == of.name {
			hasShares, hasGigabytes = hasShares+1, hasGigabytes+s.Size
		}
	}
	if exceeds(c.quota.ShareGigabytes, hasGigabytes, gigabytes) {
		return overLimit("ShareSizeExceedsAvailableQuota: Requested share exceeds allowed project/user or share type gigabytes quota.")
	}
	if exceeds(c.quota.Shares, hasShares, shares) {
		return overLimit("ShareLimitExceeded: Maximum number of shares allowed (%d) either per project/user or share type quota is exceeded.", c.quota.Shares)
	}
	return nil
}

// describe returns a share as the request's microversion shows it.
func (s *Share) describe(r *request, cloud string) map[string]any {
	status := s.Status
	if status == "creating_from_snapshot" && r.minor < 54 {
		status = "creating"
	}
	view := map[string]any{
		"id": s.ID, "size": s.Size, "availability_zone": shareZone, "created_at": timestamp(s.Created), "status": status, "name": s.Name,
		"description": s.Description, "project_id": r.project.id, "snapshot_id": orNull(s.SnapshotID), "share_network_id": orNull(s.NetworkID),
		"share_proto": s.Protocol, "metadata": orEmpty(s.Metadata), "share_type": s.kind.Name, "volume_type": s.kind.Name, "is_public": false,
		"links": []any{map[string]any{"rel": "self", "href": cloud + "/share/v2/shares/" + s.ID}},
	}
	for _, field := range []struct {
		since int
		name  string
		value any
	}{
		{2, "snapshot_support", s.supports("snapshot_support")}, {5, "task_state", nil},
		{6, "share_type", s.kind.ID}, {6, "share_type_name", s.kind.Name},
		{10, "access_rules_status", s.rulesStatus()}, {11, "replication_type", nil}, {11, "has_replicas", false},
		{24, "create_share_from_snapshot_support", s.supports("create_share_from_snapshot_support")},
		{27, "revert_to_snapshot_support", false}, {31, "share_group_id", nil}, {32, "mount_snapshot_support", false}, {54, "progress", "100%"},
	} {
		if r.minor >= field.since {
			view[field.name] = field.value
		}
	}
	if r.minor < 9 {
		view["export_locations"] = s.exportPaths()
	}
	return view
}

func (s *Share) supports(spec string) bool { return s.kind.ExtraSpecs[spec] == "True" }

// exportPaths returns where clients mount a share from. The last path is preferred.
func (s *Share) exportPaths() []string {
	switch {
	case s.Status == "creating" || s.Status == "creating_from_snapshot" || s.Status == "error":
		return nil
	case s.Protocol == "CEPHFS":
		return []string{FileServer + ":6789:/volumes/_nogroup/" + s.ID}
	}
	return []string{"192.0.2.11:/shares/share-" + s.ID, FileServer + ":/shares/share-" + s.ID}
}

// ExportPath returns the path of the share that clients prefer, without the server.
func (s Share) ExportPath() string {
	paths := s.exportPaths()
	if len(paths) == 0 {
		return ""
	}
	path := paths[len(paths)-1]
	return path[strings.LastIndex(path, ":")+1:]
}

func (c *Cloud) findShare(of *project, id string) *Share {
	for _, s := range c.shares.shares {
		if s.ID == id && s.Project == of.name {
			return s
		}
	}
	return nil
}

func (c *Cloud) listShareDetails(r *request) (reply, error) {
	return c.listSharesAs(r, func(s *Share) any { return s.describe(r, c.url) })
}

func (c *Cloud) listShares(r *request) (reply, error) {
	return c.listSharesAs(r, func(s *Share) any { return map[string]any{"id": s.ID, "name": s.Name} })
}

func (c *Cloud) listSharesAs(r *request, view func(*Share) any) (reply, error) {
	query := r.URL.Query()
	var found []any
	for _, s := range slices.Backward(c.shares.shares) { // the newest first
		if s.Project == r.project.name && matches(query, map[string]string{"name": s.Name, "display_name": s.Name, "status": s.Status,
			"snapshot_id": s.SnapshotID, "share_network_id": s.NetworkID, "share_type_id": s.kind.ID}) {
			found = append(found, view(s))
		}
	}
	page, err := paginate(found, query)
	return reply{code: http.StatusOK, body: map[string]any{"shares": page}}, err
}

func (c *Cloud) getShare(r *request) (reply, error) {
	share := c.findShare(r.project, r.PathValue("id"))
	if share == nil {
		return reply{}, noSuchResource
	}
	return ok(map[string]any{"share": share.describe(r, c.url)})
}

func (c *Cloud) deleteShare(r *request) (reply, error) {
	share := c.findShare(r.project, r.PathValue("id"))
	if share == nil {
		return reply{}, noSuchResource
	}
	if !slices.Contains([]string{"available", "error", "inactive"}, share.Status) {
		return reply{}, forbidden("Invalid share: Share status must be one of ('available', 'error', 'inactive').")
	}
	dependents := 0
	for _, s := range c.shares.snapshots {
		if s.ShareID == share.ID {
			dependents++
		}
	}
	if dependents > 0 {
		return reply{}, forbidden("Invalid share: Share still has %d dependent snapshots.", dependents)
	}
	share.Status = "deleting"
	detail, fails := c.fails(DeleteShare)
	c.later(func() {
		if fails || c.removeFiles(share.ID) != nil {
			share.Status = "error_deleting"
			c.tell(share.Project, "SHARE", share.ID, detail)
			return
		}
		c.shares.shares = slices.DeleteFunc(c.shares.shares, func(s *Share) bool { return s == share })
	})
	return accepted(nil)
}

func (c *Cloud) listExportLocations(r *request) (reply, error) {
	share := c.findShare(r.project, r.PathValue("id"))
	if share == nil {
		return reply{}, noSuchResource
	}
	list := []any{}
	paths := share.exportPaths()
	for i, path := range paths {
		location := map[string]any{"id": newUUID(), "path": path}
		if r.minor >= 14 {
			location["preferred"] = i == len(paths)-1
		}
		list = append(list, location)
	}
	return ok(map[string]any{"export_locations": list})
}

func (c *Cloud) getShareMetadata(r *request) (reply, error) {
	share := c.findShare(r.project, r.PathValue("id"))
	if share == nil {
		return reply{}, notFound("share does not exist")
	}
	return ok(map[string]any{"metadata": orEmpty(share.Metadata)})
}

func (c *Cloud) setShareMetadata(r *request) (reply, error) {
	share := c.findShare(r.project, r.PathValue("id"))
	if share == nil {
		return reply{}, notFound("share does not exist")
	}
	added, err := decode[map[string]string](r, "metadata")
	if err != nil {
		return reply{}, err
	}
	merged := maps.Clone(orEmpty(share.Metadata))
	maps.Copy(merged, added)
	share.Metadata = merged
	return ok(map[string]any{"metadata": merged})
}

func (c *Cloud) extendShare(r *request, share *Share, action string) (reply, error) {
	asked, err := decode[struct {
		Size int `json:"new_size"`
	}](r, action)
	switch {
	case err != nil:
		return reply{}, err
	case share.Status != "available":
		return reply{}, badRequest("Invalid share: Share %s status must be 'available' to extend, but current status is: %s.", share.ID, share.Status)
	case asked.Size <= share.Size:
		return reply{}, badRequest("Invalid input received: New size for extend must be greater than current size. (current: %d, extended: %d).", share.Size, asked.Size)
	}
	if err := c.checkShareQuota(r.project, 0, asked.Size-share.Size); err != nil {
		return reply{}, forbidden("Requested share exceeds allowed project/user or share type gigabytes quota.") // not 413, as for new shares
	}
	share.Status = "extending"
	detail, fails := c.fails(ExtendShare)
	c.later(func() {
		if fails {
			share.Status = "extending_error"
			c.tell(share.Project, "SHARE", share.ID, detail)
			return
		}
		share.Status, share.Size = "available", asked.Size
	})
	return accepted(nil)
}
