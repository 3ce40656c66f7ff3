package switchover

import (
	"context"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/olm/prediction"
)

// Make makes the plan. It reads nothing but what Look has found, and the objects of CRDs that would change.
func (w *World) Make(ctx context.Context, r Request) (*Plan, error) {
	s := w.subscription
	p := &Plan{
		Schema: Schema,
		Subscription: Subscription{Namespace: s.Namespace, Name: s.Name, UID: s.UID, NamespaceUID: w.namespaceUID, Generation: s.Generation,
			Approval: string(s.Spec.InstallPlanApproval), Config: s.Spec.Config},
		From:      choiceOf(s.Spec),
		To:        r.choice(s.Spec),
		Installed: s.Status.InstalledCSV,
	}
	turnedChannel := w.fitChannel(p, r)
	own, err := w.foretell(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := p.describeContents(); err != nil {
		return nil, err
	}
	p.describeDriver(w.driver, r)
	p.Checks = append(checksOf(p, own), w.ownChecks(p, turnedChannel)...)
	p.Safe = !slices.ContainsFunc(p.Checks, func(c Check) bool { return c.Verdict == Refused })
	if p.Safe {
		p.Steps = stepsOf(p)
		if p.Touched, err = w.touchedBy(p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// fitChannel takes the default channel of the package in the other catalog, if that has none of the present name
// and none was asked for. It tells whether it has.
func (w *World) fitChannel(p *Plan, r Request) bool {
	c := w.Catalogs[w.target]
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

// foretell says what OLM will do, and which way that is. It returns what OLM does with the Subscription.
func (w *World) foretell(ctx context.Context, p *Plan) (*prediction.Prediction, error) {
	turned, err := w.WithSpec(p.Subscription.Name, p.To.choose)
	if err != nil {
		return nil, err
	}
	if p.Outcomes, err = turned.Predict(ctx); err != nil {
		return nil, err
	}
	own := p.outcome()
	if own != nil && own.Verdict == prediction.Stranded && p.To.Package != p.From.Package {
		p.Way = Replace
		if p.Outcomes, err = w.renewed(p).Predict(ctx); err != nil {
			return nil, err
		}
		own = p.outcome()
	}
	if own == nil {
		return nil, fmt.Errorf("nobody can tell what OLM does with Subscription %s", p.Subscription)
	}
	for _, o := range p.Outcomes {
		if o.Next != nil && o != own {
			p.Along = append(p.Along, o.Next.Name)
		}
		p.Along = append(p.Along, o.Dependencies...)
	}
	switch {
	case own.Next != nil:
		p.Target = own.Next.Name
		if p.Way == "" {
			p.Way = Update
		}
	case own.Verdict == prediction.Latest:
		p.Target, p.Way = p.Installed, Stay
	}
	slices.Sort(p.Along)
	p.Along = slices.DeleteFunc(slices.Compact(p.Along), func(name string) bool { return name == p.Target })
	return own, nil
}

// outcome is what OLM will do with the Subscription of the plan, or nil.
func (p *Plan) outcome() *prediction.Prediction {
	for _, o := range p.Outcomes {
		if o.Subscription == p.Subscription.Name {
			return o
		}
	}
	return nil
}

// renewed is the world once the operator has been removed and its Subscription is a new one.
func (w *World) renewed(p *Plan) *prediction.State {
	later := *w.State
	later.CSVs = slices.DeleteFunc(slices.Clone(w.CSVs), func(csv *v1alpha1.ClusterServiceVersion) bool { return csv.Name == p.Installed })
	later.Subscriptions = slices.Clone(w.Subscriptions)
	s := w.subscription.DeepCopy()
	p.To.StartingCSV = ""
	p.To.choose(s.Spec)
	s.Status = v1alpha1.SubscriptionStatus{}
	later.Subscriptions[slices.Index(w.Subscriptions, w.subscription)] = s
	return &later
}

// describeContents says what OLM installs of the target, and of what comes along.
func (p *Plan) describeContents() error {
	if p.Way == Stay {
		return nil
	}
	for _, o := range p.Outcomes {
		for _, b := range o.Bundles() {
			if slices.ContainsFunc(p.Contents, func(c Content) bool { return c.Name == b.Name }) {
				continue // of another Subscription, too
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

// describeDriver says which driver the operator is for.
func (p *Plan) describeDriver(d *seenDriver, r Request) {
	if d != nil {
		p.Driver = &Driver{Name: d.CSIName, Operator: d.Operator.Name, Lock: d.Operator.Lock, DaemonSets: d.daemonSets, Create: r.CreateDriver}
	}
}

// touchedBy lists the objects that a plan changes.
func (w *World) touchedBy(p *Plan) ([]Touched, error) {
	var all []Touched
	add := func(by, kind, namespace, name, format string, args ...any) {
		all = append(all, Touched{by, kind, namespace, name, fmt.Sprintf(format, args...)})
	}
	namespace := p.Subscription.Namespace
	if p.Way != Stay || p.From != p.To || p.createsDriver() && !w.driver.custom {
		add("berth", "ConfigMap", w.journals, journalName(p.Subscription), "written: the journal")
	}
	if p.Way == Replace {
		add("berth", "Subscription", namespace, p.Subscription.Name, "deleted, and created anew")
		add("berth", "ClusterServiceVersion", namespace, p.Installed, "deleted")
	} else if p.From != p.To {
		add("berth", "Subscription", namespace, p.Subscription.Name, "changed: spec")
	}
	if p.Way != Stay {
		add("berth", "InstallPlan", namespace, "(that for "+p.Target+")", "approved")
	}
	if p.createsDriver() && !w.driver.custom {
		add("berth", "ClusterCSIDriver", "", p.Driver.Name, "created")
	}
	if p.Way == Update {
		add("OLM", "ClusterServiceVersion", namespace, p.Installed, "deleted when the next one has succeeded")
	}
	if p.Way != Stay {
		add("OLM", "ClusterServiceVersion", namespace, p.Target, "created, with what it lists")
		definitions, err := w.definitions(p)
		if err != nil {
			return nil, err
		}
		for _, name := range definitions {
			add("OLM", "CustomResourceDefinition", "", name, "created, or updated; its objects stay")
		}
	}
	if w.driver != nil && (w.driver.custom && p.Way != Stay || !w.driver.custom && p.createsDriver()) {
		for _, object := range w.driver.found {
			add("the operator", object.GetKind(), object.GetNamespace(), object.GetName(), "taken over where it is")
		}
	}
	return all, nil
}

// definitions are the names of the CRDs that the target brings, as far as the catalog says.
func (w *World) definitions(p *Plan) ([]string, error) {
	bundle := w.Catalogs[w.target].Find(p.To.Package).FindBundle(p.Target)
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
