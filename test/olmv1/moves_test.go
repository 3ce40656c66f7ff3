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
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/catalogs/serving"
	"github.com/berth-csi/berth/test/olmv1"
)

// shape is an operator that OLM v0 has installed.
type shape struct {
	trap
	// own says that it watches only its own namespace.
	own bool
	// change changes the Subscription.
	change func(*v1alpha1.SubscriptionSpec)
	// refused is the code of the check that refuses to move it; "" if it is moved there and back.
	refused string
	// provider says that nobody subscribes to it: OLM v0 installs it for another one.
	provider bool
	// asks is the package to move, if it is another one of the namespace.
	asks string
	// restarts are the moves at which the operator's own pods restart, and nothing else changes.
	restarts []move.Target
}

func moved(name string, change func(*parts)) *shape { return &shape{trap: *one(name, change)} }

// shapes are the operators that are moved, or refused.
func shapes(gates featuregates.Set) []*shape {
	refusedAs := func(code string, s *shape) *shape {
		s.refused = code
		return s
	}
	required := func(name string, properties ...property.Property) *shape {
		s := moved(name, nil)
		s.bundles[0].properties = properties
		return refusedAs(string(refusal.Dependency), s)
	}
	oar := moved("move-oar", nil)
	oar.provider = true
	provided := required("move-needs-oar", property.MustBuildPackageRequired("move-oar", ">0.0.0"))
	provided.asks, provided.refused = "move-oar", "dependents"
	webhooks := moved("move-validating", func(p *parts) { p.webhook(validating, "boats.movevalidating.example.com", nil) })
	mutators := moved("move-mutating", func(p *parts) { p.webhook(mutating, "boats.movemutating.example.com", nil) })
	for _, s := range []*shape{webhooks, mutators} {
		s.restarts = []move.Target{move.ToV1, move.ToV0} // with another certificate
		if gates[featuregates.CertManager] {
			s.refused = string(refusal.API) // the cluster does not serve cert-manager's APIs
		}
	}
	own := moved("move-own", func(p *parts) { p.modes(allNamespaces, ownNamespace) })
	own.own = true
	ownOnly := moved("move-own-only", func(p *parts) { p.modes(ownNamespace) })
	ownOnly.own = true
	if !gates[featuregates.SingleOwnNamespace] {
		own.refused, ownOnly.refused = "operator-group", "operator-group"
	}
	manual := moved("move-manual", nil)
	manual.change = func(s *v1alpha1.SubscriptionSpec) { s.InstallPlanApproval = v1alpha1.ApprovalManual }
	configured := moved("move-config", nil)
	configured.change = func(s *v1alpha1.SubscriptionSpec) {
		s.Config = &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "DEPTH", Value: "3"}}}
	}
	configured.restarts = []move.Target{move.ToV0} // OLM v0 first installs a version without the Subscription's settings
	if !gates[featuregates.DeploymentConfig] {
		configured.refused = "subscription-config"
	}
	defaulted := moved("move-default-channel", nil)
	defaulted.change = func(s *v1alpha1.SubscriptionSpec) { s.Channel = "" }
	return []*shape{
		moved("move-plain", nil),
		manual, configured, defaulted, own, ownOnly, webhooks, mutators,
		moved("move-two-crds", func(p *parts) {
			tr := &trap{name: p.pkg}
			ships := tr.crd("ships", "Ship", text)
			p.crds = append(p.crds, ships)
			p.csv.Spec.CustomResourceDefinitions.Owned = append(p.csv.Spec.CustomResourceDefinitions.Owned, v1alpha1.CRDDescription{Name: "ships." + tr.group(), Kind: "Ship", Version: "v1"})
		}),
		moved("move-versions", func(p *parts) {
			crd := (&trap{name: p.pkg}).crd("boats", "Boat", text)
			crd["spec"].(fields)["versions"] = []any{crdVersion("v1alpha1", false, text), crdVersion("v1", true, text)}
			p.own(crd)
		}),
		moved("move-no-crd", func(p *parts) { p.crds, p.csv.Spec.CustomResourceDefinitions.Owned = nil, nil }),
		moved("move-cluster-scope", func(p *parts) {
			crd := (&trap{name: p.pkg}).crd("boats", "Boat", text)
			crd["spec"].(fields)["scope"] = "Cluster"
			p.own(crd)
		}),
		moved("move-cluster-roles", func(p *parts) {
			p.csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: p.pkg,
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}}}}}
		}),
		moved("move-two-accounts", func(p *parts) {
			strategy := &p.csv.Spec.InstallStrategy.StrategySpec
			strategy.Permissions = append(strategy.Permissions, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: p.pkg + "-helper",
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}})
		}),
		moved("move-two-deployments", func(p *parts) { deployments(p.pkg, p.pkg+"-worker")(p) }),
		moved("move-annotations", func(p *parts) {
			p.csv.Annotations = map[string]string{"capabilities": "Seamless Upgrades", "example.com/long": strings.Repeat("x", 2000)}
		}),
		moved("move-config-map", func(p *parts) {
			with(plain("v1", "ConfigMap", p.pkg+"-chart", fields{"data": fields{"depth": "3"}}))(p)
		}),
		moved("move-service", func(p *parts) {
			with(plain("v1", "Service", p.pkg+"-metrics", fields{"spec": fields{"ports": []any{fields{"port": 8443, "name": "https"}}, "selector": fields{"app": p.pkg}}}))(p)
		}),
		moved("move-roles", func(p *parts) {
			rules := fields{"rules": []any{fields{"apiGroups": []any{p.pkg + ".example.com"}, "resources": []any{"boats"}, "verbs": []any{"get"}}}}
			with(plain("rbac.authorization.k8s.io/v1", "ClusterRole", p.pkg+"-view", rules), plain("rbac.authorization.k8s.io/v1", "Role", p.pkg+"-local", rules),
				plain("rbac.authorization.k8s.io/v1", "RoleBinding", p.pkg+"-local", fields{"roleRef": fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": p.pkg + "-local"},
					"subjects": []any{fields{"kind": "ServiceAccount", "name": p.pkg}}}))(p)
		}),
		moved("move-priority-class", func(p *parts) { with(plain("scheduling.k8s.io/v1", "PriorityClass", p.pkg, fields{"value": 5}))(p) }),
		moved("move-network-policy", func(p *parts) {
			with(plain("networking.k8s.io/v1", "NetworkPolicy", p.pkg, fields{"spec": fields{"podSelector": fields{"matchLabels": fields{"app": p.pkg}}}}))(p)
		}),
		moved("move-disruption-budget", func(p *parts) {
			with(plain("policy/v1", "PodDisruptionBudget", p.pkg, fields{"spec": fields{"minAvailable": 0, "selector": fields{"matchLabels": fields{"app": p.pkg}}}}))(p)
		}),
		moved("move-monitoring", func(p *parts) {
			with(plain("monitoring.coreos.com/v1", "ServiceMonitor", p.pkg, fields{"spec": fields{"selector": fields{}, "endpoints": []any{}}}),
				plain("monitoring.coreos.com/v1", "PrometheusRule", p.pkg, fields{"spec": fields{"groups": []any{}}}))(p)
		}),
		refusedAs("conversion-webhook", moved("move-conversion", func(p *parts) { p.webhook(conversion, "boats.moveconversion.example.com", nil) })),
		refusedAs("olm-v0-apis", moved("move-olm-apis", func(p *parts) {
			p.csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: p.pkg,
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"subscriptions"}, Verbs: []string{"get"}}}}}
		})),
		oar, provided,
		required("move-needs-package", property.MustBuildPackageRequired("move-sail", ">0.0.0")),
		required("move-needs-api", property.MustBuildGVKRequired("move-mast.example.com", "v1", "Boat")),
		{trap: *one("move-sail", nil), provider: true}, {trap: *one("move-mast", nil), provider: true},
	}
}

