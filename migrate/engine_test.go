package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// limit is how long a run may take.
const limit = 3 * time.Minute

// scene is a namespace with the ConfigMap to move, and another one for the journals.
type scene struct {
	*cluster.Cluster
	t                   *testing.T
	namespace, journals string
	source              *corev1.ConfigMap
	warnings            []string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c := cluster.Shared(t, cluster.Options{})
	s := &scene{Cluster: c, t: t, namespace: c.Namespace(t), journals: c.Namespace(t)}
	s.source = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "source"}, Data: map[string]string{"key": "value"}}
	s.create(s.source)
	return s
}

func (s *scene) create(object client.Object) {
	s.t.Helper()
	require.NoError(s.t, s.Client().Create(s.t.Context(), object))
}

func (s *scene) connect(config *rest.Config) migrate.Cluster {
	s.t.Helper()
	c, err := client.New(config, client.Options{Scheme: s.Client().Scheme(), Mapper: s.Client().RESTMapper()})
	require.NoError(s.t, err)
	return migrate.Cluster{Config: config, Client: c, JournalNamespace: s.journals, Warn: func(what string) { s.warnings = append(s.warnings, what) }}
}

func (s *scene) admin() migrate.Cluster { return s.connect(s.Config()) }

func (s *scene) request() moveRequest { return moveRequest{s.namespace, "source", "target"} }

func (s *scene) plan() *movePlan {
	s.t.Helper()
	p, err := move.Plan(s.t.Context(), s.admin(), s.request())
	require.NoError(s.t, err)
	return p
}

// tool is a command that runs the engine.
type tool func(context.Context, *rest.Config) error

// apply is the command "apply -f". If uses is set, somebody uses the target as soon as the migration waits for that.
func (s *scene) apply(p *movePlan, uses bool, o migrate.Options) tool {
	return func(ctx context.Context, config *rest.Config) error {
		c := s.connect(config)
		ensured, _, err := move.EnsureGiven(ctx, c, s.request(), p)
		if err != nil {
			return err
		}
		o.Report = func(e migrate.Event) {
			s.report(e)
			if uses && e.Step == awaitUse {
				s.use()
			}
		}
		return move.Apply(ctx, c, ensured, o)
	}
}

// rollback is the command "rollback".
func (s *scene) rollback(ctx context.Context, config *rest.Config) error {
	c := s.connect(config)
	status, err := move.Status(ctx, c, s.request())
	if err != nil {
		return err
	}
	return move.Rollback(ctx, c, status.Plan, migrate.Options{Report: s.report})
}

func (s *scene) report(e migrate.Event) {
	s.t.Logf("%s: %s %s", e.Step, e.Does, e.Waits)
	assert.NotEmptyf(s.t, e.Does, "description of step %s", e.Step)
}

