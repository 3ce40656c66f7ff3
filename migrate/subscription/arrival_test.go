package subscription

import (
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/migrate"
)

// subscribed returns a Subscription to a plan's target catalog, with an installed ClusterServiceVersion.
func subscribed(p *Plan, installed string) *v1alpha1.Subscription {
	s := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: p.Subject.Namespace, Name: p.Subject.Name, UID: p.Subject.UID},
		Spec: &v1alpha1.SubscriptionSpec{}, Status: v1alpha1.SubscriptionStatus{InstalledCSV: installed, CurrentCSV: installed}}
	p.To.applyTo(s.Spec)
	return s
}

func named(names ...string) (csvs []v1alpha1.ClusterServiceVersion) {
	for _, name := range names {
		csvs = append(csvs, v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return csvs
}

func TestHolds(t *testing.T) {
	creates := &Driver{Name: "x.csi.example.com", Create: true}
	for name, test := range map[string]struct {
		change func(*state)
		want   bool
		fails  string
	}{
		"the target is installed":        {func(*state) {}, true, ""},
		"a later version is installed":   {func(s *state) { s.subscription, s.csvs = subscribed(s.plan, "buoy.v1.2.0"), named("buoy.v1.2.0") }, true, ""},
		"OLM installs it again":          {func(s *state) { s.csvs = nil }, true, ""},
		"another Subscription":           {func(s *state) { s.subscription.UID = "s-2" }, false, ""},
		"it was switched back":           {func(s *state) { s.plan.From.applyTo(s.subscription.Spec) }, false, ""},
		"the Subscription is gone":       {func(s *state) { s.subscription = nil }, false, "the operator was removed"},
		"all is gone":                    {func(s *state) { s.subscription, s.csvs = nil, nil }, false, "create a Subscription to package buoy"},
		"the driver is there":            {func(s *state) { s.plan.Driver, s.driver = creates, &operatorv1.ClusterCSIDriver{} }, true, ""},
		"the driver is gone":             {func(s *state) { s.plan.Driver = creates }, false, "create a ClusterCSIDriver"},
		"the driver was never asked for": {func(s *state) { s.plan.Driver = &Driver{} }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid(Update)
			s := &state{plan: p, journal: &migrate.Journal{Plan: p, Phase: migrate.Completed}, subscription: subscribed(p, p.Target), csvs: named(p.Target)}
			test.change(s)
			holds, err := s.Holds()
			if holds != test.want || (test.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %t, %v; want %t, %q", holds, err, test.want, test.fails)
			}
		})
	}
}

// A Subscription that is missing is recreated only while the journal shows that this switch has not done so yet.
func TestRemovedWhileReplacing(t *testing.T) {
	for name, test := range map[string]struct {
		strategy Strategy
		phase    migrate.Phase
		steps    []migrate.StepName
		csvs     []string
		want     bool
	}{
		"before the operator is removed": {Replace, migrate.Applying, []migrate.StepName{migrate.RecordPlan}, nil, false},
		"in between":                     {Replace, migrate.Applying, []migrate.StepName{migrate.RecordPlan, RemoveOperator}, []string{"buoy.v1.0.0"}, false},
		"removed again":                  {Replace, migrate.Applying, []migrate.StepName{RemoveOperator, RecreateSubscription, RemoveOperator}, nil, false},
		"not yet approved":               {Replace, migrate.Applying, []migrate.StepName{RemoveOperator, RecreateSubscription, ResetStatus}, nil, false},
		"approved":                       {Replace, migrate.Applying, []migrate.StepName{RemoveOperator, RecreateSubscription, Approve}, nil, true},
		"before the driver was created":  {Replace, migrate.Applying, []migrate.StepName{RecreateSubscription, Approve, RestoreApproval, CreateDriver}, nil, true},
		"somebody else has approved":     {Replace, migrate.Applying, []migrate.StepName{RemoveOperator, RecreateSubscription}, []string{"beacon.v2.0.0"}, true},
		"complete":                       {Replace, migrate.Completed, []migrate.StepName{RemoveOperator, RecreateSubscription}, nil, true},
		"an update":                      {Update, migrate.Applying, []migrate.StepName{migrate.RecordPlan}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid(test.strategy)
			if test.strategy == Replace {
				p.Target = "beacon.v2.0.0"
			}
			s := &state{plan: p, journal: &migrate.Journal{Plan: p, Phase: test.phase}, csvs: named(test.csvs...)}
			s.arrived = s.csv(p.Target)
			for _, step := range test.steps {
				s.journal.Entries = append(s.journal.Entries, migrate.Entry{Step: step})
			}
			if err := s.removed(); (err != nil) != test.want {
				t.Errorf("got %v, want an error: %t", err, test.want)
			}
		})
	}
}

