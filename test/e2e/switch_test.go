package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/schemas"
)

const (
	communityCatalog = "community-operators"
	certifiedCatalog = "certified-operators"
	// shares is how many SharedVolumes, each with a pod that uses it, live through a switch.
	shares = 50
)

// TestSwitchByHand switches from the community's operator to ours without a tool: the administrator changes the
// source of the Subscription, and later creates a ClusterCSIDriver. Volumes in use are not affected.
func TestSwitchByHand(t *testing.T) {
	t.Parallel()
	testSwitch(t, byHand, communityBundles(t)...)
}

var byHand = way{
	update: func(w *environment) {
		r := w.reader()
		r.Variables = page.Commands(w.t, filepath.Join(r.Docs, "move/switch.md"), "# Switch to another catalog", r.Names)
		r.Follow(w.t, "move/switch.md", "## By hand")
		before, after := w.community(), w.community()
		w.read(before)
		r.Follow(w.t, "start/install.md", "## Coming from the community's operator", 0)
		w.read(after)
		if diff := cmp.Diff(before.Spec, after.Spec); diff != "" { // OLM writes the status meanwhile
			w.t.Errorf("install.md does not change the Subscription as switch.md does (-switch.md +install.md):\n%s", diff)
		}
		w.awaitInstalled(w.community(), "aws-efs-operator.v1.0.0")
	},
	adopt: func(w *environment) {
		w.step(func(ctx context.Context, c client.Client) error {
			return journey.InstallDriver(ctx, c, w.driver.CSIName)
		})
	},
}

// TestSwitchWithTool does the same with berth, as a plugin of kubectl.
func TestSwitchWithTool(t *testing.T) {
	t.Parallel()
	testSwitch(t, way{
		update: func(w *environment) {
			planned := w.kubectlBerth("", "switch", "plan", w.driver.Package.Name, "--to", certifiedCatalog, "--output", "json")
			assert.NoError(w.t, schemas.Check([]byte(planned)), "the plan does not comply with its schema")
			w.kubectlBerth(planned, "switch", "apply", "--filename", "-")
			w.awaitInstalled(w.community(), "aws-efs-operator.v1.0.0")
			w.checkSettled(func() { w.kubectlBerth(planned, "switch", "apply", "--filename", "-") })
		},
		adopt: func(w *environment) {
			apply := func() {
				w.kubectlBerth("", "switch", "apply", w.driver.Package.Name, "--to", certifiedCatalog, "--create-driver")
			}
			w.reader().Follow(w.t, "move/switch.md", "### Plan", 2)
			w.checkSettled(apply)
			if later := w.kubectlBerth("", "switch", "plan", w.driver.Package.Name, "--to", certifiedCatalog, "--create-driver"); !strings.Contains(later, "There is nothing to do.") {
				w.t.Errorf("after the switch, the plan is\n%s", later)
			}
		},
	}, communityBundles(t)...)
}

// TestSwitchWithKilledTool does the same with a tool that is killed before and after each of its writes, and run
// again.
func TestSwitchWithKilledTool(t *testing.T) {
	t.Parallel()
	run := func(createDriver bool) func(*environment) {
		return func(w *environment) {
			request := subscription.Request{Package: w.driver.Package.Name, Source: certifiedCatalog, CreateDriver: createDriver}
			injector := fault.KillAtEach()
			w.step(func(ctx context.Context, _ client.Client) error {
				return injector.Run(ctx, w.Config(), func(ctx context.Context, config *rest.Config) error { return w.apply(ctx, config, request) })
			})
			if !injector.Came() {
				w.t.Error("the tool was never killed")
			}
		}
	}
	testSwitch(t, way{update: run(false), adopt: run(true)}, communityBundles(t)[0])
}

// apply runs "berth switch apply" in this process.
func (w *environment) apply(ctx context.Context, config *rest.Config, request subscription.Request) error {
	api, err := client.New(config, client.Options{Scheme: w.Client().Scheme(), Mapper: w.Client().RESTMapper()})
	if err != nil {
		return err
	}
	admin := migrate.Cluster{Config: config, Client: api}
	plan, _, err := subscription.Switch.Ensure(ctx, admin, request)
	if err != nil {
		return err
	}
	return subscription.Switch.Apply(ctx, admin, plan, migrate.Options{Report: func(e migrate.Event) { w.t.Logf("%s %s", e.Step, e.Waits) }})
}

// way is a way to switch from the community's operator to ours.
type way struct {
	update func(*environment) // until our operator runs
	adopt  func(*environment) // until it has adopted the driver
}

// testSwitch switches from several versions of the community's operator.
func testSwitch(t *testing.T, way way, versions ...communityBundle) {
	for _, from := range versions {
		t.Run(from.version, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, efs(t), cluster.Options{})
			w.switchFrom(from, way, shares)
		})
	}
}

