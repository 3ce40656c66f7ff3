package switchover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/olm/prediction"
)

// maxPlan is how many bytes a plan may have. A ConfigMap holds a MiB.
const maxPlan = 768 << 10

// maxText is how many bytes a word of a plan may have that is no name of an object.
const maxText = 253

// Read reads a plan that was written as JSON. It fails unless each field of it is one that a plan may have.
func Read(r io.Reader) (*Plan, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPlan+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPlan {
		return nil, fmt.Errorf("this is no plan, as `berth switch plan -o json` writes it: it has more than %d bytes", maxPlan)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	p := &Plan{}
	if err := decoder.Decode(p); err != nil {
		return nil, fmt.Errorf("this is no plan, as `berth switch plan -o json` writes it: %w", err)
	}
	if p.Schema != Schema {
		return nil, fmt.Errorf("schema is %q, want %q, as `berth switch plan -o json` writes it", p.Schema, Schema)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("this is no plan, as `berth switch plan -o json` writes it: more follows after its end")
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("this is not a whole plan, as `berth switch plan -o json` writes it: %w", err)
	}
	return p, nil
}

// check fails unless all that is done, or said, by a plan can be.
func (p *Plan) check() error {
	return errors.Join(p.Subscription.check(), p.From.check("from"), p.To.check("to"), p.checkTarget(), p.checkContents(), p.checkDriver(),
		p.checkChecks(), p.checkSteps(), p.checkOutcomes())
}

func (s Subscription) check() error {
	faults := []error{
		checkNamespace("subscription.namespace", s.Namespace), checkName("subscription.name", s.Name),
		checkUID("subscription.uid", s.UID), checkUID("subscription.namespaceUID", s.NamespaceUID),
	}
	if s.Generation < 1 {
		faults = append(faults, fmt.Errorf("subscription.generation is %d, want at least 1", s.Generation))
	}
	if known := []v1alpha1.Approval{"", v1alpha1.ApprovalAutomatic, v1alpha1.ApprovalManual}; !slices.Contains(known, v1alpha1.Approval(s.Approval)) {
		faults = append(faults, fmt.Errorf("subscription.approval is %q, want one of %q", s.Approval, known))
	}
	return errors.Join(faults...)
}

func (c Choice) check(field string) error {
	return errors.Join(checkName(field+".source", c.Source), checkNamespace(field+".sourceNamespace", c.SourceNamespace),
		checkText(field+".package", c.Package, true), checkText(field+".channel", c.Channel, false), checkOptional(field+".startingCSV", c.StartingCSV))
}

// checkTarget checks what is installed, what will be, and which way that is.
func (p *Plan) checkTarget() error {
	faults := []error{checkOptional("installed", p.Installed), checkOptional("target", p.Target)}
	for _, name := range p.Along {
		faults = append(faults, checkName("along", name))
	}
	if !slices.Contains([]Way{"", Update, Replace, Stay}, p.Way) || p.Safe && p.Way == "" {
		faults = append(faults, fmt.Errorf("way is %q, want one of %q", p.Way, []Way{Update, Replace, Stay}))
	}
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{p.Safe && p.Target == "", "target is missing"},
		{p.Way == Stay && p.Target != p.Installed, "way is stay, and target is not what is installed"},
		{p.Safe && p.Way != Stay && p.Target == p.Installed, "target is what is installed, and way is not stay"},
		{p.Way == Replace && p.Installed == "", "way is replace, and installed is missing"},
		{p.Way == Replace && p.From.Package == p.To.Package, "way is replace, and from.package is to.package"},
		{slices.Contains(p.Along, p.Target), "along has the target"},
	} {
		if wrong.is {
			faults = append(faults, errors.New(wrong.what))
		}
	}
	return errors.Join(faults...)
}

