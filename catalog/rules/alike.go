package rules

import (
	"strconv"
	"strings"

	"github.com/berth-csi/berth/fbc/document"
)

// alike are faults of the channels or of the bundles of a package. What is wrong with several of them in the same way is one finding,
// where it is first.
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
}

// add adds a fault of the value at a path. Its message has two parts, with what is at fault in between.
func (a *alike) add(name string, span document.Span, path []any, before, after string) {
	key, name := before+"\x00"+after, strconv.Quote(name)
	if f := a.last[key]; f != nil && f.names[len(f.names)-1] != name {
		f.names = append(f.names, name)
		return
	}
	f := &sharedFault{span, path, before, after, []string{name}}
	if a.last == nil {
		a.last = map[string]*sharedFault{}
	}
	a.faults, a.last[key] = append(a.faults, f), f
}

func (a *alike) report(report report) {
	for _, f := range a.faults {
		noun := a.noun
		if len(f.names) > 1 {
			noun += "s"
		}
		report(f.span, f.path, "%s of %s %s%s", f.before, noun, strings.Join(f.names, ", "), f.after)
	}
}
