package olmv1_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/clusterextension"
)

// kill is a write after which the tool is killed, at a point where the OLMs go on without it.
type kill struct {
	to move.Target
	// at is the write, to an object of the package's name, or of the version's.
	at        fault.Point
	ofVersion bool
	// rests, which may be nil, fails until the OLMs have done all that they do without the tool.
	rests func(*mover, context.Context) error
	// back says that the move is rolled back then, and not resumed.
	back bool
}

// killedShapes are operators that the tool is killed with. Until it runs again, the OLMs do what they do.
func killedShapes(boxcutter bool) (all []*shape) {
	const extensions, versions, subscriptions = "clusterextensions", "clusterserviceversions", "subscriptions"
	taken := (*mover).mustBeTaken
	if boxcutter {
		taken = (*mover).mustCollide // until its ClusterObjectSet controls the objects
	}
	add := func(name string, k kill) {
		s := moved("move-killed-"+name, nil)
		s.kill = &k
		all = append(all, s)
	}
	both := func(name string, k kill) {
		add(name, k)
		k.back = true
		add(name+"-back", k)
	}
	both("version", kill{to: move.ToV1, at: fault.Point{Verb: "delete", Resource: versions, Occurrence: 1}, ofVersion: true, rests: (*mover).mustHoldVersion})
	both("version-ended", kill{to: move.ToV1, at: fault.Point{Verb: "patch", Resource: versions, Occurrence: 2}, ofVersion: true, rests: (*mover).mustHaveNoVersion})
	both("created", kill{to: move.ToV1, at: fault.Point{Verb: "create", Resource: extensions, Occurrence: 1}, rests: taken})
	both("marked", kill{to: move.ToV1, at: fault.Point{Verb: "patch", Resource: "deployments", Occurrence: 1}})
	add("loosened", kill{to: move.ToV1, at: fault.Point{Verb: "patch", Resource: extensions, Occurrence: 1}, rests: (*mover).mustBeTaken})
	add("extension", kill{to: move.ToV0, at: fault.Point{Verb: "delete", Resource: extensions, Occurrence: 1}, rests: (*mover).mustHoldExtension})
	add("extension-ended", kill{to: move.ToV0, at: fault.Point{Verb: "patch", Resource: extensions, Occurrence: 2}, rests: (*mover).mustHaveNoExtension})
	add("subscribed", kill{to: move.ToV0, at: fault.Point{Verb: "create", Resource: subscriptions, Occurrence: 1}, rests: (*mover).mustAsk})
	add("restored", kill{to: move.ToV0, at: fault.Point{Verb: "patch", Resource: subscriptions, Occurrence: 1}, rests: (*mover).isWithV0})
	return all
}

// playKilled kills the tool, waits until the OLMs rest, and makes the tool end the move, or undo it.
func (m *mover) playKilled(t *testing.T) {
	k := m.shape.kill
	before := m.observed(t)
	if k.to == move.ToV0 {
		m.run(t, m.apply(t, move.ToV1))
	}
	at := k.at
	at.Name = m.shape.name
	if k.ofVersion {
		at.Name = m.shape.versionName()
	}
	if at.Resource != "clusterextensions" {
		at.Namespace = m.shape.name
	}
	injector := fault.Inject(at, fault.KilledAfter)
	lives := 0
	m.run(t, func(ctx context.Context, config *rest.Config) error {
		return injector.Run(ctx, config, func(ctx context.Context, config *rest.Config) error {
			if lives++; lives == 1 {
				return m.apply(t, k.to)(ctx, config)
			}
			if k.rests != nil {
				cluster.Eventually(t, limit, "the OLMs to rest", func(ctx context.Context) error { return k.rests(m, ctx) })
			}
			if k.back {
				return m.rollback(t)(ctx, config)
			}
			return m.apply(t, k.to)(ctx, config)
		})
	})
	if !injector.Came() || lives != 2 {
		t.Fatalf("the tool was started %d times, want that it is killed at %s; it wrote %+v", lives, at, injector.Writes())
	}
	end, how := k.to, "resumed"
	if k.back {
		end, how = move.ToV0, "rolled back"
	}
	m.mustBeWith(t, end, before)
	m.result = fmt.Sprintf("killed after %s %s, %s: %d objects the same", at.Verb, at.Resource, how, len(before))
}

