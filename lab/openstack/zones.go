package openstack

// Zone is an availability zone in the list of a service.
type Zone struct {
	Name string
	Down bool // all of its hosts are down
}

// SetZones replaces the availability zones that Nova or Cinder lists, at first shareZone. Nothing else changes:
// instances and volumes stay in shareZone.
func (c *Cloud) SetZones(of Service, zones ...Zone) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.zones[of] = zones
}

// listZones responds for either service. Hosts, which Nova adds, are shown to administrators alone.
func (c *Cloud) listZones(of Service) func(*request) (reply, error) {
	return func(*request) (reply, error) {
		list := []any{}
		for _, z := range c.zones[of] {
			zone := map[string]any{"zoneName": z.Name, "zoneState": map[string]any{"available": !z.Down}}
			if of == Nova {
				zone["hosts"] = nil
			}
			list = append(list, zone)
		}
		return ok(map[string]any{"availabilityZoneInfo": list})
	}
}
