package olmv1_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/catalogs/serving"
	"github.com/berth-csi/berth/test/olmv1"
)

// moveSetups are the setups of OLM v1 for moves.
var moveSetups = []moveSetup{
	{setup: setup{name: "helm"}},
	{setup: setup{name: "boxcutter", gates: "BoxcutterRuntime=true"}, uncopied: true},
	{setup: setup{name: "helm-more-gates", gates: "SingleOwnNamespaceInstallSupport=true,DeploymentConfig=true,WebhookProviderCertManager=false"}, uncopied: true, onlyShapes: true},
}

type moveSetup struct {
	setup
	// uncopied says that OLM v0 copies no ClusterServiceVersion into each namespace, which is an administrator's choice.
	uncopied bool
	// onlyShapes says that neither public operators move, nor is the tool killed.
	onlyShapes bool
}

// atATime is how many operators of a setup move at the same time. With all at once, each takes so long that others time out.
const atATime = 12

// TestMoves: the real OLM v0 and the real OLM v1 run, and operators of many shapes are moved there and back, or refused with the reason.
// No object is lost, and no API, custom resource, Deployment or pod is another one afterwards. Nor if the tool is killed at a write, and the
// OLMs go on.
func TestMoves(t *testing.T) {
	if !*withOLM {
		t.Skip("without -olm-v1: see make prove SUITE=move")
	}
	images := olmv1.Images(t)
	results, public := &moveResults{}, publicShapes(t)
	for _, s := range moveSetups {
		t.Run(s.name, func(t *testing.T) { s.move(t, images, public, results) })
	}
	t.Logf("\n%s", results.table())
}

func (s *moveSetup) move(t *testing.T, images map[string]string, public []*shape, results *moveResults) {
	c := cluster.Start(t, cluster.Options{OLM: true, RealNodes: 1, Images: images})
	olm := olmv1.Start(t, c, olmv1.Options{Gates: s.gates, Experimental: true})
	gates := s.on(t)
	groups := map[string][]*shape{"shapes": shapes(gates)}
	if !s.onlyShapes {
		groups["killed"], groups["public"] = killedShapes(gates[featuregates.Boxcutter]), public
	}
	if len(groups["public"]) > 0 {
		runElsewhere(t, c)
	}
	if s.uncopied {
		config := &operatorsv1.OLMConfig{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: operatorsv1.OLMConfigSpec{Features: &operatorsv1.Features{DisableCopiedCSVs: new(true)}}}
		require.NoError(t, c.Client().Create(t.Context(), config))
	}
	moving := make(chan struct{}, atATime)
	var forV0, forV1 declcfg.DeclarativeConfig
	folders := map[string]string{}
	for _, shape := range slices.Concat(slices.Collect(maps.Values(groups))...) {
		config := shape.catalog()
		for i, b := range shape.bundles {
			folders[config.Bundles[i].Name] = shape.parts(b).folder(t)
		}
		forV1.Packages, forV1.Channels, forV1.Bundles = append(forV1.Packages, config.Packages...), append(forV1.Channels, config.Channels...), append(forV1.Bundles, config.Bundles...)
		inline := shape.inline(t)
		forV0.Packages, forV0.Channels, forV0.Bundles = append(forV0.Packages, inline.Packages...), append(forV0.Channels, inline.Channels...), append(forV0.Bundles, inline.Bundles...)
	}
	olm.Serve("shapes", 0, forV1, folders)
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, forV0)
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: "shapes", Namespace: cluster.CatalogNamespace},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: serving.Start(t, dir)}}
	require.NoError(t, c.Client().Create(t.Context(), source))
	for group, all := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			if group == "public" && len(all) == 0 {
				t.Skipf("want %s=DIR, a clone of a repository of community operators", programs.OperatorsVariable)
			}
			for _, shape := range all {
				if shape.provider {
					continue
				}
				t.Run(shape.name, func(t *testing.T) {
					t.Parallel()
					moving <- struct{}{}
					defer func() { <-moving }()
					m := &mover{Cluster: c, shape: shape, gates: gates, result: "failed"}
					defer func() { results.add(s.name, shape.name, m.result) }()
					m.subscribe(t)
					m.play(t)
				})
			}
		})
	}
}

