package subscription_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/test/catalogs/operators"
	"github.com/berth-csi/berth/test/catalogs/serving"
	"github.com/berth-csi/berth/test/migrations"
)

func TestMain(m *testing.M) {
	// Tests wait for OLM most of the time.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

// limit is how long anything may take.
const limit = 5 * time.Minute

// site is a cluster with OLM, and the catalogs for its namespaces.
type site struct {
	*cluster.Cluster
	pkg, renamedPkg string
	addresses       map[string]string // of catalogs, by the names of CatalogSources
}

// The catalogs of a site. The first has version 1.0.0 of the package, which is buoy by default, and the others have
// later versions. The longer catalog has a version after that. In the renamed catalog, the package is called beacon by
// default and has no upgrade edge from buoy.
const (
	first   = "first"
	second  = "second"
	longer  = "longer"
	renamed = "renamed"
	broken  = "broken"
)

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteOf(t, "buoy", "beacon")
}

// newSiteOf uses a cluster that the subtests of a test share. OLM limits its own requests, so each test has its own OLM.
func newSiteOf(t *testing.T, pkg, renamedPkg string) *site {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	return newSiteIn(t, test, pkg, renamedPkg)
}

// newSiteIn uses the cluster of a name.
func newSiteIn(t *testing.T, name, pkg, renamedPkg string) *site {
	t.Helper()
	return &site{cluster.Shared(t, cluster.Options{OLM: true, Name: name}), pkg, renamedPkg, map[string]string{
		first:  serving.Start(t, operators.Write(t, pkg, operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: pkg + ".v1.0.0"}})),
		second: serving.Start(t, operators.Write(t, pkg, operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: pkg + ".v1.1.0", SkipRange: "<1.1.0"}})),
		longer: serving.Start(t, operators.Write(t, pkg, operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: pkg + ".v1.1.0", SkipRange: "<1.1.0"}},
			operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: pkg + ".v1.1.1", Replaces: pkg + ".v1.1.0"}})),
		renamed: serving.Start(t, operators.Write(t, renamedPkg, operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: renamedPkg + ".v2.0.0"}})),
		broken:  serving.Start(t, operators.Write(t, pkg, operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: pkg + ".v3.0.0"}})),
	}}
}

// place is a namespace of a site with version 1.0.0 of the package installed from the first catalog.
type place struct {
	*site
	*migrations.Runner
	t            *testing.T
	namespace    string
	subscription *v1alpha1.Subscription
}

// newPlace creates a place with CatalogSources for the first catalog and for the named ones.
func (s *site) newPlace(t *testing.T, approval v1alpha1.Approval, known ...string) *place {
	t.Helper()
	return s.newPlaceIn(t, s.Namespace(t), approval, known...)
}

// newPlaceIn is newPlace for an existing namespace.
func (s *site) newPlaceIn(t *testing.T, namespace string, approval v1alpha1.Approval, known ...string) *place {
	t.Helper()
	p := &place{site: s, Runner: migrations.New(t, s.Cluster, limit), t: t, namespace: namespace}
	t.Cleanup(p.tell)
	p.Create(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: p.namespace},
		Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{p.namespace}}})
	for _, name := range slices.Concat([]string{first}, known) {
		p.CreateSource(p.namespace, name, s.addresses[name])
	}
	p.subscription = &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: s.pkg, Namespace: p.namespace},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: first, CatalogSourceNamespace: p.namespace, Package: s.pkg, Channel: "stable",
			InstallPlanApproval: approval},
	}
	p.Create(p.subscription)
	cluster.Eventually(t, limit, "OLM to install "+s.pkg+".v1.0.0", func(ctx context.Context) error {
		if err := p.approveAll(ctx); err != nil {
			return err
		}
		return p.installed(ctx, s.pkg+".v1.0.0")
	})
	return p
}

// tell logs OLM's objects in the namespace if the test has failed.
func (p *place) tell() {
	if !p.t.Failed() {
		return
	}
	for _, list := range []client.ObjectList{&v1alpha1.SubscriptionList{}, &v1alpha1.InstallPlanList{}, &v1alpha1.ClusterServiceVersionList{}} {
		if err := p.Client().List(context.Background(), list, client.InNamespace(p.namespace)); err != nil {
			p.t.Error(err)
			continue
		}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err == nil {
				p.t.Logf("%T %s: %v", object, object.(client.Object).GetName(), content["status"])
			}
			return err
		})
		assert.NoError(p.t, err)
	}
}

// approveAll approves all pending InstallPlans.
func (p *place) approveAll(ctx context.Context) error {
	requests := &v1alpha1.InstallPlanList{}
	if err := p.Client().List(ctx, requests, client.InNamespace(p.namespace)); err != nil {
		return err
	}
	for _, request := range requests.Items {
		if request.Spec.Approved || request.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
			continue
		}
		approved := request.DeepCopy()
		approved.Spec.Approved = true
		if err := p.Client().Patch(ctx, approved, client.MergeFrom(&request)); err != nil {
			return err
		}
	}
	return nil
}

