package subscription

import (
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// Validate fails unless every field has a value that a plan can have, so that everything executed or printed is valid.
func (p *Plan) Validate() error {
	return errors.Join(p.validateSettings(), p.From.validate("from"), p.To.validate("to"), p.validateTarget(), p.validateContents(), p.validateDriver(), p.validateOutcomes())
}

func (p *Plan) validateSettings() error {
	var errs []error
	if p.Generation < 1 {
		errs = append(errs, fmt.Errorf("generation is %d, want at least 1", p.Generation))
	}
	if known := []v1alpha1.Approval{"", v1alpha1.ApprovalAutomatic, v1alpha1.ApprovalManual}; !slices.Contains(known, v1alpha1.Approval(p.Approval)) {
		errs = append(errs, fmt.Errorf("approval is %q, want one of %q", p.Approval, known))
	}
	return errors.Join(errs...)
}

func (c Choice) validate(field string) error {
	errs := []error{
		migrate.ValidateName(field+".source", c.Source), migrate.ValidateNamespace(field+".sourceNamespace", c.SourceNamespace),
		migrate.ValidateWord(field+".package", c.Package), migrate.ValidateWord(field+".channel", c.Channel), validateOptional(field+".startingCSV", c.StartingCSV),
	}
	if c.Package == "" {
		errs = append(errs, fmt.Errorf("%s.package is missing", field))
	}
	return errors.Join(errs...)
}

func validateOptional(field, name string) error {
	if name == "" {
		return nil
	}
	return migrate.ValidateName(field, name)
}

// validateTarget checks the installed version, the target, and the strategy.
func (p *Plan) validateTarget() error {
	errs := []error{validateOptional("installed", p.Installed), validateOptional("target", p.Target)}
	for _, name := range p.Additional {
		errs = append(errs, migrate.ValidateName("additional", name))
	}
	if !slices.Contains([]Strategy{"", Update, Replace, Keep}, p.Strategy) || p.Safe && p.Strategy == "" {
		errs = append(errs, fmt.Errorf("strategy is %q, want one of %q", p.Strategy, []Strategy{Update, Replace, Keep}))
	}
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{p.Safe && p.Target == "", "target is missing"},
		{p.Strategy == Keep && p.Target != p.Installed, "strategy is keep, and target is not the installed version"},
		{p.Safe && p.Strategy != Keep && p.Target == p.Installed, "target is the installed version, and strategy is not keep"},
		{p.Strategy == Replace && p.Installed == "", "strategy is replace, and installed is missing"},
		{p.Strategy == Replace && p.From.Package == p.To.Package, "strategy is replace, and from.package is to.package"},
		{slices.Contains(p.Additional, p.Target), "additional has the target"},
	} {
		if wrong.is {
			errs = append(errs, errors.New(wrong.what))
		}
	}
	return errors.Join(errs...)
}

// validateDriver fails unless the driver is as its definition says.
func (p *Plan) validateDriver() error {
	if p.Driver == nil {
		return nil
	}
	defined, found := driverOf(p.From.Package, p.To.Package)
	if !found || defined.CSIName != p.Driver.Name || defined.Operator.Name != p.Driver.Operator || defined.Operator.Lock != p.Driver.Lock {
		return fmt.Errorf("driver is %q, with operator %q and lock %q, which is not the driver of package %q or %q",
			p.Driver.Name, p.Driver.Operator, p.Driver.Lock, p.From.Package, p.To.Package)
	}
	names, err := daemonSetsOf(defined, p.Subject.Namespace)
	if err != nil {
		return err
	}
	if !slices.Equal(names, p.Driver.DaemonSets) {
		return fmt.Errorf("driver.daemonSets are %q, want %q", p.Driver.DaemonSets, names)
	}
	return nil
}

// driverOf returns the driver whose operator is in a package of one of the names.
func driverOf(names ...string) (drivers.Driver, bool) {
	all := registry.Packaged()
	at := slices.IndexFunc(all, func(d drivers.Driver) bool { return slices.Contains(names, d.Package.Name) })
	if at < 0 {
		return drivers.Driver{}, false
	}
	return all[at], true
}

// validateOutcomes fails unless there is an outcome for the Subscription.
func (p *Plan) validateOutcomes() error {
	if slices.Contains(p.Outcomes, nil) {
		return errors.New("one of outcomes is null")
	}
	own := p.outcome()
	if own == nil {
		return fmt.Errorf("outcomes has none for Subscription %q", p.Subject.Name)
	}
	reactions := []prediction.Reaction{prediction.Installs, prediction.Updates, prediction.Waits, prediction.Latest, prediction.Stranded, prediction.Refused}
	for _, o := range p.Outcomes {
		advances := o.Reaction == prediction.Installs || o.Reaction == prediction.Updates
		if !slices.Contains(reactions, o.Reaction) || advances && o.Next == nil {
			return fmt.Errorf("the outcome for Subscription %q has the reaction %q, and next: %t", o.Subscription, o.Reaction, o.Next != nil)
		}
	}
	if p.Safe && p.Strategy != Keep && (own.Next == nil || own.Next.Name != p.Target) {
		return errors.New("next in the outcome for the Subscription is not the target")
	}
	return nil
}
