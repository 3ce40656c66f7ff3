package diff

import (
	"slices"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

const (
	// comparedSizes limits the bytes of bundles that are compared, as a multiple of the size of all bundles.
	comparedSizes = 8
	// leastCompared is the limit for small catalogs.
	leastCompared = 32 << 20
	// maxText limits the bytes of all reports about channels.
	maxText = 32 << 20
	// lineSize is about what a line of a report takes besides its texts.
	lineSize = 64
)

// tooMany says why the heads of a channel are not compared.
const tooMany = "too many channels have large heads; berth bundle permissions compares two bundles"

// allowance limits the comparisons of heads: thousands of channels may have the same large heads.
type allowance struct{ compared, text int }

func newAllowance(catalogs ...*fbc.Catalog) *allowance {
	size := 0
	for _, c := range catalogs {
		for _, p := range c.Packages {
			for _, b := range p.Bundles {
				size += b.Span.Length
			}
		}
	}
	return &allowance{max(comparedSizes*size, leastCompared), maxText}
}

// admits reports whether two heads, and the bundles of the updates between them, may be compared.
func (a *allowance) admits(p *fbc.Package, was, is *fbc.Bundle, updates []upgrade.Update) bool {
	a.compared -= was.Span.Length + is.Span.Length
	for _, u := range updates {
		if b := p.FindBundle(u.Entry.Name); b != nil {
			a.compared -= b.Span.Length
		}
	}
	return a.compared >= 0 && a.text >= 0
}

// sizeOf estimates the size in bytes of a report about a channel.
func sizeOf(c *Channel) (size int) {
	for _, api := range c.RemovedAPIs {
		size += lineSize + len(api)
	}
	for _, changes := range []map[string]*Change{c.Content.Images, c.Content.Permissions, c.Content.CRDs, c.Content.Dependencies, {"": c.Content.InstallModes, " ": c.Content.MinKubeVersion}} {
		for key, change := range changes {
			if change != nil {
				size += lineSize + len(key) + len(change.Before) + len(change.After)
			}
		}
	}
	for _, risk := range slices.Concat(c.Content.Risks, c.Content.Dropped) {
		size += lineSize + len(risk.What) + len(risk.Why)
	}
	return size
}
