package gcp

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
)

// Instance is a virtual machine, which has a service account.
type Instance struct {
	Kind        string         `json:"kind"`
	ID          uint64         `json:"id,string"`
	Name        string         `json:"name"`
	Zone        string         `json:"zone"`
	MachineType string         `json:"machineType"`
	Status      string         `json:"status"`
	SelfLink    string         `json:"selfLink"`
	Disks       []AttachedDisk `json:"disks"`

	in place
}

// AttachedDisk is a disk of an instance.
type AttachedDisk struct {
	Kind       string `json:"kind"`
	Type       string `json:"type"`
	Mode       string `json:"mode"`
	Source     string `json:"source"`
	DeviceName string `json:"deviceName"`
	Index      int    `json:"index"`
	Boot       bool   `json:"boot"`
	AutoDelete bool   `json:"autoDelete"`
	Interface  string `json:"interface"`
}

// maxAttached is how many disks an instance can have, including its boot disk.
const maxAttached = 128

// Modes of attached disks.
const (
	readWrite = "READ_WRITE"
	readOnly  = "READ_ONLY"
)

func (i *Instance) path() string { return i.in.path() + "/instances/" + i.Name }

// ZoneName returns the name of the instance's zone.
func (i *Instance) ZoneName() string { return i.in.name }

// AddInstance adds a running instance of a type such as "n2-standard-4".
func (c *Cloud) AddInstance(name, zone, machineType string) *Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := &Instance{Kind: "compute#instance", ID: c.nextID(), Name: name, Status: "RUNNING", in: place{"zones", zone},
		Zone: c.url("zones/" + zone), MachineType: c.url("zones/" + zone + "/machineTypes/" + machineType)}
	i.SelfLink = c.url(i.path())
	i.Disks = []AttachedDisk{{Kind: "compute#attachedDisk", Type: "PERSISTENT", Mode: readWrite, Source: c.url("zones/" + zone + "/disks/" + name),
		DeviceName: "persistent-disk-0", Boot: true, AutoDelete: true, Interface: "SCSI"}}
	c.instances[i.path()] = i
	return i
}

func (c *Cloud) findInstance(r *request) (*Instance, *fault) {
	in, refusal := c.placeOf(r)
	if refusal != nil {
		return nil, refusal
	}
	below := in.path() + "/instances/" + r.PathValue("instance")
	if i, ok := c.instances[below]; ok {
		return i, nil
	}
	return nil, notFound(c.path(below))
}

func showInstance(i *Instance) Instance {
	shown := *i
	shown.Disks = slices.Clone(i.Disks)
	return shown
}

func (c *Cloud) getInstance(r *request) (any, *fault) {
	i, refusal := c.findInstance(r)
	if refusal != nil {
		return nil, refusal
	}
	return showInstance(i), nil
}

func (c *Cloud) listInstances(r *request) (any, *fault) {
	in, refusal := c.placeOf(r)
	if refusal != nil {
		return nil, refusal
	}
	var all []Instance
	for _, key := range slices.Sorted(maps.Keys(c.instances)) {
		if c.instances[key].in == in {
			all = append(all, showInstance(c.instances[key]))
		}
	}
	return listOf(c, r, "compute#instanceList", all)
}

func (c *Cloud) attachDisk(r *request) (any, *fault) {
	i, refusal := c.findInstance(r)
	if refusal != nil {
		return nil, refusal
	}
	var a AttachedDisk
	if refusal := r.decode(&a); refusal != nil {
		return nil, refusal
	}
	below, _ := c.below(a.Source)
	d, ok := c.disks[below]
	if !ok {
		return nil, notFound(cmp.Or(below, a.Source))
	}
	permission := "compute.disks.use"
	if a.Mode == readOnly {
		permission = "compute.disks.useReadOnly"
	}
	if refusal := cmp.Or(c.may(r.email, permission, c.path(below)), c.may(r.email, "iam.serviceAccounts.actAs", c.path(i.path()))); refusal != nil {
		return nil, refusal
	}
	a.Kind, a.Type, a.Mode, a.Source, a.Interface = "compute#attachedDisk", cmp.Or(a.Type, "PERSISTENT"), cmp.Or(a.Mode, readWrite), d.SelfLink, "SCSI"
	a.Boot, a.AutoDelete, a.Index = false, false, len(i.Disks)
	a.DeviceName = cmp.Or(a.DeviceName, fmt.Sprintf("persistent-disk-%d", a.Index))
	if refusal := c.checkAttach(i, d, a); refusal != nil {
		return nil, refusal
	}
	err := c.content(func(disks Disks) error { return disks.Attach(d.path(), i.Name, a.DeviceName) })
	if err == nil {
		i.Disks = append(i.Disks, a)
		d.Users = append(d.Users, i.SelfLink)
	}
	return c.begin(r, i.in.path(), "attachDisk", i.path(), i.ID, err), nil
}

// checkAttach checks whether an instance can get a disk.
func (c *Cloud) checkAttach(i *Instance, d *Disk, a AttachedDisk) *fault {
	near := d.in == i.in || slices.ContainsFunc(d.ReplicaZones, func(zone string) bool { return path.Base(zone) == i.in.name })
	switch {
	case !near:
		return invalid("Invalid value for field 'resource.source': '%s'. Disk must be in the same zone as instance.", a.Source)
	case len(i.Disks) >= maxAttached:
		return faultf(http.StatusBadRequest, "limitExceeded", "Exceeded limit 'maximum_persistent_disks' on resource '%s'. Limit: %d.0", i.Name, maxAttached)
	case slices.ContainsFunc(i.Disks, func(other AttachedDisk) bool { return other.DeviceName == a.DeviceName }):
		return invalid("Invalid value for field 'resource.deviceName': '%s'. The instance has a disk with this device name.", a.DeviceName)
	}
	for _, user := range d.Users {
		shared := d.MultiWriter || a.Mode == readOnly && c.modeOf(user, d) == readOnly
		if !shared {
			return inUse(c.path(d.path()), user)
		}
	}
	return nil
}

// modeOf returns how an instance has attached a disk.
func (c *Cloud) modeOf(instance string, d *Disk) string {
	below, _ := c.below(instance)
	for _, a := range c.instances[below].Disks {
		if a.Source == d.SelfLink {
			return a.Mode
		}
	}
	return ""
}

func (c *Cloud) detachDisk(r *request) (any, *fault) {
	i, refusal := c.findInstance(r)
	if refusal != nil {
		return nil, refusal
	}
	name := r.URL.Query().Get("deviceName")
	at := slices.IndexFunc(i.Disks, func(a AttachedDisk) bool { return a.DeviceName == name })
	if at < 0 {
		return nil, invalid("Invalid value for field 'disk': '%s'. No attached disk found with device name '%s'", name, name)
	}
	if i.Disks[at].Boot {
		return nil, invalid("Invalid value for field 'disk': '%s'. Cannot detach the boot disk of a running instance.", name)
	}
	below, _ := c.below(i.Disks[at].Source)
	d := c.disks[below]
	err := c.content(func(disks Disks) error { return disks.Detach(below, i.Name) })
	if err == nil {
		i.Disks = slices.Delete(i.Disks, at, at+1)
		d.Users = slices.DeleteFunc(d.Users, func(user string) bool { return user == i.SelfLink })
	}
	return c.begin(r, i.in.path(), "detachDisk", i.path(), i.ID, err), nil
}
