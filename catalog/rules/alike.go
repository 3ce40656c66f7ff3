package rules

import (
	"strconv"
	"strings"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// alike collects faults of the channels or the bundles of a package. Channels or bundles with the same fault share one finding, at the
// first of them.
type alike struct {
	noun   string // channel or bundle
	faults []*sharedFault
	last   map[string]*sharedFault // by message
}

type sharedFault struct {
	span          document.Span
	path          []any
	before, after string
	names         []string
	// replaced are the corrections of the fault in the finding's file.
	replaced []replacement
}

// replacement replaces the text of a scalar.
type replacement struct {
	span document.Span
	path []any
	text string
}

// asWritten is the text of a replacement that only puts quotes around a value.
const asWritten = ""

// replacementLimit bounds the corrections of a finding. Each requires parsing a document.
const replacementLimit = 20

// addFixed is like add, and corrects the value to text.
func (a *alike) addFixed(name string, span document.Span, path []any, before, after, text string) {
	f := a.add(name, span, path, before, after)
	if span.File == f.span.File && len(f.replaced) < replacementLimit {
		f.replaced = append(f.replaced, replacement{span, path, text})
	}
}

// longest is the maximum number of characters of each text of a fault. A name can have megabytes, and be in thousands of faults.
const longest = 4 << 10

// add adds a fault of the value at a path. Its message names the faulty channels or bundles between before and after.
func (a *alike) add(name string, span document.Span, path []any, before, after string) *sharedFault {
	name, before, after = strconv.Quote(escape.Short(name, longest)), escape.Short(before, longest), escape.Short(after, longest)
	key := before + "\x00" + after
	if f := a.last[key]; f != nil && f.names[len(f.names)-1] != name {
		f.names = append(f.names, name)
		return f
	}
	f := &sharedFault{span: span, path: path, before: before, after: after, names: []string{name}}
	if a.last == nil {
		a.last = map[string]*sharedFault{}
	}
	a.faults, a.last[key] = append(a.faults, f), f
	return f
}

func (a *alike) report(report report) {
	for _, f := range a.faults {
		noun := a.noun
		if len(f.names) > 1 {
			noun += "s"
		}
		found := report(f.span, f.path, "%s of %s %s%s", f.before, noun, strings.Join(f.names, ", "), f.after)
		for _, r := range f.replaced {
			correct(found, r.span, func(d document.Document) []findings.Edit {
				if r.text == asWritten {
					return d.Quoted(r.path)
				}
				return d.Replaced(r.path, r.text)
			})
		}
	}
}
