package ec2

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// Subnet is a subnet of a VPC, in a zone.
type Subnet struct {
	ID, VPC, Zone string
	// Prefix is its range of addresses.
	Prefix netip.Prefix
	Tags   Tags
}

// SecurityGroup is a security group of a VPC.
type SecurityGroup struct {
	ID, VPC, Name, Description string
	Ingress                    []Ingress
	Tags                       Tags
}

// Ingress is a rule that admits connections.
type Ingress struct {
	Protocol         string
	FromPort, ToPort int32
	// Group is a security group whose members may connect.
	Group string
}

// netInterface is the network interface of a mount target.
type netInterface struct {
	subnet, address string
	groups          []string
	gone            time.Time // zero until it is removed
}

// network is the subnets, security groups and network interfaces of a service.
type network struct {
	subnets    map[string]*Subnet
	groups     map[string]*SecurityGroup
	interfaces map[string]*netInterface
	addresses  int
}

// AddSubnet adds a subnet. Its ID is chosen if it is empty. The zone must be known.
func (s *Service) AddSubnet(subnet Subnet) (Subnet, error) {
	s.lock()
	defer s.mu.Unlock()
	if subnet.ID == "" {
		subnet.ID = gateway.NewID("subnet-")
	}
	if !s.hasZone(subnet.Zone) {
		return Subnet{}, fmt.Errorf("subnet %s is in zone %q, want one of %v", subnet.ID, subnet.Zone, s.options.Zones)
	}
	if !subnet.Prefix.IsValid() {
		subnet.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(len(s.network.subnets)), 0}), 24)
	}
	if subnet.Tags = maps.Clone(subnet.Tags); subnet.Tags == nil {
		subnet.Tags = Tags{}
	}
	s.network.subnets[subnet.ID] = &subnet
	return subnet, nil
}

// AddSecurityGroup adds a security group. Its ID is chosen if it is empty.
func (s *Service) AddSecurityGroup(group SecurityGroup) SecurityGroup {
	s.lock()
	defer s.mu.Unlock()
	if group.ID == "" {
		group.ID = gateway.NewID("sg-")
	}
	if group.Tags = maps.Clone(group.Tags); group.Tags == nil {
		group.Tags = Tags{}
	}
	s.network.groups[group.ID] = &group
	return group
}

// SecurityGroups returns all security groups, sorted by ID.
func (s *Service) SecurityGroups() []SecurityGroup {
	s.lock()
	defer s.mu.Unlock()
	var all []SecurityGroup
	for _, id := range slices.Sorted(maps.Keys(s.network.groups)) {
		group := *s.network.groups[id]
		group.Tags, group.Ingress = maps.Clone(group.Tags), slices.Clone(group.Ingress)
		all = append(all, group)
	}
	return all
}

// Place returns where a subnet is, for services that put network interfaces into it.
func (s *Service) Place(subnet string) (vpc, zone, zoneID string, found bool) {
	s.lock()
	defer s.mu.Unlock()
	at, found := s.network.subnets[subnet]
	if !found {
		return "", "", "", false
	}
	return at.VPC, at.Zone, s.zoneID(at.Zone), true
}

// AddInterface adds a network interface to a subnet, and returns its address. A security group that does not exist, or
// belongs to another VPC, is an error.
func (s *Service) AddInterface(id, subnet string, groups []string) (address string, err error) {
	s.lock()
	defer s.mu.Unlock()
	at, found := s.network.subnets[subnet]
	if !found {
		return "", fmt.Errorf("subnet %s does not exist", subnet)
	}
	for _, group := range groups {
		if of := s.network.groups[group]; of == nil || of.VPC != at.VPC {
			return "", fmt.Errorf("security group %s does not exist in VPC %s", group, at.VPC)
		}
	}
	s.network.addresses++
	next := at.Prefix.Addr()
	for range s.network.addresses + 3 { // AWS reserves the first four
		next = next.Next()
	}
	s.network.interfaces[id] = &netInterface{subnet: subnet, address: next.String(), groups: groups}
	return next.String(), nil
}

