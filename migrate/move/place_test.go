package move_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/lab/authority"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/catalogs/operators"
	"github.com/berth-csi/berth/test/catalogs/serving"
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

// site is a cluster with the real OLM v0, and with the types of OLM v1.
type site struct{ *cluster.Cluster }

func newSite(t *testing.T) *site {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	s := &site{cluster.Shared(t, cluster.Options{OLM: true, Name: test})}
	if err := crds.OLMv1.Create(t.Context(), s.Client()); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return s
}

// place is a namespace where OLM v0 has installed the operator of a package of its own.
type place struct {
	*site
	t              *testing.T
	namespace, pkg string
	boxcutter      bool
	catalog        *fbc.Catalog
	uids           map[string]types.UID // of the objects that have to stay
}

// newPlace has OLM v0 install the operator, whose API has an object.
func (s *site) newPlace(t *testing.T, boxcutter bool) *place {
	t.Helper()
	namespace := s.Namespace(t)
	// The name is short: OLM v0 uses the version's name as a label.
	p := &place{site: s, t: t, namespace: namespace, pkg: "boat-" + namespace[strings.LastIndex(namespace, "-")+1:], boxcutter: boxcutter}
	inline, offered := p.config(true), p.config(false)
	var err error
	if p.catalog, _, err = fbc.Parse("quay", &offered); err != nil {
		t.Fatal(err)
	}
	served := t.TempDir()
	catalogs.WriteConfig(t, served, inline)
	p.create(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: namespace}})
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: "quay", Namespace: namespace},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: serving.Start(t, served)}}
	p.create(source)
	s.Await(t, limit, "OLM v0 to read the catalog", source, func() error {
		if state := source.Status.GRPCConnectionState; state == nil || state.LastObservedState != "READY" {
			return fmt.Errorf("its connection is %+v", state)
		}
		return nil
	})
	p.create(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "boats", Namespace: namespace},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: "quay", CatalogSourceNamespace: namespace, Package: p.pkg, Channel: "stable"}})
	cluster.Eventually(t, limit, "OLM v0 to install the operator", p.isWithV0)
	boat := &unstructured.Unstructured{Object: map[string]any{"apiVersion": p.group() + "/v1", "kind": "Mooring", "spec": map[string]any{"depth": "3"}}}
	boat.SetName("north")
	boat.SetNamespace(namespace)
	cluster.Eventually(t, limit, "an object of the API to be created", func(ctx context.Context) error { return s.Client().Create(ctx, boat) })
	p.uids = p.observed(t.Context())
	return p
}

func (p *place) create(object client.Object) {
	p.t.Helper()
	require.NoError(p.t, p.Client().Create(p.t.Context(), object))
}

func (p *place) group() string { return p.pkg + ".example.com" }

func (p *place) versionName() string { return p.pkg + ".v1.0.0" }

// config is the catalog of the package: with all objects of the bundle for OLM v0, or with an image for OLM v1.
func (p *place) config(inline bool) declcfg.DeclarativeConfig {
	b := declcfg.Bundle{Schema: declcfg.SchemaBundle, Package: p.pkg, Name: p.versionName(), Properties: []property.Property{property.MustBuildPackage(p.pkg, "1.0.0"), property.MustBuildGVK(p.group(), "v1", "Mooring")}}
	if inline {
		for _, object := range p.objects() {
			data, err := json.Marshal(object)
			require.NoError(p.t, err)
			b.Properties = append(b.Properties, property.MustBuildBundleObject(data))
		}
	} else {
		b.Image = "registry.example.com/" + p.pkg + ":v1.0.0"
	}
	return declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: p.pkg, DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: p.pkg, Name: "stable", Entries: []declcfg.ChannelEntry{{Name: b.Name}}}},
		Bundles:  []declcfg.Bundle{b},
	}
}