// rollback is "berth move rollback".
func (m *mover) rollback(t *testing.T) tool {
	return func(ctx context.Context, config *rest.Config) error {
		seen, err := m.to(config)
		if err != nil {
			return err
		}
		status, err := move.Move.Status(ctx, seen, m.request(t, ""))
		if err != nil {
			return err
		}
		return move.Move.Rollback(ctx, seen, status.Plan, migrate.Options{Report: reports(t)})
	}
}

// ofMove is the finalizer of a move.
const ofMove = "berth.dev/move"

// mustBeHeld fails unless an object is deleted, and nothing but the move keeps it.
func mustBeHeld(object client.Object) error {
	if object.GetDeletionTimestamp() == nil || !slices.Equal(object.GetFinalizers(), []string{ofMove}) {
		return fmt.Errorf("%s is deleted at %v, and has the finalizers %q", object.GetName(), object.GetDeletionTimestamp(), object.GetFinalizers())
	}
	return nil
}

func (m *mover) version(ctx context.Context) (*v1alpha1.ClusterServiceVersion, error) {
	v := &v1alpha1.ClusterServiceVersion{}
	return v, m.Client().Get(ctx, client.ObjectKey{Namespace: m.shape.name, Name: m.shape.versionName()}, v)
}

func (m *mover) mustHoldVersion(ctx context.Context) error {
	v, err := m.version(ctx)
	return cmp.Or(err, mustBeHeld(v))
}

func (m *mover) mustHaveNoVersion(ctx context.Context) error {
	v := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: m.shape.name, Name: m.shape.versionName()}}
	return m.Gone(v)(ctx)
}

func (m *mover) mustHoldExtension(ctx context.Context) error {
	object, err := (&extension{Cluster: m.Cluster, name: m.shape.name}).get(ctx)
	return cmp.Or(err, mustBeHeld(object))
}

func (m *mover) mustHaveNoExtension(ctx context.Context) error {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: m.shape.name}}
	object.SetGroupVersionKind(clusterextension.Kind)
	return m.Gone(object)(ctx)
}

// mustBeTaken fails until OLM v1 has installed the current ClusterExtension.
func (m *mover) mustBeTaken(ctx context.Context) error { return m.mustSay(ctx, "Succeeded") }

// mustCollide fails until OLM v1 has found out that it does not own the objects.
func (m *mover) mustCollide(ctx context.Context) error {
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(schemaKind("olm.operatorframework.io/v1", "ClusterObjectSetList"))
	if err := m.Client().List(ctx, sets, client.MatchingLabels{"olm.operatorframework.io/owner-name": m.shape.name}); err != nil {
		return err
	}
	if len(sets.Items) != 1 {
		return fmt.Errorf("there are %d ClusterObjectSets", len(sets.Items))
	}
	return m.mustSay(ctx, "Retrying", "RollingOut")
}

// mustSay fails until OLM v1 has written one of these reasons into the condition Progressing of the current ClusterExtension.
func (m *mover) mustSay(ctx context.Context, reasons ...string) error {
	object, err := (&extension{Cluster: m.Cluster, name: m.shape.name}).get(ctx)
	if err != nil {
		return err
	}
	_, reason, message := clusterextension.Condition(object, "Progressing")
	if generationSeen(object) != object.GetGeneration() || !slices.Contains(reasons, reason) {
		return fmt.Errorf("it says %q, %s, of generation %d; it is %d", reason, message, generationSeen(object), object.GetGeneration())
	}
	return nil
}

// mustAsk fails until OLM v0 asks for approval of the version.
func (m *mover) mustAsk(ctx context.Context) error {
	plans := &v1alpha1.InstallPlanList{}
	if err := m.Client().List(ctx, plans, client.InNamespace(m.shape.name)); err != nil {
		return err
	}
	for _, plan := range plans.Items {
		if plan.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval {
			return nil
		}
	}
	return errors.New("no InstallPlan waits for approval")
}