// inline is the catalog of a shape with all objects of its bundles.
func (s *shape) inline(t *testing.T) declcfg.DeclarativeConfig {
	t.Helper()
	config := s.catalog()
	for i, b := range s.bundles {
		config.Bundles[i].Image = ""
		for _, manifest := range s.parts(b).manifests() {
			config.Bundles[i].Properties = append(config.Bundles[i].Properties, property.MustBuildBundleObject(marshal(t, manifest)))
		}
		for _, owned := range s.parts(b).csv.Spec.CustomResourceDefinitions.Owned {
			_, group, _ := strings.Cut(owned.Name, ".")
			config.Bundles[i].Properties = append(config.Bundles[i].Properties, property.MustBuildGVK(group, owned.Version, owned.Kind))
		}
	}
	return config
}

// mover is an operator of a shape, in a namespace of its name.
type mover struct {
	*cluster.Cluster
	shape  *shape
	gates  featuregates.Set
	result string // for the table
}

// subscribe makes OLM v0 install the operator, and creates an object of each of its APIs.
func (m *mover) subscribe(t *testing.T) {
	t.Helper()
	name := m.shape.name
	for _, namespace := range append(slices.Clone(m.shape.targets), name) {
		require.NoError(t, m.EnsureNamespace(t.Context(), namespace))
	}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "group"},
		Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: m.shape.targets, ServiceAccountName: m.shape.account}}
	s := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: "shapes", CatalogSourceNamespace: cluster.CatalogNamespace, Package: name, Channel: "stable", StartingCSV: m.shape.starting}}
	if m.shape.change != nil {
		m.shape.change(s.Spec)
	}
	objects := []client.Object{group, s}
	if account := m.shape.account; account != "" {
		objects = append([]client.Object{
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: account}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: name, Name: account}}},
		}, objects...)
	}
	for _, object := range objects {
		require.NoError(t, m.Client().Create(t.Context(), object))
	}
	cluster.Eventually(t, limit, "OLM v0 to install the operator", m.isWithV0)
	for i, crd := range m.shape.parts(m.shape.installed()).crds {
		if m.shape.refused == "conversion-webhook" {
			continue // its webhook does not answer here
		}
		object, schema := newOf(crd)
		object.SetName(fmt.Sprintf("north-%d", i))
		if crd["spec"].(fields)["scope"] == "Namespaced" {
			object.SetNamespace(name)
		}
		if m.shape.public {
			m.createIfValid(t, object, schema)
			continue
		}
		object.Object["spec"] = fields{"field": "north"}
		cluster.Eventually(t, limit, "an object to be created", func(ctx context.Context) error { return m.Client().Create(ctx, object) })
	}
	if m.shape.prepare != nil {
		m.shape.prepare(t, m)
	}
}

// newOf returns an object of an API in the version that is stored, and that version's schema.
func newOf(crd fields) (*unstructured.Unstructured, fields) {
	spec := crd["spec"].(fields)
	all := spec["versions"].([]any)
	stored := all[slices.IndexFunc(all, func(v any) bool { return v.(fields)["storage"] == true })].(fields)
	object := &unstructured.Unstructured{Object: fields{"apiVersion": spec["group"].(string) + "/" + stored["name"].(string), "kind": spec["names"].(fields)["kind"].(string)}}
	schema, _, _ := unstructured.NestedMap(stored, "schema", "openAPIV3Schema")
	return object, schema
}