// objects returns the bundle's objects.
func (p *place) objects() []any {
	labels := map[string]string{"app": p.pkg}
	csv := &v1alpha1.ClusterServiceVersion{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: p.versionName()},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			Version:      version.OperatorVersion{Version: semver.MustParse("1.0.0")},
			InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}},
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
				DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: p.pkg, Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec: corev1.PodSpec{ServiceAccountName: p.pkg, Containers: []corev1.Container{{Name: "operator", Image: "registry.example.com/boat:1"}}}},
				}}},
				ClusterPermissions: []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: p.pkg,
					Rules: []rbacv1.PolicyRule{{APIGroups: []string{p.group()}, Resources: []string{"moorings"}, Verbs: []string{"get", "list", "watch"}}}}},
				Permissions: []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: p.pkg,
					Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}},
			}},
			CustomResourceDefinitions: v1alpha1.CustomResourceDefinitions{Owned: []v1alpha1.CRDDescription{{Name: "moorings." + p.group(), Version: "v1", Kind: "Mooring"}}},
		},
	}
	return []any{
		csv, (&operators.Definition{Group: p.group(), Versions: []string{"v1"}}).CRD(),
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "chart-" + p.pkg}, "data": map[string]any{"depth": "3"}},
		map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": p.pkg + "-view"},
			"rules": []any{map[string]any{"apiGroups": []any{p.group()}, "resources": []any{"moorings"}, "verbs": []any{"get"}}}},
	}
}

// kept are the objects that stay the same ones.
func (p *place) kept() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "moorings."+p.group()), object("apps/v1", "Deployment", p.namespace, p.pkg),
		object("v1", "ServiceAccount", p.namespace, p.pkg), object("v1", "ConfigMap", p.namespace, "chart-"+p.pkg),
		object("rbac.authorization.k8s.io/v1", "ClusterRole", "", p.pkg+"-view"), object(p.group()+"/v1", "Mooring", p.namespace, "north"),
	}
}

func object(version, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// observed returns the UIDs of the objects that have to stay, and of the operator's pods.
func (p *place) observed(ctx context.Context) map[string]types.UID {
	p.t.Helper()
	uids := map[string]types.UID{}
	for _, o := range p.kept() {
		require.NoError(p.t, p.Client().Get(ctx, client.ObjectKeyFromObject(o), o))
		if o.GetDeletionTimestamp() != nil {
			p.t.Errorf("%s %s is being deleted", o.GetKind(), o.GetName())
		}
		uids[o.GetKind()+" "+o.GetName()] = o.GetUID()
	}
	pods := &corev1.PodList{}
	require.NoError(p.t, p.Client().List(ctx, pods, client.InNamespace(p.namespace), client.MatchingLabels{"app": p.pkg}))
	for _, pod := range pods.Items {
		uids["Pod "+pod.Name] = pod.UID
	}
	return uids
}

// isWithV0 fails unless OLM v0 manages the operator, and OLM v1 has no objects for it.
func (p *place) isWithV0(ctx context.Context) error {
	own, v := &v1alpha1.Subscription{}, &v1alpha1.ClusterServiceVersion{}
	if err := p.Client().Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "boats"}, own); err != nil {
		return err
	}
	if err := p.Client().Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.versionName()}, v); err != nil {
		return err
	}
	switch {
	case v.Status.Phase != v1alpha1.CSVPhaseSucceeded || own.Status.InstalledCSV != v.Name || own.Status.State != v1alpha1.SubscriptionStateAtLatest:
		return fmt.Errorf("the phase of %s is %q, and the Subscription is in state %q with %q installed", v.Name, v.Status.Phase, own.Status.State, own.Status.InstalledCSV)
	case own.Spec.InstallPlanApproval != "" || own.Spec.StartingCSV != "":
		return fmt.Errorf("the Subscription is %+v, want it as it was", own.Spec)
	}
	plans := &v1alpha1.InstallPlanList{}
	if err := p.Client().List(ctx, plans, client.InNamespace(p.namespace)); err != nil {
		return err
	}
	for _, plan := range plans.Items {
		if plan.Status.Phase != v1alpha1.InstallPlanPhaseComplete {
			return fmt.Errorf("InstallPlan %s is in phase %q", plan.Name, plan.Status.Phase)
		}
	}
	return p.has(ctx, 0, 0)
}

