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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/fbc/remote"
	"github.com/berth-csi/berth/test/catalogs/operators"
	"github.com/berth-csi/berth/test/catalogs/serving"
	"github.com/berth-csi/berth/test/cluster"
)

// stage is a namespace in which a trap is shown: with an OperatorGroup, and Subscription buoy to a package of
// that name in catalog first.
type scene struct {
	*testing.T
	cluster *cluster.Cluster
	// watched is what has been seen of the cluster's objects so far, to wait for something at no expense.
	watched   client.Reader
	namespace string
}

// watch watches what the stages of a test wait for.
func watch(t *testing.T, c *cluster.Cluster) client.Reader {
	t.Helper()
	watched, err := cache.New(c.Config(), cache.Options{Scheme: c.Client().Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- watched.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return watched
}

// newStage makes a namespace whose OperatorGroup has these namespaces, or all if there is none, and returns it
// when OLM has taken note.
func newScene(t *testing.T, c *cluster.Cluster, watched client.Reader, targets func(namespace string) []string) *scene {
	t.Helper()
	s := &scene{t, c, watched, c.Namespace(t)}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "group", Namespace: s.namespace},
		Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: targets(s.namespace)}}
	s.create(group)
	cluster.Eventually(t, limit, "OLM to take note of the OperatorGroup", func(ctx context.Context) error {
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

// The namespaces of OperatorGroups.
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

// approve waits until OLM asks whether it may install something, and lets it.
func (s *scene) approve(name string) {
	s.Helper()
	cluster.Eventually(s, limit, "OLM to ask for approval of "+name, func(ctx context.Context) error {
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

// serve offers the catalog in a folder as a CatalogSource, and returns when OLM has a connection.
func (s *scene) serve(name, dir string) {
	s.Helper()
	s.offer(name, serving.Start(s.T, dir), connected)
}

// offer makes a CatalogSource, and waits for the state of OLM's connection.
func (s *scene) offer(name, address string, is func(state string) bool) {
	s.Helper()
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}}
	s.create(source)
	cluster.Eventually(s, limit, "OLM's connection to catalog "+name, func(ctx context.Context) error {
		if err := s.watched.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if state := connectionOf(source); !is(state) {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
}

// subscribe makes a Subscription to channel stable of a package, by the name of that.
func (s *scene) subscribe(pkg, source string, change ...func(*v1alpha1.Subscription)) {
	s.Helper()
	subscription := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: pkg, Namespace: s.namespace},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: source, CatalogSourceNamespace: s.namespace, Package: pkg, Channel: "stable"}}
	for _, c := range change {
		c(subscription)
	}
	s.create(subscription)
}

// install offers a catalog, and has OLM install what Subscription buoy gets from there.
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

// awaitInstalled waits until OLM has installed something and says so.
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

// subscription returns a Subscription, which is empty if there is none, from what has been seen or from the
// API server.
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

// worlds returns the world of the namespace, with all catalogs that can be read.
func (s *scene) observe() *State {
	s.Helper()
	states, err := Observe(s.Context(), s.cluster.Config(), s.namespace)
	if err != nil || len(states) != 1 {
		s.Fatal(states, err)
	}
	for _, source := range states[0].CatalogSources {
		if source.Namespace != s.namespace || !connected(connectionOf(source)) {
			continue
		}
		c, err := remote.Read(s.Context(), s.cluster.Config(), source)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { c.Close() })
		states[0].Catalogs[Source{source.Namespace, source.Name}] = c.Catalog
	}
	return states[0]
}

// foretell foretells what OLM does with a Subscription.
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
	s.Fatalf("nothing is foretold of Subscription %s: %+v", subscription, predictions)
	return nil
}

// phase returns in which phase a ClusterServiceVersion is, and what OLM says of that.
func (s *scene) phase(ctx context.Context, name string) (v1alpha1.ClusterServiceVersionPhase, v1alpha1.ClusterServiceVersionStatus, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	err := s.watched.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, csv)
	return csv.Status.Phase, csv.Status, err
}