// denyUpgrades has the operator say that it wants no updates now.
func (m *mover) denyUpgrades(t *testing.T) {
	cluster.Eventually(t, limit, "the OperatorCondition to say so", func(ctx context.Context) error {
		condition := &operatorsv2.OperatorCondition{}
		if err := m.Client().Get(ctx, client.ObjectKey{Namespace: m.shape.name, Name: m.shape.versionName()}, condition); err != nil {
			return err
		}
		condition.Spec.Conditions = []metav1.Condition{{Type: "Upgradeable", Status: metav1.ConditionFalse, Reason: "Busy", Message: "it migrates data", LastTransitionTime: metav1.Now()}}
		return m.Client().Update(ctx, condition)
	})
}

// isWithV0 fails unless OLM v0 has the operator, and approves its first InstallPlan.
func (m *mover) isWithV0(ctx context.Context) error {
	name := m.shape.name
	s, v, plans := &v1alpha1.Subscription{}, &v1alpha1.ClusterServiceVersion{}, &v1alpha1.InstallPlanList{}
	if err := m.Client().Get(ctx, client.ObjectKey{Namespace: name, Name: name}, s); err != nil {
		return err
	}
	if err := m.Client().List(ctx, plans, client.InNamespace(name)); err != nil {
		return err
	}
	for _, plan := range plans.Items {
		if plan.Spec.Approved && plan.Status.Phase != v1alpha1.InstallPlanPhaseComplete {
			return fmt.Errorf("InstallPlan %s is in phase %q", plan.Name, plan.Status.Phase)
		}
		if !plan.Spec.Approved && plan.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval && slices.Contains(plan.Spec.ClusterServiceVersionNames, m.shape.versionName()) {
			approved := plan.DeepCopy()
			approved.Spec.Approved = true
			if err := m.Client().Patch(ctx, approved, client.MergeFrom(&plan)); err != nil {
				return err
			}
		}
	}
	if err := m.Client().Get(ctx, client.ObjectKey{Namespace: name, Name: m.shape.versionName()}, v); err != nil {
		return fmt.Errorf("%w; the Subscription says %+v", err, s.Status.Conditions)
	}
	wanted := v1alpha1.SubscriptionState(v1alpha1.SubscriptionStateAtLatest)
	if m.shape.waiting {
		wanted = v1alpha1.SubscriptionStateUpgradePending
	}
	if v.Status.Phase != v1alpha1.CSVPhaseSucceeded || s.Status.InstalledCSV != v.Name || s.Status.State != wanted {
		return fmt.Errorf("the phase of %s is %q, %s; the Subscription is in state %q", v.Name, v.Status.Phase, v.Status.Message, s.Status.State)
	}
	if s.Spec.Config == nil {
		return nil
	}
	d := &appsv1.Deployment{} // OLM v0 has installed it without the Subscription's settings, at first
	if err := m.Client().Get(ctx, client.ObjectKey{Namespace: name, Name: name}, d); err != nil {
		return err
	}
	if env := d.Spec.Template.Spec.Containers[0].Env; len(env) == 0 || env[0].Name != s.Spec.Config.Env[0].Name || d.Status.Replicas != 1 || d.Status.UpdatedReplicas != 1 {
		return fmt.Errorf("the Deployment has env %v, and %d of %d pods are up to date", env, d.Status.UpdatedReplicas, d.Status.Replicas)
	}
	return nil
}

// request asks for a move.
func (m *mover) request(t *testing.T, to move.Target) move.Request {
	return move.Request{Package: cmp.Or(m.shape.asks, m.shape.name), Namespace: m.shape.name, To: to, Gates: m.gates, Accepted: m.accepted(to),
		Catalogs: func(context.Context) ([]*prediction.ClusterCatalog, func() error, error) {
			return []*prediction.ClusterCatalog{{Name: "shapes", Content: m.shape.read(t)}}, func() error { return nil }, nil
		},
		Content: func(context.Context, *fbc.Bundle) (*refusal.Bundle, error) { return nil, nil },
	}
}

// accepted are the codes of checks that are accepted.
func (m *mover) accepted(to move.Target) []string {
	if m.shape.accepts == "" || to == move.ToV0 {
		return nil
	}
	return []string{m.shape.accepts}
}

