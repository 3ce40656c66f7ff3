package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// ShareSnapshot is a snapshot of a share.
type ShareSnapshot struct {
	ID, Name, Description, Project string
	Status, ShareID, Protocol      string
	Size                           int // GiB
	Created                        time.Time
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

func (c *Cloud) findShareSnapshot(of *project, id string) *ShareSnapshot {
	for _, s := range c.shares.snapshots {
		if s.ID == id && s.Project == of.name {
			return s
		}
	}
	return nil
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