// use marks the target as used.
func (s *scene) use() {
	s.t.Helper()
	target := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "target"}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"yes"}}}`, usedAnnotation)
	assert.NoError(s.t, s.Client().Patch(s.t.Context(), target, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// run runs a tool, which must succeed in time, and returns its writes.
func (s *scene) run(injector *fault.Injector, t tool) []fault.Write {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	require.NoError(s.t, injector.Run(ctx, s.Config(), t))
	return injector.Writes()
}

// mustWait applies a plan until it waits for somebody.
func (s *scene) mustWait(p *movePlan) {
	s.t.Helper()
	err := s.apply(p, false, migrate.Options{NoWait: true})(s.t.Context(), s.Config())
	if !errors.Is(err, migrate.ErrWaiting) || !strings.Contains(err.Error(), "somebody to use it") {
		s.t.Fatalf("got %v, want that there is something to wait for", err)
	}
}

// mustFail runs a tool, which must fail with this text.
func (s *scene) mustFail(t tool, want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	err := t(ctx, s.Config())
	for _, text := range want {
		assert.ErrorContains(s.t, err, text)
	}
}

// mustBe compares the ConfigMaps of the namespace by their data, and the phase of the journal.
func (s *scene) mustBe(phase migrate.Phase, want ...string) {
	s.t.Helper()
	list := &corev1.ConfigMapList{}
	require.NoError(s.t, s.Client().List(s.t.Context(), list, client.InNamespace(s.namespace)))
	var got []string
	for _, found := range list.Items {
		if found.Data["key"] == "value" {
			got = append(got, found.Name)
		}
	}
	assert.Empty(s.t, cmp.Diff(want, got), "ConfigMaps with the data (-want +got)")
	journal := &corev1.ConfigMap{}
	err := s.Client().Get(s.t.Context(), client.ObjectKey{Namespace: s.journals, Name: s.journal()}, journal)
	if client.IgnoreNotFound(err) != nil || journal.Data["phase"] != string(phase) {
		s.t.Errorf("the journal is in phase %q, %v; want %q", journal.Data["phase"], err, phase)
	}
}

func (s *scene) journal() string { return "berth-move." + s.namespace + ".source" }

// mustSettle runs a tool again, and fails the test if it writes anything.
func (s *scene) mustSettle(t tool) {
	s.t.Helper()
	assert.Empty(s.t, s.run(fault.Record(), t), "writes of a second run")
}

// However often the tool is killed, the end is the same, and each write is made once.
func TestApplyKilledAtEachWrite(t *testing.T) {
	var counts [2]map[string]fault.Count
	for i, injector := range []*fault.Injector{fault.Record(), fault.KillAtEach()} {
		s := newScene(t)
		p := s.plan()
		apply := s.apply(p, true, migrate.Options{})
		writes := s.run(injector, apply)
		s.mustBe(migrate.Completed, "target")
		s.mustSettle(apply)
		s.mustFail(s.rollback, "beyond the point of no return")
		counts[i] = countWrites(writes)
	}
	assert.Empty(t, cmp.Diff(counts[0], counts[1]), "what was created and deleted (-undisturbed +killed)")
}

func TestRollbackKilledAtEachWrite(t *testing.T) {
	s := newScene(t)
	s.mustWait(s.plan())
	s.mustBe(migrate.Applying, "source", "target")
	s.run(fault.KillAtEach(), s.rollback)
	s.mustBe(migrate.RolledBack, "source")
	s.mustSettle(s.rollback)
	after := &corev1.ConfigMap{}
	if err := s.Client().Get(t.Context(), client.ObjectKeyFromObject(s.source), after); err != nil || after.UID != s.source.UID {
		t.Errorf("the source has UID %q, %v; want %q as before", after.UID, err, s.source.UID)
	}
	s.run(fault.Record(), s.apply(s.plan(), true, migrate.Options{})) // a migration that was rolled back can be applied again
	s.mustBe(migrate.Completed, "target")
}

// TestApplyEndedAtEachWrite ends the context of each write while it is under way, as a signal does. The write is carried out, nothing is
// written after it, and another run goes on from there.
func TestApplyEndedAtEachWrite(t *testing.T) {
	s := newScene(t)
	p := s.plan()
	apply := s.apply(p, true, migrate.Options{})
	for ended := 0; ; ended++ {
		ctx, signal := context.WithCancel(t.Context())
		var writes []string
		config := rest.CopyConfig(s.Config())
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
				if request.Method == http.MethodGet {
					return next.RoundTrip(request)
				}
				signal()
				answer, err := next.RoundTrip(request)
				if err == nil && request.Context().Err() != nil {
					t.Errorf("the answer to %s %s comes to somebody who has gone", request.Method, request.URL)
				}
				writes = append(writes, request.Method+" "+request.URL.Path)
				return answer, err
			})
		})
		err := apply(ctx, config)
		signal()
		if err == nil && len(writes) == 0 {
			assert.GreaterOrEqual(t, ended, 4, "how often it was ended")
			break
		}
		if len(writes) != 1 || err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("with its context ended at the first write, it wrote %q, and ended with %v", writes, err)
		}
	}
	s.mustBe(migrate.Completed, "target")
	s.mustSettle(apply)
}

// countWrites counts the created and deleted objects by kind.
func countWrites(writes []fault.Write) map[string]fault.Count {
	counts := map[string]fault.Count{}
	for _, w := range writes {
		count := counts[w.Point.Resource]
		if w.Created() {
			count.Created++
		}
		if w.Deleted() {
			count.Deleted++
		}
		counts[w.Point.Resource] = count
	}
	return counts
}

// A complete migration is never opened again: later changes are reported, and nothing is written.
func TestCompleteStaysComplete(t *testing.T) {
	s := newScene(t)
	p := s.plan()
	s.run(fault.Record(), s.apply(p, true, migrate.Options{}))
	var completed *movePlan
	again := func(ctx context.Context, config *rest.Config) error {
		return move.Apply(ctx, s.connect(config), completed, migrate.Options{Report: s.report})
	}
	requested := func(ctx context.Context, config *rest.Config) (err error) {
		completed, _, err = move.Ensure(ctx, s.connect(config), s.request())
		return err
	}
	given := func(ctx context.Context, config *rest.Config) error {
		_, _, err := move.EnsureGiven(ctx, s.connect(config), s.request(), p)
		return err
	}
	for _, tool := range []tool{requested, again, given} {
		s.mustSettle(tool)
	}
	target := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "target"}}
	require.NoError(t, s.Client().Delete(t.Context(), target))
	last := completed
	for _, tool := range []tool{requested, given} {
		s.mustFail(tool, "somebody has removed the target")
	}
	completed = last
	s.mustFail(again, "somebody has removed the target")
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "target"}}) // somebody else's
	s.mustFail(again, "make a new plan")
	s.mustBe(migrate.Completed)
}

// A migration in progress is resumed by its own plan, and by no other.
func TestResume(t *testing.T) {
	s := newScene(t)
	s.mustWait(s.plan())
	p, status, err := move.Ensure(t.Context(), s.admin(), s.request())
	if err != nil || status == nil || status.Phase != migrate.Applying || status.Next != awaitUse || status.Waits == "" || !status.CanRollBack {
		t.Fatalf("got %+v, %v; want that it waits, and can be rolled back", status, err)
	}
	suffix := "source target -n " + s.namespace + " --journal-namespace " + s.journals
	if text := status.Text(findings.Plain); !strings.Contains(text, "create-target") || !strings.Contains(text, "berth move rollback "+suffix) {
		t.Errorf("the status does not show the steps and how to roll back:\n%s", text)
	}
	other := s.request()
	other.target = "elsewhere"
	_, _, err = move.Ensure(t.Context(), s.admin(), other)
	assert.ErrorContains(t, err, `requested is "elsewhere"`)
	_, err = move.Plan(t.Context(), s.admin(), s.request())
	for _, verb := range []string{"status", "apply", "rollback"} {
		assert.ErrorContains(t, err, "berth move "+verb+" "+suffix+"`", "the command with the namespace of journals")
	}
	different := *p
	different.Target = "elsewhere"
	s.mustFail(func(ctx context.Context, config *rest.Config) error {
		return move.Apply(ctx, s.connect(config), &different, migrate.Options{Report: s.report})
	}, "another migration of ConfigMap "+s.namespace+"/source is in progress")
	s.run(fault.Record(), s.apply(p, true, migrate.Options{}))
	s.mustBe(migrate.Completed, "target")
}

