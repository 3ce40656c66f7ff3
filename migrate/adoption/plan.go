// Package adoption hands a driver over to the cluster storage operator, if the Operator Lifecycle Manager (OLM) runs the driver's
// operator. It is a migration of package migrate, and the command "berth adopt". It removes the operator from OLM: the Subscription, its
// InstallPlans and its ClusterServiceVersion. The driver keeps running. The cluster storage operator waits until OLM's operator is gone,
// and then starts its own, which takes the driver over in place.
//
// If OLM v1 runs the operator, the migration removes the ClusterExtension and its installed objects except the APIs.
//
// Nothing else is deleted, above all not the object that configured the earlier operator, its API, or a namespace: when that object is
// deleted, the earlier operators remove the driver, with the Secrets that its volumes need.
//
// # Who does what
//
// The driver's definition lists the operators that OLM may have run (drivers.History.Predecessors): their versions, the name of the
// Deployment, and the object that configured the operator. drivers/predecessor finds them by the ClusterRoleBindings that OLM creates for
// operators. These are cluster-scoped, so not every user can create them; any user may create a Subscription.
//
//   - Hold (operator/clusterstorage/predecessor.go): while there is such an operator, or a pod of it, the cluster storage operator does
//     not start its own, and storage stays available. The related objects of its ClusterOperator record the namespaces where pods may be
//     left, so that it knows them after a restart. Once it has started its own operator, it never waits again, and reports an operator
//     that OLM runs beside it.
//   - Migration (migrate/adoption): it deletes OLM's objects for the operator, and then waits for other controllers.
//     Its subject is the ClusterCSIDriver, which need not exist. The point of no return is the first deletion.
//   - Who carries it out: berth adopt, and the cluster storage operator, which makes one step in each sync and does not wait
//     (successor.go). They share the journal. Rooms import downward only, so the cluster storage operator knows only the progress of a
//     migration (predecessor.Handover), and gets the migration from cmd/berth-operator as a function. It begins a migration only as long
//     as it has not started its own operator of the driver, and continues any migration that is in progress.
//   - Cleanup (migrate/adoption/cleanup.go): berth adopt cleanup deletes the former operator's objects that the
//     definition lists (drivers.Predecessor.Leaves), if nothing needs them any more (proof.go, a pure function). It has
//     no journal: each deletion is decided from the observed state alone.
//   - Takeover: the ClusterCSIDriver begins with the log levels from the former operator's configuration. Until the new operator has
//     reported that all is well, its Available conditions count as True, because the driver serves volumes as before.
package adoption

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// Adopt runs the migrations of this package. The subject is the driver's ClusterCSIDriver, which may not exist yet.
var Adopt = migrate.Engine[*Plan]{
	Name:          "adopt",
	Noun:          "an adoption",
	Kind:          "ClusterCSIDriver",
	ClusterScoped: true,
	Schema:        "berth.adopt-plan.v1",
	StatusSchema:  "berth.adopt-status.v1",
	New:           func() *Plan { return &Plan{} },
	Changes:       changes,
}

// Plan is how a driver gets from OLM to the cluster storage operator.
type Plan struct {
	migrate.Outline
	// Driver is the name of the driver's definition.
	Driver string `json:"driver"`
	// Operator is the operator that OLM runs, nil if it runs no operator.
	Operator *Operator `json:"operator,omitempty"`
	// Settings refers to the object that configured the operator in addition to the ClusterCSIDriver, or is nil.
	Settings *Settings `json:"settings,omitempty"`
}

// Operator is an operator that OLM runs.
type Operator struct {
	Namespace    string    `json:"namespace"`
	NamespaceUID types.UID `json:"namespaceUID"`
	// Subscription is nil if somebody has deleted it.
	Subscription *Reference `json:"subscription,omitempty"`
	// Version is the operator's ClusterServiceVersion, and Extension the ClusterExtension if OLM v1 runs it. Exactly one of them is set.
	Version   Reference  `json:"version,omitzero"`
	Extension *Extension `json:"extension,omitempty"`
	// Name is the name of its Deployment and of its service account.
	Name string `json:"name"`
}