func TestSuccessors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*state)
		want   string
	}{
		"the target":                 {func(*state) {}, ""},
		"a later version":            {func(s *state) { s.subscription.Status.CurrentCSV = "buoy.v1.2.0" }, "buoy.v1.2.0"},
		"one that is only offered":   {func(s *state) { s.subscription.Status.CurrentCSV = "buoy.v1.3.0" }, ""},
		"what was installed before":  {func(s *state) { s.subscription.Status.CurrentCSV = "buoy.v1.0.0" }, ""},
		"another one's Subscription": {func(s *state) { s.subscription.Status.CurrentCSV, s.subscription.UID = "buoy.v1.2.0", "s-2" }, ""},
		"before the Subscription switches": {func(s *state) {
			s.subscription.Status.CurrentCSV = "buoy.v1.2.0"
			s.plan.From.applyTo(s.subscription.Spec)
		}, ""},
		"after the switch is complete": {func(s *state) { s.subscription.Status.CurrentCSV, s.journal.Phase = "buoy.v1.2.0", migrate.Completed }, ""},
	} {
		p := valid(Update)
		s := &state{plan: p, journal: &migrate.Journal{Plan: p, Phase: migrate.Applying}, subscription: subscribed(p, p.Target), csvs: named("buoy.v1.0.0", p.Target, "buoy.v1.2.0")}
		test.change(s)
		assert.EqualValues(t, test.want, strings.Join(s.successors(), " "), name)
	}
}

func TestReaches(t *testing.T) {
	bundle := func(name string) declcfg.Bundle {
		return declcfg.Bundle{Schema: declcfg.SchemaBundle, Name: name, Package: "buoy", Image: "registry.example.com/" + name}
	}
	catalog, _, err := fbc.Parse("test", &declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "buoy", DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Name: "stable", Package: "buoy", Entries: []declcfg.ChannelEntry{
			{Name: "buoy.v1.1.0"}, {Name: "buoy.v1.1.1", Replaces: "buoy.v1.1.0"}, {Name: "buoy.v2.0.0", Replaces: "buoy.v1.5.0"}}}},
		Bundles: []declcfg.Bundle{bundle("buoy.v1.1.0"), bundle("buoy.v1.1.1"), bundle("buoy.v2.0.0")},
	})
	require.NoError(t, err)
	for _, test := range []struct {
		pkg, channel, name string
		want               bool
	}{
		{"buoy", "stable", "buoy.v1.1.1", true}, {"buoy", "", "buoy.v1.1.1", true}, {"buoy", "stable", "buoy.v2.0.0", false},
		{"buoy", "fast", "buoy.v1.1.1", false}, {"beacon", "stable", "buoy.v1.1.1", false},
	} {
		p := valid(Update)
		p.To.Channel = test.channel
		assert.Equalf(t, test.want, p.reaches(catalog.Find(test.pkg), test.name), "%+v", test)
	}
}

// OLM is made to resolve again only if neither it nor the switch has done anything for a while.
func TestIsQuiet(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		created, updated, step time.Time
		want                   bool
	}{
		"all was long ago":           {ago(300), ago(200), ago(100), true},
		"it was created just now":    {ago(5), time.Time{}, ago(100), false},
		"OLM has just written":       {ago(300), ago(5), ago(100), false},
		"the switch has":             {ago(300), ago(200), ago(5), false},
		"OLM has not written at all": {ago(300), time.Time{}, ago(100), true},
		"a clock that is ahead":      {ago(300), ago(-60), ago(100), false},
	} {
		s := &state{now: now, plan: valid(Update), subscription: subscribed(valid(Update), ""), journal: &migrate.Journal{Entries: []migrate.Entry{{At: test.step, Step: SwitchSource}}}}
		s.subscription.CreationTimestamp, s.subscription.Status.LastUpdated = metav1.NewTime(test.created), metav1.NewTime(test.updated)
		s.subscription.Spec.InstallPlanApproval = v1alpha1.ApprovalManual
		assert.Equal(t, test.want, s.isQuiet(), name)
		next, err := s.approveInstallPlan()
		if (next.Step == ResolveAgain) != test.want || !test.want && (next.Step != Approve || next.Waits == "") || err != nil {
			t.Errorf("%s: the next step is %+v, %v", name, next, err)
		}
	}
}