// plan returns the InstallPlan of Subscription buoy.
func (s *scene) installPlan(ctx context.Context) (*v1alpha1.InstallPlan, error) {
	plan := &v1alpha1.InstallPlan{}
	ref := s.subscription(ctx, s.watched, "buoy").Status.InstallPlanRef
	if ref == nil {
		return nil, fmt.Errorf("the Subscription names no InstallPlan")
	}
	return plan, s.watched.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: ref.Name}, plan)
}

// What OLM notes of a time when it has looked at a namespace.
const (
	noUpdates  = "no subscriptions were updated"
	upToDate = "all subscriptions up to date"
)

// awaitLook has OLM look at the namespace once more, and waits until it has, from beginning to end, and found
// nothing to do, in one of these ways.
func (s *scene) awaitSync(ends ...string) {
	s.Helper()
	_, since, err := s.logLines(math.MaxInt64)
	if err != nil {
		s.Fatal(err)
	}
	s.patch(s.subscription(s.Context(), s.cluster.Client(), "buoy"), fmt.Sprintf(`{"metadata":{"annotations":{"look-after":"%d"}}}`, since))
	cluster.Eventually(s, limit, "OLM to have looked at the namespace", func(context.Context) error {
		said, _, err := s.logLines(since)
		if err != nil {
			return err
		}
		begun := map[string]bool{} // by the name that OLM gives a look
		for _, line := range said {
			_, id, _ := strings.Cut(line, " id=")
			id, _, _ = strings.Cut(id, " ")
			switch {
			case strings.Contains(line, `msg="checking if subscriptions need update"`):
				begun[id] = true
			case begun[id] && slices.ContainsFunc(ends, func(end string) bool { return strings.Contains(line, `msg="`+end+`"`) }):
				return nil
			}
		}
		return fmt.Errorf("its log does not have %q of it", ends)
	})
}

// awaitRest waits until OLM has done nothing in the namespace for some seconds, more than a look usually takes.
func (s *scene) awaitIdle() {
	s.Helper()
	var end int64
	last := time.Now()
	cluster.Eventually(s, limit, "OLM to rest", func(context.Context) error {
		said, now, err := s.logLines(end)
		if err != nil {
			return err
		}
		if end = now; len(said) > 0 {
			last = time.Now()
		}
		if rests := time.Since(last); rests < 3*time.Second {
			return fmt.Errorf("its last line about the namespace is %s old", rests)
		}
		return nil
	})
}

// said returns the lines about the namespace that OLM has logged after an offset, and where the log ends.
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

// lose has the Subscription wait for an InstallPlan that is gone, as OLM leaves it where that is deleted before OLM has
// said in the Subscription that it is pending. OLM ends each look at a namespace with the status that it began with, so
// that this can be lost again if OLM is looking.
func (s *scene) loseInstallPlan(name string) {
	s.Helper()
	cluster.Eventually(s, limit, "the Subscription to wait for what is gone", func(ctx context.Context) error {
		waiting := s.subscription(ctx, s.cluster.Client(), "buoy")
		if ref := waiting.Status.InstallPlanRef; ref != nil && ref.UID == "gone" {
			return nil
		}
		s.awaitIdle()
		if err := s.cluster.PointTo(ctx, waiting, name, &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "install-gone", UID: "gone"}}); err != nil {
			return err
		}
		s.awaitSync(noUpdates, upToDate)
		return fmt.Errorf("OLM has looked since")
	})
}

// awaitPlan waits until the InstallPlan of Subscription buoy is in a phase.
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

// awaitPhase waits until a ClusterServiceVersion is in a phase for a reason that it tells.
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

// moorings is a CRD of the stage's own.
func (s *scene) moorings(versions ...string) *operators.Definition {
	return &operators.Definition{Group: s.namespace + ".example.com", Versions: versions}
}

// mooring is an object of that CRD.
func (s *scene) mooring(version string) client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": s.namespace + ".example.com/" + version, "kind": "Mooring",
		"metadata": map[string]any{"name": "pier", "namespace": s.namespace}, "spec": map[string]any{"depth": "7 m"},
	}}
}
