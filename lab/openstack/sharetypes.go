package openstack

import (
	"crypto/sha256"
	"maps"
	"slices"
)

// ShareType is a kind of shares.
type ShareType struct {
	ID, Name   string
	Projects   []string          // names of the only projects that see it; everybody if empty
	ExtraSpecs map[string]string // as far as tenants see them
	Servers    bool              // each share network has share servers, so shares need one
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
