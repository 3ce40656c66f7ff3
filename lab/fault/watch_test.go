package fault_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
)

// firstWatch is the point of the first watch of all Secrets in the namespace.
func (w *space) firstWatch() fault.Point {
	return fault.Point{Verb: "watch", Resource: "secrets", Namespace: w.namespace, Occurrence: 1}
}

// start watches Secrets from now on.
func (w *space) start(ctx context.Context, client typedcorev1.SecretInterface) (watch.Interface, metav1.ListOptions) {
	w.t.Helper()
	list, err := client.List(ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	from := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
	watching, err := client.Watch(ctx, from)
	require.NoError(w.t, err)
	return watching, from
}

func (w *space) make(name string) {
	w.t.Helper()
	_, err := w.admin.Create(context.Background(), named(name), metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// next returns the name in the next event, or "" when the watch ends.
func (w *space) next(watching watch.Interface) string {
	w.t.Helper()
	select {
	case event, open := <-watching.ResultChan():
		if !open {
			return ""
		}
		return event.Object.(metav1.Object).GetName()
	case <-time.After(limit):
		w.t.Fatal("the watch brings nothing and does not end")
		return ""
	}
}

func TestStaleWatch(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			w := newSpace(t)
			w.cfg.ContentType = encoding.contentType
			injector := fault.Inject(w.firstWatch(), fault.Stale)
			require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
				client := w.secrets(cfg)
				watching, from := w.start(ctx, client)
				defer watching.Stop()
				other, err := client.Watch(ctx, from)
				require.NoError(t, err)
				defer other.Stop()
				w.make("a")
				require.EqualValues(t, "a", w.next(other), "the watch beside the stale one brings")
				w.make("b")
				require.EqualValues(t, "b", w.next(other), "the watch beside the stale one brings")
				select {
				case event := <-watching.ResultChan():
					t.Errorf("the stale watch brings the event %v", event)
				default:
				}
				injector.Deliver()
				for _, want := range []string{"a", "b"} {
					assert.EqualValues(t, want, w.next(watching), "then it brings an event about")
				}
				return nil
			}))
			assert.True(t, injector.Came(), "the injector says that the client did not reach the point")
		})
	}
}

func TestDroppedEvent(t *testing.T) {
	for _, encoding := range encodings {
		t.Run(encoding.name, func(t *testing.T) {
			w := newSpace(t)
			w.cfg.ContentType = encoding.contentType
			injector := fault.Inject(w.firstWatch(), fault.EventDropped)
			require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
				client := w.secrets(cfg)
				watching, from := w.start(ctx, client)
				w.make("a")
				assert.EqualValues(t, "", w.next(watching), "the watch brings an event about")
				_, err := client.Watch(ctx, from)
				assert.Truef(t, apierrors.IsResourceExpired(err), "resuming the watch gives error %v, want an expired resource version", err)
				watching, _ = w.start(ctx, client)
				defer watching.Stop()
				w.make("b")
				assert.EqualValues(t, "b", w.next(watching), "the watch after the list brings")
				return nil
			}))
			assert.True(t, injector.Came(), "the injector says that the client did not reach the point")
		})
	}
}

// TestInformersSurvive injects faults into watches of informers, which get their initial list through the watch.
func TestInformersSurvive(t *testing.T) {
	for _, f := range []fault.Fault{"", fault.Stale, fault.EventDropped} {
		t.Run(string(f), func(t *testing.T) {
			w := newSpace(t)
			w.make("old")
			injector := fault.Record()
			if f != "" {
				injector = fault.Inject(w.firstWatch(), f)
			}
			require.NoError(t, injector.Run(t.Context(), w.cfg, func(ctx context.Context, cfg *rest.Config) error {
				ctx, cancel := context.WithCancel(ctx)
				factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), 0, informers.WithNamespace(w.namespace))
				defer factory.Shutdown()
				defer cancel()
				lister := factory.Core().V1().Secrets().Lister().Secrets(w.namespace)
				factory.Start(ctx.Done())
				factory.WaitForCacheSync(ctx.Done())
				_, err := lister.Get("old")
				assert.NoError(t, err, "the informer lacks the objects that existed at the beginning")
				assert.False(t, injector.Came(), "the fault came with the initial list")
				w.make("new")
				cluster.Eventually(t, limit, "the informer to get a new object", func(context.Context) error {
					_, err := lister.Get("new")
					if err != nil && injector.Came() {
						injector.Deliver()
					}
					return err
				})
				return nil
			}))
			assert.Equal(t, f != "", injector.Came(), "the injector says that the client reached the point")
			if got := strings.ReplaceAll(fmt.Sprint(injector.Points()), w.namespace, "ns"); f == "" && got != "[watch_secrets_ns_1]" {
				t.Errorf("points = %s, want the only watch with an event", got)
			}
		})
	}
}