// checkDriver wants the driver of a plan to be as its definition says.
func (p *Plan) checkDriver() error {
	if p.Driver == nil {
		return nil
	}
	defined, found := driverOf(p.From.Package, p.To.Package)
	if !found || defined.CSIName != p.Driver.Name || defined.Operator.Name != p.Driver.Operator || defined.Operator.Lock != p.Driver.Lock {
		return fmt.Errorf("driver is %q, with operator %q and lock %q, which is not the driver of package %q or %q",
			p.Driver.Name, p.Driver.Operator, p.Driver.Lock, p.From.Package, p.To.Package)
	}
	names, err := daemonSetsOf(defined, p.Subscription.Namespace)
	if err != nil {
		return err
	}
	if !slices.Equal(names, p.Driver.DaemonSets) {
		return fmt.Errorf("driver.daemonSets are %q, want %q", p.Driver.DaemonSets, names)
	}
	return nil
}

// driverOf returns the driver whose operator is a package of either name.
func driverOf(names ...string) (drivers.Driver, bool) {
	all := registry.All()
	at := slices.IndexFunc(all, func(d drivers.Driver) bool { return slices.Contains(names, d.Package.Name) })
	if at < 0 {
		return drivers.Driver{}, false
	}
	return all[at], true
}

func (p *Plan) checkChecks() error {
	refused := false
	for _, c := range p.Checks {
		if !slices.Contains([]Verdict{OK, Warning, Refused}, c.Verdict) {
			return fmt.Errorf("the verdict of check %q is %q, want one of %q", c.Code, c.Verdict, []Verdict{OK, Warning, Refused})
		}
		refused = refused || c.Verdict == Refused
	}
	if p.Safe == refused {
		return fmt.Errorf("safe is %t, and a check is refused: %t", p.Safe, refused)
	}
	return nil
}

// checkSteps wants the steps of a plan to be those of its way, and has them say what they do.
func (p *Plan) checkSteps() error {
	var want []Step
	if p.Safe {
		want = stepsOf(p)
	}
	if !slices.EqualFunc(p.Steps, want, func(a, b Step) bool { return a.Name == b.Name && a.NoReturn == b.NoReturn }) {
		return errors.New("steps are not those of such a switch")
	}
	p.Steps = want
	return nil
}

// checkOutcomes wants an outcome for the Subscription.
func (p *Plan) checkOutcomes() error {
	if slices.Contains(p.Outcomes, nil) {
		return errors.New("one of outcomes is null")
	}
	own := p.outcome()
	if own == nil {
		return fmt.Errorf("outcomes has none for Subscription %q", p.Subscription.Name)
	}
	verdicts := []prediction.Verdict{prediction.Installs, prediction.Updates, prediction.Waits, prediction.Latest, prediction.Stranded, prediction.Refused}
	for _, o := range p.Outcomes {
		goesOn := o.Verdict == prediction.Installs || o.Verdict == prediction.Updates
		if !slices.Contains(verdicts, o.Verdict) || goesOn && o.Next == nil {
			return fmt.Errorf("the outcome for Subscription %q has verdict %q, and next: %t", o.Subscription, o.Verdict, o.Next != nil)
		}
	}
	if p.Safe && p.Way != Stay && (own.Next == nil || own.Next.Name != p.Target) {
		return errors.New("what the Subscription's outcome has next is not the target")
	}
	return nil
}

func checkName(field, name string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("%s is %q, want the name of an object", field, shortened(name))
	}
	return nil
}

func checkOptional(field, name string) error {
	if name == "" {
		return nil
	}
	return checkName(field, name)
}

func checkNamespace(field, name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("%s is %q, want the name of a namespace", field, shortened(name))
	}
	return nil
}

func checkUID(field string, uid types.UID) error { return checkText(field, string(uid), true) }

// checkText checks a word that may be of any letters.
func checkText(field, text string, needed bool) error {
	switch {
	case needed && text == "":
		return fmt.Errorf("%s is missing", field)
	case len(text) > maxText:
		return fmt.Errorf("%s has %d bytes, want at most %d", field, len(text), maxText)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }):
		return fmt.Errorf("%s is %q, want a word", field, text)
	}
	return nil
}

func shortened(text string) string { return text[:min(len(text), maxText)] }
