package prediction

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc/remote"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/olm/catalogsource"
	"github.com/berth-csi/berth/test/catalogs/operators"
	"github.com/berth-csi/berth/test/catalogs/serving"
)

// scene is the namespace of a trap: it has an OperatorGroup, and Subscription buoy to package buoy in catalog first.
type scene struct {
	*testing.T
	cluster *cluster.Cluster
	// watched reads from an informer cache, so that waiting does not load the API server.
	watched   client.Reader
	namespace string
}

// watch starts an informer cache that the scenes of a test share.
func watch(t *testing.T, c *cluster.Cluster) client.Reader {
	t.Helper()
	watched, err := cache.New(c.Config(), cache.Options{Scheme: c.Client().Scheme()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- watched.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	return watched
}

// newScene creates a namespace whose OperatorGroup has the given target namespaces, or all if there are none. It returns
// once OLM has written the OperatorGroup's status.
func newScene(t *testing.T, c *cluster.Cluster, watched client.Reader, targets func(namespace string) []string) *scene {
	t.Helper()
	s := &scene{t, c, watched, c.Namespace(t)}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "group", Namespace: s.namespace},
		Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: targets(s.namespace)}}
	s.create(group)
	cluster.Eventually(t, limit, "OLM to write the status of the OperatorGroup", func(ctx context.Context) error {
		if err := watched.Get(ctx, client.ObjectKeyFromObject(group), group); err != nil {
			return err
		}
		if len(group.Status.Namespaces) == 0 {
			return fmt.Errorf("its status has no namespaces")
		}
		return nil
	})
	return s
}

// Target namespaces of OperatorGroups.
func own(namespace string) []string { return []string{namespace} }
func all(string) []string           { return nil }

func (s *scene) create(o client.Object) {
	s.Helper()
	if err := s.cluster.Client().Create(s.Context(), o); err != nil {
		s.Fatal(err)
	}
}