// installed fails unless exactly this ClusterServiceVersion is installed, and the Subscription says so.
func (p *place) installed(ctx context.Context, name string) error {
	end, err := p.end(ctx)
	if err != nil {
		return err
	}
	if want := map[string]v1alpha1.ClusterServiceVersionPhase{name: v1alpha1.CSVPhaseSucceeded}; !maps.Equal(want, end.versions) || end.installed != name {
		return fmt.Errorf("ClusterServiceVersions are %v, and the Subscription has %q; want only %s", end.versions, end.installed, name)
	}
	return nil
}

// end is the end state of a place.
type end struct {
	source, pkg, channel string
	approval             v1alpha1.Approval
	installed            string
	versions             map[string]v1alpha1.ClusterServiceVersionPhase
	pending              []string // versions that unapproved InstallPlans would install
	state                string   // phase of the journal
}

// end reads the state of a place.
func (p *place) end(ctx context.Context) (end, error) {
	e := end{versions: map[string]v1alpha1.ClusterServiceVersionPhase{}}
	subscription := &v1alpha1.Subscription{}
	if err := p.Client().Get(ctx, client.ObjectKeyFromObject(p.subscription), subscription); err != nil {
		return e, err
	}
	e.source, e.pkg, e.channel = subscription.Spec.CatalogSource, subscription.Spec.Package, subscription.Spec.Channel
	e.approval, e.installed = subscription.Spec.InstallPlanApproval, subscription.Status.InstalledCSV
	versions, requests, journal := &v1alpha1.ClusterServiceVersionList{}, &v1alpha1.InstallPlanList{}, &corev1.ConfigMap{}
	for _, list := range []client.ObjectList{versions, requests} {
		if err := p.Client().List(ctx, list, client.InNamespace(p.namespace)); err != nil {
			return e, err
		}
	}
	for _, csv := range versions.Items {
		e.versions[csv.Name] = csv.Status.Phase
	}
	for _, request := range requests.Items {
		if !request.Spec.Approved {
			e.pending = append(e.pending, request.Spec.ClusterServiceVersionNames...)
		}
	}
	err := p.Client().Get(ctx, p.journal(), journal)
	e.state = journal.Data["phase"]
	return e, client.IgnoreNotFound(err)
}

// journal names the ConfigMap of the journal.
func (p *place) journal() client.ObjectKey {
	return client.ObjectKey{Namespace: migrate.DefaultJournalNamespace, Name: "berth-switch." + p.namespace + "." + p.pkg}
}

// to is a request to switch to a catalog.
func (p *place) to(source string) subscription.Request {
	r := subscription.Request{Package: p.pkg, Namespace: p.namespace, Source: source}
	if source == renamed {
		r.NewPackage = p.renamedPkg
	}
	return r
}

// admin returns the cluster for an administrator, without fault injection.
func (p *place) admin() migrate.Cluster {
	return migrate.Cluster{Config: p.Config(), Client: p.Client(), Warn: func(what string) { p.t.Log(what) }}
}

// plan makes a plan.
func (p *place) plan(r subscription.Request) *subscription.Plan {
	p.t.Helper()
	made, err := subscription.Switch.Plan(p.t.Context(), p.admin(), r)
	require.NoError(p.t, err)
	return made
}

// apply is "berth switch apply".
func (p *place) apply(r subscription.Request, o migrate.Options) migrations.Tool {
	return migrations.Apply(p.Runner, subscription.Switch, r, o)
}

// applyGiven is "berth switch apply -f".
func (p *place) applyGiven(given *subscription.Plan) migrations.Tool {
	return func(ctx context.Context, config *rest.Config) error {
		seen, err := p.Connect(config)
		if err != nil {
			return err
		}
		made, _, err := subscription.Switch.EnsureGiven(ctx, seen, given.Request(), given)
		if err != nil {
			return err
		}
		return subscription.Switch.Apply(ctx, seen, made, migrate.Options{Report: p.Report(nil)})
	}
}

// applyUntil applies until a step is next, which is neither executed nor waited for.
func (p *place) applyUntil(step migrate.StepName, r subscription.Request) {
	p.t.Helper()
	migrations.ApplyUntil(p.Runner, subscription.Switch, r, step)
}

// rollingBack is "berth switch rollback".
func (p *place) rollingBack(o migrate.Options) migrations.Tool {
	return migrations.Rollback(p.Runner, subscription.Switch, subscription.Request{Package: p.pkg, Namespace: p.namespace}, o)
}

func (p *place) rollback(ctx context.Context, config *rest.Config) error {
	return p.rollingBack(migrate.Options{})(ctx, config)
}
