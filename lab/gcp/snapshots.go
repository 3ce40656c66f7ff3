package gcp

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Snapshot is a snapshot or an image of a disk.
type Snapshot struct {
	Kind              string            `json:"kind"`
	ID                uint64            `json:"id,string"`
	CreationTimestamp string            `json:"creationTimestamp"`
	Name              string            `json:"name"`
	Description       string            `json:"description,omitempty"`
	Family            string            `json:"family,omitempty"`
	Status            string            `json:"status"`
	SourceDisk        string            `json:"sourceDisk"`
	SourceDiskID      string            `json:"sourceDiskId"`
	DiskSizeGB        int64             `json:"diskSizeGb,string"`
	StorageBytes      int64             `json:"storageBytes,string"`
	StorageLocations  []string          `json:"storageLocations,omitempty"`
	SelfLink          string            `json:"selfLink"`
	Labels            map[string]string `json:"labels,omitempty"`
	LabelFingerprint  string            `json:"labelFingerprint"`

	kind  string // "snapshots" or "images"
	ready time.Time
}

func (s *Snapshot) path() string { return "global/" + s.kind + "/" + s.Name }

// settled reports whether a snapshot can be used.
func (c *Cloud) settled(s *Snapshot) bool { return !time.Now().Before(s.ready) }

func (c *Cloud) showSnapshot(s *Snapshot) Snapshot {
	shown := *s
	if !c.settled(s) {
		shown.Status = map[string]string{"snapshots": "CREATING", "images": "PENDING"}[s.kind]
	}
	return shown
}

// Snapshots returns all snapshots and images.
func (c *Cloud) Snapshots() (all []Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.snapshots)) {
		all = append(all, c.showSnapshot(c.snapshots[key]))
	}
	return all
}

// kindOf returns the kind in the path of a request.
func kindOf(r *request) string {
	if strings.Contains(r.URL.Path, "/global/images") {
		return "images"
	}
	return "snapshots"
}

func (c *Cloud) findSnapshot(r *request) (*Snapshot, *fault) {
	below := "global/" + kindOf(r) + "/" + r.PathValue("name")
	if s, ok := c.snapshots[below]; ok {
		return s, nil
	}
	return nil, notFound(c.path(below))
}

func (c *Cloud) getSnapshot(r *request) (any, *fault) {
	s, refusal := c.findSnapshot(r)
	if refusal != nil {
		return nil, refusal
	}
	return c.showSnapshot(s), nil
}

func (c *Cloud) listSnapshots(r *request) (any, *fault) {
	kind := kindOf(r)
	var all []Snapshot
	for _, key := range slices.Sorted(maps.Keys(c.snapshots)) {
		if c.snapshots[key].kind == kind {
			all = append(all, c.showSnapshot(c.snapshots[key]))
		}
	}
	return listOf(c, r, "compute#"+kind[:len(kind)-1]+"List", all)
}

func (c *Cloud) createSnapshot(r *request) (any, *fault) {
	var s Snapshot
	if refusal := r.decode(&s); refusal != nil {
		return nil, refusal
	}
	s.kind = kindOf(r)
	if refusal := cmp.Or(checkName(s.Name), checkLabels(s.Labels)); refusal != nil {
		return nil, refusal
	}
	if _, exists := c.snapshots[s.path()]; exists {
		return nil, faultf(http.StatusConflict, "alreadyExists", "The resource '%s' already exists", c.path(s.path()))
	}
	if len(s.Labels) > 0 {
		if refusal := c.may(r.email, "compute."+s.kind+".setLabels", c.path(s.path())); refusal != nil {
			return nil, refusal
		}
	}
	below, _ := c.below(s.SourceDisk)
	d, ok := c.disks[below]
	if !ok {
		return nil, notFound(cmp.Or(below, s.SourceDisk))
	}
	permission := "compute.disks.createSnapshot"
	if s.kind == "images" {
		permission = "compute.disks.useReadOnly"
		if len(d.Users) > 0 && r.URL.Query().Get("forceCreate") != "true" {
			return nil, inUse(c.path(below), d.Users[0])
		}
	}
	if refusal := c.may(r.email, permission, c.path(below)); refusal != nil {
		return nil, refusal
	}
	now := time.Now()
	s.Kind, s.ID, s.CreationTimestamp, s.Status = "compute#"+s.kind[:len(s.kind)-1], c.nextID(), timestamp(now), "READY"
	s.SourceDisk, s.SourceDiskID, s.DiskSizeGB, s.SelfLink = d.SelfLink, fmt.Sprint(d.ID), d.SizeGB, c.url(s.path())
	s.LabelFingerprint, s.ready = fingerprint(s.Labels), now.Add(c.options.Settle)
	if len(s.StorageLocations) == 0 {
		s.StorageLocations = []string{"us"}
	}
	err := c.content(func(disks Disks) error { return disks.Create(s.path(), d.SizeGB<<30, below) })
	if err == nil {
		c.snapshots[s.path()] = &s
	}
	return c.begin(r, "global", "insert", s.path(), s.ID, err), nil
}

func (c *Cloud) deleteSnapshot(r *request) (any, *fault) {
	s, refusal := c.findSnapshot(r)
	if refusal != nil {
		return nil, refusal
	}
	delete(c.snapshots, s.path())
	delete(c.bindings, c.fullName("global/"+s.kind, s.ID))
	err := c.content(func(disks Disks) error { return disks.Delete(s.path()) })
	return c.begin(r, "global", "delete", s.path(), s.ID, err), nil
}
