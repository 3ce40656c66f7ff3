package gcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Disk is a zonal or a regional disk.
type Disk struct {
	Kind              string            `json:"kind"`
	ID                uint64            `json:"id,string"`
	CreationTimestamp string            `json:"creationTimestamp"`
	Name              string            `json:"name"`
	Description       string            `json:"description,omitempty"`
	SizeGB            int64             `json:"sizeGb,string"`
	Zone              string            `json:"zone,omitempty"`
	Region            string            `json:"region,omitempty"`
	ReplicaZones      []string          `json:"replicaZones,omitempty"`
	Status            string            `json:"status"`
	SourceSnapshot    string            `json:"sourceSnapshot,omitempty"`
	SourceSnapshotID  string            `json:"sourceSnapshotId,omitempty"`
	SourceImage       string            `json:"sourceImage,omitempty"`
	SourceImageID     string            `json:"sourceImageId,omitempty"`
	SourceDisk        string            `json:"sourceDisk,omitempty"`
	SourceDiskID      string            `json:"sourceDiskId,omitempty"`
	SelfLink          string            `json:"selfLink"`
	Type              string            `json:"type"`
	Labels            map[string]string `json:"labels,omitempty"`
	LabelFingerprint  string            `json:"labelFingerprint"`
	Users             []string          `json:"users,omitempty"`
	BlockSize         int64             `json:"physicalBlockSizeBytes,string"`
	IOPS              int64             `json:"provisionedIops,string,omitempty"`
	Throughput        int64             `json:"provisionedThroughput,string,omitempty"`
	MultiWriter       bool              `json:"multiWriter,omitempty"`
	AccessMode        string            `json:"accessMode,omitempty"`
	Key               *EncryptionKey    `json:"diskEncryptionKey,omitempty"`

	in    place
	ready time.Time
}

// EncryptionKey is a disk's encryption key, unless Google manages it. A disk has a version of the key.
type EncryptionKey struct {
	Name string `json:"kmsKeyName"`
}

