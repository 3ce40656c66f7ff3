package ec2

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// InstanceType is a type of instances.
type InstanceType struct {
	Name string
	// Attachments is how many volumes an instance can have, its root volume and its network interfaces included.
	Attachments int
}

// defaultTypes are a few common types.
var defaultTypes = []InstanceType{{"m5.large", 28}, {"m6i.large", 28}, {"t3.medium", 28}}

// Instance is a virtual machine. It always runs.
type Instance struct {
	ID, Type, Zone string
	// PrivateDNSName and PrivateIP are optional.
	PrivateDNSName, PrivateIP string
	// MAC is the address of its network interface.
	MAC string
	// Subnet and SecurityGroups are optional.
	Subnet         string
	SecurityGroups []string
	Tags           Tags

	launched time.Time
}

// rootDevice is the device of the root volume, which is no volume of the service.
const rootDevice = "/dev/xvda"

// AddInstance adds an instance. Its ID is chosen if it is empty. The type must be known, as must the zone.
func (s *Service) AddInstance(i Instance) (Instance, error) {
	s.lock()
	defer s.mu.Unlock()
	if i.ID == "" {
		i.ID = gateway.NewID("i-")
	}
	if i.MAC == "" {
		i.MAC = fmt.Sprintf("0e:%s:%s:%s:%s:%s", i.ID[2:4], i.ID[4:6], i.ID[6:8], i.ID[8:10], i.ID[10:12])
	}
	if i.Tags = maps.Clone(i.Tags); i.Tags == nil {
		i.Tags = Tags{}
	}
	if _, ok := s.types[i.Type]; !ok {
		return Instance{}, fmt.Errorf("instance %s has type %q, want one of %q", i.ID, i.Type, slices.Sorted(maps.Keys(s.types)))
	}
	if !s.hasZone(i.Zone) {
		return Instance{}, fmt.Errorf("instance %s is in zone %q, want one of %v", i.ID, i.Zone, s.options.Zones)
	}
	for _, group := range i.SecurityGroups {
		if s.network.groups[group] == nil {
			return Instance{}, fmt.Errorf("instance %s has security group %s, want one that was added", i.ID, group)
		}
	}
	i.launched = time.Now()
	s.instances[i.ID] = &i
	return i, nil
}

// AddInstanceType makes a type known, or changes it.
func (s *Service) AddInstanceType(t InstanceType) {
	s.lock()
	defer s.mu.Unlock()
	s.types[t.Name] = t
}

func (s *Service) hasZone(name string) bool {
	return slices.ContainsFunc(s.options.Zones, func(z Zone) bool { return z.Name == name })
}

func noInstance(id string) *gateway.Error {
	return gateway.Errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}

type reservation struct {
	ID        string         `xml:"reservationId"`
	OwnerID   string         `xml:"ownerId"`
	Instances []instanceItem `xml:"instancesSet>item"`
}

type instanceItem struct {
	ID             string        `xml:"instanceId"`
	Type           string        `xml:"instanceType"`
	LaunchTime     string        `xml:"launchTime"`
	Zone           string        `xml:"placement>availabilityZone"`
	Tenancy        string        `xml:"placement>tenancy"`
	StateCode      int           `xml:"instanceState>code"`
	State          string        `xml:"instanceState>name"`
	PrivateDNSName string        `xml:"privateDnsName,omitempty"`
	PrivateIP      string        `xml:"privateIpAddress,omitempty"`
	Subnet         string        `xml:"subnetId,omitempty"`
	VPC            string        `xml:"vpcId,omitempty"`
	Groups         []groupItem   `xml:"groupSet>item"`
	RootDevice     string        `xml:"rootDeviceName"`
	RootDeviceType string        `xml:"rootDeviceType"`
	Devices        []deviceItem  `xml:"blockDeviceMapping>item"`
	Interfaces     []networkItem `xml:"networkInterfaceSet>item"`
	Tags           []tagItem     `xml:"tagSet>item"`
}

type deviceItem struct {
	Name                string `xml:"deviceName"`
	VolumeID            string `xml:"ebs>volumeId"`
	Status              string `xml:"ebs>status"`
	AttachTime          string `xml:"ebs>attachTime"`
	DeleteOnTermination bool   `xml:"ebs>deleteOnTermination"`
}

type networkItem struct {
	ID     string `xml:"networkInterfaceId"`
	Status string `xml:"status"`
	MAC    string `xml:"macAddress"`
}

type describeInstancesResult struct {
	reply
	Reservations []reservation `xml:"reservationSet>item"`
	NextToken    string        `xml:"nextToken,omitempty"`
}

func (s *Service) describeInstances(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "instance-id", "instance-type", "instance-state-name", "availability-zone", "private-dns-name", "private-ip-address", "tag-key")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	ids, err := selectIDs(r, "InstanceId", "i-", "InvalidInstanceID.NotFound", "instance ID", s.instances)
	if err != nil {
		return nil, err
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		i := s.instances[id]
		return !wanted.match(map[string][]string{"instance-id": {id}, "instance-type": {i.Type}, "instance-state-name": {"running"},
			"availability-zone": {i.Zone}, "private-dns-name": {i.PrivateDNSName}, "private-ip-address": {i.PrivateIP}}, i.Tags)
	})
	page, next, err := s.paginate(r, ids, 5)
	if err != nil {
		return nil, err
	}
	result := &describeInstancesResult{NextToken: next}
	for _, id := range page {
		result.Reservations = append(result.Reservations, reservation{ID: "r-" + strings.TrimPrefix(id, "i-"), OwnerID: s.options.Account, Instances: []instanceItem{s.instanceItem(s.instances[id])}})
	}
	return result, nil
}