// Extension is a ClusterExtension.
type Extension struct {
	Reference
	// Bundle is the name of the installed bundle.
	Bundle string `json:"bundle"`
}

// Reference is an object of the operator's namespace, or of the cluster.
type Reference struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// Settings are the object that configured the operator, and the fields that the cluster storage operator takes over
// from it.
type Settings struct {
	// Resource is its kind and name, as in "AWSEBSDriver cluster".
	Resource         string    `json:"resource"`
	UID              types.UID `json:"uid"`
	LogLevel         string    `json:"logLevel,omitempty"`
	OperatorLogLevel string    `json:"operatorLogLevel,omitempty"`
}

// definition returns the driver's definition.
func (p *Plan) definition() (drivers.Driver, error) { return registry.Get(p.Driver) }

// changes returns the differences between two plans.
func changes(was, now *Plan) []string {
	var found []string
	compare := func(what string, was, is any) {
		if was != is {
			found = append(found, fmt.Sprintf("%s was %v and is %v", what, was, is))
		}
	}
	compare("the driver", was.Driver, now.Driver)
	compare("the ClusterCSIDriver's UID", was.Subject.UID, now.Subject.UID)
	compare("the operator that OLM runs", was.Operator.describe(), now.Operator.describe())
	compare("what configured it", was.Settings.describe(), now.Settings.describe())
	return found
}

func (o *Operator) describe() string {
	if o == nil {
		return "none"
	}
	if e := o.Extension; e != nil {
		return fmt.Sprintf("%s %s, of ClusterExtension %s with UID %s in namespace %s with UID %s", o.Name, e.Bundle, e.Name, e.UID, o.Namespace, o.NamespaceUID)
	}
	subscription := "no Subscription"
	if o.Subscription != nil {
		subscription = fmt.Sprintf("Subscription %s with UID %s", o.Subscription.Name, o.Subscription.UID)
	}
	return fmt.Sprintf("%s, of %s and ClusterServiceVersion %s with UID %s in namespace %s with UID %s",
		o.Name, subscription, o.Version.Name, o.Version.UID, o.Namespace, o.NamespaceUID)
}

func (s *Settings) describe() string {
	if s == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s with UID %s, log levels %q and %q", s.Resource, s.UID, s.LogLevel, s.OperatorLogLevel)
}

// Arguments returns the command line arguments that select this adoption.
func (p *Plan) Arguments(string) string { return escape.Command(" %s", p.Driver) }

// Text describes the plan for people.
func (p *Plan) Text(colour findings.Palette) string { return migrate.Text(p, colour) }

// Describe writes the driver and its operator.
func (p *Plan) Describe(lines *escape.Lines) {
	lines.Add("Driver %s", p.Subject.Name)
	switch o := p.Operator; {
	case o == nil:
		lines.Add("  from  nobody: OLM runs no operator of it")
	case o.Extension != nil:
		lines.Add("  from  OLM: %s in %s, of ClusterExtension %s", o.Extension.Bundle, o.Namespace, o.Extension.Name)
	case o.Subscription == nil:
		lines.Add("  from  OLM: %s in %s, without a Subscription", o.Version.Name, o.Namespace)
	default:
		lines.Add("  from  OLM: %s in %s, of Subscription %s", o.Version.Name, o.Namespace, o.Subscription.Name)
	}
	lines.Add("  to    the cluster storage operator, in %s", drivers.ClusterStorageNamespace)
	if s := p.Settings; s != nil {
		lines.Add("  keeps %s, which has no effect any more%s", s.Resource, s.levels())
	}
}

// levels says which log levels are taken over.
func (s *Settings) levels() string {
	if s.LogLevel == "" && s.OperatorLogLevel == "" {
		return ""
	}
	return fmt.Sprintf("; the new ClusterCSIDriver gets its log levels: logLevel %q, operatorLogLevel %q", s.LogLevel, s.OperatorLogLevel)
}

// Validate fails unless every field has a value that a plan can have. Objects that are deleted must belong to one of the definition's
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