// switchFrom switches from a version of the community's operator while a number of SharedVolumes are in use, and
// checks that they are not affected.
func (w *environment) switchFrom(from communityBundle, way way, shares int) {
	w.t.Helper()
	w.serve(communityCatalog, w.buildCatalog(from.folder))
	w.serve(certifiedCatalog, w.catalog)
	w.step(func(ctx context.Context, c client.Client) error {
		_, err := journey.Subscribe(ctx, c, w.subscription(communityCatalog, from.channel))
		return err
	})
	w.leaveCommunityOperator(shares)
	record := w.recordSwitch()

	way.update(w)
	w.awaitAccess(sharedvolume.AccessOpen)
	w.share(sharedVolume("new")) // there is no ClusterCSIDriver yet, and no grant
	metrics := w.prometheus()
	metrics.Shows = w.missing(true)
	metrics.Await(w.t)
	way.adopt(w)
	metrics.Shows = w.missing(false)
	metrics.Await(w.t)
	w.awaitAccess(sharedvolume.AccessOpen)
	for name, value := range map[string]int{"open": 1, "without_grant": shares + 1} {
		metrics.Shows = fmt.Sprintf("berth_shared_volumes_%s{driver=%q} %d", name, w.driver.CSIName, value)
		metrics.Await(w.t)
	}

	record.check()
}

// community is the Subscription to the community's operator.
func (w *environment) community() *v1alpha1.Subscription {
	return w.subscription(communityCatalog, w.driver.Package.Channel)
}

// kubectlBerth runs berth as a plugin of kubectl, and returns its output.
func (w *environment) kubectlBerth(input string, args ...string) string {
	w.t.Helper()
	plugin := filepath.Join(filepath.Dir(w.berth), "kubectl-berth")
	if err := os.Symlink(w.berth, plugin); err != nil && !errors.Is(err, fs.ErrExist) {
		w.t.Fatal(err)
	}
	cmd := w.Kubectl(w.t.Context(), append([]string{"berth"}, args...)...)
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(plugin)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Stdin = strings.NewReader(input)
	var out, diagnostics bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnostics
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("kubectl berth %q: %v\n%s%s", args, err, &out, &diagnostics)
	}
	w.t.Logf("kubectl berth %q:\n%s", args, &diagnostics)
	return out.String()
}

// checkSettled does something during which berth must write nothing. Others may.
func (w *environment) checkSettled(do func()) {
	w.t.Helper()
	before := len(w.toolWrites())
	do()
	assert.Empty(w.t, w.toolWrites()[before:], "a second run wrote")
}

// toolWrites returns the writes of berth so far.
func (w *environment) toolWrites() (writes []string) {
	w.t.Helper()
	for _, event := range w.AuditOf(w.t, cluster.Requests{Agent: "kubectl-berth/"}) {
		if !slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			writes = append(writes, event.Verb+" "+event.Resource+" "+event.Name)
		}
	}
	return writes
}

// communityBundle is a version of the community's operator.
type communityBundle struct{ version, channel, folder string }

// communityBundles returns the last version of each of the community's two streams, and those public ones
// that are available here and that current API servers accept.
func communityBundles(t *testing.T) []communityBundle {
	t.Helper()
	const own, later = "0.0.8", "0.1.150-9c87267"
	folder := filepath.Join("..", "community", "bundle")
	bundles := []communityBundle{
		{own, "stable", folder},
		{later, "staging", renumbered(t, folder, map[string]string{own: later, "stable": "staging"})},
	}
	public := filepath.Join("..", "..", "..", "shared", "fixtures", "community-aws-efs-operator")
	for _, version := range []string{"0.0.6", "0.0.7", "0.0.8"} {
		if folder := filepath.Join(public, version); exists(folder) {
			bundles = append(bundles, communityBundle{version, "stable", folder})
		}
	}
	return bundles
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// renumbered copies a bundle with some words replaced.
func renumbered(t *testing.T, folder string, words map[string]string) string {
	t.Helper()
	copied := t.TempDir()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(folder, path)
		target := filepath.Join(copied, relative)
		if err != nil || entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for from, to := range words {
			text = bytes.ReplaceAll(text, []byte(from), []byte(to))
		}
		return os.WriteFile(target, text, 0o644)
	})
	require.NoError(t, err)
	return copied
}

// buildCatalog builds a catalog of one bundle.
func (w *environment) buildCatalog(bundle string) string {
	w.t.Helper()
	folder := filepath.Join(w.t.TempDir(), "catalog")
	run(w.t, w.berth, "catalog", "build", bundle, "--output-dir", folder)
	return folder
}

// leaveCommunityOperator creates the community operator's objects, with SharedVolumes of two teams.
func (w *environment) leaveCommunityOperator(shares int) {
	w.t.Helper()
	teams := []string{"team-one", "team-other"}
	for _, team := range teams {
		w.step(func(ctx context.Context, _ client.Client) error { return w.EnsureNamespace(ctx, team) })
	}
	var keys []client.ObjectKey
	for i := range shares {
		keys = append(keys, client.ObjectKey{Namespace: teams[i%len(teams)], Name: fmt.Sprintf("share-%d", i)})
	}
	w.step(func(ctx context.Context, c client.Client) error { return community.Leave(ctx, c, namespace, keys) })
}