// instanceItem describes an instance. The caller holds the lock.
func (s *Service) instanceItem(i *Instance) instanceItem {
	item := instanceItem{
		ID: i.ID, Type: i.Type, LaunchTime: timestamp(i.launched), Zone: i.Zone, Tenancy: "default", StateCode: 16, State: "running",
		PrivateDNSName: i.PrivateDNSName, PrivateIP: i.PrivateIP, RootDevice: rootDevice, RootDeviceType: "ebs", Tags: i.Tags.items(),
		Devices:    []deviceItem{{Name: rootDevice, VolumeID: "vol-" + strings.TrimPrefix(i.ID, "i-"), Status: "attached", AttachTime: timestamp(i.launched), DeleteOnTermination: true}},
		Interfaces: []networkItem{{ID: "eni-" + strings.TrimPrefix(i.ID, "i-"), Status: "in-use", MAC: i.MAC}},
	}
	if subnet := s.network.subnets[i.Subnet]; subnet != nil {
		item.Subnet, item.VPC = subnet.ID, subnet.VPC
	}
	for _, id := range i.SecurityGroups {
		item.Groups = append(item.Groups, groupItem{ID: id, Name: s.network.groups[id].Name})
	}
	for _, id := range slices.Sorted(maps.Keys(s.volumes)) {
		for _, a := range s.volumes[id].Attachments {
			if a.InstanceID == i.ID {
				item.Devices = append(item.Devices, deviceItem{Name: a.Device, VolumeID: id, Status: s.attachmentState(a), AttachTime: timestamp(a.Time)})
			}
		}
	}
	return item
}

type instanceTypeItem struct {
	Name         string `xml:"instanceType"`
	Optimized    string `xml:"ebsInfo>ebsOptimizedSupport"`
	Encryption   string `xml:"ebsInfo>encryptionSupport"`
	NVMe         string `xml:"ebsInfo>nvmeSupport"`
	Attachments  int    `xml:"ebsInfo>maximumEbsAttachments"`
	LimitType    string `xml:"ebsInfo>attachmentLimitType"`
	MaximumCards int    `xml:"ebsInfo>maximumEbsCards"`
}

type describeInstanceTypesResult struct {
	reply
	Items     []instanceTypeItem `xml:"instanceTypeSet>item"`
	NextToken string             `xml:"nextToken,omitempty"`
}

func (s *Service) describeInstanceTypes(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "instance-type")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	names := list(r, "InstanceType")
	for _, name := range names {
		if _, ok := s.types[name]; !ok {
			return nil, gateway.Errorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(s.types))
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !wanted.match(map[string][]string{"instance-type": {name}}, nil) })
	page, next, err := s.paginate(r, names, 5)
	if err != nil {
		return nil, err
	}
	result := &describeInstanceTypesResult{NextToken: next}
	for _, name := range page {
		result.Items = append(result.Items, instanceTypeItem{Name: name, Optimized: "default", Encryption: "supported", NVMe: "required",
			Attachments: s.types[name].Attachments, LimitType: "shared", MaximumCards: 1})
	}
	return result, nil
}

type zoneItem struct {
	Name   string `xml:"zoneName"`
	ID     string `xml:"zoneId"`
	State  string `xml:"zoneState"`
	Region string `xml:"regionName"`
	Group  string `xml:"groupName"`
	Border string `xml:"networkBorderGroup"`
	OptIn  string `xml:"optInStatus"`
	Type   string `xml:"zoneType"`
}

type describeZonesResult struct {
	reply
	Items []zoneItem `xml:"availabilityZoneInfo>item"`
}

func (s *Service) describeZones(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "zone-name", "zone-id", "state", "region-name", "zone-type", "opt-in-status")
	if err != nil {
		return nil, err
	}
	names, ids := list(r, "ZoneName"), list(r, "ZoneId")
	for _, name := range names {
		if !s.hasZone(name) {
			return nil, gateway.Errorf("InvalidParameterValue", "Invalid availability zone: [%s]", name)
		}
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	result := &describeZonesResult{}
	for _, z := range s.options.Zones {
		item := zoneItem{z.Name, z.ID, "available", s.options.Region, s.options.Region, s.options.Region, "opt-in-not-required", "availability-zone"}
		if z.Local {
			group := z.Name[:len(z.Name)-1]
			item.Group, item.Border, item.OptIn, item.Type = group, group, "opted-in", "local-zone"
		}
		attributes := map[string][]string{"zone-name": {z.Name}, "zone-id": {z.ID}, "state": {item.State}, "region-name": {item.Region}, "zone-type": {item.Type}, "opt-in-status": {item.OptIn}}
		named := (len(names) == 0 || slices.Contains(names, z.Name)) && (len(ids) == 0 || slices.Contains(ids, z.ID))
		if named && wanted.match(attributes, nil) {
			result.Items = append(result.Items, item)
		}
	}
	return result, nil
}
