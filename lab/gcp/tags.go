package gcp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// tagValue is a value of a tag.
type tagValue struct {
	Name           string `json:"name"`   // such as "tagValues/281475000000002"
	Parent         string `json:"parent"` // the key, such as "tagKeys/281475000000001"
	ShortName      string `json:"shortName"`
	NamespacedName string `json:"namespacedName"` // PARENT/KEY/VALUE, where the parent is a project or an organization
}

// AddTag makes a tag that resources can get, with the name PARENT/KEY/VALUE.
func (c *Cloud) AddTag(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := 281475000000000 + c.nextID()%1000000
	c.tagValues[name] = tagValue{fmt.Sprintf("tagValues/%d", id), fmt.Sprintf("tagKeys/%d", id+1), name[strings.LastIndex(name, "/")+1:], name}
}

// Tags returns the names of the tags of a disk, snapshot or image.
func (c *Cloud) Tags(collection string, id uint64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bindings[c.fullName(collection, id)])
}

// fullName returns the Resource Manager's name for a resource in a collection, such as "global/snapshots".
func (c *Cloud) fullName(collection string, id uint64) string {
	return fmt.Sprintf("//compute.googleapis.com/projects/%s/%s/%d", c.options.Project, collection, id)
}

// tagNamed returns the name, with its parents, of a tag value such as "tagValues/1".
func (c *Cloud) tagNamed(value string) string {
	for name, v := range c.tagValues {
		if v.Name == value {
			return name
		}
	}
	return ""
}

// tagNew checks that a new disk may have tags, given as values by key.
func (c *Cloud) tagNew(r *request, tags map[string]string) *fault {
	for key, value := range tags {
		if known, ok := c.tagValues[c.tagNamed(value)]; !ok || known.Parent != key {
			return invalid("Invalid value for field 'resource.params.resourceManagerTags': '%s=%s'. Resource manager tag is invalid.", key, value)
		}
		if refusal := c.may(r.email, "compute.disks.createTagBinding", value); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (c *Cloud) getTagValue(r *request) (any, *fault) {
	name := r.URL.Query().Get("name")
	if value, ok := c.tagValues[name]; ok {
		return value, nil
	}
	return nil, faultf(http.StatusForbidden, "forbidden", "Permission denied on resource '%s' (or it may not exist).", name)
}

// resourceKind returns "disks", "snapshots" or "images" for the full name of a resource of the project.
func (c *Cloud) resourceKind(fullName string) (string, *fault) {
	below, found := strings.CutPrefix(fullName, "//compute.googleapis.com/projects/"+c.options.Project+"/")
	parts := strings.Split(below, "/")
	if !found || len(parts) < 3 {
		return "", faultf(http.StatusBadRequest, "badRequest", "Request contains an invalid argument: %s", fullName)
	}
	return parts[len(parts)-2], nil
}

func (c *Cloud) listEffectiveTags(r *request) (any, *fault) {
	parent := r.URL.Query().Get("parent")
	kind, refusal := c.resourceKind(parent)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := c.may(r.email, "compute."+kind+".listEffectiveTags", parent); refusal != nil {
		return nil, refusal
	}
	type effectiveTag struct {
		TagValue           string `json:"tagValue"`
		NamespacedTagValue string `json:"namespacedTagValue"`
		TagKey             string `json:"tagKey"`
		NamespacedTagKey   string `json:"namespacedTagKey"`
	}
	var all []effectiveTag
	for _, name := range c.bindings[parent] {
		v := c.tagValues[name]
		all = append(all, effectiveTag{v.Name, name, v.Parent, name[:strings.LastIndex(name, "/")]})
	}
	return map[string]any{"effectiveTags": all}, nil
}

func (c *Cloud) bindTag(r *request) (any, *fault) {
	var said struct {
		Parent string `json:"parent"`
		Name   string `json:"tagValueNamespacedName"`
	}
	if refusal := r.decode(&said); refusal != nil {
		return nil, refusal
	}
	kind, refusal := c.resourceKind(said.Parent)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := c.may(r.email, "compute."+kind+".createTagBinding", said.Parent); refusal != nil {
		return nil, refusal
	}
	value, ok := c.tagValues[said.Name]
	if !ok {
		return nil, faultf(http.StatusForbidden, "forbidden", "Permission denied on resource '%s' (or it may not exist).", said.Name)
	}
	if slices.Contains(c.bindings[said.Parent], said.Name) {
		return nil, faultf(http.StatusConflict, "alreadyExists", "Requested entity already exists")
	}
	c.bindings[said.Parent] = append(c.bindings[said.Parent], said.Name)
	return map[string]any{
		"name": fmt.Sprintf("operations/rctb.%d", c.nextID()), "done": true,
		"response": map[string]string{
			"@type": "type.googleapis.com/google.cloud.resourcemanager.v3.TagBinding",
			"name":  "tagBindings/" + strings.TrimPrefix(said.Parent, "//") + "/" + value.Name, "parent": said.Parent, "tagValue": value.Name,
		},
	}, nil
}