var keyName = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$`)

// path returns the disk's path below the project.
func (d *Disk) path() string { return d.in.path() + "/disks/" + d.Name }

// typeName returns the name of the disk's type.
func (d *Disk) typeName() string { return path.Base(d.Type) }

// diskType is a type of disks.
type diskType struct {
	min, regionalMin, max int64 // gigabytes; a regionalMin of zero means no regional disks
	modifiable            bool  // IOPS and throughput can be changed
}

// diskTypes are the disk types that the cloud knows.
var diskTypes = map[string]diskType{
	"pd-standard":        {min: 1, regionalMin: 200, max: 65536},
	"pd-balanced":        {min: 1, regionalMin: 10, max: 65536},
	"pd-ssd":             {min: 1, regionalMin: 10, max: 65536},
	"hyperdisk-balanced": {min: 4, max: 65536, modifiable: true},
}

// show returns a disk as it is now.
func (c *Cloud) show(d *Disk) Disk {
	shown := *d
	shown.Labels, shown.Users = maps.Clone(d.Labels), slices.Clone(d.Users)
	if time.Now().Before(d.ready) {
		shown.Status = "CREATING"
	}
	return shown
}

// DiskList returns all disks.
func (c *Cloud) DiskList() []Disk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disksIn(func(*Disk) bool { return true })
}

func (c *Cloud) disksIn(wanted func(*Disk) bool) (all []Disk) {
	for _, key := range slices.Sorted(maps.Keys(c.disks)) {
		if wanted(c.disks[key]) {
			all = append(all, c.show(c.disks[key]))
		}
	}
	return all
}

// findDisk returns the disk in the path of a request.
func (c *Cloud) findDisk(r *request) (*Disk, *fault) {
	in, refusal := c.placeOf(r)
	if refusal != nil {
		return nil, refusal
	}
	below := in.path() + "/disks/" + r.PathValue("disk")
	if d, ok := c.disks[below]; ok {
		return d, nil
	}
	return nil, notFound(c.path(below))
}

func (c *Cloud) getDisk(r *request) (any, *fault) {
	d, refusal := c.findDisk(r)
	if refusal != nil {
		return nil, refusal
	}
	return c.show(d), nil
}

func (c *Cloud) listDisks(r *request) (any, *fault) {
	in, refusal := c.placeOf(r)
	if refusal != nil {
		return nil, refusal
	}
	return listOf(c, r, "compute#diskList", c.disksIn(func(d *Disk) bool { return d.in == in }))
}

// newDisk is a client's request for a new disk.
type newDisk struct {
	Disk
	Params struct {
		Tags map[string]string `json:"resourceManagerTags"`
	} `json:"params"`
}

func (c *Cloud) createDisk(r *request) (any, *fault) {
	in, refusal := c.placeOf(r)
	if refusal != nil {
		return nil, refusal
	}
	var said newDisk
	if refusal := r.decode(&said); refusal != nil {
		return nil, refusal
	}
	d := said.Disk
	d.in = in
	if refusal := cmp.Or(checkName(d.Name), checkLabels(d.Labels)); refusal != nil {
		return nil, refusal
	}
	if _, exists := c.disks[d.path()]; exists {
		return nil, faultf(http.StatusConflict, "alreadyExists", "The resource '%s' already exists", c.path(d.path()))
	}
	if len(d.Labels) > 0 {
		if refusal := c.may(r.email, "compute.disks.setLabels", c.path(d.path())); refusal != nil {
			return nil, refusal
		}
	}
	if d.Key != nil {
		if !keyName.MatchString(d.Key.Name) {
			return nil, invalid("Invalid value for field 'resource.diskEncryptionKey.kmsKeyName': '%s'. Must be the name of a key.", d.Key.Name)
		}
		d.Key = &EncryptionKey{d.Key.Name + "/cryptoKeyVersions/1"}
	}
	origin, refusal := c.originOf(r, &d)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := cmp.Or(c.checkType(&d), c.checkReplicas(&d), c.checkQuota(d.SizeGB)); refusal != nil {
		return nil, refusal
	}
	if refusal := c.tagNew(r, said.Params.Tags); refusal != nil {
		return nil, refusal
	}
	now := time.Now()
	d.Kind, d.ID, d.CreationTimestamp, d.Status, d.SelfLink = "compute#disk", c.nextID(), timestamp(now), "READY", c.url(d.path())
	d.LabelFingerprint, d.BlockSize, d.Users, d.ready = fingerprint(d.Labels), 4096, nil, now.Add(c.options.Settle)
	if in.scope == "zones" {
		d.Zone = c.url(in.path())
	} else {
		d.Region = c.url(in.path())
	}
	err := c.content(func(disks Disks) error { return disks.Create(d.path(), d.SizeGB<<30, origin) })
	if err == nil {
		c.disks[d.path()] = &d
		for _, value := range said.Params.Tags {
			c.bindings[c.fullName(in.path()+"/disks", d.ID)] = append(c.bindings[c.fullName(in.path()+"/disks", d.ID)], c.tagNamed(value))
		}
	}
	return c.begin(r, in.path(), "insert", d.path(), d.ID, err), nil
}

// content calls do with the content of disks, if the cloud keeps any.
func (c *Cloud) content(do func(Disks) error) error {
	if c.options.Disks == nil {
		return nil
	}
	return do(c.options.Disks)
}

// originOf returns the path of the disk or snapshot that a new disk copies, or "". It completes the disk's reference to
// it.
func (c *Cloud) originOf(r *request, d *Disk) (string, *fault) {
	given := 0
	for _, source := range []string{d.SourceSnapshot, d.SourceImage, d.SourceDisk} {
		if source != "" {
			given++
		}
	}
	if given > 1 {
		return "", invalid("Invalid value for field 'resource': ''. A disk can have only one source.")
	}
	if named := cmp.Or(d.SourceSnapshot, d.SourceImage); named != "" {
		below, _ := c.below(named)
		s, ok := c.snapshots[below]
		if !ok {
			return "", notFound(cmp.Or(below, named))
		}
		if refusal := c.may(r.email, "compute."+s.kind+".useReadOnly", c.path(below)); refusal != nil {
			return "", refusal
		}
		if !c.settled(s) {
			return "", faultf(http.StatusBadRequest, "resourceNotReady", "The resource '%s' is not ready", c.path(below))
		}
		if refusal := d.atLeast(s.DiskSizeGB, s.kind[:len(s.kind)-1]); refusal != nil {
			return "", refusal
		}
		if id := fmt.Sprint(s.ID); s.kind == "images" {
			d.SourceImage, d.SourceImageID = s.SelfLink, id
		} else {
			d.SourceSnapshot, d.SourceSnapshotID = s.SelfLink, id
		}
		return below, nil
	}
	if d.SourceDisk == "" {
		if d.SizeGB == 0 {
			d.SizeGB = 500 // as the API does
		}
		return "", nil
	}
	below, _ := c.below(d.SourceDisk)
	source, ok := c.disks[below]
	if !ok {
		return "", notFound(cmp.Or(below, d.SourceDisk))
	}
	if refusal := c.may(r.email, "compute.disks.useReadOnly", c.path(below)); refusal != nil {
		return "", refusal
	}
	d.Type = cmp.Or(d.Type, source.Type)
	if source.in != d.in || source.typeName() != d.typeName() {
		return "", invalid("Invalid value for field 'resource.sourceDisk': '%s'. A clone must have the location and the type of its source.", d.SourceDisk)
	}
	if refusal := d.atLeast(source.SizeGB, "source disk"); refusal != nil {
		return "", refusal
	}
	d.SourceDisk, d.SourceDiskID = source.SelfLink, fmt.Sprint(source.ID)
	return below, nil
}

// atLeast checks that a disk is at least as large as its origin. A disk without a size gets the origin's.
func (d *Disk) atLeast(size int64, what string) *fault {
	if d.SizeGB == 0 {
		d.SizeGB = size
	}
	if d.SizeGB < size {
		return invalid("Invalid value for field 'resource.sizeGb': '%d'. Requested disk size cannot be smaller than the %s size (%d GB)", d.SizeGB, what, size)
	}
	return nil
}

func (c *Cloud) checkType(d *Disk) *fault {
	name := path.Base(cmp.Or(d.Type, "pd-standard"))
	of, ok := diskTypes[name]
	d.Type = c.url(d.in.path() + "/diskTypes/" + name)
	least := of.min
	if d.in.scope == "regions" {
		least, ok = of.regionalMin, ok && of.regionalMin > 0
	}
	switch {
	case !ok:
		return invalid("Invalid value for field 'resource.type': '%s'. The disk type does not exist in this location.", d.Type)
	case d.SizeGB < least:
		return invalid("Invalid value for field 'resource.sizeGb': '%d'. Disk size cannot be smaller than %d GB.", d.SizeGB, least)
	case d.SizeGB > of.max:
		return invalid("Invalid value for field 'resource.sizeGb': '%d'. Disk size cannot be larger than %d GB.", d.SizeGB, of.max)
	case !of.modifiable && (d.IOPS != 0 || d.Throughput != 0):
		return invalid("Invalid value for field 'resource.provisionedIops': '%d'. IOPS cannot be set for disk type %s.", d.IOPS, name)
	}
	if of.modifiable {
		d.IOPS, d.Throughput = cmp.Or(d.IOPS, 3000), cmp.Or(d.Throughput, 140)
	}
	return nil
}

func (c *Cloud) checkReplicas(d *Disk) *fault {
	if d.in.scope == "zones" {
		if len(d.ReplicaZones) > 0 {
			return invalid("Invalid value for field 'resource.replicaZones': ''. Replica zones cannot be set for zonal disks.")
		}
		return nil
	}
	if len(d.ReplicaZones) != 2 || path.Base(d.ReplicaZones[0]) == path.Base(d.ReplicaZones[1]) {
		return invalid("Invalid value for field 'resource.replicaZones': ''. Exactly two replica zones must be provided.")
	}
	for i, replica := range d.ReplicaZones {
		if _, refusal := c.zone(path.Base(replica)); refusal != nil {
			return refusal
		}
		d.ReplicaZones[i] = c.url("zones/" + path.Base(replica))
	}
	return nil
}

// checkQuota checks that the project may have more gigabytes of disks.
func (c *Cloud) checkQuota(more int64) *fault {
	for _, d := range c.disks {
		more += d.SizeGB
	}
	if more <= c.options.MaxGB {
		return nil
	}
	return faultf(http.StatusForbidden, "quotaExceeded", "Quota 'DISKS_TOTAL_GB' exceeded.  Limit: %d.0 in region %s.", c.options.MaxGB, c.options.Region)
}

func fingerprint(labels map[string]string) string {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintln(hash, key, labels[key])
	}
	return base64.URLEncoding.EncodeToString(hash.Sum(nil)[:8])
}

func (c *Cloud) deleteDisk(r *request) (any, *fault) {
	d, refusal := c.findDisk(r)
	if refusal != nil {
		return nil, refusal
	}
	if len(d.Users) > 0 {
		return nil, inUse(c.path(d.path()), d.Users[0])
	}
	delete(c.disks, d.path())
	delete(c.bindings, c.fullName(d.in.path()+"/disks", d.ID))
	err := c.content(func(disks Disks) error { return disks.Delete(d.path()) })
	return c.begin(r, d.in.path(), "delete", d.path(), d.ID, err), nil
}

func inUse(resource, user string) *fault {
	return faultf(http.StatusBadRequest, "resourceInUseByAnotherResource", "The disk resource '%s' is already being used by '%s'", resource, strings.TrimPrefix(user, base))
}

func (c *Cloud) resizeDisk(r *request) (any, *fault) {
	d, refusal := c.findDisk(r)
	if refusal != nil {
		return nil, refusal
	}
	var said struct {
		SizeGB int64 `json:"sizeGb,string"`
	}
	if refusal := r.decode(&said); refusal != nil {
		return nil, refusal
	}
	if said.SizeGB <= d.SizeGB {
		return nil, invalid("Invalid value for field 'sizeGb': '%d'. New disk size '%d' GiB must be larger than existing size '%d' GiB.", said.SizeGB, said.SizeGB, d.SizeGB)
	}
	larger := *d
	larger.SizeGB = said.SizeGB
	if refusal := cmp.Or(c.checkType(&larger), c.checkQuota(said.SizeGB-d.SizeGB)); refusal != nil {
		return nil, refusal
	}
	err := c.content(func(disks Disks) error { return disks.Resize(d.path(), said.SizeGB<<30) })
	if err == nil {
		d.SizeGB = said.SizeGB
	}
	return c.begin(r, d.in.path(), "resizeDisk", d.path(), d.ID, err), nil
}

func (c *Cloud) labelDisk(r *request) (any, *fault) {
	d, refusal := c.findDisk(r)
	if refusal != nil {
		return nil, refusal
	}
	var said struct {
		Labels      map[string]string `json:"labels"`
		Fingerprint string            `json:"labelFingerprint"`
	}
	if refusal := r.decode(&said); refusal != nil {
		return nil, refusal
	}
	if said.Fingerprint != d.LabelFingerprint {
		return nil, faultf(http.StatusPreconditionFailed, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")
	}
	if refusal := checkLabels(said.Labels); refusal != nil {
		return nil, refusal
	}
	d.Labels, d.LabelFingerprint = said.Labels, fingerprint(said.Labels)
	return c.begin(r, d.in.path(), "setLabels", d.path(), d.ID, nil), nil
}

// updateDisk changes the fields that the parameter paths names.
func (c *Cloud) updateDisk(r *request) (any, *fault) {
	d, refusal := c.findDisk(r)
	if refusal != nil {
		return nil, refusal
	}
	var said Disk
	if refusal := r.decode(&said); refusal != nil {
		return nil, refusal
	}
	if !diskTypes[d.typeName()].modifiable {
		return nil, invalid("Invalid value for field 'resource.type': '%s'. Disks of this type cannot be updated.", d.typeName())
	}
	for _, field := range r.URL.Query()["paths"] {
		switch field {
		case "provisionedIops":
			d.IOPS = said.IOPS
		case "provisionedThroughput":
			d.Throughput = said.Throughput
		default:
			return nil, invalid("Invalid value for field 'paths': '%s'. The field cannot be updated.", field)
		}
	}
	return c.begin(r, d.in.path(), "update", d.path(), d.ID, nil), nil
}

// diskTypeResource is a type of disks in a zone.
type diskTypeResource struct {
	Kind          string `json:"kind"`
	Name          string `json:"name"`
	Zone          string `json:"zone"`
	ValidDiskSize string `json:"validDiskSize"`
	SelfLink      string `json:"selfLink"`
}

func (c *Cloud) listDiskTypes(r *request) (any, *fault) {
	type inZone struct {
		DiskTypes []diskTypeResource `json:"diskTypes,omitempty"`
	}
	items := map[string]inZone{}
	for _, zone := range c.Zones() {
		var all []diskTypeResource
		for _, name := range slices.Sorted(maps.Keys(diskTypes)) {
			of := diskTypes[name]
			all = append(all, diskTypeResource{"compute#diskType", name, c.url("zones/" + zone), fmt.Sprintf("%dGB-%dGB", of.min, of.max), c.url("zones/" + zone + "/diskTypes/" + name)})
		}
		matching, refusal := filter(all, r.URL.Query().Get("filter"))
		if refusal != nil {
			return nil, refusal
		}
		items["zones/"+zone] = inZone{matching}
	}
	return map[string]any{"kind": "compute#diskTypeAggregatedList", "items": items}, nil
}