// moveSetups are the setups of OLM v1 for moves.
var moveSetups = []setup{
	{name: "helm"},
	{name: "boxcutter", gates: "BoxcutterRuntime=true"},
	{name: "helm-more-gates", gates: "SingleOwnNamespaceInstallSupport=true,DeploymentConfig=true,WebhookProviderCertManager=false"},
}

// TestMoves: the real OLM v0 and the real OLM v1 run, and operators of many shapes are moved there and back, or refused with the reason.
// No object is lost, and no API, custom resource, Deployment or pod is another one afterwards.
func TestMoves(t *testing.T) {
	if !*withOLM {
		t.Skip("without -olm-v1: see make prove SUITE=move")
	}
	images := olmv1.Images(t)
	for _, s := range moveSetups {
		t.Run(s.name, func(t *testing.T) { s.move(t, images) })
	}
}

func (s *setup) move(t *testing.T, images map[string]string) {
	c := cluster.Start(t, cluster.Options{OLM: true, RealNodes: 1, Images: images})
	olm := olmv1.Start(t, c, olmv1.Options{Gates: s.gates, Experimental: true})
	all := shapes(s.on(t))
	var forV0, forV1 declcfg.DeclarativeConfig
	folders := map[string]string{}
	for _, shape := range all {
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
	t.Run("shapes", func(t *testing.T) {
		for _, shape := range all {
			if shape.provider {
				continue
			}
			t.Run(shape.name, func(t *testing.T) {
				t.Parallel()
				m := &mover{Cluster: c, shape: shape, gates: s.on(t)}
				m.subscribe(t)
				m.play(t)
			})
		}
	})
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
	shape *shape
	gates featuregates.Set
}

func (m *mover) versionName() string { return m.shape.name + ".v" + m.shape.bundles[0].version }

// subscribe has OLM v0 install the operator, and creates an object of each of its APIs.
func (m *mover) subscribe(t *testing.T) {
	t.Helper()
	name := m.shape.name
	require.NoError(t, m.EnsureNamespace(t.Context(), name))
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "group"}}
	if m.shape.own {
		group.Spec.TargetNamespaces = []string{name}
	}
	s := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: "shapes", CatalogSourceNamespace: cluster.CatalogNamespace, Package: name, Channel: "stable"}}
	if m.shape.change != nil {
		m.shape.change(s.Spec)
	}
	for _, object := range []client.Object{group, s} {
		require.NoError(t, m.Client().Create(t.Context(), object))
	}
	cluster.Eventually(t, limit, "OLM v0 to install the operator", m.isWithV0)
	for i, crd := range m.shape.parts(m.shape.bundles[0]).crds {
		spec := crd["spec"].(fields)
		versions := spec["versions"].([]any)
		object := &unstructured.Unstructured{Object: fields{"apiVersion": spec["group"].(string) + "/" + versions[len(versions)-1].(fields)["name"].(string),
			"kind": spec["names"].(fields)["kind"].(string), "spec": fields{"field": "north"}}}
		object.SetName(fmt.Sprintf("north-%d", i))
		if spec["scope"] == "Namespaced" {
			object.SetNamespace(name)
		}
		if m.shape.refused == "conversion-webhook" {
			continue // its webhook does not answer here
		}
		cluster.Eventually(t, limit, "an object to be created", func(ctx context.Context) error { return m.Client().Create(ctx, object) })
	}
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
		if !plan.Spec.Approved && plan.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval {
			approved := plan.DeepCopy()
			approved.Spec.Approved = true
			if err := m.Client().Patch(ctx, approved, client.MergeFrom(&plan)); err != nil {
				return err
			}
		}
	}
	if err := m.Client().Get(ctx, client.ObjectKey{Namespace: name, Name: m.versionName()}, v); err != nil {
		return fmt.Errorf("%w; the Subscription says %+v", err, s.Status.Conditions)
	}
	if v.Status.Phase != v1alpha1.CSVPhaseSucceeded || s.Status.InstalledCSV != v.Name || s.Status.State != v1alpha1.SubscriptionStateAtLatest {
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
	return move.Request{Package: cmp.Or(m.shape.asks, m.shape.name), Namespace: m.shape.name, To: to, Gates: m.gates,
		Catalogs: func(context.Context) ([]*prediction.ClusterCatalog, func() error, error) {
			return []*prediction.ClusterCatalog{{Name: "shapes", Content: m.shape.read(t)}}, func() error { return nil }, nil
		},
		Content: func(context.Context, *fbc.Bundle) (*refusal.Bundle, error) { return nil, nil },
	}
}

