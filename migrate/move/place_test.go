package move_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
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
	"github.com/berth-csi/berth/test/migrations"
	"github.com/berth-csi/berth/test/olmv1/standin"
)

func TestMain(m *testing.M) {
	// Tests wait for OLM most of the time.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

// limit is how long anything may take. A run that is killed before and after each write begins some sixty times.
const limit = 10 * time.Minute

// site is a cluster with the real OLM v0, and with the types of OLM v1.
type site struct{ *cluster.Cluster }

func newSite(t *testing.T) *site {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	return siteNamed(t, test)
}

func siteNamed(t *testing.T, name string) *site {
	t.Helper()
	s := &site{cluster.Shared(t, cluster.Options{OLM: true, Name: name})}
	require.NoError(t, client.IgnoreAlreadyExists(crds.OLMv1.Create(t.Context(), s.Client())))
	return s
}

// place is a namespace where OLM v0 has installed the operator of a package of its own.
type place struct {
	*site
	*migrations.Runner
	t              *testing.T
	namespace, pkg string
	needs          string // a package; "" if it needs none
	boxcutter      bool
	catalog        *fbc.Catalog
	uids           map[string]types.UID // of the objects that have to stay
}

// newPlace makes OLM v0 install the operator, whose API has an object.
func (s *site) newPlace(t *testing.T, boxcutter bool) *place {
	t.Helper()
	var p *place
	t.Cleanup(func() { // after the namespace has been deleted
		if p != nil {
			p.remove()
		}
	})
	p = s.placeIn(t, s.Namespace(t), "boat-", boxcutter)
	p.Create(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: p.namespace}})
	p.install()
	return p
}

// remove deletes what neither OLM deletes of the cluster-scoped objects. With hundreds of APIs, the API server, the garbage collector and each
// deletion of a namespace become slow for all other places.
func (p *place) remove() {
	api := "moorings." + p.group()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	objects := []client.Object{&apiextensionsv1.CustomResourceDefinition{ObjectMeta: named(api)}}
	for _, role := range []string{api + "-v1-admin", api + "-v1-edit", api + "-v1-view", api + "-v1-crdview", p.pkg + "-view", "made-" + p.pkg} {
		objects = append(objects, &rbacv1.ClusterRole{ObjectMeta: named(role)})
	}
	objects = append(objects, &rbacv1.ClusterRoleBinding{ObjectMeta: named("made-" + p.pkg)})
	for _, o := range objects {
		assert.NoErrorf(p.t, client.IgnoreNotFound(p.Client().Delete(context.Background(), o)), "deleting %T %s", o, o.GetName())
	}
}

// needing makes OLM v0 install another operator in the namespace, which needs this one.
func (p *place) needing() *place {
	p.t.Helper()
	other := p.placeIn(p.t, p.namespace, "port-", p.boxcutter)
	other.needs = p.pkg
	other.install()
	return other
}

func (s *site) placeIn(t *testing.T, namespace, prefix string, boxcutter bool) *place {
	// The name is short: OLM v0 uses the version's name as a label.
	return &place{site: s, Runner: migrations.New(t, s.Cluster, limit), t: t, namespace: namespace, pkg: prefix + namespace[strings.LastIndex(namespace, "-")+1:], boxcutter: boxcutter}
}

// install makes OLM v0 install the operator, and creates an object of its API.
func (p *place) install() {
	p.t.Helper()
	inline, offered := p.config(true), p.config(false)
	var err error
	if p.catalog, _, err = fbc.Parse("quay", &offered); err != nil {
		p.t.Fatal(err)
	}
	served := p.t.TempDir()
	catalogs.WriteConfig(p.t, served, inline)
	p.CreateSource(p.namespace, "quay-"+p.pkg, serving.Start(p.t, served))
	p.Create(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: p.pkg, Namespace: p.namespace},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: "quay-" + p.pkg, CatalogSourceNamespace: p.namespace, Package: p.pkg, Channel: "stable"}})
	cluster.Eventually(p.t, limit, "OLM v0 to install the operator", p.isWithV0)
	boat := &unstructured.Unstructured{Object: map[string]any{"apiVersion": p.group() + "/v1", "kind": "Mooring", "spec": map[string]any{"depth": "3"}}}
	boat.SetName("north")
	boat.SetNamespace(p.namespace)
	cluster.Eventually(p.t, limit, "an object of the API to be created", func(ctx context.Context) error { return p.Client().Create(ctx, boat) })
	p.uids = p.observed(p.t.Context())
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
		if p.needs != "" { // OLM v1 takes no bundle with dependencies
			b.Properties = append(b.Properties, property.MustBuildPackageRequired(p.needs, ">=1.0.0"))
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
		assert.Nilf(p.t, o.GetDeletionTimestamp(), "%s %s is being deleted", o.GetKind(), o.GetName())
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
	if err := p.Client().Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.pkg}, own); err != nil {
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

// apply is "berth move apply".
func (p *place) apply(to move.Target) migrations.Tool {
	return migrations.Apply(p.Runner, move.Move, p.request(to), migrate.Options{})
}

// applyUntil applies until a step is next, which is neither executed nor waited for.
func (p *place) applyUntil(step migrate.StepName, to move.Target) {
	p.t.Helper()
	migrations.ApplyUntil(p.Runner, move.Move, p.request(to), step)
}

// rollback is "berth move rollback".
func (p *place) rollback(ctx context.Context, config *rest.Config) error {
	return migrations.Rollback(p.Runner, move.Move, p.request(""), migrate.Options{})(ctx, config)
}

// mustBe waits for an end state without lost or replaced objects.
func (p *place) mustBe(what string, is func(context.Context) error) {
	p.t.Helper()
	cluster.Eventually(p.t, limit, what, is)
	now := p.observed(p.t.Context())
	for name, uid := range p.uids {
		assert.Equalf(p.t, uid, now[name], "UID of %s", name)
	}
}

// startV1 has a stand-in play OLM v1 until the test ends.
func (p *place) startV1() {
	p.t.Helper()
	inline := p.config(true)
	carried, _, err := fbc.Parse("quay", &inline)
	require.NoError(p.t, err)
	bundle, err := refusal.FromCatalog(carried.Find(p.pkg).FindBundle(p.versionName()))
	require.NoError(p.t, err)
	applier := &standin.Applier{Client: p.Client(), Bundle: bundle, Namespace: p.namespace, Boxcutter: p.boxcutter}
	p.t.Cleanup(applier.Start(func(err error) { p.t.Error(err) }))
}

// startCatalogd makes a stand-in for catalogd serve the catalog of the package, and returns the authority of its certificate.
func (p *place) startCatalogd() []byte {
	p.t.Helper()
	trusted, stop, err := standin.ServeCatalog(p.t.Context(), p.Client(), p.pkg, p.config(false))
	require.NoError(p.t, err)
	p.t.Cleanup(stop)
	return trusted
}
