package access

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings/outline"
)

// Lines returns the lines of a report on the difference.
func (c *Content) Lines() []outline.Line {
	return c.lines("asks for more than before, the worst first", AppendChange)
}

// Asked returns the lines of a report on all requests of a version; c is its difference from the zero value.
func (c *Content) Asked() []outline.Line {
	return c.lines("asks for, the worst first", func(lines []outline.Line, title outline.Text, of *Change) []outline.Line {
		if of == nil {
			return lines
		}
		text := outline.Say(title.Format+": ", title.Values...)
		text.Add(shortened(of.After))
		return append(lines, outline.Line{Text: text})
	})
}

func (c *Content) lines(risks string, with func([]outline.Line, outline.Text, *Change) []outline.Line) (lines []outline.Line) {
	for _, part := range []struct {
		title string
		risks []Risk
	}{{risks, c.Risks}, {"no longer asks for", c.Dropped}} {
		var below []outline.Line
		for _, risk := range part.risks {
			below = append(below, outline.Line{Text: outline.Say("%s: "+risk.Why, risk.What)})
		}
		if len(below) > 0 {
			lines = append(lines, outline.Say(part.title).Of(below))
		}
	}
	for _, part := range []struct {
		title   string
		changes map[string]*Change
		keys    []string
	}{{"images", c.Images, sortedKeys(c.Images)}, {"permissions", c.Permissions, worstFirst(c.Permissions)}, {"CRDs", c.CRDs, sortedKeys(c.CRDs)}, {"dependencies", c.Dependencies, sortedKeys(c.Dependencies)}} {
		var below []outline.Line
		for _, key := range part.keys {
			below = with(below, outline.Say("%s", key), part.changes[key].without(key))
		}
		if len(below) > 0 {
			lines = append(lines, outline.Say(part.title).Of(below))
		}
	}
	lines = with(lines, outline.Say("install modes"), c.InstallModes)
	lines = with(lines, outline.Say("oldest Kubernetes"), c.MinKubeVersion)
	if c.Unknown != "" {
		lines = append(lines, outline.Line{Text: outline.Say("not compared: " + c.Unknown)})
	}
	return lines
}

// worstFirst returns the keys of permissions. Permissions that allow more than they seem to, before or after the change, come first.
func worstFirst(permissions map[string]*Change) []string {
	places := map[string]int{}
	for key, c := range permissions {
		_, object, _ := strings.Cut(key, " ")
		resource, _, _ := strings.Cut(object, " ") // without names
		places[key], _, _ = rank(resource, strings.Split(c.Before+", "+c.After, ", "))
	}
	return slices.SortedFunc(maps.Keys(permissions), func(a, b string) int { return cmp.Or(places[a]-places[b], strings.Compare(a, b)) })
}

// AppendChange appends a line about a change, unless it is nil.
func AppendChange(lines []outline.Line, title outline.Text, c *Change) []outline.Line {
	if c == nil {
		return lines
	}
	before, after := shortened(c.Before), shortened(c.After)
	if before == after { // they differ only in the omitted part
		before, after = c.Before, c.After
	}
	changed := outline.Say(title.Format+": ", title.Values...)
	changed.Add(before)
	changed.Format += " → "
	changed.Add(after)
	return append(lines, outline.Line{Text: changed})
}

// digest matches the digest of an image. The group is the part that people compare.
var digest = regexp.MustCompile(`(@sha(?:256|512):[0-9a-f]{12})[0-9a-f]{20,}`)

// shortened shortens the digests in a text.
func shortened(text string) string { return digest.ReplaceAllString(text, "$1…") }

// without returns the change without the repository of images, if the title already names it.
func (c Change) without(title string) *Change {
	return &Change{strings.TrimPrefix(strings.TrimPrefix(c.Before, title), ":"), strings.TrimPrefix(strings.TrimPrefix(c.After, title), ":")}
}
