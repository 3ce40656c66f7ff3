package openstack

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shareZone is the only availability zone of shares and volumes.
const shareZone = "nova"

// protocols are those of shares.
var protocols = []string{"NFS", "CIFS", "CEPHFS"}

// Details of Manila's messages. The driver distinguishes these.
const (
	NoStorage    = "002"
	NoNetwork    = "003"
	NoZone       = "007"
	NoCapability = "008"
	NoCapacity   = "009"
)

var details = map[string]string{
	"001":        "An unknown error occurred.",
	NoStorage:    "No storage could be allocated for this share request. Trying again with a different size or share type may succeed.",
	NoNetwork:    "Driver does not expect share-network to be provided with current configuration.",
	NoZone:       "No storage could be allocated for this share request, AvailabilityZone filter didn't succeed.",
	NoCapability: "No storage could be allocated for this share request, Capabilities filter didn't succeed.",
	NoCapacity:   "No storage could be allocated for this share request, Capacity filter didn't succeed.",
}

// sharedFileSystems is the state of Manila.
type sharedFileSystems struct {
	types     []ShareType
	networks  map[string]*project // by ID
	shares    []*Share
	snapshots []*ShareSnapshot
	messages  []message
}

// ShareType is a kind of shares.
type ShareType struct {
	ID, Name   string
	Projects   []string          // names of the only projects that see it; everybody if empty
	ExtraSpecs map[string]string // what tenants see of them
	Servers    bool              // each share network has share servers, so shares need one
}

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

// AccessRule says who may mount a share.
type AccessRule struct {
	ID, Type, To, Level, State string
	Key                        string // of Ceph
	created                    time.Time
}

// ShareSnapshot is a snapshot of a share.
type ShareSnapshot struct {
	ID, Name, Description, Project string
	Status, ShareID, Protocol      string
	Size                           int // GiB
	Created                        time.Time
}

// message tells a user why an operation failed.
type message struct {
	id, project, resourceID, resourceType, detail string
	created                                       time.Time
}

// SetShareTypes replaces the share types by public ones with these names. Their shares can have snapshots, and need no
// share network.
func (c *Cloud) SetShareTypes(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shares.types = nil
	for _, name := range names {
		c.addShareType(ShareType{Name: name})
	}
}

// AddShareType adds a share type.
func (c *Cloud) AddShareType(kind ShareType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addShareType(kind)
}

func (c *Cloud) addShareType(kind ShareType) {
	if kind.ID == "" {
		hash := sha256.Sum256([]byte(kind.Name))
		kind.ID = formatUUID(hash[:16]) // the same type has the same ID if it is set again
	}
	specs := map[string]string{"snapshot_support": "True", "create_share_from_snapshot_support": "True"}
	maps.Copy(specs, kind.ExtraSpecs)
	kind.ExtraSpecs = specs
	c.shares.types = append(c.shares.types, kind)
}

// AddShareNetwork adds a share network to the project of Login, and returns its ID.
func (c *Cloud) AddShareNetwork() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := newUUID()
	if c.shares.networks == nil {
		c.shares.networks = map[string]*project{}
	}
	c.shares.networks[id] = c.keystone.find("", defaultProject)
	return id
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

// ShareSnapshots returns the snapshots of shares of all projects.
func (c *Cloud) ShareSnapshots() []ShareSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var list []ShareSnapshot
	for _, s := range c.shares.snapshots {
		list = append(list, *s)
	}
	return list
}

func (c *Cloud) manilaService() service {
	return service{name: Manila, prefix: "/share/v2", versions: versions{major: 2, max: 75, header: "X-OpenStack-Manila-API-Version", standard: "shared-file-system"},
		routes: []route{
			{"GET /{$}", "", c.shareVersions},
			{"GET /types", "share_type:index", c.listShareTypes},
			{"GET /types/{id}/extra_specs", "share_types_extra_spec:index", c.shareExtraSpecs},
			{"POST /shares", "share:create", c.createShare},
			{"GET /shares", "share:get_all", c.listShares},
			{"GET /shares/detail", "share:get_all", c.listShareDetails},
			{"GET /shares/{id}", "share:get", c.getShare},
			{"DELETE /shares/{id}", "share:delete", c.deleteShare},
			{"GET /shares/{id}/export_locations", "share_export_location:index", c.listExportLocations},
			{"GET /shares/{id}/metadata", "share:get_share_metadata", c.getShareMetadata},
			{"POST /shares/{id}/metadata", "share:update_share_metadata", c.setShareMetadata},
			{"POST /shares/{id}/action", "share:update", c.shareAction},
			{"GET /share-access-rules", "share_access_rule:index", c.listAccessRulesOfQuery},
			{"POST /snapshots", "share:create_snapshot", c.createShareSnapshot},
			{"GET /snapshots/detail", "share_snapshot:get_all_snapshots", c.listShareSnapshots},
			{"GET /snapshots/{id}", "share_snapshot:get_snapshot", c.getShareSnapshot},
			{"DELETE /snapshots/{id}", "share:delete_snapshot", c.deleteShareSnapshot},
			{"GET /messages", "message:get_all", c.listMessages},
		}}
}