// isWithV1 fails unless OLM v1 manages the operator, and OLM v0 has no objects for it.
func (p *place) isWithV1(ctx context.Context) error {
	for _, list := range []client.ObjectList{&v1alpha1.SubscriptionList{}, &v1alpha1.InstallPlanList{}} {
		if err := p.Client().List(ctx, list, client.InNamespace(p.namespace)); err != nil {
			return err
		}
		if data, err := json.Marshal(list); err != nil || strings.Contains(string(data), `"uid"`) {
			return fmt.Errorf("there is %s, %v", data, err)
		}
	}
	v := &v1alpha1.ClusterServiceVersion{}
	if err := p.Client().Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.versionName()}, v); !apierrors.IsNotFound(err) {
		return fmt.Errorf("ClusterServiceVersion: %w", err)
	}
	roles := &rbacv1.ClusterRoleList{}
	if err := p.Client().List(ctx, roles, client.MatchingLabels{"olm.owner": p.versionName()}); err != nil || len(roles.Items) > 0 {
		return fmt.Errorf("there are %d cluster roles of OLM v0, %w", len(roles.Items), err)
	}
	e := object("olm.operatorframework.io/v1", "ClusterExtension", "", p.pkg)
	if err := p.Client().Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
		return err
	}
	if catalog, _, _ := unstructured.NestedMap(e.Object, "spec", "source", "catalog"); catalog["version"] != nil || fmt.Sprint(catalog["channels"]) != "[stable]" {
		return fmt.Errorf("it is for %v", catalog)
	}
	sets := 0
	if p.boxcutter {
		sets = 1
	}
	return p.has(ctx, 1, sets)
}

// has fails unless there are so many ClusterExtensions and ClusterObjectSets, with one role that OLM v1 has made for each extension.
func (p *place) has(ctx context.Context, extensions, sets int) error {
	for _, want := range []struct {
		version, kind string
		n             int
	}{{"olm.operatorframework.io/v1", "ClusterExtension", extensions}, {"olm.operatorframework.io/v1", "ClusterObjectSet", sets}, {"rbac.authorization.k8s.io/v1", "ClusterRole", extensions}} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(want.version)
		list.SetKind(want.kind + "List")
		if err := p.Client().List(ctx, list); err != nil {
			return err
		}
		n := 0
		for _, o := range list.Items {
			if o.GetName() == p.pkg || o.GetName() == p.pkg+"-1" || o.GetName() == "made-"+p.pkg {
				n++
			}
		}
		if n != want.n {
			return fmt.Errorf("there are %d of %s, want %d", n, want.kind, want.n)
		}
	}
	return nil
}

// request asks for a move.
func (p *place) request(to move.Target) move.Request {
	return move.Request{Package: p.pkg, Namespace: p.namespace, To: to, Gates: featuregates.Set{featuregates.Boxcutter: p.boxcutter},
		Catalogs: func(context.Context) ([]*prediction.ClusterCatalog, func() error, error) {
			return []*prediction.ClusterCatalog{{Name: "quay", Content: p.catalog}}, func() error { return nil }, nil
		},
		Content: func(context.Context, *fbc.Bundle) (*refusal.Bundle, error) { return nil, nil },
	}
}

// tool is a command.
type tool func(ctx context.Context, config *rest.Config) error

func (p *place) connect(config *rest.Config) (migrate.Cluster, error) {
	c, err := client.New(config, client.Options{Scheme: p.Client().Scheme(), Mapper: p.Client().RESTMapper()})
	return migrate.Cluster{Config: config, Client: c}, err
}

// apply is "berth move apply".
func (p *place) apply(to move.Target, o migrate.Options) tool {
	return func(ctx context.Context, config *rest.Config) error {
		seen, err := p.connect(config)
		if err != nil {
			return err
		}
		made, _, err := move.Move.Ensure(ctx, seen, p.request(to))
		if err != nil {
			return err
		}
		if !made.Safe {
			return fmt.Errorf("it is not safe: %+v", made.Checks)
		}
		reporting := o
		reporting.Report = p.report(o.Report)
		return move.Move.Apply(ctx, seen, made, reporting)
	}
}

