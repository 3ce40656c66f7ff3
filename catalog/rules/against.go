package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/bundle/registryv1/access"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/requests"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/olm/upgrade"
)

// The rules for a catalog that replaces another one.
var (
	againstPackage = findings.Rule{ID: "against-package", Severity: findings.Error,
		What: "Every package of the earlier catalog is in this one.",
		Why:  "OLM resolves nothing for a namespace with a Subscription to a package that is gone."}
	againstChannel = findings.Rule{ID: "against-channel", Severity: findings.Error,
		What: "Every channel of the earlier catalog is in this one.",
		Why:  "OLM resolves nothing for a namespace with a Subscription to a channel that is gone."}
	againstEntry = findings.Rule{ID: "against-entry", Severity: findings.Error,
		What: "From every entry of the earlier catalog, updates lead to the head of its channel in this one.",
		Why:  "OLM strands clusters that have the entry installed, without reporting it."}
	againstGone = findings.Rule{ID: "against-gone", Severity: findings.Warning,
		What: "Every entry of a channel in the earlier catalog is in this one.",
		Why:  "Subscriptions that name a missing entry as startingCSV cannot be installed again."}
	againstAPI = findings.Rule{ID: "against-api-version", Severity: findings.Warning,
		What: "Updates from the heads of the earlier catalog remove no version of an API.",
		Why:  "OLM refuses the update on clusters whose CustomResourceDefinition has the version in status.storedVersions: the InstallPlan fails."}
	againstAccess = findings.Rule{ID: "against-access", Severity: findings.Warning,
		What: "New heads ask for nothing dangerous that the earlier heads do not ask for: permissions, rights of pods, webhooks, images without a digest.",
		Why:  "Subscriptions with automatic approval give the operator what it asks for, and nobody is asked."}
)

// AgainstRules are the rules that Against and AgainstGates apply.
var AgainstRules = []findings.Rule{againstPackage, againstChannel, againstEntry, againstGone, againstAPI, againstAccess, againstPruned}

// Against checks what happens to clusters that installed from an earlier catalog when this one replaces it: in the same CatalogSource, or
// because a Subscription changes its source.
func Against(now, before *fbc.Catalog) []*findings.Finding { return AgainstAt(now, before, fbc.Fault) }

// AgainstAt is like Against, for a catalog that was built from other files: place reports faults there.
func AgainstAt(now, before *fbc.Catalog, place Place) (found []*findings.Finding) {
	for _, was := range before.Packages {
		p := now.Find(was.Name)
		if p == nil || !p.Declared {
			found = append(found, againstPackage.Finding(now.Dir, "package %q, declared at %s:%d, is gone", was.Name, was.File, was.Line).In(was.Name))
			continue
		}
		var gone []*fbc.Channel
		updates := &apiUpdates{}
		for _, channel := range was.Channels {
			if p.FindChannel(channel.Name) == nil {
				gone = append(gone, channel)
				continue
			}
			for _, f := range channelAgainst(p, was, channel, updates, place) {
				found = append(found, f.In(was.Name))
			}
		}
		for _, f := range updates.report(place) {
			found = append(found, f.In(was.Name))
		}
		if len(gone) > 0 {
			found = append(found, channelsGone(p, gone, place).In(was.Name))
		}
		for _, f := range accessAgainst(p, was, place) {
			found = append(found, f.In(was.Name))
		}
	}
	findings.Sort(found)
	return found
}

// channelsGone reports the channels that a package no longer has.
func channelsGone(p *fbc.Package, gone []*fbc.Channel, place Place) *findings.Finding {
	if len(gone) == 1 {
		return place(againstChannel, p.Span, nil, "channel %q of package %q, declared at %s:%d, is gone", gone[0].Name, p.Name, gone[0].File, gone[0].Line)
	}
	var channels []string
	for _, c := range gone {
		channels = append(channels, fmt.Sprintf("%q, declared at %s:%d", c.Name, c.File, c.Line))
	}
	return place(againstChannel, p.Span, nil, "channels of package %q are gone: %s", p.Name, strings.Join(channels, "; "))
}

// channelAgainst checks what happens to clusters that are subscribed to a channel. It adds the updates from the channel's earlier heads
// to updates.
func channelAgainst(p, was *fbc.Package, channel *fbc.Channel, updates *apiUpdates, place Place) (found []*findings.Finding) {
	c := p.FindChannel(channel.Name)
	g := upgrade.Of(p, c)
	if len(g.Chain) == 0 {
		return nil // there are no updates; Check reports that
	}
	var gone []string
	var lost []*upgrade.Entry
	before := upgrade.Of(was, channel)
	for _, e := range before.Entries {
		if g.Find(e.Name) != nil {
			continue // Check reports the entry
		}
		gone = append(gone, e.Name)
		if !g.Arrives(e.Version()) {
			lost = append(lost, e)
		}
	}
	if len(lost) > 0 {
		found = append(found, place(againstEntry, c.Span, []any{"entries"}, "no update leads from %s, %s of channel %q at %s:%d, "+
			"to the head %q of the channel here: nothing replaces %[7]s, skips %[7]s or has %[8]s in its skipRange",
			quotedNames(lost), plural(lost, "an entry", "entries"), c.Name, channel.File, channel.Line, g.Heads[0].Name,
			plural(lost, "it", "them"), plural(lost, "its version", "their versions")))
	}
	apisAgainst(p, was, c, g, before, updates)
	if len(gone) > len(lost) {
		found = append(found, place(againstGone, c.Span, []any{"entries"}, "entries of channel %q at %s:%d are gone: %s",
			c.Name, channel.File, channel.Line, strings.Join(gone, ", ")))
	}
	return found
}