func (c *Cloud) shareVersions(*request) (reply, error) {
	v := c.manilaService().versions
	return ok(map[string]any{"versions": []any{map[string]any{
		"id": "v2.0", "status": "CURRENT", "version": v.String(), "min_version": "2.0", "updated": "2015-08-27T11:33:21Z",
		"links":       []any{map[string]any{"rel": "self", "href": c.url + "/share/v2/"}},
		"media-types": []any{map[string]any{"base": "application/json", "type": "application/vnd.openstack.share+json;version=1"}},
	}}})
}

func (t ShareType) visible(to *project) bool {
	return len(t.Projects) == 0 || slices.Contains(t.Projects, to.name)
}

func (c *Cloud) listShareTypes(r *request) (reply, error) {
	list := []any{}
	for _, t := range c.shares.types {
		if !t.visible(r.project) {
			continue
		}
		public := "share_type_access:is_public"
		if r.minor < 7 {
			public = "os-share-type-access:is_public"
		}
		list = append(list, map[string]any{"id": t.ID, "name": t.Name, public: len(t.Projects) == 0, "extra_specs": t.ExtraSpecs,
			"required_extra_specs": map[string]string{"driver_handles_share_servers": formatBool(t.Servers)}})
	}
	return ok(map[string]any{"share_types": list, "volume_types": list})
}

// formatBool formats as Python does.
func formatBool(value bool) string {
	if value {
		return "True"
	}
	return "False"
}

