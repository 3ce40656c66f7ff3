package continuity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/olmv1"
	"github.com/berth-csi/berth/test/release"
)

// TestMoveEFS and the other tests here: `berth move` moves a driver's operator from OLM v0 to OLM v1 and back, by each applier of OLM v1.
// The pods that write to its volumes notice nothing, and all objects stay the same ones: the APIs, custom resources, the driver, its pods and
// the operator's.
func TestMoveEFS(t *testing.T) {
	moveByEach(t, func(t *testing.T, m *movedDriver, programs map[string]string) {
		m.Testbed = testbed.Start(t, testbed.Options{Driver: efs.Driver, Cloud: efsCloud(t), MorePrograms: programs})
		m.class, m.mode = createClass(t, m.Testbed), corev1.ReadWriteMany
		claim := m.claim(t, "files")
		m.startWriter(t, "writer-of-claim", testbed.Nodes[0], claim)
		m.startWriter(t, "writer-of-sharedvolume", testbed.Nodes[1], m.share(t, claim))
	})
}

func TestMoveEBS(t *testing.T) {
	moveByEach(t, func(t *testing.T, m *movedDriver, programs map[string]string) {
		m.Testbed = testbed.StartEBS(t, ebs.Driver, testbed.EBSOptions{MorePrograms: programs}).Testbed
		m.class, m.mode = "gp3-csi", corev1.ReadWriteOnce
		for i, node := range testbed.Nodes {
			m.startWriter(t, fmt.Sprintf("writer-%d", i), node, m.claim(t, fmt.Sprintf("data-%d", i)))
		}
	})
}

func TestMoveManila(t *testing.T) {
	moveByEach(t, func(t *testing.T, m *movedDriver, programs map[string]string) {
		cloud := testbed.StartOpenStack(t, "default")
		m.Testbed = testbed.Start(t, testbed.Options{Driver: manila.Driver, Cloud: cloud.Options(), MorePrograms: programs})
		m.class, m.mode = "csi-manila-default", corev1.ReadWriteMany
		claim := m.claim(t, "files")
		for i, node := range testbed.Nodes {
			m.startWriter(t, fmt.Sprintf("writer-%d", i), node, claim)
		}
	})
}

// movedDriver is a driver whose operator is moved.
type movedDriver struct {
	*extended
	gates featuregates.Set
	// catalog is the catalog of both OLMs.
	catalog *fbc.Catalog
	// class, namespace and mode belong to the claims.
	class, namespace string
	mode             corev1.PersistentVolumeAccessMode
}

// longest is the longest pause that a writer may make.
const longest = time.Second

// moveByEach moves an operator by each applier, with the writers that start has started.
func moveByEach(t *testing.T, start func(*testing.T, *movedDriver, map[string]string)) {
	needAll(t)
	programs := olmv1.Images(t)
	for applier, gates := range map[string]featuregates.Set{ // the Subscription has spec.config
		"helm":      {featuregates.DeploymentConfig: true},
		"boxcutter": {featuregates.DeploymentConfig: true, featuregates.Boxcutter: true},
	} {
		t.Run(applier, func(t *testing.T) {
			m := &movedDriver{extended: &extended{watch: &watch{}}, gates: gates}
			var features []string
			for gate := range gates {
				features = append(features, string(gate))
			}
			start(t, m, programs)
			m.accounts = ofOLM(m.Driver)
			m.olm = olmv1.Start(t, m.Cluster, olmv1.Options{Features: features, Experimental: true})
			made := release.Build(t, m.Driver)
			bundles := map[string]string{m.csvOf("1.0.0").Name: made.Bundles[0]}
			config := m.olm.AddCatalog("berth", made.Catalog, m.Driver.Package.Name, bundles)
			var err error
			m.catalog, _, err = fbc.Parse("berth", &config)
			require.NoError(t, err)
			m.AwaitReady(t)
			before := m.observe(t)
			m.run(t, []step{
				{"the operator moves to OLM v1", func(t *testing.T) { m.move(t, move.ToV1) }, func(t *testing.T) { m.mustBeAs(t, before); m.awaitProperties(t) }},
				{"a volume is created", func(t *testing.T) { m.useVolume(t, "with-olm-v1") }, nil},
				{"the operator moves back to OLM v0", func(t *testing.T) { m.move(t, move.ToV0) }, func(t *testing.T) { m.awaitInstalled(t, "1.0.0"); m.mustBeAs(t, before) }},
				{"another volume is created", func(t *testing.T) { m.useVolume(t, "with-olm-v0") }, nil},
			})
			for _, e := range m.journal {
				assert.LessOrEqualf(t, e.pause, longest, "while %s, a writer paused for", e.what)
			}
		})
	}
}

