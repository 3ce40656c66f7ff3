package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
)

// applied is the configuration that a client applies to create an object.
func applied(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q}}`, name)
}

func TestEventsAreKnownWithoutTheirTimes(t *testing.T) {
	w := newSpace(t)
	injector := fault.Record()
	require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
		events := kubernetes.NewForConfigOrDie(cfg).CoreV1().Events(w.namespace)
		for _, name := range []string{"web.local.18ab", "web.local.18ac"} {
			_, err := events.Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: w.namespace}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		_, err := events.Patch(ctx, "web.local.18ac", types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
		return err
	}))
	var got []string
	for _, point := range injector.Points() {
		got = append(got, strings.ReplaceAll(point.String(), w.namespace, "ns"))
	}
	if diff := cmp.Diff([]string{"create_events_ns_web.local.*_1", "create_events_ns_web.local.*_2", "patch_events_ns_web.local.*_1"}, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

func TestPointsAreKnownByWhatTheyAre(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			w := newSpace(t)
			w.cfg.ContentType = encoding.contentType
			injector := fault.Record(fault.Target{Resource: "events"}, fault.Target{Resource: "secrets", Name: "lock"})
			err := injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
				secrets, kube := w.secrets(cfg), kubernetes.NewForConfigOrDie(cfg)
				made, err := secrets.Create(ctx, named("a"), metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = secrets.Update(ctx, made, metav1.UpdateOptions{})
				require.NoError(t, err)
				_, err = secrets.Create(ctx, named("a"), metav1.CreateOptions{})
				assert.Truef(t, apierrors.IsAlreadyExists(err), "the second creation: %v, want an error that the object exists", err)
				for range 2 {
					_, err = secrets.Patch(ctx, "b", types.ApplyPatchType, applied("b"), metav1.PatchOptions{FieldManager: "test"})
					require.NoError(t, err)
				}
				_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}}, metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = kube.CoreV1().Namespaces().Patch(ctx, w.namespace, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
				require.NoError(t, err)
				require.NoError(t, secrets.Delete(ctx, "a", metav1.DeleteOptions{}))

				// None of these requests is a point.
				_, err = secrets.Create(ctx, named("lock"), metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = secrets.Create(ctx, named("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				require.NoError(t, err)
				_, err = secrets.List(ctx, metav1.ListOptions{})
				require.NoError(t, err)
				_, err = kube.CoreV1().Events(w.namespace).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"},
					InvolvedObject: corev1.ObjectReference{Namespace: w.namespace}}, metav1.CreateOptions{})
				require.NoError(t, err)
				return errors.New("its own")
			})
			if err == nil || err.Error() != "its own" {
				t.Errorf("Run returned %v, want the client's own error", err)
			}
			var got []string
			for _, point := range injector.Points() {
				got = append(got, strings.ReplaceAll(point.String(), w.namespace, "ns"))
			}
			want := []string{
				"create_secrets_ns_a_1", "update_secrets_ns_a_1", "create_secrets_ns_a_2",
				"patch_secrets_ns_b_test_1", "patch_secrets_ns_b_test_2", "create_secrets_ns_some-*_1",
				"patch_namespaces.status_ns_ns_1", "delete_secrets_ns_a_1",
			}
			assert.Empty(t, cmp.Diff(want, got), "points (-want +got)")
			object := func(name string) fault.Point {
				return fault.Point{Resource: "secrets", Namespace: w.namespace, Name: name}
			}
			counts := map[fault.Point]fault.Count{object("a"): {Created: 1, Deleted: 1}, object("b"): {Created: 1}, object("some-*"): {Created: 1}}
			assert.Empty(t, cmp.Diff(counts, injector.Counts()), "counts (-want +got)")
		})
	}
}

// TestFaultsOfAWrite runs a client that creates three objects, with the fault at the second.
func TestFaultsOfAWrite(t *testing.T) {
	for _, tc := range []struct {
		fault fault.Fault
		sees  func(error) bool // by the client, of its first attempt
		done  bool             // by the API server, at the first attempt
		lives int
		codes []int
	}{
		{fault.KilledBefore, isReset, false, 2, []int{201, 0, 409, 201, 201}},
		{fault.KilledAfter, isReset, true, 2, []int{201, 201, 409, 409, 201}},
		{fault.ResponseDropped, isReset, true, 1, []int{201, 201, 201}},
		{fault.Conflict, apierrors.IsConflict, false, 1, []int{201, 0, 201}},
		{fault.TooManyRequests, func(err error) bool { return err == nil }, true, 1, []int{201, 0, 201, 201}}, // client-go retries
		{fault.ServerError, apierrors.IsInternalError, false, 1, []int{201, 0, 201}},
		{fault.Hang, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, false, 1, []int{201, 0, 201}},
	} {
		t.Run(string(tc.fault), func(t *testing.T) {
			w := newSpace(t)
			at := fault.Point{Verb: "create", Resource: "secrets", Namespace: w.namespace, Name: "second", Occurrence: 1}
			injector := fault.Inject(at, tc.fault)
			lives := 0
			require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
				lives++
				secrets := w.secrets(cfg)
				for _, name := range []string{"first", "second", "third"} {
					patience, cancel := context.WithTimeout(ctx, limit)
					if name == "second" && tc.fault == fault.Hang {
						patience, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
					}
					_, err := secrets.Create(patience, named(name), metav1.CreateOptions{})
					cancel()
					if lives == 1 && name == "second" {
						assert.Truef(t, tc.sees(err), "the client sees: %v", err)
						assert.Equal(t, tc.done, w.exists(name), "after the first attempt, the object exists")
					}
					if lives == 1 && context.Cause(ctx) == fault.ErrKilled {
						w.isDead(ctx, cfg)
						return nil
					}
				}
				return nil
			}))
			assert.Equal(t, tc.lives, lives, "how often the client was started")
			var codes []int
			for _, write := range injector.Writes() {
				codes = append(codes, write.Code)
				if write.Point == at && write.Fault != tc.fault {
					t.Errorf("fault %q is recorded at %s, want %q", write.Fault, at, tc.fault)
				}
			}
			assert.Empty(t, cmp.Diff(tc.codes, codes), "answers of the API server (-want +got)")
			assert.True(t, injector.Came(), "the injector says that the client did not reach the point")
		})
	}
}

// TestKillAtEach runs a client that applies several objects concurrently when it starts, records an event in each
// life, and writes different content to one object at each attempt. It must be killed before and after each write,
// except at repetitions.
func TestKillAtEach(t *testing.T) {
	w := newSpace(t)
	injector := fault.KillAtEach()
	lives := 0
	require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
		lives++
		secrets := w.secrets(cfg)
		apply := func(name string, body []byte) error {
			_, err := secrets.Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test"})
			return err
		}
		var both sync.WaitGroup
		var errs [2]error
		for i, name := range []string{"one", "other"} {
			both.Go(func() { errs[i] = apply(name, applied(name)) })
		}
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("begun.%d", lives)}, InvolvedObject: corev1.ObjectReference{Namespace: w.namespace}}
		if _, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Events(w.namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
			return err
		}
		if w.exists("timed") {
			return nil
		}
		return apply("timed", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"timed","annotations":{"life":"%d"}}}`, lives))
	}))
	met := map[string][]fault.Fault{}
	for _, write := range injector.Writes() {
		if write.Fault != "" {
			met[write.Point.Name] = append(met[write.Point.Name], write.Fault)
		}
		if write.Point.Name == "timed" && write.Fault == "" {
			t.Errorf("the client was not killed at %s", write.Point)
		}
	}
	twice := []fault.Fault{fault.KilledBefore, fault.KilledAfter}
	if diff := cmp.Diff(map[string][]fault.Fault{"one": twice, "other": twice, "begun.*": twice, "timed": twice}, met); diff != "" {
		t.Errorf("faults at each object (-want +got):\n%s", diff)
	}
	assert.True(t, w.exists("timed"), "the client ended before its last write")
}

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