func (m *mover) to(config *rest.Config) (migrate.Cluster, error) {
	c, err := client.New(config, client.Options{Scheme: m.Client().Scheme(), Mapper: m.Client().RESTMapper()})
	return migrate.Cluster{Config: config, Client: c}, err
}

// plan is "berth move plan".
func (m *mover) plan(ctx context.Context, r move.Request) (*move.Plan, error) {
	seen, err := m.to(m.Config())
	if err != nil {
		return nil, err
	}
	return move.Move.Plan(ctx, seen, r)
}

// play moves the operator there and back, or finds out that it is refused.
func (m *mover) play(t *testing.T) {
	if code := cmp.Or(m.shape.refused, m.shape.accepts); code != "" {
		m.mustRefuse(t, code)
	}
	switch {
	case m.shape.refused != "":
		return
	case m.shape.kill != nil:
		m.playKilled(t)
		return
	}
	if m.shape.public {
		p, err := m.plan(t.Context(), m.request(t, move.ToV1))
		require.NoError(t, err)
		if !p.Safe {
			m.logRefusals(t, p)
			return
		}
	}
	// After an update, the earlier version and the garbage collector's work on it are still there for a while.
	cluster.Eventually(t, limit, "the plan to be safe", func(ctx context.Context) error {
		p, err := m.plan(ctx, m.request(t, move.ToV1))
		if err == nil && !p.Safe {
			err = fmt.Errorf("it is refused:\n%s", p.Text(findings.Plain))
		}
		return err
	})
	before := m.observed(t)
	var took []string
	for _, to := range []move.Target{move.ToV1, move.ToV0} {
		if slices.Contains(m.shape.restarts, to) || m.shape.public && hasWebhooks(m.shape) {
			maps.DeleteFunc(before, func(name string, _ types.UID) bool { return strings.HasPrefix(name, "Pod ") })
		}
		began := time.Now()
		m.run(t, m.apply(t, to))
		m.mustBeWith(t, to, before)
		took = append(took, time.Since(began).Round(time.Second).String())
	}
	m.result = fmt.Sprintf("moved in %s, %d objects the same", strings.Join(took, " and "), len(before))
	if code := m.shape.accepts; code != "" {
		m.result += ", " + code + " accepted"
	}
}

