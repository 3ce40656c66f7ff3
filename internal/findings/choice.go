package findings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings/nearest"
)

// Off is the severity of a rule that a user has turned off. No finding has it.
const Off = Verdict("off")

// Severities are the severities that a user can give a rule.
var Severities = []Verdict{Error, Warning, Off}

// Choice is a user's choice of the findings to report.
type Choice struct {
	rules      []Rule
	severities map[string]Verdict
	ignored    map[scope]bool
}

// scope is a rule to ignore in a package, or everywhere if pkg is empty.
type scope struct{ rule, pkg string }

// NewChoice parses a choice: severities as RULE=SEVERITY, and ignored rules as RULE or RULE:PACKAGE.
func NewChoice(rules []Rule, severityOf, ignored []string) (Choice, error) {
	c := Choice{rules, map[string]Verdict{}, map[scope]bool{}}
	for _, text := range severityOf {
		id, severity, given := strings.Cut(text, "=")
		if !given || !slices.Contains(Severities, Verdict(severity)) {
			return c, fmt.Errorf("--severity is %q, want RULE=error, RULE=warning or RULE=off", text)
		}
		if err := c.checkRule(id); err != nil {
			return c, fmt.Errorf("--severity: %w", err)
		}
		c.severities[id] = Verdict(severity)
	}
	for _, text := range ignored {
		id, pkg, given := strings.Cut(text, ":")
		if given && pkg == "" {
			return c, fmt.Errorf("--ignore is %q, want RULE or RULE:PACKAGE", text)
		}
		if err := c.checkRule(id); err != nil {
			return c, fmt.Errorf("--ignore: %w", err)
		}
		c.ignored[scope{id, pkg}] = true
	}
	return c, nil
}

// Unused says which RULE:PACKAGE have no effect, because the package is none of these.
func (c Choice) Unused(packages []string) (said []string) {
	packages = slices.Compact(slices.Sorted(slices.Values(packages)))
	for of := range c.ignored {
		if of.pkg != "" && !slices.Contains(packages, of.pkg) {
			said = append(said, fmt.Sprintf("--ignore %s:%s has no effect: no package %q was found%s", of.rule, of.pkg, of.pkg, nearest.Hint(of.pkg, packages)))
		}
	}
	slices.Sort(said)
	return said
}

// checkRule fails unless the rule exists.
func (c Choice) checkRule(id string) error {
	var ids []string
	for _, r := range c.rules {
		ids = append(ids, r.ID)
	}
	if slices.Contains(ids, id) {
		return nil
	}
	return fmt.Errorf("there is no rule %q; --rules lists all%s", id, nearest.Hint(id, ids))
}

// Of returns a report with the chosen severities, without ignored findings and rules that are off.
func (c Choice) Of(r Report) Report {
	rules, found := r.Rules, r.Findings
	r.Rules, r.Findings = nil, nil
	for _, rule := range rules {
		if severity, chosen := c.severities[rule.ID]; chosen {
			rule.Severity = severity
		}
		if rule.Severity != Off {
			r.Rules = append(r.Rules, rule)
		}
	}
	for _, f := range found {
		chosen := *f
		if severity, given := c.severities[f.Rule]; given {
			chosen.Severity = severity
		}
		if chosen.Severity != Off && !c.ignored[scope{f.Rule, ""}] && !(f.Package != "" && c.ignored[scope{f.Rule, f.Package}]) {
			r.Findings = append(r.Findings, &chosen)
		}
	}
	return r
}