// isDead checks that no request of a dead client reaches the API server.
func (w *space) isDead(ctx context.Context, cfg *rest.Config) {
	w.t.Helper()
	if ctx.Err() == nil {
		w.t.Error("the context of the dead client has not ended")
	}
	secrets := w.secrets(cfg)
	unaware := context.Background()
	for what, try := range map[string]func() error{
		"reads":   func() error { _, err := secrets.Get(unaware, "first", metav1.GetOptions{}); return err },
		"writes":  func() error { _, err := secrets.Create(unaware, named("ghost"), metav1.CreateOptions{}); return err },
		"watches": func() error { _, err := secrets.Watch(unaware, metav1.ListOptions{}); return err },
	} {
		if err := try(); !errors.Is(err, syscall.ECONNREFUSED) {
			w.t.Errorf("the dead client %s: %v, want a refused connection", what, err)
		}
	}
}

// TestWhatADeadClientHasSentIsDone kills a client that waits for the response to another, slow write. The client does
// not get the response, and its next process finds the write done.
func TestWhatADeadClientHasSentIsDone(t *testing.T) {
	w := newSpace(t)
	underway, arrive := make(chan struct{}), make(chan struct{})
	slow := rest.CopyConfig(w.cfg)
	slow.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch {
				close(underway)
				<-arrive
			}
			return next.RoundTrip(request)
		})
	})
	injector := fault.Inject(fault.Point{Verb: "create", Resource: "secrets", Namespace: w.namespace, Name: "trigger", Occurrence: 1}, fault.KilledBefore)
	lives := 0
	require.NoError(t, injector.Run(t.Context(), slow, func(ctx context.Context, cfg *rest.Config) error {
		secrets := w.secrets(cfg)
		if lives++; lives == 2 {
			assert.True(t, w.exists("late"), "the second client runs before the first one's write has arrived")
			return nil
		}
		result := make(chan error)
		go func() {
			_, err := secrets.Patch(ctx, "late", types.ApplyPatchType, applied("late"), metav1.PatchOptions{FieldManager: "test"})
			result <- err
		}()
		<-underway
		_, err := secrets.Create(ctx, named("trigger"), metav1.CreateOptions{})
		assert.Error(t, err, "the creation that kills the client succeeded")
		assert.Error(t, <-result, "the dead client heard that its write succeeded")
		assert.False(t, w.exists("late"), "the write arrived too early for this test")
		time.AfterFunc(100*time.Millisecond, func() { close(arrive) }) // the next process would have started by then
		return nil
	}))
	assert.Equal(t, 2, lives, "how often the client was started")
	for _, write := range injector.Writes() {
		if write.Point.Name == "late" && (write.Code != http.StatusCreated || write.Life != 1) {
			t.Errorf("the late write is recorded as %+v, want code 201 in life 1", write)
		}
	}
}