// delete deletes an object, and waits until it is gone.
func (s *scene) delete(o client.Object) {
	s.Helper()
	if err := s.cluster.Client().Delete(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	cluster.Eventually(s, limit, "the end of "+o.GetName(), s.cluster.Gone(o))
}

func (s *scene) patch(o client.Object, merge string) {
	s.Helper()
	if err := s.cluster.Client().Patch(s.Context(), o, client.RawPatch(types.MergePatchType, []byte(merge))); err != nil {
		s.Fatal(err)
	}
}

// approve waits until OLM requires approval to install a version, and approves it.
func (s *scene) approve(name string) {
	s.Helper()
	cluster.Eventually(s, limit, "OLM to require approval of "+name, func(ctx context.Context) error {
		plan, err := s.installPlan(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(plan.Spec.ClusterServiceVersionNames, name) || plan.Status.Phase != v1alpha1.InstallPlanPhaseRequiresApproval {
			return fmt.Errorf("it is %s, for %s", plan.Status.Phase, plan.Spec.ClusterServiceVersionNames)
		}
		return s.cluster.Client().Patch(ctx, plan, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"approved":true}}`)))
	})
}

// serve serves the catalog in a folder as a CatalogSource, and returns when OLM has connected.
func (s *scene) serve(name, dir string) {
	s.Helper()
	s.offer(name, serving.Start(s.T, dir), func(state string) bool { return state == "READY" })
}

// offer creates a CatalogSource, and waits until OLM's connection is in a state.
func (s *scene) offer(name, address string, is func(state string) bool) {
	s.Helper()
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}}
	s.create(source)
	cluster.Eventually(s, limit, "OLM's connection to catalog "+name, func(ctx context.Context) error {
		if err := s.watched.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if state := catalogsource.ConnectionState(source); !is(state) {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
}

// subscribe creates a Subscription to channel stable of a package. It has the name of the package.
func (s *scene) subscribe(pkg, source string, change ...func(*v1alpha1.Subscription)) {
	s.Helper()
	subscription := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: pkg, Namespace: s.namespace},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: source, CatalogSourceNamespace: s.namespace, Package: pkg, Channel: "stable"}}
	for _, c := range change {
		c(subscription)
	}
	s.create(subscription)
}

// install serves a catalog, subscribes to its package, and waits until OLM has installed it.
func (s *scene) install(name string, bundles ...operators.Bundle) {
	s.Helper()
	if len(bundles) == 0 {
		bundles = []operators.Bundle{{ChannelEntry: declcfg.ChannelEntry{Name: name}}}
	}
	pkg, _, _ := strings.Cut(name, ".")
	s.serve("first", operators.Write(s.T, pkg, bundles...))
	s.subscribe(pkg, "first")
	s.awaitInstalled(pkg, name)
}

// awaitInstalled waits until a version is installed and the Subscription's status says so.
func (s *scene) awaitInstalled(subscription, name string) {
	s.Helper()
	cluster.Eventually(s, limit, "OLM to install "+name, func(ctx context.Context) error {
		if phase, _, err := s.phase(ctx, name); err != nil || phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("it is %s: %w", phase, err)
		}
		if got := s.subscription(ctx, s.watched, subscription); got.Status.InstalledCSV != name || got.Status.State != v1alpha1.SubscriptionStateAtLatest {
			return fmt.Errorf("the Subscription says %+v", got.Status)
		}
		return nil
	})
}

// subscription reads a Subscription from the informer cache or the API server. It returns an empty one if there is none.
func (s *scene) subscription(ctx context.Context, from client.Reader, name string) *v1alpha1.Subscription {
	found := &v1alpha1.Subscription{Spec: &v1alpha1.SubscriptionSpec{}}
	if err := from.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, found); client.IgnoreNotFound(err) != nil {
		s.Log(err)
	}
	return found
}

// change changes the spec of Subscription buoy.
func (s *scene) change(change func(*v1alpha1.SubscriptionSpec)) {
	s.Helper()
	s.changeOf("buoy", change)
}

func (s *scene) changeOf(name string, change func(*v1alpha1.SubscriptionSpec)) {
	s.Helper()
	cluster.Eventually(s, limit, "the change of the Subscription", func(ctx context.Context) error {
		subscription := s.subscription(ctx, s.cluster.Client(), name)
		change(subscription.Spec)
		return s.cluster.Client().Update(ctx, subscription)
	})
}

// observe returns the State of the namespace, with all catalogs that can be read.
func (s *scene) observe() *State {
	s.Helper()
	states, err := Observe(s.Context(), s.cluster.Config(), s.namespace)
	if err != nil || len(states) != 1 {
		s.Fatal(states, err)
	}
	for _, source := range states[0].CatalogSources {
		if source.Namespace != s.namespace || !catalogsource.Reachable(source) {
			continue
		}
		c, err := remote.Read(s.Context(), s.cluster.Config(), source)
		if err != nil {
			s.Fatal(err)
		}
		states[0].Catalogs[Source{source.Namespace, source.Name}] = c
	}
	return states[0]
}

// predict predicts what OLM does with a Subscription.
func (s *scene) predict(st *State, subscription string) *Prediction {
	s.Helper()
	predictions, err := st.Predict(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, p := range predictions {
		if p.Subscription == subscription {
			return p
		}
	}
	s.Fatalf("there is no prediction for Subscription %s: %+v", subscription, predictions)
	return nil
}

// phase returns the phase and the status of a ClusterServiceVersion.
func (s *scene) phase(ctx context.Context, name string) (v1alpha1.ClusterServiceVersionPhase, v1alpha1.ClusterServiceVersionStatus, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	err := s.watched.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, csv)
	return csv.Status.Phase, csv.Status, err
}

// installPlan returns the InstallPlan of Subscription buoy.
func (s *scene) installPlan(ctx context.Context) (*v1alpha1.InstallPlan, error) {
	plan := &v1alpha1.InstallPlan{}
	ref := s.subscription(ctx, s.watched, "buoy").Status.InstallPlanRef
	if ref == nil {
		return nil, fmt.Errorf("the Subscription names no InstallPlan")
	}
	return plan, s.watched.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: ref.Name}, plan)
}

// OLM's log messages after a sync of a namespace with nothing to do.
const (
	noUpdates = "no subscriptions were updated"
	upToDate  = "all subscriptions up to date"
)

// awaitSync makes OLM sync the namespace once more, and waits until a whole sync has ended with one of these log messages.
func (s *scene) awaitSync(ends ...string) {
	s.Helper()
	_, since, err := s.logLines(math.MaxInt64)
	if err != nil {
		s.Fatal(err)
	}
	s.patch(s.subscription(s.Context(), s.cluster.Client(), "buoy"), fmt.Sprintf(`{"metadata":{"annotations":{"sync-after":"%d"}}}`, since))
	cluster.Eventually(s, limit, "OLM to sync the namespace", func(context.Context) error {
		lines, _, err := s.logLines(since)
		if err != nil {
			return err
		}
		begun := map[string]bool{} // by the ID that OLM logs for a sync
		for _, line := range lines {
			_, id, _ := strings.Cut(line, " id=")
			id, _, _ = strings.Cut(id, " ")
			switch {
			case strings.Contains(line, `msg="checking if subscriptions need update"`):
				begun[id] = true
			case begun[id] && slices.ContainsFunc(ends, func(end string) bool { return strings.Contains(line, `msg="`+end+`"`) }):
				return nil
			}
		}
		return fmt.Errorf("its log does not have %q for a sync since then", ends)
	})
}

// awaitIdle waits until OLM has logged nothing about the namespace for some seconds, which is more than a sync takes.
func (s *scene) awaitIdle() {
	s.Helper()
	var end int64
	last := time.Now()
	cluster.Eventually(s, limit, "OLM to be idle", func(context.Context) error {
		lines, now, err := s.logLines(end)
		if err != nil {
			return err
		}
		if end = now; len(lines) > 0 {
			last = time.Now()
		}
		if idle := time.Since(last); idle < 3*time.Second {
			return fmt.Errorf("its last line about the namespace is %s old", idle)
		}
		return nil
	})
}

// logLines returns the lines about the namespace in OLM's log after an offset, and the offset of its end.
func (s *scene) logLines(since int64) (lines []string, end int64, err error) {
	log, err := os.Open(filepath.Join(s.cluster.Logs(), "catalog.log"))
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, 0, err
	}
	since = min(since, info.Size())
	text, err := io.ReadAll(io.NewSectionReader(log, since, info.Size()-since))
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range strings.Lines(string(whole)) {
		if strings.Contains(line, "namespace="+s.namespace+"\n") || strings.Contains(line, "namespace="+s.namespace+" ") {
			lines = append(lines, line)
		}
	}
	return lines, since + int64(len(whole)), err
}

// loseInstallPlan makes the Subscription wait for an InstallPlan that was deleted before OLM wrote a condition about it. A
// running sync may overwrite the status with an older one; then it tries again.
func (s *scene) loseInstallPlan(name string) {
	s.Helper()
	cluster.Eventually(s, limit, "the Subscription to wait for the deleted InstallPlan", func(ctx context.Context) error {
		waiting := s.subscription(ctx, s.cluster.Client(), "buoy")
		if ref := waiting.Status.InstallPlanRef; ref != nil && ref.UID == "gone" {
			return nil
		}
		s.awaitIdle()
		if err := s.cluster.PointTo(ctx, waiting, name, &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "install-gone", UID: "gone"}}); err != nil {
			return err
		}
		s.awaitSync(noUpdates, upToDate)
		return fmt.Errorf("OLM has synced the namespace since")
	})
}

// awaitInstallPlan waits until the InstallPlan of Subscription buoy is in a phase.
func (s *scene) awaitInstallPlan(phase v1alpha1.InstallPlanPhase) (plan *v1alpha1.InstallPlan) {
	s.Helper()
	cluster.Eventually(s, limit, "the InstallPlan to be "+string(phase), func(ctx context.Context) (err error) {
		if plan, err = s.installPlan(ctx); err != nil {
			return err
		}
		if plan.Status.Phase != phase {
			return fmt.Errorf("it is %s: %s", plan.Status.Phase, plan.Status.Message)
		}
		return nil
	})
	return plan
}

// awaitPhase waits until a ClusterServiceVersion is in a phase and has a reason for it.
func (s *scene) awaitPhase(name string, phase v1alpha1.ClusterServiceVersionPhase) (status v1alpha1.ClusterServiceVersionStatus) {
	s.Helper()
	cluster.Eventually(s, limit, name+" to be "+string(phase), func(ctx context.Context) (err error) {
		var is v1alpha1.ClusterServiceVersionPhase
		if is, status, err = s.phase(ctx, name); err != nil {
			return err
		}
		if is != phase || status.Reason == v1alpha1.CSVReasonRequirementsUnknown {
			return fmt.Errorf("it is %s: %s", is, status.Message)
		}
		return nil
	})
	return status
}

// moorings is a CRD of this scene alone.
func (s *scene) moorings(versions ...string) *operators.Definition {
	return &operators.Definition{Group: s.namespace + ".example.com", Versions: versions}
}

// mooring is a custom resource of moorings.
func (s *scene) mooring(version string) client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": s.namespace + ".example.com/" + version, "kind": "Mooring",
		"metadata": map[string]any{"name": "pier", "namespace": s.namespace}, "spec": map[string]any{"depth": "7 m"},
	}}
}
