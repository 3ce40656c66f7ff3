package refusal

import (
	"errors"

	"github.com/berth-csi/berth/catalog/fbc"
)

// ErrMany says that a package has more updates, ranges of versions and large bundles than are compared.
var ErrMany = errors.New("it has so many updates, skipRanges and large bundles that not all are compared")

// An Allowance starts with leastBytes, plus timesSize times the size of the bundles. A comparison of a version with a range costs perRange
// bytes; a comparison of two bundles costs perUpdate bytes, plus their size.
const (
	leastBytes = 64 << 20
	timesSize  = 50
	perRange   = 8
	perUpdate  = 1 << 10
)

// Allowance bounds the comparisons of the versions of a package: their number may be the square of the number of bundles.
type Allowance struct{ left int }

// NewAllowance returns the allowance for a package with these bundles.
func NewAllowance(of []*fbc.Bundle) *Allowance {
	a := &Allowance{leastBytes}
	for _, b := range of {
		a.left += timesSize * b.Span.Length
	}
	return a
}

// Update spends the cost of a comparison of two bundles, which may be nil. It returns ErrMany if nothing is left.
func (a *Allowance) Update(from, to *fbc.Bundle) error {
	size := perUpdate
	for _, b := range []*fbc.Bundle{from, to} {
		if b != nil {
			size += b.Span.Length
		}
	}
	return a.spend(size)
}

// Ranges spends the cost of n comparisons with a range. It returns ErrMany if nothing is left.
func (a *Allowance) Ranges(n int) error { return a.spend(n * perRange) }

func (a *Allowance) spend(bytes int) error {
	if a.left -= bytes; a.left < 0 {
		return ErrMany
	}
	return nil
}
