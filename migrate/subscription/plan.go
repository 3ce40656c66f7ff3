// Package subscription moves an operator that the Operator Lifecycle Manager (OLM) runs from one catalog to another, such as from the
// community catalog to the certified one. It is a migration of package migrate, and the command "berth switch". It changes the operator's
// Subscription to the other catalog; OLM then updates the operator from there. The operator's custom resources and their workloads are
// never touched.
package subscription

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// Switch runs the migrations of this package.
var Switch = migrate.Engine[*Plan]{
	Name:         "switch",
	Noun:         "a switch",
	Kind:         v1alpha1.SubscriptionKind,
	Schema:       "berth.switch-plan.v5",
	StatusSchema: "berth.switch-status.v1",
	New:          func() *Plan { return &Plan{} },
	Changes:      changes,
}

// Plan says how a Subscription, the subject, moves from one catalog to another.
type Plan struct {
	migrate.Outline
	// Generation is the generation of the Subscription. It counts the changes of its spec.
	Generation int64 `json:"generation"`
	// Approval is the Subscription's spec.installPlanApproval. It is Manual until the switch is complete.
	Approval string `json:"approval,omitempty"`
	// Config is the Subscription's spec.config, such as environment variables of the operator.
	Config *v1alpha1.SubscriptionConfig `json:"config,omitempty"`
	From   Choice                       `json:"from"`
	To     Choice                       `json:"to"`
	// Installed is the ClusterServiceVersion that is installed, and Target the one that OLM will install. They are the
	// same if nothing is to be installed, and Target is empty if OLM will not install any.
	Installed string `json:"installed"`
	Target    string `json:"target,omitempty"`
	// Additional are the other ClusterServiceVersions that OLM installs at the same time: dependencies, and updates
	// for other Subscriptions of the namespace.
	Additional []string `json:"additional,omitempty"`
	// Contents are the objects that OLM installs for the target and for each additional ClusterServiceVersion, and their
	// sources.
	Contents []Content `json:"contents,omitempty"`
	Strategy Strategy  `json:"strategy"`
	// Driver is the CSI driver of the operator. It is nil if the operator has no known driver.
	Driver *Driver `json:"driver,omitempty"`
	// Outcomes are the predictions for all Subscriptions of the namespace.
	Outcomes []*prediction.Prediction `json:"outcomes"`

	// later is a version that was found to be later than the target. It is not part of the plan.
	later string
}

// Strategy is how OLM gets from one version to the other.
type Strategy string

// The strategies.
const (
	// Update: there is an upgrade edge, and OLM updates the operator as it does within a catalog.
	Update Strategy = "update"
	// Replace: the package has another name in the other catalog, without an upgrade edge from the installed version. The
	// operator is removed and installed again. Its workloads stay, and so do its APIs and their objects.
	Replace Strategy = "replace"
	// Keep: the installed version is also the head of the other catalog's channel.
	Keep Strategy = "keep"
)

// Driver is the CSI driver of an operator.
type Driver struct {
	// Name is the name of the CSIDriver and the ClusterCSIDriver.
	Name string `json:"name"`
	// Operator is the name of the Deployment of an operator that takes the lock.
	Operator string `json:"operator"`
	// Lock is the ConfigMap that ensures that only one operator of the driver is active.
	Lock string `json:"lock"`
	// DaemonSets are the names of the driver's DaemonSets.
	DaemonSets []string `json:"daemonSets"`
	// Create reports whether to create a missing ClusterCSIDriver.
	Create bool `json:"create"`
}

// Choice holds a Subscription's package, channel and catalog.
type Choice struct {
	Source          string `json:"source"`
	SourceNamespace string `json:"sourceNamespace"`
	Package         string `json:"package"`
	Channel         string `json:"channel"`
	StartingCSV     string `json:"startingCSV,omitempty"`
}

// choiceOf returns the choice in a Subscription's spec.
func choiceOf(s *v1alpha1.SubscriptionSpec) Choice {
	return Choice{Source: s.CatalogSource, SourceNamespace: s.CatalogSourceNamespace, Package: s.Package, Channel: s.Channel, StartingCSV: s.StartingCSV}
}

// applyTo changes a Subscription to this choice.
func (c Choice) applyTo(s *v1alpha1.SubscriptionSpec) {
	s.CatalogSource, s.CatalogSourceNamespace, s.Package, s.Channel, s.StartingCSV = c.Source, c.SourceNamespace, c.Package, c.Channel, c.StartingCSV
}

func (c Choice) String() string {
	return fmt.Sprintf("package %s, channel %s, from %s/%s", c.Package, cmp.Or(c.Channel, "(the default)"), c.SourceNamespace, c.Source)
}

// createsDriver reports whether the plan creates the ClusterCSIDriver.
func (p *Plan) createsDriver() bool { return p.Driver != nil && p.Driver.Create }