// applyUntil applies until a step is next, which is neither executed nor waited for.
func (p *place) applyUntil(step migrate.StepName, to move.Target) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), limit)
	defer stop()
	err := p.apply(to, migrate.Options{Report: func(e migrate.Event) {
		if e.Step == step {
			stop()
		}
	}})(ctx, p.Config())
	if !errors.Is(err, context.Canceled) {
		p.t.Fatalf("got %v, want that step %s is next", err, step)
	}
}

// rollback is "berth move rollback".
func (p *place) rollback(ctx context.Context, config *rest.Config) error {
	seen, err := p.connect(config)
	if err != nil {
		return err
	}
	status, err := move.Move.Status(ctx, seen, p.request(""))
	if err != nil {
		return err
	}
	return move.Move.Rollback(ctx, seen, status.Plan, migrate.Options{Report: p.report(nil)})
}

// report logs the events of a run, which all have a description, and passes them on.
func (p *place) report(next func(migrate.Event)) func(migrate.Event) {
	return func(e migrate.Event) {
		if next != nil {
			defer next(e)
		}
		p.t.Logf("%s: %s %s", e.Step, e.Does, e.Waits)
		if e.Does == "" {
			p.t.Errorf("step %s has no description", e.Step)
		}
	}
}

// run runs a tool, which must succeed in time.
func (p *place) run(t tool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	config := p.Config()
	config.Timeout = 10 * time.Second // an injected fault may be that the API server does not answer
	require.NoError(p.t, t(ctx, config))
}

// mustBe waits for an end state without lost or replaced objects.
func (p *place) mustBe(what string, is func(context.Context) error) {
	p.t.Helper()
	cluster.Eventually(p.t, limit, what, is)
	now := p.observed(p.t.Context())
	for name, uid := range p.uids {
		if now[name] != uid {
			p.t.Errorf("%s had UID %q and has %q", name, uid, now[name])
		}
	}
}

// startV1 starts a stand-in for OLM v1: it takes over the objects of ClusterExtensions if they have the marks that its applier wants, and
// owns them then. It ends with the test.
func (p *place) startV1() {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := p.reconcile(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				p.t.Errorf("the stand-in for OLM v1: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	p.t.Cleanup(func() { stop(); <-ended })
}

const cleanup = "olm.operatorframework.io/cleanup-unpack-cache"

func (p *place) reconcile(ctx context.Context) error {
	c := p.Client()
	set := object("olm.operatorframework.io/v1", "ClusterObjectSet", "", p.pkg+"-1")
	if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil && set.GetDeletionTimestamp() != nil && slices.Contains(set.GetFinalizers(), cleanup) {
		return p.patch(ctx, set, func(o *unstructured.Unstructured) { o.SetFinalizers(without(o.GetFinalizers(), cleanup)) })
	}
	e := object("olm.operatorframework.io/v1", "ClusterExtension", "", p.pkg)
	switch err := c.Get(ctx, client.ObjectKeyFromObject(e), e); {
	case err != nil:
		return err
	case e.GetDeletionTimestamp() != nil && slices.Contains(e.GetFinalizers(), cleanup):
		return p.patch(ctx, e, func(o *unstructured.Unstructured) { o.SetFinalizers(without(o.GetFinalizers(), cleanup)) })
	case e.GetDeletionTimestamp() != nil:
		return nil
	case !slices.Contains(e.GetFinalizers(), cleanup):
		return p.patch(ctx, e, func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), cleanup)) })
	}
	owner := e
	if p.boxcutter {
		if set.GetUID() == "" {
			return c.Create(ctx, p.objectSet(e))
		}
		owner = set
	}
	for _, o := range p.kept()[:5] {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if !p.isMarked(o, owner) {
			return p.say(ctx, e, "Retrying", fmt.Sprintf("%s %s exists", o.GetKind(), o.GetName()))
		}
		if err := p.patch(ctx, o, func(o *unstructured.Unstructured) { p.own(o, owner) }); err != nil {
			return err
		}
	}
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "made-"+p.pkg)
	p.own(role, owner)
	if err := c.Create(ctx, role); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-operator-controller"}}
	if err := c.Create(ctx, home); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home.Name, Name: "release-" + p.pkg, Labels: map[string]string{"owner": "operator-controller", "name": p.pkg},
		OwnerReferences: []metav1.OwnerReference{reference(e)}}, Type: "operatorframework.io/index.v1"}
	if err := c.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return p.say(ctx, e, "Succeeded", "desired state reached")
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// patch changes an object that nobody else has changed, if that makes a difference.
func (p *place) patch(ctx context.Context, o *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	changed := o.DeepCopy()
	change(changed)
	return p.Client().Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
}