// mustBeWith fails the test unless an OLM has the operator, and all objects are the same ones.
func (m *mover) mustBeWith(t *testing.T, to move.Target, before map[string]types.UID) {
	t.Helper()
	is := m.isWithV1
	if to == move.ToV0 {
		is = m.isWithV0
	}
	cluster.Eventually(t, limit, "the operator to be with "+string(to), is)
	after := m.observed(t)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		assert.Equalf(t, before[name], after[name], "with %s, %s has UID", to, name)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// mustRefuse fails the test unless the operator is refused for a reason that is not accepted, once OLM v0 has installed its dependencies,
// too.
func (m *mover) mustRefuse(t *testing.T, code string) {
	t.Helper()
	cluster.Eventually(t, limit, "the plan to refuse it for "+code, func(ctx context.Context) error {
		r := m.request(t, move.ToV1)
		r.Accepted = nil
		p, err := m.plan(ctx, r)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(p.Checks, func(c findings.Check) bool { return c.Verdict == findings.Refused && c.Code == code })
		if at < 0 {
			return fmt.Errorf("it says\n%s", p.Text(findings.Plain))
		}
		t.Logf("refused: %s; do: %s", p.Checks[at].What, p.Checks[at].Do)
		return nil
	})
	m.result = "refused: " + code
}

// tool is a command.
type tool = func(context.Context, *rest.Config) error

// apply is "berth move apply".
func (m *mover) apply(t *testing.T, to move.Target) tool {
	return func(ctx context.Context, config *rest.Config) error {
		seen, err := m.to(config)
		if err != nil {
			return err
		}
		p, _, err := move.Move.Ensure(ctx, seen, m.request(t, to))
		if err != nil {
			return err
		}
		if !p.Safe {
			return fmt.Errorf("it is refused:\n%s", p.Text(findings.Plain))
		}
		return move.Move.Apply(ctx, seen, p, migrate.Options{Report: reports(t)})
	}
}

func reports(t *testing.T) func(migrate.Event) {
	return func(e migrate.Event) {
		t.Logf("%s %s: %s %s", time.Now().Format(time.TimeOnly), e.Step, e.Does, e.Waits)
	}
}

// run runs a tool, which must succeed in time. It is killed often if the shape says so.
func (m *mover) run(t *testing.T, do tool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var err error
	if m.shape.often {
		killed := fault.KillAtEach()
		err = killed.Run(ctx, m.Config(), do)
		t.Logf("the tool was killed before and after each of %d writes", len(killed.Writes()))
	} else {
		err = do(ctx, m.Config())
	}
	require.NoError(t, err)
}

// isWithV1 fails unless OLM v1 manages the operator, and OLM v0 has no objects for it.
func (m *mover) isWithV1(ctx context.Context) error {
	name := m.shape.name
	for _, object := range []client.Object{&v1alpha1.Subscription{}, &v1alpha1.ClusterServiceVersion{}} {
		key := client.ObjectKey{Namespace: name, Name: name}
		if _, is := object.(*v1alpha1.ClusterServiceVersion); is {
			key.Name = m.shape.versionName()
		}
		if err := m.Client().Get(ctx, key, object); !apierrors.IsNotFound(err) {
			return fmt.Errorf("OLM v0 has %T %s: %w", object, key, cmp.Or(err, errors.New("it exists")))
		}
	}
	x := &extension{Cluster: m.Cluster, name: name}
	object, err := x.get(ctx)
	if err != nil {
		return err
	}
	if version := versionOf(object); version != m.shape.installed().version {
		return fmt.Errorf("OLM v1 has version %q", version)
	}
	return nil
}

// observed returns the UIDs of the bundle's objects, of the custom resources, and of the operator's pods.
func (m *mover) observed(t *testing.T) map[string]types.UID {
	t.Helper()
	uids := map[string]types.UID{}
	add := func(version, kind string, options ...client.ListOption) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schemaKind(version, kind))
		require.NoError(t, m.Client().List(t.Context(), list, options...))
		for _, o := range list.Items {
			if strings.HasPrefix(o.Name, m.shape.versionName()) || o.Name == "default" { // created by each OLM itself
				continue
			}
			uids[kind+" "+o.Name] = o.UID
		}
	}
	local := client.InNamespace(m.shape.name)
	p := m.shape.parts(m.shape.installed())
	for _, crd := range p.crds {
		of, _ := newOf(crd)
		add(of.GetAPIVersion(), of.GetKind())
		definition := &metav1.PartialObjectMetadata{}
		definition.SetGroupVersionKind(schemaKind("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
		name := crd["metadata"].(fields)["name"].(string)
		require.NoError(t, m.Client().Get(t.Context(), client.ObjectKey{Name: name}, definition))
		uids["CustomResourceDefinition "+name] = definition.UID
	}
	for _, o := range p.objects {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(schemaKind(o["apiVersion"].(string), o["kind"].(string)))
		name := o["metadata"].(fields)["name"].(string)
		err := m.Client().Get(t.Context(), client.ObjectKey{Namespace: m.shape.name, Name: name}, object)
		if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			err = m.Client().Get(t.Context(), client.ObjectKey{Name: name}, object)
		}
		require.NoError(t, err)
		uids[o["kind"].(string)+" "+name] = object.UID
	}
	add("apps/v1", "Deployment", local)
	add("v1", "ServiceAccount", local)
	add("v1", "Pod", local)
	return uids
}

func schemaKind(version, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(version, kind)
}
