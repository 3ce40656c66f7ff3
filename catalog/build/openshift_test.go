package build

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
)

// TestKeptEntries: dropping an entry removes no update path between others.
func TestKeptEntries(t *testing.T) {
	entries := []declcfg.ChannelEntry{{Name: "a"}, {Name: "b", Replaces: "a"}, {Name: "c", Replaces: "b", Skips: []string{"b"}}, {Name: "d", Replaces: "c"}}
	for kept, want := range map[string][]declcfg.ChannelEntry{
		"abcd": entries,
		"abc":  entries[:3],
		"bcd":  entries[1:],
		"ad":   {entries[0], {Name: "d", Replaces: "a", Skips: []string{"c", "b"}}},
		"acd":  {entries[0], {Name: "c", Replaces: "a", Skips: []string{"b"}}, entries[3]},
		"d":    entries[3:],
		"":     nil,
	} {
		keep := func(name string) bool {
			for _, r := range kept {
				if string(r) == name {
					return true
				}
			}
			return false
		}
		assert.Emptyf(t, cmp.Diff(want, keptEntries(entries, keep)), "%q: -want +got", kept)
	}
	cycle := []declcfg.ChannelEntry{{Name: "a", Replaces: "b"}, {Name: "b", Replaces: "c"}, {Name: "c", Replaces: "b"}}
	assert.Len(t, keptEntries(cycle, func(name string) bool { return name == "a" }), 1)
}