func (c *Cloud) shareExtraSpecs(r *request) (reply, error) {
	for _, t := range c.shares.types {
		if t.ID == r.PathValue("id") && t.visible(r.project) {
			return ok(map[string]any{"extra_specs": t.ExtraSpecs})
		}
	}
	return reply{}, noSuchResource
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

// tell leaves a message for the users of a project.
func (c *Cloud) tell(project, resourceType, resourceID, detail string) {
	c.shares.messages = append(c.shares.messages, message{newUUID(), project, resourceID, resourceType, cmp.Or(detail, "001"), time.Now()})
}

// describe returns the view of a share that a microversion has.
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

func (s *Share) rulesStatus() string {
	status := "active"
	for _, rule := range s.Rules {
		switch rule.State {
		case "error":
			return "error"
		case "active":
		default:
			status = "syncing"
		}
	}
	return status
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func orEmpty(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}

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

func (c *Cloud) findShareSnapshot(of *project, id string) *ShareSnapshot {
	for _, s := range c.shares.snapshots {
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

// matches tells whether all filters of a query that an object has match it. Others are ignored, as the services do.
func matches(query url.Values, object map[string]string) bool {
	for name, value := range object {
		if query.Has(name) && query.Get(name) != value {
			return false
		}
	}
	return true
}

// paginate returns the part of a list that limit and offset ask for.
func paginate(list []any, query url.Values) ([]any, error) {
	bounds := map[string]int{"offset": 0, "limit": len(list)}
	for name := range bounds {
		if text := query.Get(name); text != "" {
			number, err := strconv.Atoi(text)
			if err != nil || number < 0 {
				return nil, badRequest("%s param must be a non-negative integer", name)
			}
			bounds[name] = number
		}
	}
	list = list[min(bounds["offset"], len(list)):]
	return append([]any{}, list[:min(bounds["limit"], len(list))]...), nil
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

// shareAction extends a share, or has to do with its access rules.
func (c *Cloud) shareAction(r *request) (reply, error) {
	share := c.findShare(r.project, r.PathValue("id"))
	if share == nil {
		return reply{}, noSuchResource
	}
	actions, err := decodeActions(r)
	if err != nil {
		return reply{}, err
	}
	for _, action := range []struct {
		name       string
		from, last int // microversions
		do         func(*request, *Share, string) (reply, error)
	}{
		{"os-extend", 0, 6, c.extendShare}, {"extend", 7, 999, c.extendShare},
		{"os-allow_access", 0, 6, c.allowAccess}, {"allow_access", 7, 999, c.allowAccess},
		{"os-deny_access", 0, 6, c.denyAccess}, {"deny_access", 7, 999, c.denyAccess},
		{"os-access_list", 0, 6, c.listAccessRules}, {"access_list", 7, 44, c.listAccessRules},
	} {
		if slices.Contains(actions, action.name) && r.minor >= action.from && r.minor <= action.last {
			return action.do(r, share, action.name)
		}
	}
	return reply{}, badRequest("There is no such action: %s", strings.Join(actions, ", "))
}

func decodeActions(r *request) ([]string, error) {
	var content map[string]any
	if err := json.Unmarshal(r.body, &content); err != nil {
		return nil, badRequest("Malformed request body: %v", err)
	}
	return slices.Sorted(maps.Keys(content)), nil
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

func (c *Cloud) allowAccess(r *request, share *Share, action string) (reply, error) {
	asked, err := decode[struct {
		Type  string `json:"access_type"`
		To    string `json:"access_to"`
		Level string `json:"access_level"`
	}](r, action)
	if err != nil {
		return reply{}, err
	}
	if share.Status != "available" {
		return reply{}, badRequest("New access rules cannot be applied while the share or any of its replicas or migration copies lacks a valid host or is in an invalid state.")
	}
	switch asked.Type {
	case "ip":
		if !validAddress(asked.To) {
			return reply{}, badRequest("Invalid IP access: %s", asked.To)
		}
	case "user", "cert":
	case "cephx":
		if r.minor < 13 {
			return reply{}, badRequest("Only 'ip', 'user' or 'cert' access types are supported.")
		}
	default:
		return reply{}, badRequest("Only 'ip', 'user', 'cert' or 'cephx' access types are supported.")
	}
	for _, rule := range share.Rules {
		if rule.Type == asked.Type && rule.To == asked.To {
			return reply{}, badRequest("Share access %s:%s exists.", asked.Type, asked.To)
		}
	}
	rule := AccessRule{ID: newUUID(), Type: asked.Type, To: asked.To, Level: cmp.Or(asked.Level, "rw"), State: "queued_to_apply", created: time.Now()}
	share.Rules = append(share.Rules, rule)
	c.later(func() {
		at := slices.IndexFunc(share.Rules, func(other AccessRule) bool { return other.ID == rule.ID })
		if at < 0 {
			return
		}
		applied := &share.Rules[at]
		applied.State = "active"
		if wants := map[string]string{"NFS": "ip", "CEPHFS": "cephx", "CIFS": "user"}[share.Protocol]; applied.Type != wants {
			applied.State = "error"
		} else if wants == "cephx" {
			applied.Key = base64.StdEncoding.EncodeToString([]byte("key of " + applied.To))
		}
	})
	view := rule.describe(r, share)
	view["share_id"] = share.ID
	return ok(map[string]any{"access": view})
}

func validAddress(text string) bool {
	_, addressErr := netip.ParseAddr(text)
	_, prefixErr := netip.ParsePrefix(text)
	return addressErr == nil || prefixErr == nil
}

func (rule AccessRule) describe(r *request, share *Share) map[string]any {
	view := map[string]any{"id": rule.ID, "access_type": rule.Type, "access_to": rule.To, "access_level": rule.Level, "state": rule.State}
	if r.minor < 28 { // the state of all rules, under its old names
		if view["state"] = share.rulesStatus(); view["state"] == "syncing" {
			view["state"] = "new"
		}
	}
	if r.minor >= 21 {
		view["access_key"] = orNull(rule.Key)
	}
	if r.minor >= 33 {
		view["created_at"], view["updated_at"] = timestamp(rule.created), nil
	}
	if r.minor >= 45 {
		view["metadata"] = map[string]string{}
	}
	return view
}

func (c *Cloud) denyAccess(r *request, share *Share, action string) (reply, error) {
	asked, err := decode[struct {
		ID string `json:"access_id"`
	}](r, action)
	if err != nil {
		return reply{}, err
	}
	if !slices.ContainsFunc(share.Rules, func(rule AccessRule) bool { return rule.ID == asked.ID }) {
		return reply{}, noSuchResource
	}
	share.Rules = slices.DeleteFunc(share.Rules, func(rule AccessRule) bool { return rule.ID == asked.ID })
	return accepted(nil)
}

func (c *Cloud) listAccessRules(r *request, share *Share, _ string) (reply, error) {
	list := []any{}
	for _, rule := range share.Rules {
		list = append(list, rule.describe(r, share))
	}
	return ok(map[string]any{"access_list": list})
}

// listAccessRulesOfQuery is the same since microversion 2.45.
func (c *Cloud) listAccessRulesOfQuery(r *request) (reply, error) {
	share := c.findShare(r.project, r.URL.Query().Get("share_id"))
	if r.minor < 45 || share == nil {
		return reply{}, noSuchResource
	}
	return c.listAccessRules(r, share, "")
}

func (c *Cloud) createShareSnapshot(r *request) (reply, error) {
	asked, err := decode[struct {
		Share             string `json:"share_id"`
		Name, Description string
	}](r, "snapshot")
	if err != nil {
		return reply{}, err
	}
	share := c.findShare(r.project, asked.Share)
	switch {
	case share == nil:
		return reply{}, notFound("ShareNotFound: Share %s could not be found.", asked.Share)
	case !share.supports("snapshot_support"):
		return reply{}, failure{http.StatusUnprocessableEntity, fmt.Sprintf("Snapshots cannot be created for share '%s' since it does not have that capability.", share.ID)}
	case share.Status != "available":
		return reply{}, badRequest("Invalid share: Source share status must be available.")
	}
	count := 0
	for _, s := range c.shares.snapshots {
		if s.Project == r.project.name {
			count++
		}
	}
	if exceeds(c.quota.ShareSnapshots, count, 1) {
		return reply{}, overLimit("SnapshotLimitExceeded: Maximum number of snapshots allowed (%d) either per project/user or share type quota is exceeded.", c.quota.ShareSnapshots)
	}
	snapshot := &ShareSnapshot{ID: newUUID(), Name: asked.Name, Description: asked.Description, Project: r.project.name, Status: "creating",
		ShareID: share.ID, Protocol: share.Protocol, Size: share.Size, Created: time.Now()}
	c.shares.snapshots = append(c.shares.snapshots, snapshot)
	result := snapshot.describe(r)
	detail, fails := c.fails(CreateShareSnapshot)
	c.later(func() {
		if snapshot.Status = "available"; fails || c.makeFiles(snapshot.ID, snapshot.ShareID) != nil {
			snapshot.Status = "error"
			c.tell(snapshot.Project, "SHARE_SNAPSHOT", snapshot.ID, detail)
		}
	})
	return accepted(map[string]any{"snapshot": result})
}

func (s *ShareSnapshot) describe(r *request) map[string]any {
	return map[string]any{"id": s.ID, "share_id": s.ShareID, "share_size": s.Size, "created_at": timestamp(s.Created), "status": s.Status,
		"name": s.Name, "description": s.Description, "size": s.Size, "share_proto": s.Protocol, "project_id": r.project.id, "links": []any{}}
}

func (c *Cloud) listShareSnapshots(r *request) (reply, error) {
	query := r.URL.Query()
	var found []any
	for _, s := range slices.Backward(c.shares.snapshots) {
		if s.Project == r.project.name && matches(query, map[string]string{"name": s.Name, "display_name": s.Name, "status": s.Status, "share_id": s.ShareID}) {
			found = append(found, s.describe(r))
		}
	}
	page, err := paginate(found, query)
	return reply{code: http.StatusOK, body: map[string]any{"snapshots": page}}, err
}

func (c *Cloud) getShareSnapshot(r *request) (reply, error) {
	snapshot := c.findShareSnapshot(r.project, r.PathValue("id"))
	if snapshot == nil {
		return reply{}, noSuchResource
	}
	return ok(map[string]any{"snapshot": snapshot.describe(r)})
}

func (c *Cloud) deleteShareSnapshot(r *request) (reply, error) {
	snapshot := c.findShareSnapshot(r.project, r.PathValue("id"))
	if snapshot == nil {
		return reply{}, noSuchResource
	}
	if snapshot.Status != "available" && snapshot.Status != "error" {
		return reply{}, badRequest("Invalid share snapshot: Share Snapshot status must be one of ('available', 'error').")
	}
	snapshot.Status = "deleting"
	c.later(func() {
		if c.removeFiles(snapshot.ID) != nil {
			snapshot.Status = "error_deleting"
			return
		}
		c.shares.snapshots = slices.DeleteFunc(c.shares.snapshots, func(s *ShareSnapshot) bool { return s == snapshot })
	})
	return accepted(nil)
}

func (c *Cloud) listMessages(r *request) (reply, error) {
	if r.minor < 37 {
		return reply{}, noSuchResource
	}
	query := r.URL.Query()
	var found []any
	for _, m := range slices.Backward(c.shares.messages) {
		if m.project == r.project.name && matches(query, map[string]string{"resource_id": m.resourceID, "message_level": "ERROR", "detail_id": m.detail}) {
			found = append(found, map[string]any{"id": m.id, "project_id": r.project.id, "action_id": "001", "detail_id": m.detail, "message_level": "ERROR",
				"resource_id": m.resourceID, "resource_type": m.resourceType, "user_message": cmp.Or(details[m.detail], details["001"]),
				"created_at": timestamp(m.created), "expires_at": timestamp(m.created.Add(30 * 24 * time.Hour)), "links": []any{}})
		}
	}
	page, err := paginate(found, query)
	return reply{code: http.StatusOK, body: map[string]any{"messages": page}}, err
}