// RemoveInterface removes a network interface. Its security groups stay in use until the removal has settled.
func (s *Service) RemoveInterface(id string) {
	s.lock()
	defer s.mu.Unlock()
	if at := s.network.interfaces[id]; at != nil {
		at.gone = time.Now().Add(s.options.Settle)
	}
}

// users returns the users of a security group. The caller holds the lock.
func (s *Service) users(group string) (found []string) {
	for id, i := range s.network.interfaces {
		if slices.Contains(i.groups, group) && !settled(i.gone) {
			found = append(found, id)
		}
	}
	for id, i := range s.instances {
		if slices.Contains(i.SecurityGroups, group) {
			found = append(found, id)
		}
	}
	for id, other := range s.network.groups {
		if id != group && slices.ContainsFunc(other.Ingress, func(rule Ingress) bool { return rule.Group == group }) {
			found = append(found, id)
		}
	}
	return found
}

type subnetItem struct {
	ID     string    `xml:"subnetId"`
	VPC    string    `xml:"vpcId"`
	State  string    `xml:"state"`
	Range  string    `xml:"cidrBlock"`
	Zone   string    `xml:"availabilityZone"`
	ZoneID string    `xml:"availabilityZoneId"`
	Tags   []tagItem `xml:"tagSet>item"`
}

type describeSubnetsResult struct {
	reply
	Items     []subnetItem `xml:"subnetSet>item"`
	NextToken string       `xml:"nextToken,omitempty"`
}

func (s *Service) describeSubnets(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "subnet-id", "vpc-id", "availability-zone", "tag-key")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	ids, err := selectIDs(r, "SubnetId", "subnet-", "InvalidSubnetID.NotFound", "subnet ID", s.network.subnets)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		at := s.network.subnets[id]
		return !wanted.match(map[string][]string{"subnet-id": {id}, "vpc-id": {at.VPC}, "availability-zone": {at.Zone}}, at.Tags)
	})
	if err := dryRun(r); err != nil {
		return nil, err
	}
	page, next, err := s.paginate(r, ids, 5)
	if err != nil {
		return nil, err
	}
	result := &describeSubnetsResult{NextToken: next}
	for _, id := range page {
		at := s.network.subnets[id]
		result.Items = append(result.Items, subnetItem{ID: id, VPC: at.VPC, State: "available", Range: at.Prefix.String(), Zone: at.Zone, ZoneID: s.zoneID(at.Zone), Tags: at.Tags.items()})
	}
	return result, nil
}

type groupItem struct {
	OwnerID     string           `xml:"ownerId"`
	ID          string           `xml:"groupId"`
	Name        string           `xml:"groupName"`
	Description string           `xml:"groupDescription"`
	VPC         string           `xml:"vpcId"`
	Ingress     []permissionItem `xml:"ipPermissions>item"`
	Tags        []tagItem        `xml:"tagSet>item"`
}

type permissionItem struct {
	Protocol string      `xml:"ipProtocol"`
	FromPort int32       `xml:"fromPort"`
	ToPort   int32       `xml:"toPort"`
	Groups   []groupPair `xml:"groups>item"`
}

type groupPair struct {
	UserID string `xml:"userId"`
	ID     string `xml:"groupId"`
}

type describeSecurityGroupsResult struct {
	reply
	Items     []groupItem `xml:"securityGroupInfo>item"`
	NextToken string      `xml:"nextToken,omitempty"`
}

func (s *Service) describeSecurityGroups(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "group-id", "group-name", "vpc-id", "tag-key")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	ids, err := selectIDs(r, "GroupId", "sg-", "InvalidGroup.NotFound", "security group", s.network.groups)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		group := s.network.groups[id]
		return !wanted.match(map[string][]string{"group-id": {id}, "group-name": {group.Name}, "vpc-id": {group.VPC}}, group.Tags)
	})
	if err := dryRun(r); err != nil {
		return nil, err
	}
	page, next, err := s.paginate(r, ids, 5)
	if err != nil {
		return nil, err
	}
	result := &describeSecurityGroupsResult{NextToken: next}
	for _, id := range page {
		group := s.network.groups[id]
		item := groupItem{OwnerID: s.options.Account, ID: id, Name: group.Name, Description: group.Description, VPC: group.VPC, Tags: group.Tags.items()}
		for _, rule := range group.Ingress {
			item.Ingress = append(item.Ingress, permissionItem{rule.Protocol, rule.FromPort, rule.ToPort, []groupPair{{s.options.Account, rule.Group}}})
		}
		result.Items = append(result.Items, item)
	}
	return result, nil
}