func TestIdleWaitsForAnswers(t *testing.T) {
	w := newSpace(t)
	injector := fault.Inject(fault.Point{Verb: "create", Resource: "secrets", Namespace: w.namespace, Name: "a", Occurrence: 1}, fault.Hang)
	require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
		hanging, giveUp := context.WithCancel(ctx)
		done := make(chan error)
		go func() {
			_, err := w.secrets(cfg).Create(hanging, named("a"), metav1.CreateOptions{})
			done <- err
		}()
		cluster.Eventually(t, limit, "the client to reach the point", func(context.Context) error {
			if !injector.Came() {
				return errors.New("it did not")
			}
			return nil
		})
		assert.Zero(t, injector.Idle(), "idle while a request hangs")
		giveUp()
		assert.ErrorIs(t, <-done, context.Canceled, "the hanging request ends with")
		cluster.Eventually(t, limit, "the client to be idle", func(context.Context) error {
			if injector.Idle() == 0 {
				return errors.New("it is not")
			}
			return nil
		})
		return nil
	}))
}

// TestWatchIsIdle: nothing waits for a watch, recorded or not.
func TestWatchIsIdle(t *testing.T) {
	w := newSpace(t)
	for name, leftOut := range map[string][]fault.Target{"recorded": nil, "left out": {{Resource: "secrets"}}} {
		injector := fault.Record(leftOut...)
		require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
			if _, err := w.secrets(cfg).List(ctx, metav1.ListOptions{}); err != nil {
				return err
			}
			open, err := w.secrets(cfg).Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			defer open.Stop()
			cluster.Eventually(t, limit, "a client to be idle whose watch is "+name, func(context.Context) error {
				if injector.Idle() == 0 {
					return errors.New("it is not")
				}
				return nil
			})
			return nil
		}))
	}
}

func TestIdleBeginsWithARequest(t *testing.T) {
	w := newSpace(t)
	injector := fault.Inject(fault.Point{Verb: "create", Resource: "secrets", Namespace: w.namespace, Name: "a", Occurrence: 1}, fault.KilledBefore)
	lives := 0
	require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
		lives++
		assert.Zerof(t, injector.Idle(), "life %d: idle before its first request", lives)
		_, err := w.secrets(cfg).Create(ctx, named("a"), metav1.CreateOptions{})
		return err
	}))
	assert.Equal(t, 2, lives, "how often the client was started")
	assert.NotZero(t, injector.Idle(), "the client is not idle after its last request")
}
