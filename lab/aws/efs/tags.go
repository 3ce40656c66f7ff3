package efs

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

// Limits of tags, from the API reference.
const (
	maxTags, maxTagKey, maxTagValue = 50, 128, 256
	keyPattern                      = `^(?![aA]{1}[wW]{1}[sS]{1}:)([\p{L}\p{Z}\p{N}_.:/=+\-@]+)$`
	valuePattern                    = `^([\p{L}\p{Z}\p{N}_.:/=+\-@]*)$`
)

var allowed = regexp.MustCompile(valuePattern)

type tag struct{ Key, Value string }

// tags returns tags as the API lists them.
func tags(of map[string]string) []tag {
	list := []tag{}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		list = append(list, tag{key, of[key]})
	}
	return list
}

// readTags checks tags as the API does.
func readTags(list []tag) (map[string]string, *gateway.Error) {
	read := map[string]string{}
	for i, t := range list {
		at := "tags." + strconv.Itoa(i+1) + ".member."
		if err := checkKey(t.Key, at+"key"); err != nil {
			return nil, err
		}
		if !allowed.MatchString(t.Value) || utf8.RuneCountInString(t.Value) > maxTagValue {
			return nil, invalid(t.Value, at+"value", "[Member must have length less than or equal to 256, Member must satisfy regular expression pattern: "+valuePattern+"]")
		}
		if _, twice := read[t.Key]; twice {
			return nil, gateway.Errorf("BadRequest", "The key '%s' is given more than once.", t.Key)
		}
		read[t.Key] = t.Value
	}
	return read, limitTags(read)
}

func limitTags(of map[string]string) *gateway.Error {
	if len(of) > maxTags {
		return gateway.Errorf("BadRequest", "A resource can have at most %d tags.", maxTags)
	}
	return nil
}

func checkKey(key, at string) *gateway.Error {
	if key == "" || utf8.RuneCountInString(key) > maxTagKey || !allowed.MatchString(key) || strings.HasPrefix(strings.ToLower(key), "aws:") {
		return invalid(key, at, "[Member must have length less than or equal to 128, Member must have length greater than or equal to 1, Member must satisfy regular expression pattern: "+keyPattern+"]")
	}
	return nil
}

func invalid(value, at, constraint string) *gateway.Error {
	return gateway.Errorf("ValidationException", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy constraint: %s", value, at, constraint)
}

// tagsOf returns the tags of the file system or access point that a request names. The caller holds the lock.
func (s *Service) tagsOf(r *gateway.Request) (map[string]string, *gateway.Error) {
	id := short(r.Parameters["Id"])
	if fs := s.fileSystem(r, id); fs != nil {
		return fs.Tags, nil
	}
	if ap := s.accessPoint(r, id); ap != nil {
		return ap.Tags, nil
	}
	if strings.HasPrefix(id, "fsap-") {
		return nil, noAccessPoint(id)
	}
	return nil, noFileSystem(id)
}

func (s *Service) tagResource(r *gateway.Request) (any, *gateway.Error) {
	var asked struct{ Tags []tag }
	if err := json.Unmarshal(r.Body, &asked); err != nil {
		return nil, gateway.Errorf("BadRequest", "The request cannot be read: %v", err)
	}
	given, err := readTags(asked.Tags)
	if err != nil {
		return nil, err
	}
	s.lock()
	defer s.mu.Unlock()
	old, err := s.tagsOf(r)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(old)
	maps.Copy(all, given)
	if err := limitTags(all); err != nil {
		return nil, err
	}
	maps.Copy(old, given)
	return struct{}{}, nil
}

func (s *Service) untagResource(r *gateway.Request) (any, *gateway.Error) {
	keys := r.HTTP.URL.Query()["tagKeys"]
	if len(keys) == 0 || len(keys) > maxTags {
		return nil, gateway.Errorf("ValidationException", "1 validation error detected: Value at 'tagKeys' failed to satisfy constraint: Member must have length between 1 and %d", maxTags)
	}
	for _, key := range keys {
		if err := checkKey(key, "tagKeys"); err != nil {
			return nil, err
		}
	}
	s.lock()
	defer s.mu.Unlock()
	old, err := s.tagsOf(r)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		delete(old, key)
	}
	return struct{}{}, nil
}

func (s *Service) listTags(r *gateway.Request) (any, *gateway.Error) {
	s.lock()
	defer s.mu.Unlock()
	of, err := s.tagsOf(r)
	if err != nil {
		return nil, err
	}
	keys, next, err := page(r, slices.Collect(maps.Keys(of)), "MaxResults", "NextToken")
	if err != nil {
		return nil, err
	}
	var result struct {
		Tags      []tag
		NextToken string `json:",omitempty"`
	}
	result.NextToken, result.Tags = next, []tag{}
	for _, key := range keys {
		result.Tags = append(result.Tags, tag{key, of[key]})
	}
	return result, nil
}
