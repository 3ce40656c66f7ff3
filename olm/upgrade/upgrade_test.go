package upgrade

import (
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
)

func TestReaches(t *testing.T) {
	number := func(text string) *semver.Version {
		parsed := semver.MustParse(text)
		return &parsed
	}
	entry := func(e declcfg.ChannelEntry) *Entry {
		made := &Entry{ChannelEntry: e, Number: number(e.Name[len("tide.v"):])}
		if e.SkipRange != "" {
			made.skipped = semver.MustParseRange(e.SkipRange)
		}
		return made
	}
	g := &Graph{Entries: []*Entry{
		entry(declcfg.ChannelEntry{Name: "tide.v1.0.0"}),
		entry(declcfg.ChannelEntry{Name: "tide.v1.0.1", Replaces: "tide.v1.0.0"}),
		entry(declcfg.ChannelEntry{Name: "tide.v1.0.3", Replaces: "tide.v1.0.1", Skips: []string{"tide.v1.0.2"}}),
		entry(declcfg.ChannelEntry{Name: "tide.v2.0.0", SkipRange: ">=1.0.3 <2.0.0"}),
		entry(declcfg.ChannelEntry{Name: "tide.v3.0.0", Replaces: "tide.v4.0.0"}), // a cycle
		entry(declcfg.ChannelEntry{Name: "tide.v4.0.0", Replaces: "tide.v3.0.0"}),
	}}
	for _, test := range []struct {
		from, to string
		number   *semver.Version
		want     bool
	}{
		{"tide.v1.0.0", "tide.v1.0.1", nil, true},
		{"tide.v1.0.0", "tide.v1.0.3", nil, true},
		{"tide.v1.0.0", "tide.v2.0.0", nil, true},                 // by all three edges
		{"tide.v1.0.2", "tide.v2.0.0", nil, true},                 // the channel only skips it
		{"tide.v1.5.0", "tide.v2.0.0", nil, false},                // no number, so no skipRange includes it
		{"tide.v1.5.0", "tide.v2.0.0", number("1.5.0"), true},     //
		{"tide.v1.0.1", "tide.v1.0.0", number("1.0.1"), false},    // backwards
		{"tide.v1.0.1", "tide.v1.0.1", number("1.0.1"), false},    // nowhere
		{"tide.v2.0.0", "tide.v3.0.0", number("2.0.0"), false},    // not connected
		{"tide.v1.0.0", "harbour.v1.0.1", number("1.0.0"), false}, // not in the channel
	} {
		assert.Equalf(t, test.want, g.Reaches(Version{test.from, test.number}, test.to), "%s reaches %s", test.from, test.to)
	}
}