func reference(of *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: of.GetAPIVersion(), Kind: of.GetKind(), Name: of.GetName(), UID: of.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true)}
}

func (p *place) isMarked(o, owner *unstructured.Unstructured) bool {
	if p.boxcutter {
		controller := metav1.GetControllerOf(o)
		return controller != nil && controller.UID == owner.GetUID()
	}
	return o.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" && o.GetAnnotations()["meta.helm.sh/release-name"] == p.pkg && o.GetAnnotations()["meta.helm.sh/release-namespace"] == p.namespace
}

// own gives an object the labels and the owner of OLM v1's installed objects.
func (p *place) own(o, owner *unstructured.Unstructured) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["olm.operatorframework.io/owner-kind"], labels["olm.operatorframework.io/owner-name"] = "ClusterExtension", p.pkg
	o.SetLabels(labels)
	if metav1.GetControllerOf(o) == nil {
		o.SetOwnerReferences(append(o.GetOwnerReferences(), reference(owner)))
	}
}

// objectSet returns Boxcutter's ClusterObjectSet for the bundle.
func (p *place) objectSet(e *unstructured.Unstructured) *unstructured.Unstructured {
	set := object("olm.operatorframework.io/v1", "ClusterObjectSet", "", p.pkg+"-1")
	p.own(set, e)
	set.SetFinalizers([]string{cleanup})
	set.Object["spec"] = map[string]any{"lifecycleState": "Active", "revision": int64(1), "collisionProtection": "Prevent", "phases": []any{map[string]any{"name": "deploy",
		"objects": []any{map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "chart", "namespace": p.namespace}}}}}}}
	return set
}

// say writes the status of the ClusterExtension.
func (p *place) say(ctx context.Context, e *unstructured.Unstructured, reason, message string) error {
	condition := func(of, status, reason string) map[string]any {
		return map[string]any{"type": of, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
	}
	status := map[string]any{"conditions": []any{condition("Progressing", "True", reason)}}
	if reason == "Succeeded" {
		status["conditions"] = append(status["conditions"].([]any), condition("Installed", "True", reason))
		status["install"] = map[string]any{"bundle": map[string]any{"name": p.versionName(), "version": "1.0.0"}}
	}
	changed := e.DeepCopy()
	changed.Object["status"] = status
	return p.Client().Status().Patch(ctx, changed, client.MergeFrom(e))
}

// startCatalogd starts a stand-in for catalogd, which serves the catalog of the package, and returns the authority of its certificate.
func (p *place) startCatalogd() []byte {
	p.t.Helper()
	var catalog bytes.Buffer
	require.NoError(p.t, declcfg.WriteJSON(p.config(false), &catalog))
	made, err := authority.New("catalogd")
	require.NoError(p.t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(catalog.Bytes()) }))
	if server.TLS, err = made.Config([]string{"127.0.0.1"}); err != nil {
		p.t.Fatal(err)
	}
	server.StartTLS()
	p.t.Cleanup(server.Close)
	served := object("olm.operatorframework.io/v1", "ClusterCatalog", "", p.pkg)
	served.Object["spec"] = map[string]any{"source": map[string]any{"type": "Image", "image": map[string]any{"ref": "registry.example.com/catalog:latest"}}}
	p.create(served)
	changed := served.DeepCopy()
	changed.Object["status"] = map[string]any{"urls": map[string]any{"base": server.URL + "/catalogs/" + p.pkg},
		"conditions": []any{map[string]any{"type": "Serving", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}
	require.NoError(p.t, p.Client().Status().Patch(p.t.Context(), changed, client.MergeFrom(served)))
	return made.PEM()
}