func TestDryRun(t *testing.T) {
	s := newScene(t)
	writes := s.run(fault.Record(), s.apply(s.plan(), false, migrate.Options{DryRun: true}))
	assert.Empty(t, writes, "writes of a dry run")
	s.mustBe("", "source")
}

func TestTimeout(t *testing.T) {
	s := newScene(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := s.plan()
	err := move.Apply(ctx, s.admin(), p, migrate.Options{Report: func(e migrate.Event) {
		if e.Waits != "" {
			cancel()
		}
	}})
	assert.ErrorIs(t, err, context.Canceled)
	ctx, cancel = context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	timeout := &migrate.TimeoutError{}
	assert.ErrorAs(t, move.Apply(ctx, s.admin(), p, migrate.Options{Report: s.report}), &timeout)
}

func TestPlanIsForTheCluster(t *testing.T) {
	s := newScene(t)
	text, err := json.Marshal(s.plan())
	require.NoError(t, err)
	given, err := move.Read(strings.NewReader(string(text)))
	require.NoError(t, err)
	s.source.Data["key"] = "other"
	require.NoError(t, s.Client().Update(t.Context(), s.source))
	s.mustFail(s.apply(given, false, migrate.Options{}), "the cluster has changed since the plan was made", "make a new plan")
	changed := s.plan()
	s.mustWait(changed)
	s.source.Data["key"] = "another"
	require.NoError(t, s.Client().Update(t.Context(), s.source))
	s.mustFail(s.rollback, "somebody has changed the source")
	s.mustFail(s.apply(changed, false, migrate.Options{}), "somebody has changed the source")
}

func TestUnsafePlan(t *testing.T) {
	s := newScene(t)
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "target"}})
	p := s.plan()
	if text := p.Text(findings.Plain); p.Safe || p.Steps != nil || !strings.Contains(text, "✗ the target exists") || !strings.Contains(text, "do: delete it") {
		t.Errorf("got %+v:\n%s\nwant that it is not safe, and what to do", p, text)
	}
}

