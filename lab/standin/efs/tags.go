package efs

import (
	"strings"

	"k8s.io/klog/v2"
)

// parseTags parses tags as in "environment:prod region:us-east-1". With escapes, malformed tags are left out; without,
// one tag without a value leaves no tags at all.
func parseTags(text string, escapes bool) map[string]string {
	tags := map[string]string{}
	text = strings.TrimSpace(text)
	if text == "" {
		return tags
	}
	for _, tag := range split(text, ' ', escapes) {
		switch fields := split(tag, ':', escapes); {
		case len(fields) == 2:
			tags[fields[0]] = fields[1]
		case len(fields) == 1 && escapes:
			tags[fields[0]] = ""
		case len(fields) == 1:
			klog.Errorf("Failed to parse input tag string: %v", text)
			return nil
		case !escapes:
			tags[fields[0]] = fields[1]
		default:
			klog.Errorf("Failed to parse input tag: %v", fields)
		}
	}
	return tags
}

// split splits a text at a separator. With escapes, a backslash before the separator, or before another backslash, is
// left out, and the next character is ordinary.
func split(text string, at byte, escapes bool) []string {
	if !escapes {
		return strings.Split(text, string(at))
	}
	var fields []string
	var field strings.Builder
	for i := 0; i < len(text); i++ {
		switch next := i + 1; {
		case text[i] == at:
			fields = append(fields, field.String())
			field.Reset()
		case text[i] == '\\' && next < len(text) && (text[next] == '\\' || text[next] == at):
			field.WriteByte(text[next])
			i++
		default:
			field.WriteByte(text[i])
		}
	}
	return append(fields, field.String())
}