func (m *movedDriver) claim(t *testing.T, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	if m.namespace == "" {
		m.namespace = m.Namespace(t)
	}
	return m.Claim(t, testbed.Claim{Namespace: m.namespace, Name: name, Class: m.class, Mode: m.mode})
}

// useVolume makes a pod use a new volume. The class may wait for it.
func (m *movedDriver) useVolume(t *testing.T, name string) {
	t.Helper()
	claim := m.claim(t, name)
	m.Run(t, testbed.Pod{Name: name, Node: testbed.Nodes[0], Claim: claim})
	m.Bound(t, claim)
}

// awaitProperties waits until OLM v1 has annotated the operator's pods with the properties of the bundle, of which the plan warns.
func (m *movedDriver) awaitProperties(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "the operator's pods to get the annotation olm.properties", func(ctx context.Context) error {
		operator := &appsv1.Deployment{}
		err := m.Client().Get(ctx, client.ObjectKey{Namespace: cluster.OperatorNamespace, Name: m.Driver.Operator.Name}, operator)
		if err == nil && operator.Spec.Template.Annotations["olm.properties"] == "" {
			err = fmt.Errorf("the annotations are %v", operator.Spec.Template.Annotations)
		}
		return err
	})
}

// move is "berth move apply".
func (m *movedDriver) move(t *testing.T, to move.Target) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testbed.Limit)
	defer cancel()
	seen := migrate.Cluster{Config: m.Config(), Client: m.Client()}
	p, _, err := move.Move.Ensure(ctx, seen, move.Request{Package: m.Driver.Package.Name, Namespace: cluster.OperatorNamespace, To: to, Gates: m.gates,
		Catalogs: func(context.Context) ([]*prediction.ClusterCatalog, func() error, error) {
			return []*prediction.ClusterCatalog{{Name: "berth", Content: m.catalog}}, func() error { return nil }, nil
		},
		Content: func(_ context.Context, b *fbc.Bundle) (*refusal.Bundle, error) { return refusal.FromCatalog(b) },
	})
	require.NoError(t, err)
	require.Truef(t, p.Safe, "it is refused:\n%s", p.Text(findings.Plain))
	require.NoError(t, move.Move.Apply(ctx, seen, p, migrate.Options{Report: func(e migrate.Event) { t.Logf("%s: %s %s", e.Step, e.Does, e.Waits) }}))
}

// observe returns what identifies all that has to stay: UIDs and, of pods, how often their containers were restarted. The operator's own pods
// may be replaced: OLM v1 annotates them with the properties of the bundle.
func (m *movedDriver) observe(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(object client.Object, kind, more string) {
		found[kind+" "+object.GetNamespace()+"/"+object.GetName()] = string(object.GetUID()) + more
	}
	list := func(kind schema.GroupVersionKind, options ...client.ListOption) {
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		require.NoError(t, m.Client().List(t.Context(), all, options...))
		for _, o := range all.Items {
			add(&o, kind.Kind, "")
		}
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(t, m.Client().List(t.Context(), definitions))
	for _, d := range definitions.Items {
		add(&d, "CustomResourceDefinition", "")
		for _, v := range d.Spec.Versions {
			if v.Storage && v.Served && !slices.Contains([]string{"operators.coreos.com", "olm.operatorframework.io"}, d.Spec.Group) {
				list(schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind})
			}
		}
	}
	list(corev1.SchemeGroupVersion.WithKind("PersistentVolume"))
	list(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	list(storagev1.SchemeGroupVersion.WithKind("StorageClass"))
	local := client.InNamespace(cluster.OperatorNamespace)
	list(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, local)
	for _, o := range m.objects(t) {
		require.NoError(t, client.IgnoreNotFound(m.Client().Get(t.Context(), client.ObjectKeyFromObject(o), o)))
		add(o, o.GetKind(), "")
	}
	pods := &corev1.PodList{}
	require.NoError(t, m.Client().List(t.Context(), pods, local))
	for _, pod := range append(m.DriverPods(t), pods.Items...) {
		if strings.HasPrefix(pod.Name, m.Driver.Operator.Name+"-") {
			continue
		}
		restarts := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
		add(&pod, "Pod", fmt.Sprintf(", restarted %d times", restarts))
	}
	return found
}

// mustBeAs fails the test unless all that was observed is the same.
func (m *movedDriver) mustBeAs(t *testing.T, before map[string]string) {
	t.Helper()
	m.AwaitReady(t)
	now, pods := m.observe(t), 0
	for _, name := range slices.Sorted(maps.Keys(before)) {
		assert.Equal(t, before[name], now[name], name)
		if strings.HasPrefix(name, "Pod ") {
			pods++
		}
	}
	m.journal.note("%d objects are the same ones, %d pods among them, none of which was restarted", len(before), pods)
}