// forged returns a journal of a plan.
func (s *scene) forged(namespace, name string, p *movePlan, phase string) *corev1.ConfigMap {
	s.t.Helper()
	text, err := json.Marshal(p)
	require.NoError(s.t, err)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "move"}},
		Data: map[string]string{"plan.json": string(text), "phase": phase, "log": "2026-11-21T20:53:58Z record-plan\n"},
	}
}

// Journals outside of their namespace are not read. Inside, invalid ones are ignored with a warning.
func TestForgedAndCorruptJournals(t *testing.T) {
	s := newScene(t)
	p := s.plan()
	elsewhere := *p
	elsewhere.Target = "forged"
	s.create(s.forged(s.namespace, s.journal(), &elsewhere, "Applying"))
	corrupt := s.forged(s.journals, "berth-move."+s.namespace+".garbage", p, "Applying")
	corrupt.Data["plan.json"] = "garbage"
	s.create(corrupt)
	misnamed := s.forged(s.journals, "berth-move."+s.namespace+".other", p, "Applying")
	s.create(misnamed)
	p = s.plan()
	for _, ignored := range []string{corrupt.Name, misnamed.Name} {
		if !slices.ContainsFunc(s.warnings, func(w string) bool {
			return strings.Contains(w, "ignored: ConfigMap "+s.journals+"/"+ignored+" is not a valid journal")
		}) {
			t.Errorf("got warnings %q, want one about %s", s.warnings, ignored)
		}
	}
	own := s.forged(s.journals, s.journal(), p, "Applying")
	own.Data["plan.json"] = `{"schema":"test.move-plan.v0","from":"x"}`
	s.create(own)
	s.mustFail(func(ctx context.Context, config *rest.Config) error {
		_, err := move.Plan(ctx, s.connect(config), s.request())
		return err
	}, "ConfigMap "+s.journals+"/"+own.Name+" is not a valid journal", `schema is "test.move-plan.v0", want "test.move-plan.v1"`, "another version of berth", "delete it")
	require.NoError(t, s.Client().Delete(t.Context(), own))
	s.run(fault.Record(), s.apply(p, true, migrate.Options{}))
	for _, left := range s.warnings {
		assert.NotContains(t, left, "ignored: ConfigMap "+s.namespace+"/", "a ConfigMap outside of the namespace of journals was read")
	}
	s.mustBe(migrate.Completed, "target")
}

// A journal is bound to the UIDs of the live objects.
func TestJournalOfOtherObjects(t *testing.T) {
	s := newScene(t)
	for name, test := range map[string]struct {
		change func(*movePlan)
		want   string
	}{
		"another namespace": {func(p *movePlan) { p.Subject.NamespaceUID = "other" }, `want "other": it was deleted, or recreated`},
		"another object":    {func(p *movePlan) { p.Subject.UID = "other" }, "somebody has changed the source"},
	} {
		t.Run(name, func(t *testing.T) {
			forged := s.plan()
			test.change(forged)
			journal := s.forged(s.journals, s.journal(), forged, "Applying")
			s.create(journal)
			t.Cleanup(func() {
				assert.NoError(t, s.Client().Delete(context.Background(), journal))
			})
			s.mustFail(s.rollback, test.want)
			s.mustFail(func(ctx context.Context, config *rest.Config) error {
				return move.Apply(ctx, s.connect(config), forged, migrate.Options{Report: s.report})
			}, test.want)
			status, err := move.Status(t.Context(), s.admin(), s.request())
			if err != nil || !strings.Contains(status.Stuck, test.want) || status.CanRollBack {
				t.Errorf("got %+v, %v; want that it cannot continue: %s", status, err, test.want)
			}
		})
	}
	s.mustBe("", "source")
}

