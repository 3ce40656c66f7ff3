package openstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// compute is the state of Nova.
type compute struct {
	instances []*Instance
	disks     Disks
	devices   map[place]bool // names that disks have
}

// place is the name of a disk in an instance.
type place struct{ instance, device string }

// maxDisks is how many volumes an instance can have, from /dev/vdb to /dev/vdz.
const maxDisks = 25

func newCompute() compute { return compute{devices: map[place]bool{}} }

// Instance is a virtual machine.
type Instance struct {
	ID, Name, Zone string
	Project        string
	Address        string

	created time.Time
}

// Attachment is a volume in an instance.
type Attachment struct {
	ID       string
	Instance Instance
	VolumeID string
	Size     int    // of the volume, in GiB
	Device   string // Nova's name, such as /dev/vdb; the guest's may differ

	created time.Time
}

// Disks are the operations of the storage and the hypervisor on the content of volumes and the disks of instances. Nil
// functions do nothing.
//
// The node plugin looks for a volume in /dev/disk/by-id, under virtio- and the first 20 characters of its ID.
type Disks struct {
	Create   func(Volume) error         // after an error, the volume is in error
	Snapshot func(VolumeSnapshot) error // after an error, the snapshot is in error
	Delete   func(id string) error      // of a volume or a snapshot; after an error, it is in error_deleting

	Attach func(Attachment) error // after an error, the volume is available again, without a reason
	Detach func(Attachment) error // after an error, the volume stays attached
	Extend func(Attachment) error // Size is the new one; after an error, the volume is in error_extending
}

// SetDisks replaces the operations of the storage and the hypervisor. The cloud is locked meanwhile: the functions must
// not call it.
func (c *Cloud) SetDisks(disks Disks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers.disks = disks
}

// AddInstance adds an active instance to the project of Login, and returns it with its ID.
func (c *Cloud) AddInstance(name string) Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := netip.AddrFrom4([4]byte{198, 51, 100, byte(len(c.servers.instances) + 1)}) // addresses for documentation
	instance := &Instance{ID: newUUID(), Name: name, Zone: shareZone, Project: defaultProject, Address: at.String(), created: time.Now()}
	c.servers.instances = append(c.servers.instances, instance)
	return *instance
}

// RemoveInstance deletes an instance. Its volumes are available again, as after the deletion of a server.
func (c *Cloud) RemoveInstance(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers.instances = slices.DeleteFunc(c.servers.instances, func(i *Instance) bool { return i.ID == id })
	for _, v := range c.volumes.volumes {
		if v.detach(id); v.Status == "in-use" && len(v.Attachments) == 0 {
			v.Status = "available"
		}
	}
}

func (v *Volume) detach(instance string) {
	v.Attachments = slices.DeleteFunc(v.Attachments, func(a Attachment) bool { return a.Instance.ID == instance })
}

func (v *Volume) attachment(instance string) *Attachment {
	for i := range v.Attachments {
		if v.Attachments[i].Instance.ID == instance {
			return &v.Attachments[i]
		}
	}
	return nil
}

func (c *Cloud) novaService() service {
	return service{name: Nova, prefix: "/compute/v2.1", versions: versions{major: 2, min: 1, max: 96, header: "X-OpenStack-Nova-API-Version", standard: "compute"},
		routes: []route{
			{"GET /servers/{id}", "os_compute_api:servers:show", c.getServer},
			{"GET /servers/detail", "os_compute_api:servers:detail", c.listServers},
			{"GET /servers/{id}/os-volume_attachments", "os_compute_api:os-volumes-attachments:index", c.listAttachments},
			{"POST /servers/{id}/os-volume_attachments", "os_compute_api:os-volumes-attachments:create", c.attachVolume},
			{"GET /servers/{id}/os-volume_attachments/{volume}", "os_compute_api:os-volumes-attachments:show", c.getAttachment},
			{"GET /os-availability-zone", "os_compute_api:os-availability-zone:list", c.listZones(Nova)},
			{"DELETE /servers/{id}/os-volume_attachments/{volume}", "os_compute_api:os-volumes-attachments:delete", c.detachVolume},
		}}
}

