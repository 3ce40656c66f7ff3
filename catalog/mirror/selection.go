// Package mirror makes a smaller catalog of chosen packages, channels and versions, whose updates still work, and copies
// it with every image that it needs: to a registry that a disconnected cluster can reach, or to a folder.
package mirror

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/olm/upgrade"
)

// headOnly is the range that stands for the head of a channel.
const headOnly = "head"

// Selection chooses versions of a package.
type Selection struct {
	Package string
	Channel string // empty for all channels
	Range   string // empty for all versions, headOnly for the head of each channel

	contains semver.Range
}

// ParseSelection parses PACKAGE[/CHANNEL][@RANGE].
func ParseSelection(text string) (Selection, error) {
	what, versions, ranged := strings.Cut(text, "@")
	pkg, channel, inChannel := strings.Cut(what, "/")
	s := Selection{Package: pkg, Channel: channel, Range: versions}
	if pkg == "" || inChannel && channel == "" || ranged && versions == "" {
		return s, fmt.Errorf("selection %q: want PACKAGE[/CHANNEL][@RANGE], such as tide, tide/stable or 'tide/stable@>=1.2.0'", text)
	}
	if ranged && versions != headOnly {
		var err error
		if s.contains, err = semver.ParseRange(versions); err != nil {
			return s, fmt.Errorf("selection %q: %q is not a range of versions such as '>=1.2.0 <2.0.0', and not %q: %w", text, versions, headOnly, err)
		}
	}
	return s, nil
}

// String returns the selection as it is written.
func (s Selection) String() string {
	text := s.Package
	if s.Channel != "" {
		text += "/" + s.Channel
	}
	if s.Range != "" {
		text += "@" + s.Range
	}
	return text
}

// includes reports whether the selection chooses an entry of a channel.
func (s Selection) includes(g *upgrade.Graph, e *upgrade.Entry) bool {
	switch {
	case s.Range == "":
		return true
	case s.Range == headOnly:
		return len(g.Heads) == 1 && g.Heads[0] == e
	}
	return e.Number != nil && s.contains(*e.Number)
}