type createSecurityGroupResult struct {
	reply
	Return bool      `xml:"return"`
	ID     string    `xml:"groupId"`
	Tags   []tagItem `xml:"tagSet>item"`
}

func (s *Service) createSecurityGroup(r *gateway.Request) (any, *gateway.Error) {
	group := &SecurityGroup{ID: gateway.NewID("sg-"), VPC: r.Parameters["VpcId"], Name: r.Parameters["GroupName"], Description: r.Parameters["GroupDescription"]}
	tags, err := tagsFor(r, "security-group")
	if err != nil {
		return nil, err
	}
	group.Tags = tags
	for name, value := range map[string]string{"GroupName": group.Name, "GroupDescription": group.Description} {
		switch {
		case value == "":
			return nil, gateway.Errorf("MissingParameter", "The request must contain the parameter %s", name)
		case len(value) > 255:
			return nil, gateway.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. Character sets beyond ASCII are not supported, and at most 255 characters.", value, name)
		}
	}
	if strings.HasPrefix(group.Name, "sg-") {
		return nil, gateway.Errorf("InvalidParameterValue", "Invalid value '%s' for groupName. The name must not start with 'sg-'", group.Name)
	}
	s.lock()
	defer s.mu.Unlock()
	known := false
	for _, subnet := range s.network.subnets {
		known = known || subnet.VPC == group.VPC
	}
	if !known {
		return nil, gateway.Errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", group.VPC)
	}
	for _, other := range s.network.groups {
		if other.VPC == group.VPC && other.Name == group.Name {
			return nil, gateway.Errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", group.Name, group.VPC)
		}
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	s.network.groups[group.ID] = group
	return &createSecurityGroupResult{Return: true, ID: group.ID, Tags: group.Tags.items()}, nil
}

func (s *Service) deleteSecurityGroup(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	id := r.Parameters["GroupId"]
	if s.network.groups[id] == nil {
		return nil, gateway.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
	}
	if len(s.users(id)) > 0 {
		return nil, gateway.Errorf("DependencyViolation", "resource %s has a dependent object", id)
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	delete(s.network.groups, id)
	return &done{Return: true}, nil
}

// authorizeIngress adds rules for members of security groups, which is all that is needed here.
func (s *Service) authorizeIngress(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	group := s.network.groups[r.Parameters["GroupId"]]
	if group == nil {
		return nil, gateway.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", r.Parameters["GroupId"])
	}
	var rules []Ingress
	for i := 1; ; i++ {
		at := fmt.Sprintf("IpPermissions.%d.", i)
		protocol, found := r.Parameters[at+"IpProtocol"]
		if !found {
			break
		}
		from, err := number(r, at+"FromPort")
		if err != nil {
			return nil, err
		}
		to, err := number(r, at+"ToPort")
		if err != nil {
			return nil, err
		}
		for j := 1; ; j++ {
			source, found := r.Parameters[fmt.Sprintf("%sGroups.%d.GroupId", at, j)]
			if !found {
				break
			}
			if s.network.groups[source] == nil {
				return nil, gateway.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", source)
			}
			rules = append(rules, Ingress{protocol, from, to, source})
		}
	}
	if len(rules) == 0 {
		return nil, gateway.Errorf("MissingParameter", "The request must contain the parameter ipPermissions with groups")
	}
	for _, rule := range rules {
		if slices.Contains(group.Ingress, rule) {
			return nil, gateway.Errorf("InvalidPermission.Duplicate", "the specified rule \"peer: %s, %s, from port: %d, to port: %d, ALLOW\" already exists", rule.Group, rule.Protocol, rule.FromPort, rule.ToPort)
		}
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	group.Ingress = append(group.Ingress, rules...)
	return &done{Return: true}, nil
}
