package build

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// TestOffers follows the table of the guide that the annotation comes from.
func TestOffers(t *testing.T) {
	for value, want := range map[string][4]bool{ // 4.5, 4.6, 4.7, 4.8
		"":          {true, true, true, true},
		"v4.5":      {true, true, true, true},
		"v4.6":      {false, true, true, true},
		"4.6":       {false, true, true, true},
		"=v4.6":     {false, true, false, false},
		"v4.5-v4.7": {true, true, true, false},
		"v4.5,v4.6": {true, true, true, true},
		"v4.6,v4.5": {true, true, true, true},
	} {
		for i, offered := range want {
			v := Version{4, 5 + i}
			if got, err := offers(value, v); got != offered || err != nil {
				t.Errorf("%q for %s: %v, error %v, want %v", value, v, got, err, offered)
			}
		}
	}
	for _, value := range []string{"v4.6,v4.7", "4", "v4.6-", "=v4.5-v4.6", "v4.6 ", "latest", "v99999.1"} {
		if got, err := offers(value, Version{4, 6}); got || err == nil {
			t.Errorf("%q: got %v without an error", value, got)
		}
	}
}

// TestParseVersion: a version of OpenShift has two numbers.
func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{"4.16": {4, 16}, "v4.9": {4, 9}} {
		if got, err := ParseVersion(text); got != want || err != nil {
			t.Errorf("%s: got %v, error %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4", "4.16.1", "v4.x", " 4.16", "-4.1"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// TestKeptEntries: an entry that is left out takes no update path with it.
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
		if diff := cmp.Diff(want, keptEntries(entries, keep)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", kept, diff)
		}
	}
	cycle := []declcfg.ChannelEntry{{Name: "a", Replaces: "b"}, {Name: "b", Replaces: "c"}, {Name: "c", Replaces: "b"}}
	if got := keptEntries(cycle, func(name string) bool { return name == "a" }); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}