func (c *Cloud) findInstance(r *request) (*Instance, error) {
	id := r.PathValue("id")
	for _, i := range c.servers.instances {
		if i.ID == id && i.Project == r.project.name {
			return i, nil
		}
	}
	return nil, notFound("Instance %s could not be found.", id)
}

func (c *Cloud) describeServer(i *Instance, in *project) map[string]any {
	attached := []any{}
	for _, v := range c.volumes.volumes {
		if v.attachment(i.ID) != nil {
			attached = append(attached, map[string]any{"id": v.ID})
		}
	}
	return map[string]any{"id": i.ID, "name": i.Name, "status": "ACTIVE", "tenant_id": in.id, "user_id": c.keystone.userID, "hostId": newID(),
		"created": i.created.UTC().Format(time.RFC3339), "updated": i.created.UTC().Format(time.RFC3339), "metadata": map[string]string{},
		"OS-EXT-AZ:availability_zone": i.Zone, "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1, "OS-EXT-STS:task_state": nil,
		"addresses":                            map[string]any{"private": []any{map[string]any{"addr": i.Address, "version": 4, "OS-EXT-IPS:type": "fixed"}}},
		"os-extended-volumes:volumes_attached": attached, "links": []any{}}
}

func (c *Cloud) getServer(r *request) (reply, error) {
	instance, err := c.findInstance(r)
	if err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"server": c.describeServer(instance, r.project)})
}

func (c *Cloud) listServers(r *request) (reply, error) {
	query := r.URL.Query()
	var found []listed
	for _, i := range c.servers.instances {
		if i.Project == r.project.name && strings.Contains(i.Name, query.Get("name")) {
			found = append(found, listed{i.ID, c.describeServer(i, r.project)})
		}
	}
	return c.page("servers", found, r)
}

func (a Attachment) describe() map[string]any {
	return map[string]any{"id": a.VolumeID, "volumeId": a.VolumeID, "serverId": a.Instance.ID, "device": a.Device}
}

func (c *Cloud) listAttachments(r *request) (reply, error) {
	instance, err := c.findInstance(r)
	if err != nil {
		return reply{}, err
	}
	list := []any{}
	for _, v := range c.volumes.volumes {
		if a := v.attachment(instance.ID); a != nil {
			list = append(list, a.describe())
		}
	}
	return ok(map[string]any{"volumeAttachments": list})
}

// findAttachment returns the volume of the URL and its attachment to the instance of the URL.
func (c *Cloud) findAttachment(r *request) (*Volume, *Attachment, error) {
	instance, err := c.findInstance(r)
	if err != nil {
		return nil, nil, err
	}
	if volume := c.findVolume(r.project, r.PathValue("volume")); volume != nil {
		if a := volume.attachment(instance.ID); a != nil {
			return volume, a, nil
		}
	}
	return nil, nil, notFound("Instance %s is not attached to volume %s", instance.ID, r.PathValue("volume"))
}

func (c *Cloud) getAttachment(r *request) (reply, error) {
	_, a, err := c.findAttachment(r)
	if err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"volumeAttachment": a.describe()})
}

func (c *Cloud) attachVolume(r *request) (reply, error) {
	instance, err := c.findInstance(r)
	if err != nil {
		return reply{}, err
	}
	asked, err := decode[struct {
		Volume string `json:"volumeId"`
	}](r, "volumeAttachment")
	if err != nil {
		return reply{}, err
	}
	volume := c.findVolume(r.project, asked.Volume)
	if volume == nil {
		return reply{}, notFound("Volume %s could not be found.", asked.Volume)
	}
	multiattach := volume.Type == multiattachType
	switch {
	case volume.attachment(instance.ID) != nil:
		return reply{}, badRequest("Invalid volume: volume %s already attached to instance %s", volume.ID, instance.ID)
	case multiattach && r.minor < 60:
		return reply{}, badRequest("Multiattach volumes are only supported starting with compute API version 2.60.")
	case volume.Status != "available" && (!multiattach || volume.Status != "in-use"):
		return reply{}, badRequest("Invalid volume: Volume status must be available to reserve, but the status is %s.", volume.Status)
	}
	device, err := c.reserveDevice(instance)
	if err != nil {
		return reply{}, err
	}
	before := volume.Status
	attachment := Attachment{ID: newUUID(), Instance: *instance, VolumeID: volume.ID, Size: volume.Size, Device: device, created: time.Now()}
	volume.Status = "attaching"
	_, fails := c.fails(AttachVolume)
	if attach := c.servers.disks.Attach; attach != nil && !fails {
		fails = attach(attachment) != nil
	}
	c.later(func() {
		if fails {
			volume.Status = before
			delete(c.servers.devices, place{instance.ID, device})
			return
		}
		volume.Status, volume.Attachments = "in-use", append(volume.Attachments, attachment)
	})
	return ok(map[string]any{"volumeAttachment": attachment.describe()})
}