// apisAgainst adds to updates each update on the way from the heads of an earlier channel to the new head. The method report of updates
// finds the removed versions of APIs.
func apisAgainst(p, was *fbc.Package, c *fbc.Channel, g, earlier *upgrade.Graph, updates *apiUpdates) {
	passed := map[string]bool{} // the updates from these versions on are already added
	for _, head := range earlier.Heads {
		from, version := was.FindBundle(head.Name), head.Version()
		for len(g.Chain) > 0 && version.Name != g.Heads[0].Name && !passed[version.Name] {
			passed[version.Name] = true
			u := g.Next(version)
			if u == nil {
				break
			}
			to := p.FindBundle(u.Entry.Name)
			updates.add(from, to, c, u.Entry)
			from, version = to, u.Entry.Version()
		}
	}
}

// apiUpdates are updates that are searched for removed versions of APIs. An update that many channels have in common is compared and
// reported once.
type apiUpdates struct {
	all   []*apiUpdate
	known map[[2]*fbc.Bundle]*apiUpdate
}

type apiUpdate struct {
	from, to *fbc.Bundle
	channel  *fbc.Channel // the first
	entry    *upgrade.Entry
	others   int // the number of other channels
}

func (a *apiUpdates) add(from, to *fbc.Bundle, c *fbc.Channel, entry *upgrade.Entry) {
	if u := a.known[[2]*fbc.Bundle{from, to}]; u != nil {
		u.others++
		return
	}
	u := &apiUpdate{from: from, to: to, channel: c, entry: entry}
	if a.known == nil {
		a.known = map[[2]*fbc.Bundle]*apiUpdate{}
	}
	a.all, a.known[[2]*fbc.Bundle{from, to}] = append(a.all, u), u
}

func (a *apiUpdates) report(place Place) (found []*findings.Finding) {
	for _, u := range a.all {
		channels := fmt.Sprintf("channel %q", u.channel.Name)
		if u.others > 0 {
			channels += fmt.Sprintf(" and %d %s", u.others, plural(make([]int, u.others), "other", "others"))
		}
		for _, api := range fbc.RemovedAPIs(u.from, u.to) {
			found = append(found, place(againstAPI, u.channel.Span, entryPath(u.entry.Index), "the update from %s to %s in %s removes version %s of %s (%s): OLM refuses it on "+
				"clusters that have stored objects in that version; there, rewrite the objects and remove the version from status.storedVersions first",
				u.from.Name, u.to.Name, channels, api.Version, api.Kind, api.Group))
		}
	}
	return found
}

// listedRisks is how many requests a finding lists. "berth catalog diff" shows the others.
const listedRisks = 5

// comparedSizes limits the bytes that are compared, as a multiple of the size of a package's bundles: many channels may have the same
// large head, each after a different earlier head.
const comparedSizes = 8

// accessAgainst reports the requests of channel heads that are new compared with the heads of the same channels in the earlier package.
// Channels with the same heads share one finding.
func accessAgainst(p, was *fbc.Package, place Place) (found []*findings.Finding) {
	reported := map[[2]string]bool{}
	left := 0 // bytes
	for _, b := range slices.Concat(p.Bundles, was.Bundles) {
		left += comparedSizes * b.Span.Length
	}
	for _, earlier := range was.Channels {
		c := p.FindChannel(earlier.Name)
		if c == nil {
			continue
		}
		before, after := headBundle(was, earlier), headBundle(p, c)
		if before == nil || after == nil || before.Name == after.Name || reported[[2]string{before.Name, after.Name}] {
			continue
		}
		reported[[2]string{before.Name, after.Name}] = true
		if left -= before.Span.Length + after.Span.Length; left < 0 {
			return append(found, place(againstAccess, p.Span, nil, "too many channels have large heads: from channel %q on, what they ask for is not compared; berth bundle permissions compares two bundles", c.Name))
		}
		content, err := requests.Compare(before, after)
		if err != nil {
			found = append(found, place(againstAccess, after.Span, nil, "what the head %s of channel %q asks for cannot be compared with %s: %v", after.Name, c.Name, before.Name, err))
			continue
		}
		if len(content.Risks) == 0 {
			continue
		}
		text := fmt.Sprintf("the head %s of channel %q asks for what %s does not: %s", after.Name, c.Name, before.Name, listed(content.Risks))
		if len(content.Dropped) > 0 {
			text += ". It no longer asks for " + listed(content.Dropped)
		}
		found = append(found, place(againstAccess, after.Span, nil, "%s", text))
	}
	return found
}

// headBundle returns the bundle of a channel's only head, or nil.
func headBundle(p *fbc.Package, c *fbc.Channel) *fbc.Bundle {
	heads := upgrade.Of(p, c).Heads
	if len(heads) != 1 {
		return nil // Check reports that
	}
	return p.FindBundle(heads[0].Name)
}

// listed lists requests, the worst first.
func listed(risks []access.Risk) string {
	var texts []string
	for _, r := range risks[:min(len(risks), listedRisks)] {
		texts = append(texts, r.What+": "+r.Why)
	}
	if more := len(risks) - listedRisks; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more, which berth catalog diff lists", more))
	}
	return strings.Join(texts, "; ")
}
