package subscription

import (
	"context"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// plan makes the plan. From the cluster, it reads only the objects of CRDs that would change.
func (in *input) plan(ctx context.Context, r Request) (*Plan, error) {
	s := in.subscription
	p := &Plan{
		Outline:    migrate.Outline{Subject: migrate.Subject{Namespace: s.Namespace, Name: s.Name, UID: s.UID, NamespaceUID: in.namespaceUID}},
		Generation: s.Generation, Approval: string(s.Spec.InstallPlanApproval), Config: s.Spec.Config,
		From: choiceOf(s.Spec), To: r.choice(s.Spec), Installed: s.Status.InstalledCSV,
	}
	defaulted := in.defaultChannel(p, r)
	own, err := in.predict(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := p.setContents(); err != nil {
		return nil, err
	}
	if d := in.driver; d != nil {
		p.Driver = &Driver{Name: d.CSIName, Operator: d.Operator.Name, Lock: d.Operator.Lock, DaemonSets: d.daemonSets, Create: r.CreateDriver}
	}
	if in.isSwitched(p) {
		p.Target, p.Strategy, p.Additional, p.Contents = p.Installed, Keep, nil, nil
		p.Checks = append(checkSwitched(p), in.checkRest(p, defaulted)...)
	} else {
		p.Checks = append(checkPrediction(p, own), in.checkRest(p, defaulted)...)
	}
	if p.Checks.Safe() {
		p.Objects, err = in.changedObjects(p)
	}
	return p, err
}

// isSwitched reports whether the Subscription uses the other catalog already, and the installed version is from there. Then nothing is
// left to switch, and OLM's later updates are no part of a switch.
func (in *input) isSwitched(p *Plan) bool {
	catalog := in.Catalogs[in.target]
	if p.From != p.To || p.Installed == "" || catalog == nil {
		return false
	}
	pkg := catalog.Find(p.To.Package)
	return pkg != nil && pkg.FindBundle(p.Installed) != nil
}

// defaultChannel chooses the default channel of the package in the other catalog, if no channel was requested and no channel there has the
// present name. It reports whether it has done so.
func (in *input) defaultChannel(p *Plan, r Request) bool {
	c := in.Catalogs[in.target]
	if r.Channel != "" || p.To.Channel == "" || c == nil || c.Find(p.To.Package) == nil {
		return false
	}
	pkg := c.Find(p.To.Package)
	if pkg.FindChannel(p.To.Channel) != nil || pkg.FindChannel(pkg.DefaultChannel) == nil {
		return false
	}
	p.To.Channel = pkg.DefaultChannel
	return true
}

// predict predicts OLM's actions, which determine the strategy and the target. It returns the prediction for the
// Subscription.
func (in *input) predict(ctx context.Context, p *Plan) (*prediction.Prediction, error) {
	switched, err := in.WithSpec(p.Subject.Name, p.To.applyTo)
	if err != nil {
		return nil, err
	}
	if p.Outcomes, err = switched.Predict(ctx); err != nil {
		return nil, err
	}
	own := p.outcome()
	if own != nil && own.Reaction == prediction.Stranded && p.To.Package != p.From.Package {
		p.Strategy = Replace
		if p.Outcomes, err = in.replaced(p).Predict(ctx); err != nil {
			return nil, err
		}
		own = p.outcome()
	}
	if own == nil {
		return nil, fmt.Errorf("there is no prediction for Subscription %s", p.Subject)
	}
	for _, o := range p.Outcomes {
		if o.Next != nil && o != own {
			p.Additional = append(p.Additional, o.Next.Name)
		}
		p.Additional = append(p.Additional, o.Dependencies...)
	}
	switch {
	case own.Next != nil:
		p.Target = own.Next.Name
		if p.Strategy == "" {
			p.Strategy = Update
		}
	case own.Reaction == prediction.Latest:
		p.Target, p.Strategy = p.Installed, Keep
	}
	slices.Sort(p.Additional)
	p.Additional = slices.DeleteFunc(slices.Compact(p.Additional), func(name string) bool { return name == p.Target })
	return own, nil
}

// replaced returns the state after the operator was removed and its Subscription recreated.
func (in *input) replaced(p *Plan) *prediction.State {
	later := *in.State
	later.CSVs = slices.DeleteFunc(slices.Clone(in.CSVs), func(csv *v1alpha1.ClusterServiceVersion) bool { return csv.Name == p.Installed })
	later.Subscriptions = slices.Clone(in.Subscriptions)
	s := in.subscription.DeepCopy()
	p.To.StartingCSV = ""
	p.To.applyTo(s.Spec)
	s.Status = v1alpha1.SubscriptionStatus{}
	later.Subscriptions[slices.Index(in.Subscriptions, in.subscription)] = s
	return &later
}

// setContents records the content of the target and of the versions that OLM installs at the same time.
func (p *Plan) setContents() error {
	if p.Strategy == Keep {
		return nil
	}
	for _, o := range p.Outcomes {
		for _, b := range o.Bundles() {
			if slices.ContainsFunc(p.Contents, func(c Content) bool { return c.Name == b.Name }) {
				continue // another Subscription gets it, too
			}
			c, err := contentOf(b)
			if err != nil {
				return err
			}
			p.Contents = append(p.Contents, c)
		}
	}
	return nil
}

// changedObjects lists the objects that a plan changes.
func (in *input) changedObjects(p *Plan) ([]migrate.Object, error) {
	var all []migrate.Object
	add := func(by, kind, namespace, name, how string) {
		all = append(all, migrate.Object{By: by, Kind: kind, Namespace: namespace, Name: name, How: how})
	}
	namespace, creates := p.Subject.Namespace, p.createsDriver() && !in.driver.managed
	if p.Strategy == Replace {
		add("berth", "Subscription", namespace, p.Subject.Name, "deleted and recreated")
		add("berth", "ClusterServiceVersion", namespace, p.Installed, "deleted")
	} else if p.From != p.To {
		add("berth", "Subscription", namespace, p.Subject.Name, "spec updated")
	}
	if p.Strategy != Keep {
		add("berth", "InstallPlan", namespace, "(the one for "+p.Target+")", "approved")
	}
	if creates {
		add("berth", "ClusterCSIDriver", "", p.Driver.Name, "created")
	}
	if p.Strategy == Update {
		add("OLM", "ClusterServiceVersion", namespace, p.Installed, "deleted when its successor has succeeded")
	}
	if p.Strategy != Keep {
		add("OLM", "ClusterServiceVersion", namespace, p.Target, "created, with its objects")
		definitions, err := in.definitions(p)
		if err != nil {
			return nil, err
		}
		for _, name := range definitions {
			add("OLM", "CustomResourceDefinition", "", name, "created or updated; its objects stay")
		}
	}
	if in.driver != nil && (in.driver.managed && p.Strategy != Keep || creates) {
		for _, object := range in.driver.objects {
			add("the operator", object.GetKind(), object.GetNamespace(), object.GetName(), "adopted in place")
		}
	}
	return all, nil
}

// definitions returns the names of the CRDs that the target owns, as far as the catalog says.
func (in *input) definitions(p *Plan) ([]string, error) {
	bundle := in.Catalogs[in.target].Find(p.To.Package).FindBundle(p.Target)
	if bundle == nil {
		return nil, nil
	}
	details, err := bundle.Details()
	if err != nil || details.CSV == nil {
		return nil, err
	}
	var names []string
	for _, owned := range details.CSV.Spec.CustomResourceDefinitions.Owned {
		names = append(names, owned.Name)
	}
	return names, nil
}
