package lifecycle

import (
	"fmt"
	"strings"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
)

// The rules for single lifecycles. None of them is an error: OLM and its tools ignore lifecycles.
var (
	fields = findings.Rule{ID: "lifecycle-field", Severity: findings.Warning,
		What: "A lifecycle has the fields of its schema and no others, and dates are YYYY-MM-DD.",
		Why:  "OpenShift's console shows that the support of the package is not known."}
	phases = findings.Rule{ID: "lifecycle-phases", Severity: findings.Warning,
		What: "The phases of a version are in order and end after they start, and each phase starts on the day after the previous phase ends.",
		Why:  "On a day in a gap or an overlap, nobody can say how the version is supported."}
	versions = findings.Rule{ID: "lifecycle-versions", Severity: findings.Warning,
		What: "The versions in a lifecycle are MAJOR.MINOR in quotes, and each occurs once.",
		Why:  "OpenShift's console looks for the minor version of the installed operator, and finds a wrong version or none."}
)

// Rules are all rules of this package.
var Rules = []findings.Rule{fields, phases, versions}

// Read decodes a document of Schema strictly, and returns its faults. It returns no lifecycle if a known field cannot be decoded.
func Read(d document.Document) (*Lifecycle, []*findings.Finding) {
	l := &Lifecycle{}
	decoded, found := d.DecodeStrictly(l)
	for _, f := range found {
		f.Rule, f.Severity = fields.ID, fields.Severity
	}
	if !decoded {
		return nil, found
	}
	r := reader{document: d, at: d.Positions(), found: found}
	r.lifecycle(l)
	return l, r.found
}

// reader checks the values of a lifecycle.
type reader struct {
	document document.Document
	at       func(path []any) (line, column int)
	found    []*findings.Finding
}

func (r *reader) report(rule findings.Rule, path []any, format string, args ...any) {
	if len(r.found) < document.MaxFaults {
		r.found = append(r.found, rule.Finding(r.document.File, format, args...).At(r.at(path)))
	}
}

func (r *reader) lifecycle(l *Lifecycle) {
	r.required(l.Package != "", nil, "package")
	r.required(len(l.Versions) > 0, nil, "versions")
	first := map[string]int{}
	for i, v := range l.Versions {
		at := []any{"versions", i}
		if r.required(v.Name != "", at, "name") {
			r.majorMinor(versions, v.Name, append(at, "name"), "version")
			if before, repeated := first[v.Name]; repeated {
				r.report(versions, append(at, "name"), "version %q is there twice; the first is number %d", v.Name, before+1)
			} else {
				first[v.Name] = i
			}
		}
		r.required(len(v.Phases) > 0, at, "phases")
		r.phases(v, at)
		r.platforms(v, at)
	}
}

// required reports a field that is missing or empty.
func (r *reader) required(is bool, path []any, name string) bool {
	if !is {
		of := "the lifecycle"
		if len(path) > 0 {
			of = fmt.Sprintf("number %d of %s", path[len(path)-1].(int)+1, path[len(path)-2])
		}
		r.report(fields, path, "%s has no field %s, or an empty one", of, name)
	}
	return is
}

func (r *reader) majorMinor(rule findings.Rule, version string, path []any, what string) {
	if !majorMinor.MatchString(version) {
		r.report(rule, path, "%s is %q, want MAJOR.MINOR in quotes, such as \"4.12\"", what, version)
	}
}

func (r *reader) phases(v Version, path []any) {
	var before *Phase
	for i, p := range v.Phases {
		at := append(path[:len(path):len(path)], "phases", i)
		r.required(p.Name != "", at, "name")
		dated := true
		for _, date := range []struct {
			field string
			value Date
		}{{"startDate", p.Start}, {"endDate", p.End}} {
			if dated = r.required(date.value != "", at, date.field) && dated; date.value != "" && !date.value.isValid() {
				r.report(fields, append(at, date.field), "%s is %q, want a date as YYYY-MM-DD", date.field, date.value)
				dated = false
			}
		}
		if !dated {
			before = nil // the next phase cannot be compared with this one
			continue
		}
		if p.End <= p.Start {
			r.report(phases, append(at, "endDate"), "phase %q of version %s ends on %s, want a day after it starts, which is %s", p.Name, v.Name, p.End, p.Start)
		}
		if before != nil {
			r.order(v, *before, p, append(at, "startDate"))
		}
		before = &v.Phases[i]
	}
}

// order compares a phase with the one before it.
func (r *reader) order(v Version, before, p Phase, path []any) {
	switch wanted := before.End.next(); {
	case p.Start == wanted:
	case p.Start < before.Start:
		r.report(phases, path, "phase %q of version %s starts on %s, and phase %q before it on %s: put them in order", p.Name, v.Name, p.Start, before.Name, before.Start)
	case p.Start < wanted:
		r.report(phases, path, "phases %q and %q of version %s overlap from %s to %s; want the second to start on %s", before.Name, p.Name, v.Name, p.Start, min(before.End, p.End), wanted)
	default:
		r.report(phases, path, "there is a gap between phases %q and %q of version %s, from %s until %s; want the second to start on %[4]s", before.Name, p.Name, v.Name, wanted, p.Start)
	}
}

func (r *reader) platforms(v Version, path []any) {
	first := map[string]bool{}
	for i, p := range v.Platforms {
		at := append(path[:len(path):len(path)], "platformCompatibility", i)
		if r.required(p.Name != "", at, "name") && first[p.Name] {
			r.report(versions, at, "platform %q of version %s is there twice", p.Name, v.Name)
		}
		first[p.Name] = true
		r.required(len(p.Versions) > 0, at, "versions")
		seen := map[string]bool{}
		for j, version := range p.Versions {
			r.majorMinor(versions, version, append(at, "versions", j), strings.TrimSpace("version of "+p.Name))
			if seen[version] {
				r.report(versions, append(at, "versions", j), "version %s of %s is there twice", version, p.Name)
			}
			seen[version] = true
		}
	}
}
