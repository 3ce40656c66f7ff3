package move

import (
	"errors"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/migrate"
)

// Validate fails unless every field has a value that a plan can have. Objects that are changed or deleted must have kinds that bundles
// have, and be in the operator's namespace or cluster-scoped, so that no journal can name anything else.
func (p *Plan) Validate() error {
	errs := []error{
		migrate.ValidateName("package", p.Package), migrate.ValidateNamespace("namespace", p.Namespace), migrate.ValidateUID("namespaceUID", p.NamespaceUID),
		p.Version.validate(), p.Subscription.validate(p.Package), p.Extension.validate(),
	}
	if p.To != ToV0 && p.To != ToV1 {
		errs = append(errs, fmt.Errorf("to is %q, want %s or %s", p.To, ToV1, ToV0))
	}
	if p.Subject.Name != p.Package {
		errs = append(errs, fmt.Errorf("subject.name is %q, want the package's name, %q", p.Subject.Name, p.Package))
	}
	if p.To == ToV1 && p.Safe {
		errs = append(errs, migrate.ValidateUID("version.uid", p.Version.UID))
	}
	if p.To == ToV0 && p.Safe {
		errs = append(errs, migrate.ValidateUID("subject.uid", p.Subject.UID))
	}
	for _, o := range p.TakenOver {
		errs = append(errs, o.validate("takenOver", p.Namespace, false))
	}
	for _, o := range p.Replaced {
		errs = append(errs, o.validate("replaced", p.Namespace, true))
	}
	for _, pkg := range p.Needs {
		errs = append(errs, migrate.ValidateName("needs", pkg))
	}
	for _, code := range p.Accepted {
		if !slices.Contains(acceptable, code) {
			errs = append(errs, fmt.Errorf("accepted has %q, want one of %q", code, acceptable))
		}
	}
	return errors.Join(errs...)
}

func (v Version) validate() error {
	errs := []error{migrate.ValidateName("version.name", v.Name), migrate.ValidateWord("version.uid", string(v.UID))}
	if _, err := semver.Parse(v.Number); err != nil {
		errs = append(errs, fmt.Errorf("version.number is %q, want a semantic version: %w", v.Number, err))
	}
	return errors.Join(errs...)
}

func (s Subscription) validate(pkg string) error {
	errs := []error{
		migrate.ValidateName("subscription.name", s.Name), migrate.ValidateUID("subscription.uid", s.UID),
		migrate.ValidateName("subscription.spec.source", s.Spec.CatalogSource), migrate.ValidateNamespace("subscription.spec.sourceNamespace", s.Spec.CatalogSourceNamespace),
		migrate.ValidateWord("subscription.spec.channel", s.Spec.Channel), migrate.ValidateWord("subscription.spec.startingCSV", s.Spec.StartingCSV),
		migrate.ValidateWord("subscription.spec.installPlanApproval", string(s.Spec.InstallPlanApproval)),
	}
	if s.Spec.Package != pkg {
		errs = append(errs, fmt.Errorf("subscription.spec.name is %q, want %q, the package", s.Spec.Package, pkg))
	}
	return errors.Join(errs...)
}

func (e Extension) validate() error {
	errs := []error{
		migrate.ValidateWord("extension.catalog", e.Catalog), migrate.ValidateWord("extension.watchNamespace", e.WatchNamespace),
		migrate.ValidateWord("extension.serviceAccount", e.ServiceAccount),
	}
	for _, channel := range e.Channels {
		errs = append(errs, migrate.ValidateWord("extension.channels", channel))
	}
	return errors.Join(errs...)
}

func (o Object) validate(field, namespace string, replaced bool) error {
	errs := []error{migrate.ValidateWord(field+".version", o.Version), migrate.ValidateUID(field+".uid", o.UID)}
	if isPermission(o.Group, o.Kind) { // permissions may have names such as system:reader
		errs = append(errs, migrate.ValidateUID(field+".name", types.UID(o.Name)))
	} else {
		errs = append(errs, migrate.ValidateName(field+".name", o.Name))
	}
	taken, ofCluster := isTakenOver(o.Group, o.Kind)
	if replaced {
		taken = isPermission(o.Group, o.Kind) || o.Group == "" && o.Kind == secretKind.Kind
	}
	if !taken {
		errs = append(errs, fmt.Errorf("%s has %s of API group %q, and a move changes no such objects", field, o, o.Group))
	}
	if ofCluster && o.Namespace != "" || !ofCluster && o.Namespace != namespace {
		errs = append(errs, fmt.Errorf("%s has %s, want it in namespace %s, or in none if it is cluster-scoped", field, o, namespace))
	}
	return errors.Join(errs...)
}

// ValidateNotes fails if the journal has notes.
func (p *Plan) ValidateNotes(notes map[string]string) error {
	for key := range notes {
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}
