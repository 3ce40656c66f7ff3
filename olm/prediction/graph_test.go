package prediction

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestGraphIsWhatOLMDoes compares package upgrade with OLM's resolver, on random channels: which version OLM installs next
// from each version, in the channel or not, or why it installs none.
func TestGraphIsWhatOLMDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 400 {
		entries := randomEntries(random)
		c := channelOf(t, entries)
		p := c.Packages[0]
		g := upgrade.Of(p, p.Channels[0])
		for number := range 6 {
			installed := upgrade.Version{Name: fmt.Sprintf("tide.v%d.0.0", number), Number: &semver.Version{Major: uint64(number)}}
			state, err := Installed(c, "tide", installed.Number.String(), "stable")
			require.NoError(t, err)
			resolved, err := state.run()
			var olm, ours string
			switch {
			case err != nil && strings.Contains(err.Error(), "no channel heads"):
				olm = "no head"
			case err != nil && strings.Contains(err.Error(), "a unique replacement chain within a channel is required"):
				olm = "heads"
			case err != nil && strings.Contains(err.Error(), "a cycle exists in the chain of replacement"):
				olm = "cycle"
			case err != nil:
				t.Fatal(err)
			case resolved.chosen["tide"] == "":
				olm = "nothing"
			default:
				olm = resolved.chosen["tide"]
			}
			switch next := g.Next(installed); {
			case len(g.Heads) == 0:
				ours = "no head"
			case len(g.Cycle) > 0:
				ours = "cycle"
			case len(g.Heads) > 1:
				ours = "heads"
			case next == nil:
				ours = "nothing"
			default:
				ours = next.Entry.Name
			}
			// If there are several heads and a cycle, OLM reports either.
			if ours != olm && !(len(g.Heads) > 1 && olm == "cycle") {
				t.Fatalf("from %s, OLM's result is %q and package upgrade's %q, in channel %+v", installed.Name, olm, ours, entries)
			}
			seen[strings.TrimRight(olm, "0123456789.")]++
		}
	}
	for _, outcome := range []string{"no head", "heads", "cycle", "nothing", "tide.v"} {
		assert.GreaterOrEqualf(t, seen[outcome], 20, "cases in which OLM's result is %q", outcome)
	}
}

// randomEntries returns up to five entries with edges to each other and to versions that the channel lacks.
func randomEntries(random *rand.Rand) (entries []declcfg.ChannelEntry) {
	name := func() string { return fmt.Sprintf("tide.v%d.0.0", random.IntN(6)) }
	for i := range 1 + random.IntN(5) {
		e := declcfg.ChannelEntry{Name: fmt.Sprintf("tide.v%d.0.0", i)}
		if i > 0 && random.IntN(4) > 0 {
			e.Replaces = fmt.Sprintf("tide.v%d.0.0", i-1)
		}
		if random.IntN(6) == 0 {
			e.Replaces = name()
		}
		for random.IntN(4) == 0 {
			e.Skips = append(e.Skips, name())
		}
		if random.IntN(4) == 0 {
			e.SkipRange = fmt.Sprintf(">=%d.0.0 <%d.0.0", random.IntN(4), random.IntN(6))
		}
		entries = append(entries, e)
	}
	return entries
}

// channelOf returns a catalog with one channel of these entries.
func channelOf(t *testing.T, entries []declcfg.ChannelEntry) *fbc.Catalog {
	t.Helper()
	config := declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: entries}},
	}
	for _, e := range entries {
		config.Bundles = append(config.Bundles, catalogs.Bundle("tide", e.Name))
	}
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, config)
	return read(t, dir)
}