// outcome returns the prediction for the Subscription of the plan, or nil.
func (p *Plan) outcome() *prediction.Prediction {
	for _, o := range p.Outcomes {
		if o.Subscription == p.Subject.Name {
			return o
		}
	}
	return nil
}

// changes returns the differences between two plans.
func changes(was, now *Plan) []string {
	var changes []string
	compare := func(what string, was, is any) {
		if was != is {
			changes = append(changes, fmt.Sprintf("%s was %v and is %v", what, was, is))
		}
	}
	compare("the Subscription's UID", was.Subject.UID, now.Subject.UID)
	compare("its namespace's UID", was.Subject.NamespaceUID, now.Subject.NamespaceUID)
	compare("the Subscription's generation", was.Generation, now.Generation)
	compare("the present choice", was.From, now.From)
	compare("the future choice", was.To, now.To)
	compare("the installed ClusterServiceVersion", was.Installed, now.Installed)
	compare("the ClusterServiceVersion that OLM will install", was.Target, now.Target)
	compare("the strategy", was.Strategy, now.Strategy)
	if !slices.Equal(was.Additional, now.Additional) {
		changes = append(changes, fmt.Sprintf("what OLM installs at the same time was %q and is %q", was.Additional, now.Additional))
	}
	if !slices.Equal(was.Contents, now.Contents) {
		changes = append(changes, "the content of the version that OLM will install has changed")
	}
	return changes
}

// Arguments returns the command line arguments that select this switch.
func (p *Plan) Arguments(verb string) string {
	line := escape.Command(" %s -n %s", p.From.Package, p.Subject.Namespace)
	if verb != "apply" {
		return line
	}
	line += escape.Command(" --to %s", p.To.SourceNamespace+"/"+p.To.Source)
	if p.To.Channel != "" {
		line += escape.Command(" --channel %s", p.To.Channel)
	}
	if p.To.Package != p.From.Package {
		line += escape.Command(" --new-package %s", p.To.Package)
	}
	if p.createsDriver() {
		line += " --create-driver"
	}
	return line
}

// Text describes the plan for people.
func (p *Plan) Text(colour findings.Palette) string { return migrate.Text(p, colour) }

// Describe writes the Subscription's old and new catalog.
func (p *Plan) Describe(lines *escape.Lines) {
	own := p.outcome()
	lines.Add("Subscription %s", p.Subject)
	lines.Add("  from  %s: %s", p.From, cmp.Or(p.Installed, "nothing installed"))
	lines.Add("  to    %s: %s", p.To, cmp.Or(p.Target, "nothing that OLM would install"))
	switch {
	case p.Strategy == Update && own.Next != nil:
		lines.Add("  OLM   %s", own.Sentence())
	case p.Strategy == Replace:
		lines.Add("  OLM   does not update to a package of another name here: the operator is removed and installed again; the objects that it manages stay")
	case p.Strategy == Keep && p.From != p.To:
		lines.Add("  OLM   has nothing to install")
	case own.Message != "":
		lines.Add("  OLM   %s: %s", own.Sentence(), own.Message)
	default:
		lines.Add("  OLM   %s", own.Sentence())
	}
	for _, step := range own.Then {
		lines.Add("  then  %s", step.Name)
	}
	for _, c := range p.Contents {
		if c.Name != p.Target {
			lines.Add("  also  %s, from %s", c.Name, c.source())
		}
	}
	p.describeConfig(lines)
}

// describeConfig writes the Subscription's spec.config, which sets the operator's environment and pods.
func (p *Plan) describeConfig(lines *escape.Lines) {
	if p.Config == nil {
		return
	}
	text, err := boundedyaml.Marshal(p.Config)
	if err != nil {
		text = []byte(err.Error())
	}
	lines.Add("")
	lines.Add("spec.config of the Subscription, which does not change")
	for line := range strings.Lines(string(text)) {
		lines.Add("  %s", strings.TrimSuffix(line, "\n"))
	}
}

// Remark returns a remark for the end of a switch. The remark names the NotReady nodes, which the switch has not waited for. It continues a
// sentence, and is "" if there are no such nodes.
func (p *Plan) Remark(ctx context.Context, c client.Client) (string, error) {
	s := &state{plan: p}
	if err := s.readDriver(ctx, c); err != nil {
		return "", err
	}
	remark := ""
	for _, set := range s.daemonSets {
		if rollout.IsComplete(&set) {
			continue
		}
		nodes, err := rollout.NotReady(ctx, c, &set)
		if err != nil {
			return "", err
		}
		if len(nodes) > 0 {
			remark += fmt.Sprintf("; DaemonSet %s/%s will be up to date on these nodes, which are NotReady, when they are ready: %s",
				set.Namespace, set.Name, rollout.Names(nodes))
		}
	}
	return remark, nil
}
