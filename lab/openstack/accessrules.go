package openstack

import (
	"cmp"
	"encoding/base64"
	"net/netip"
	"slices"
	"time"
)

// AccessRule says who may mount a share.
type AccessRule struct {
	ID, Type, To, Level, State string
	Key                        string // of Ceph
	created                    time.Time
}

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

// listAccessRulesOfQuery takes the place of listAccessRules since microversion 2.45.
func (c *Cloud) listAccessRulesOfQuery(r *request) (reply, error) {
	share := c.findShare(r.project, r.URL.Query().Get("share_id"))
	if r.minor < 45 || share == nil {
		return reply{}, noSuchResource
	}
	return c.listAccessRules(r, share, "")
}
