package fbc

import (
	"encoding/json"

	"github.com/operator-framework/operator-registry/alpha/property"
)

// API is a version of a kind that a bundle provides.
type API = property.GVK

// APIs returns the versions of APIs that a bundle provides: all versions in its CustomResourceDefinitions, served or not.
func (b *Bundle) APIs() (all []API) {
	for _, p := range b.Properties {
		var api API
		if p.Type == property.TypeGVK && json.Unmarshal(p.Value, &api) == nil {
			all = append(all, api)
		}
	}
	return all
}

// RemovedAPIs returns the versions that one bundle provides and the next one does not, of kinds that both provide. OLM keeps a
// CustomResourceDefinition that the next bundle lacks altogether. Either bundle may be nil, if a catalog does not have it.
func RemovedAPIs(before, after *Bundle) (removed []API) {
	if before == nil || after == nil {
		return nil
	}
	now, kinds := map[API]bool{}, map[API]bool{} // kinds have no versions
	for _, api := range after.APIs() {
		now[api], kinds[API{Group: api.Group, Kind: api.Kind}] = true, true
	}
	for _, api := range before.APIs() {
		if kinds[API{Group: api.Group, Kind: api.Kind}] && !now[api] {
			removed = append(removed, api)
		}
	}
	return removed
}