// reserveDevice returns the first name that no disk of the instance has. The root disk is /dev/vda.
func (c *Cloud) reserveDevice(instance *Instance) (string, error) {
	for i := range maxDisks {
		at := place{instance.ID, "/dev/vd" + string(rune('b'+i))}
		if !c.servers.devices[at] {
			c.servers.devices[at] = true
			return at.device, nil
		}
	}
	return "", forbidden("The maximum allowed number of disk devices (%d) to attach to a single instance has been exceeded.", maxDisks+1)
}

func (c *Cloud) detachVolume(r *request) (reply, error) {
	volume, a, err := c.findAttachment(r)
	if err != nil {
		return reply{}, err
	}
	if volume.Status != "in-use" {
		return reply{}, badRequest("Invalid volume: Invalid input received: Invalid volume: Unable to detach volume. Volume status must be 'in-use' and attach_status must be 'attached' to detach.")
	}
	volume.Status = "detaching"
	fails := false
	if detach := c.servers.disks.Detach; detach != nil {
		fails = detach(*a) != nil
	}
	at := place{a.Instance.ID, a.Device}
	c.later(func() {
		if volume.Status = "in-use"; fails {
			return
		}
		delete(c.servers.devices, at)
		if volume.detach(at.instance); len(volume.Attachments) == 0 {
			volume.Status = "available"
		}
	})
	return accepted(nil)
}

// extendDisks tells the instances of a volume that it has grown.
func (c *Cloud) extendDisks(volume Volume) error {
	if c.servers.disks.Extend == nil {
		return nil
	}
	for _, a := range volume.Attachments {
		a.Size = volume.Size
		if err := c.servers.disks.Extend(a); err != nil {
			return err
		}
	}
	return nil
}

// metadataVersions are the versions of OpenStack's metadata service. Programs ask for the last.
var metadataVersions = []string{"2018-08-27", "2020-10-14", "latest"}

// MetadataHandler returns the metadata service as an instance sees it, at http://169.254.169.254 in a real cloud.
func (c *Cloud) MetadataHandler(instance Instance) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, content func() ([]byte, string)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			call := c.record(service{name: Metadata}, route{pattern: "GET " + path}, r, nil)
			c.mu.Lock()
			call.Project, call.Code = instance.Project, http.StatusOK
			body, kind := content()
			c.mu.Unlock()
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(body) // the client may be gone
		})
	}
	serve("/openstack", func() ([]byte, string) { return []byte(strings.Join(metadataVersions, "\n")), "text/plain" })
	for _, version := range metadataVersions {
		serve("/openstack/"+version+"/meta_data.json", func() ([]byte, string) {
			content, _ := json.Marshal(map[string]any{ // never fails
				"uuid": instance.ID, "name": instance.Name, "hostname": instance.Name + ".novalocal", "availability_zone": instance.Zone, "launch_index": 0,
				"project_id": c.keystone.find("", instance.Project).id, "devices": []any{}, "dedicated_cpus": []any{}, "random_seed": fmt.Sprint(time.Now().UnixNano()),
			})
			return content, "application/json"
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		call := c.record(service{name: Metadata}, route{}, r, nil)
		c.mu.Lock()
		call.Code = http.StatusNotFound
		c.mu.Unlock()
		http.NotFound(w, r)
	})
	return mux
}
