package crdsafety

import (
	"fmt"
	"strings"
)

// change is a field in crdify's comparison of two schemas.
type change struct {
	field         string
	before, after string // as OLM shows them; "" if the comparison has none
	was, is       string // as in the comparison
}

// shortened returns OLM's version of crdify's message about unknown changes: of the comparison of Go values in it, OLM shows
// only the fields that differ.
func shortened(message string) string {
	const title = "unhandled changes found"
	if !strings.Contains(message, title) {
		return message
	}
	var changes []*change
	of := map[string]*change{}
	for line := range strings.SplitSeq(message, "\n") {
		line = strings.TrimSpace(line)
		sign, rest := "", ""
		if len(line) >= 2 {
			sign, rest = line[:1], line[1:]
		}
		if sign != "-" && sign != "+" {
			continue
		}
		field, value, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(rest), ","), ":")
		if field = strings.TrimSpace(field); !found || field == "" {
			continue
		}
		c := of[field]
		if c == nil {
			c = &change{field: field}
			of[field], changes = c, append(changes, c)
		}
		value = strings.TrimSpace(value)
		if sign == "-" {
			c.before, c.was = shown(value), value
		} else {
			c.after, c.is = shown(value), value
		}
	}
	var texts []string
	for _, c := range changes {
		if text := c.text(); text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return title
	}
	return fmt.Sprintf("%s (%s)", title, strings.Join(texts, "; "))
}

const empty = "<empty>"

// text returns a change in OLM's words, or "" if OLM does not show it.
func (c *change) text() string {
	alike := c.before == c.after
	if alike && (c.before == "" || c.was == c.is) {
		return ""
	}
	before, after := c.before, c.after
	if before == "" {
		before = empty
	}
	if after == "" {
		after = empty
	}
	if alike {
		after += " (changed)"
	}
	return fmt.Sprintf("%s %s -> %s", c.field, before, after)
}

// shown returns a value in OLM's form: without package names, and without the content of schemas.
func shown(value string) string {
	switch value = strings.TrimSpace(strings.TrimSuffix(value, ",")); {
	case value == "":
		return empty
	case value == `""`:
		return value
	}
	value = strings.ReplaceAll(value, "v1.", "")
	if strings.Contains(value, "JSONSchemaProps") {
		return "<complex value>"
	}
	return value
}
