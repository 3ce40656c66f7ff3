package ec2

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// Limits of tags. EC2 allows any characters in them.
const (
	maxTags, maxTagKey, maxTagValue = 50, 128, 256
)

// Tags are the tags of a resource.
type Tags map[string]string

type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func (t Tags) items() []tagItem {
	items := []tagItem{}
	for _, key := range slices.Sorted(maps.Keys(t)) {
		items = append(items, tagItem{key, t[key]})
	}
	return items
}

// readTags reads the tags at a prefix, such as "Tag" for Tag.1.Key.
func readTags(r *gateway.Request, prefix string) (Tags, *gateway.Error) {
	tags := Tags{}
	for i := 1; ; i++ {
		at := prefix + "." + strconv.Itoa(i)
		key, ok := r.Parameters[at+".Key"]
		if !ok {
			return tags, nil
		}
		value := r.Parameters[at+".Value"]
		switch {
		case key == "":
			return nil, gateway.Errorf("MissingParameter", "The tag key must not be empty")
		case utf8.RuneCountInString(key) > maxTagKey:
			return nil, gateway.Errorf("InvalidParameterValue", "Tag key exceeds the maximum length of %d characters", maxTagKey)
		case utf8.RuneCountInString(value) > maxTagValue:
			return nil, gateway.Errorf("InvalidParameterValue", "Tag value exceeds the maximum length of %d characters", maxTagValue)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return nil, gateway.Errorf("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		}
		if _, twice := tags[key]; twice {
			return nil, gateway.Errorf("InvalidParameterValue", "Duplicate tag key '%s' specified.", key)
		}
		tags[key] = value
	}
}

// tagsFor reads the tag specification of a request that creates a resource.
func tagsFor(r *gateway.Request, resource string) (Tags, *gateway.Error) {
	if kind := r.Parameters["TagSpecification.1.ResourceType"]; kind == "" {
		return Tags{}, nil
	} else if kind != resource {
		return nil, gateway.Errorf("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
	}
	tags, err := readTags(r, "TagSpecification.1.Tag")
	if err != nil {
		return nil, err
	}
	return tags, limitTags(tags)
}

func limitTags(tags Tags) *gateway.Error {
	if len(tags) > maxTags {
		return gateway.Errorf("TagLimitExceeded", "The maximum number of tags per resource is %d.", maxTags)
	}
	return nil
}

// tagsOf returns the tags of a resource and its type. The caller holds the lock.
func (s *Service) tagsOf(id string) (Tags, string, *gateway.Error) {
	if v, ok := s.volumes[id]; ok {
		return v.Tags, "volume", nil
	}
	if snapshot, ok := s.snapshots[id]; ok {
		return snapshot.Tags, "snapshot", nil
	}
	if i, ok := s.instances[id]; ok {
		return i.Tags, "instance", nil
	}
	if group, ok := s.network.groups[id]; ok {
		return group.Tags, "security-group", nil
	}
	switch {
	case strings.HasPrefix(id, "vol-"):
		return nil, "", noVolume(id)
	case strings.HasPrefix(id, "snap-"):
		return nil, "", noSnapshot(id)
	case strings.HasPrefix(id, "i-"):
		return nil, "", noInstance(id)
	}
	return nil, "", gateway.Errorf("InvalidID", "The ID '%s' is not valid", id)
}

// retag changes the tags of all resources of a request, or of none.
func (s *Service) retag(r *gateway.Request, change func(old, given Tags)) (any, *gateway.Error) {
	given, err := readTags(r, "Tag")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	changed := map[string]Tags{}
	for _, id := range list(r, "ResourceId") {
		old, _, err := s.tagsOf(id)
		if err != nil {
			return nil, err
		}
		changed[id] = maps.Clone(old)
		change(changed[id], given)
		if err := limitTags(changed[id]); err != nil {
			return nil, err
		}
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	for id, tags := range changed {
		old, _, _ := s.tagsOf(id)
		clear(old)
		maps.Copy(old, tags)
	}
	return &done{Return: true}, nil
}

func (s *Service) createTags(r *gateway.Request) (any, *gateway.Error) {
	return s.retag(r, func(old, given Tags) { maps.Copy(old, given) })
}

// deleteTags deletes tags by key, and if a value is given, only if they have it. Without any key it deletes all tags.
func (s *Service) deleteTags(r *gateway.Request) (any, *gateway.Error) {
	return s.retag(r, func(old, given Tags) {
		if len(given) == 0 {
			clear(old)
		}
		for key, value := range given {
			if value == "" || old[key] == value {
				delete(old, key)
			}
		}
	})
}

type describeTagsResult struct {
	reply
	Items     []describedTag `xml:"tagSet>item"`
	NextToken string         `xml:"nextToken,omitempty"`
}

type describedTag struct {
	ResourceID   string `xml:"resourceId"`
	ResourceType string `xml:"resourceType"`
	tagItem
}

func (s *Service) describeTags(r *gateway.Request) (any, *gateway.Error) {
	wanted, err := readFilters(r, "resource-id", "resource-type", "key", "value", "tag-key")
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	found := map[string]describedTag{}
	ids := slices.Concat(slices.Collect(maps.Keys(s.volumes)), slices.Collect(maps.Keys(s.snapshots)), slices.Collect(maps.Keys(s.instances)))
	for _, id := range ids {
		tags, kind, _ := s.tagsOf(id)
		for key, value := range tags {
			if wanted.match(map[string][]string{"resource-id": {id}, "resource-type": {kind}, "key": {key}, "value": {value}}, Tags{key: value}) {
				found[id+"\x00"+key] = describedTag{id, kind, tagItem{key, value}}
			}
		}
	}
	if err := dryRun(r); err != nil {
		return nil, err
	}
	page, next, err := s.paginate(r, slices.Collect(maps.Keys(found)), 5)
	if err != nil {
		return nil, err
	}
	result := &describeTagsResult{NextToken: next}
	for _, at := range page {
		result.Items = append(result.Items, found[at])
	}
	return result, nil
}
