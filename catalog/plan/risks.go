package plan

import (
	"fmt"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/upgrade"
)

// warn says what people should know beforehand.
func (f *subject) warn(chosen *upgrade.Entry) {
	if chosen != nil && f.csv != nil && chosen.Number != nil && chosen.Number.LT(f.csv.Spec.Version.Version) {
		f.risk(Downgrade, "", "%s is an earlier version than %s: this is a downgrade, and OLM makes it", chosen.Name, f.csv.Name)
	}
	if chosen != nil && !f.Arrives {
		f.risk(EndsEarly, "", "updates end before the head of the channel, %s", f.graph.Heads[0].Name)
	}
	for _, deprecated := range []struct{ schema, name, title string }{
		{declcfg.SchemaPackage, "", "package " + f.Package}, {declcfg.SchemaChannel, f.Channel, "channel " + f.Channel},
		{declcfg.SchemaBundle, f.Installed, f.Installed}, {declcfg.SchemaBundle, nameOf(chosen), nameOf(chosen)},
	} {
		if message := f.pkg.Deprecation(deprecated.schema, deprecated.name); message != "" {
			f.risk(Deprecated, "", "%s is deprecated: %s", deprecated.title, message)
		}
	}
}

// risk notes something that people should know, and what they can do about it.
func (f *subject) risk(code Code, do, format string, args ...any) {
	f.Risks = append(f.Risks, Reason{code, fmt.Sprintf(format, args...), do})
}

func nameOf(e *upgrade.Entry) string {
	if e == nil {
		return ""
	}
	return e.Name
}