// The tool does not suggest rolling back a change that somebody made later.
func TestChangedAfterRollback(t *testing.T) {
	s := newScene(t)
	s.mustWait(s.plan())
	s.run(fault.Record(), s.rollback)
	require.NoError(t, s.Client().Delete(t.Context(), s.source))
	s.mustFail(s.rollback, "rolled back already")
}

// advance advances a plan of the cluster's administrator by one step.
func (s *scene) advance(p *movePlan, want migrate.StepName, waits bool) {
	s.t.Helper()
	got, err := move.Advance(s.t.Context(), s.admin(), p)
	if err != nil || got.Step != want || (got.Waits != "") != waits || want != "" && got.Does == "" {
		s.t.Fatalf("got %+v, %v; want step %q, waiting: %t", got, err, want, waits)
	}
}

// A controller advances by one step at a time, never waits, and can distinguish a stuck migration from a failed
// request. Without permission to list journals, it finds its subject's.
func TestAdvance(t *testing.T) {
	s := newScene(t)
	p, err := move.NewPlan(t.Context(), s.admin(), s.request())
	require.NoError(t, err)
	s.advance(p, migrate.RecordPlan, false)
	s.mustBe(migrate.Applying, "source")
	_, err = move.NewPlan(t.Context(), s.admin(), s.request())
	assert.ErrorContains(t, err, "is in progress", "another plan")
	j, err := move.ReadJournal(t.Context(), s.admin(), p.Subject)
	if err != nil || !j.IsOpen() {
		t.Fatalf("the journal: %v, open: %t", err, j.IsOpen())
	}
	p = j.Plan.(*movePlan)
	s.advance(p, createTarget, false)
	s.advance(p, awaitUse, true)
	s.advance(p, awaitUse, true)

	s.patchSource(`{"data":{"key":"changed"}}`)
	stuck := (*migrate.StuckError)(nil)
	if _, err := move.Advance(t.Context(), s.admin(), p); !errors.As(err, &stuck) || !strings.Contains(err.Error(), "somebody has changed the source") {
		t.Errorf("a changed source: %v, want a StuckError that says so", err)
	}
	s.patchSource(`{"data":{"key":"value"}}`)

	s.use()
	s.advance(p, deleteSource, false)
	s.advance(p, migrate.Complete, false)
	s.advance(p, "", false)
	s.mustBe(migrate.Completed, "target")
}

func (s *scene) patchSource(patch string) {
	s.t.Helper()
	require.NoError(s.t, s.Client().Patch(s.t.Context(), s.source, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// Two tools and two controllers at once lead to the same end: of two equal writes one succeeds.
func TestTwoAtOnce(t *testing.T) {
	s := newScene(t)
	p := s.plan()
	recorders := []*fault.Injector{fault.Record(), fault.Record(), fault.Record(), fault.Record()}
	ended := make(chan error)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for i, recorder := range recorders {
		run := func(ctx context.Context, config *rest.Config) error {
			return move.Apply(ctx, s.connect(config), p, migrate.Options{Report: func(e migrate.Event) {
				if e.Step == awaitUse {
					s.use()
				}
			}})
		}
		if i%2 == 1 {
			run = func(ctx context.Context, config *rest.Config) error {
				for c := s.connect(config); ; {
					event, err := move.Advance(ctx, c, p)
					if err != nil || event == (migrate.Event{}) {
						return err
					}
				}
			}
		}
		go func() { ended <- recorder.Run(ctx, s.Config(), run) }()
	}
	for range recorders {
		assert.NoError(t, <-ended)
	}
	s.mustBe(migrate.Completed, "target")
	total := map[string]fault.Count{}
	for _, recorder := range recorders {
		for object, count := range recorder.Counts() {
			sum := total[object.Resource]
			sum.Created, sum.Deleted = sum.Created+count.Created, sum.Deleted+count.Deleted
			total[object.Resource] = sum
		}
	}
	if want := (fault.Count{Created: 2, Deleted: 1}); total["configmaps"] != want { // the journal and the target; the source
		t.Errorf("ConfigMaps were created and deleted %+v times, want %+v", total["configmaps"], want)
	}
}