func (m *mover) to() migrate.Cluster { return migrate.Cluster{Config: m.Config(), Client: m.Client()} }

// play moves the operator there and back, or finds out that it is refused.
func (m *mover) play(t *testing.T) {
	if m.shape.refused != "" {
		m.mustRefuse(t)
		return
	}
	before := m.observed(t)
	p, err := move.Move.Plan(t.Context(), m.to(), m.request(t, move.ToV1))
	require.NoError(t, err)
	if !p.Safe {
		t.Fatalf("it is refused:\n%s", p.Text(findings.Plain))
	}
	for _, to := range []move.Target{move.ToV1, move.ToV0} {
		if slices.Contains(m.shape.restarts, to) {
			maps.DeleteFunc(before, func(name string, _ types.UID) bool { return strings.HasPrefix(name, "Pod ") })
		}
		began := time.Now()
		m.apply(t, to)
		is := m.isWithV1
		if to == move.ToV0 {
			is = m.isWithV0
		}
		cluster.Eventually(t, limit, "the operator to be with "+string(to), is)
		after := m.observed(t)
		lost := 0
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if after[name] != before[name] {
				t.Errorf("with %s, %s has UID %q, want %q as before", to, name, after[name], before[name])
				lost++
			}
		}
		t.Logf("to %s in %s: %d of %d objects are the same ones", to, time.Since(began).Round(time.Second), len(before)-lost, len(before))
	}
}