// awaitInstalled waits until OLM has updated the operator.
func (w *environment) awaitInstalled(subscription *v1alpha1.Subscription, name string) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "OLM to install "+name, func(ctx context.Context) error {
		versions := &v1alpha1.ClusterServiceVersionList{}
		if err := w.Client().List(ctx, versions, client.InNamespace(subscription.Namespace)); err != nil {
			return err
		}
		var found []string
		for _, csv := range versions.Items {
			found = append(found, fmt.Sprintf("%s: %s", csv.Name, csv.Status.Phase))
		}
		if want := []string{name + ": " + string(v1alpha1.CSVPhaseSucceeded)}; !slices.Equal(found, want) {
			return fmt.Errorf("ClusterServiceVersions are %q, want just %q", found, want)
		}
		return nil
	})
}

// switchRecord records the objects that a switch must not delete or disturb.
type switchRecord struct {
	w    *environment
	kept []recording
	lock func() []watch.Event
	pods func() []watch.Event // of operators
}

// recording is the objects of a kind before the switch, and their events.
type recording struct {
	community.Kind
	end func() []watch.Event
}

// recordSwitch starts to record.
func (w *environment) recordSwitch() *switchRecord {
	w.t.Helper()
	r := &switchRecord{w: w}
	for _, kind := range community.Kinds(namespace) {
		r.kept = append(r.kept, recording{kind, w.Record(w.t, kind.List, kind.Options...)})
	}
	r.lock = w.Record(w.t, &corev1.ConfigMapList{}, client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: w.driver.Operator.Lock})
	r.pods = w.Record(w.t, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabels{"name": w.driver.Operator.Name})
	return r
}

// check checks that nothing was deleted, that every volume was served all the time, and that the earlier operator
// had stopped before ours became active.
func (r *switchRecord) check() {
	t := r.w.t
	t.Helper()
	for _, kept := range r.kept {
		before := map[client.ObjectKey]client.Object{}
		require.NoError(t, meta.EachListItem(kept.List, func(item runtime.Object) error {
			object := item.(client.Object)
			before[client.ObjectKeyFromObject(object)] = object
			return nil
		}))
		assert.NotEmptyf(t, before, "there was no %s before the switch", kept.Name)
		for _, event := range kept.end() {
			object := event.Object.(client.Object)
			was := before[client.ObjectKeyFromObject(object)]
			switch {
			case was == nil: // belongs to the SharedVolume that is created during the switch
			case event.Type == watch.Deleted || was.GetUID() != object.GetUID():
				t.Errorf("%s %s was deleted", kept.Name, object.GetName())
			default:
				checkServed(t, kept.Kind, was, object)
			}
		}
	}
	r.checkHandOver()
}

// checkServed checks that an object served its users during the switch as it did before.
func checkServed(t testing.TB, kind community.Kind, was, object client.Object) {
	t.Helper()
	switch object := object.(type) {
	case *appsv1.DaemonSet: // replaces its pods one after the other
		return
	case *corev1.PersistentVolume:
		assert.Emptyf(t, cmp.Diff(was.(*corev1.PersistentVolume).Spec, object.Spec), "the spec of PersistentVolume %s was changed (-before +then)", object.Name)
	}
	assert.NoError(t, kind.Trouble(object))
}

// checkHandOver checks that the earlier operator's pod was gone, and its lock with it, before ours took the
// lock, and that ours still holds it.
func (r *switchRecord) checkHandOver() {
	t := r.w.t
	t.Helper()
	gone := 0
	for _, event := range r.pods() {
		if event.Type == watch.Deleted && gone == 0 {
			gone = revision(t, event)
		}
	}
	locks := r.lock()
	if len(locks) != 2 || locks[0].Type != watch.Deleted || locks[1].Type != watch.Added {
		t.Fatalf("events of the lock: %+v, want that it was deleted and created again", locks)
	}
	if taken := revision(t, locks[1]); gone == 0 || taken < gone {
		t.Errorf("our operator took the lock at revision %d, and the earlier one's pod was gone at %d (0 is never)", taken, gone)
	}
	r.w.step(func(ctx context.Context, c client.Client) error {
		pod, err := journey.OperatorPod(ctx, c, namespace, r.w.driver.Operator.Name)
		if err != nil {
			return err
		}
		lock := locks[1].Object.(*corev1.ConfigMap)
		if want := []metav1.OwnerReference{journey.PodReference(pod)}; !cmp.Equal(want, lock.OwnerReferences) {
			return fmt.Errorf("the lock's owner (-want +got):\n%s", cmp.Diff(want, lock.OwnerReferences))
		}
		return nil
	})
}

// revision returns the resource version of an event, which orders the events of the whole cluster.
func revision(t testing.TB, event watch.Event) int {
	t.Helper()
	revision, err := strconv.Atoi(event.Object.(client.Object).GetResourceVersion())
	require.NoError(t, err)
	return revision
}
