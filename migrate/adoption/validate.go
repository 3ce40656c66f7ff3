package adoption

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
)

// Validate fails unless every field is one that a plan can have. Deleted objects must be in the definition's
// predecessors, so that no journal can name anything else.
func (p *Plan) Validate() error {
	d, err := p.definition()
	if err != nil {
		return fmt.Errorf("driver: %w", err)
	}
	errs := []error{p.Settings.validate(d)}
	if p.Subject.Name != d.CSIName {
		errs = append(errs, fmt.Errorf("subject.name is %q, want %q, the name of driver %s", p.Subject.Name, d.CSIName, d.Name))
	}
	if len(d.Predecessors()) == 0 {
		errs = append(errs, fmt.Errorf("driver is %q, which OLM never ran", p.Driver))
	}
	return errors.Join(append(errs, p.Operator.validate(d))...)
}

// ValidateNotes fails if the journal has notes.
func (p *Plan) ValidateNotes(notes map[string]string) error {
	for key := range notes {
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

func (o *Operator) validate(d drivers.Driver) error {
	if o == nil {
		return nil
	}
	errs := []error{
		migrate.ValidateNamespace("operator.namespace", o.Namespace), migrate.ValidateUID("operator.namespaceUID", o.NamespaceUID),
	}
	switch e := o.Extension; {
	case e != nil:
		errs = append(errs, e.validate("operator.extension"))
		if _, of := d.VersionOf(e.Bundle); !of {
			errs = append(errs, fmt.Errorf("operator.extension.bundle is %q, want one of package %s", e.Bundle, d.Package.Name))
		}
		if o.Subscription != nil || o.Version != (Reference{}) {
			errs = append(errs, errors.New("operator.extension is set, so want no operator.subscription and no operator.version"))
		}
	default:
		errs = append(errs, o.Version.validate("operator.version"))
		if _, of := d.VersionOf(o.Version.Name); !of {
			errs = append(errs, fmt.Errorf("operator.version.name is %q, want one of package %s", o.Version.Name, d.Package.Name))
		}
	}
	if o.Subscription != nil {
		errs = append(errs, o.Subscription.validate("operator.subscription"))
	}
	if !predecessor.IsOperator(d, o.Name) {
		errs = append(errs, fmt.Errorf("operator.name is %q, which is no operator of driver %s", o.Name, d.Name))
	}
	return errors.Join(errs...)
}

func (r Reference) validate(field string) error {
	return errors.Join(migrate.ValidateName(field+".name", r.Name), migrate.ValidateUID(field+".uid", r.UID))
}

func (s *Settings) validate(d drivers.Driver) error {
	if s == nil {
		return nil
	}
	errs := []error{
		migrate.ValidateUID("settings.uid", s.UID), migrate.ValidateWord("settings.logLevel", s.LogLevel), migrate.ValidateWord("settings.operatorLogLevel", s.OperatorLogLevel),
	}
	if !slices.ContainsFunc(d.OldCustomResources(), func(of drivers.CustomResource) bool { return of.String() == s.Resource }) {
		errs = append(errs, fmt.Errorf("settings.resource is %q, which configured no operator of driver %s", s.Resource, d.Name))
	}
	return errors.Join(errs...)
}