// mustRefuse fails the test unless the operator is refused for the reason, once OLM v0 has installed its dependencies,
// too.
func (m *mover) mustRefuse(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, limit, "the plan to refuse it for "+m.shape.refused, func(ctx context.Context) error {
		p, err := move.Move.Plan(ctx, m.to(), m.request(t, move.ToV1))
		if err != nil {
			return err
		}
		at := slices.IndexFunc(p.Checks, func(c findings.Check) bool { return c.Verdict == findings.Refused && c.Code == m.shape.refused })
		if at < 0 {
			return fmt.Errorf("it says\n%s", p.Text(findings.Plain))
		}
		t.Logf("refused: %s; do: %s", p.Checks[at].What, p.Checks[at].Do)
		return nil
	})
}

// apply is "berth move apply".
func (m *mover) apply(t *testing.T, to move.Target) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	p, _, err := move.Move.Ensure(ctx, m.to(), m.request(t, to))
	require.NoError(t, err)
	if !p.Safe {
		t.Fatalf("it is refused:\n%s", p.Text(findings.Plain))
	}
	require.NoError(t, move.Move.Apply(ctx, m.to(), p, migrate.Options{Report: func(e migrate.Event) { t.Logf("%s: %s %s", e.Step, e.Does, e.Waits) }}))
}

// isWithV1 fails unless OLM v1 manages the operator, and OLM v0 has no objects for it.
func (m *mover) isWithV1(ctx context.Context) error {
	name := m.shape.name
	for _, object := range []client.Object{&v1alpha1.Subscription{}, &v1alpha1.ClusterServiceVersion{}} {
		key := client.ObjectKey{Namespace: name, Name: name}
		if _, is := object.(*v1alpha1.ClusterServiceVersion); is {
			key.Name = m.versionName()
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
	if version := versionOf(object); version != m.shape.bundles[0].version {
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
			if strings.HasPrefix(o.Name, m.versionName()) || o.Name == "default" { // created by each OLM itself
				continue
			}
			uids[kind+" "+o.Name] = o.UID
		}
	}
	local := client.InNamespace(m.shape.name)
	p := m.shape.parts(m.shape.bundles[0])
	for _, crd := range p.crds {
		spec := crd["spec"].(fields)
		versions := spec["versions"].([]any)
		add(spec["group"].(string)+"/"+versions[len(versions)-1].(fields)["name"].(string), spec["names"].(fields)["kind"].(string))
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
