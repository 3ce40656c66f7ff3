package openstack

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shareZone is the only availability zone of shares and volumes.
const shareZone = "nova"

// protocols are the protocols of shares.
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

// message tells a user why an operation failed.
type message struct {
	id, project, resourceID, resourceType, detail string
	created                                       time.Time
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

// tell leaves a message for the users of a project.
func (c *Cloud) tell(project, resourceType, resourceID, detail string) {
	c.shares.messages = append(c.shares.messages, message{newUUID(), project, resourceID, resourceType, cmp.Or(detail, "001"), time.Now()})
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

// matches reports whether an object matches the filters of a query for fields that the object has. Other filters are ignored, as the
// services do.
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

// shareAction extends a share, or handles its access rules.
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
