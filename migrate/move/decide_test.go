package move

import (
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/migrate"
)

// begun is a move to OLM v1 that has only written its journal.
func begun() *state {
	p := healthy().plan()
	in := healthy()
	journal, err := Move.ParseJournal(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth-move.boat"},
		Data: map[string]string{"plan.json": encoded(p), "phase": string(migrate.Applying)}})
	if err != nil {
		panic(err)
	}
	s := &state{now: time.Now(), plan: p, journal: journal, namespaceUID: "n-1",
		subscriptions: []v1alpha1.Subscription{*in.own}, installPlans: in.installPlans, version: in.versions[0].DeepCopy()}
	s.version.Finalizers = []string{"operators.coreos.com/csv-cleanup"}
	for _, o := range in.present {
		s.taken = append(s.taken, taken{o.Object, o.PartialObjectMetadata})
	}
	role := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "boat.v1.0.0-abc", UID: "r-1", Labels: labelsOfVersion("harbour", "boat.v1.0.0")}}
	role.SetGroupVersionKind(p.Replaced[0].kind())
	s.replaced = []metav1.PartialObjectMetadata{role}
	s.deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "boat"}, Status: appsv1.DeploymentStatus{UpdatedReplicas: 1, AvailableReplicas: 1}}}
	s.log(migrate.RecordPlan, time.Hour)
	return s
}

// log adds an entry to the journal.
func (s *state) log(step migrate.StepName, ago time.Duration) {
	s.journal.Entries = append(s.journal.Entries, migrate.Entry{Step: step, At: s.now.Add(-ago)})
}

// held is begun with the finalizer, and without labels by which OLM v0 would delete anything.
func held() *state {
	s := begun()
	s.version.Finalizers = append(s.version.Finalizers, moveFinalizer)
	s.replaced[0].Labels = nil
	s.log(AddVersionFinalizer, 2*time.Minute)
	return s
}

// ending is held with a version that is being deleted.
func ending(finalizers ...string) *state {
	s := held()
	s.version.DeletionTimestamp, s.version.Finalizers = &metav1.Time{}, finalizers
	s.taken[2].live.OwnerReferences = nil
	return s
}

// unsubscribed is ending without the Subscription, and with OLM v0 at rest.
func unsubscribed(finalizers ...string) *state {
	s := ending(finalizers...)
	s.subscriptions, s.installPlans = nil, nil
	s.log(DeleteSubscription, time.Minute)
	s.log(AwaitV0, time.Minute)
	return s
}

// left is a move after which OLM v0 has no objects left.
func left() *state {
	s := unsubscribed()
	s.version = nil
	return s
}

// arrived is left with the objects taken over and with the ClusterExtension.
func arrived() *state {
	s := left()
	for _, t := range s.taken {
		mark(t.live, "boat", "harbour", nil)
	}
	s.extension = s.plan.extension()
	s.extension.SetUID("e-1")
	installed(s.extension, "boat.v1.0.0", "Succeeded", "")
	return s
}

// terminate deletes an object, which a finalizer keeps.
func terminate(object metav1.Object) {
	object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	object.SetFinalizers([]string{"example.com/finalizer"})
}

// installed sets the status of a ClusterExtension.
func installed(e *unstructured.Unstructured, bundle, reason, message string) {
	e.Object["status"] = map[string]any{
		"install": map[string]any{"bundle": map[string]any{"name": bundle, "version": "1.0.0"}},
		"conditions": []any{
			map[string]any{"type": "Progressing", "status": "True", "reason": reason, "message": message},
			map[string]any{"type": "Installed", "status": "True", "reason": "Succeeded"},
		},
	}
}

// byBoxcutter changes a state as if OLM v1 used Boxcutter.
func byBoxcutter(s *state) {
	s.plan.Extension.Boxcutter = true
	for _, t := range s.taken {
		unmark(t.live)
	}
	set := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "boat-1", UID: "c-1"}}
	set.SetGroupVersionKind(objectSetKind)
	s.objectSets = []metav1.PartialObjectMetadata{set}
}

// TestNext: the next step of a move to OLM v1, from each state.
func TestNext(t *testing.T) {
	for _, tc := range []nextStep{
		{"at first", begun, nil, AddVersionFinalizer, ""},
		{"OLM v0 would delete cluster roles", held, func(s *state) { s.replaced[0].Labels = labelsOfVersion("harbour", "boat.v1.0.0") }, KeepPermissions, ""},
		{"labels of another version", held, func(s *state) { s.replaced[0].Labels = labelsOfVersion("harbour", "ship.v1.0.0") }, DeleteVersion, ""},
		{"nothing but the version says whose an API is", held, func(s *state) { s.taken[0].live.Labels = nil }, KeepAPIs, ""},
		{"another package's label is on an API", held, func(s *state) {
			s.taken[0].live.Labels = map[string]string{componentLabel("ship", "harbour"): ""}
		}, KeepAPIs, ""},
		{"the move says whose an API is", held, func(s *state) {
			s.taken[0].live.Labels, s.taken[0].live.Annotations = nil, map[string]string{movedAnnotation: "s-1"}
		}, DeleteVersion, ""},
		{"the version is safe", held, nil, DeleteVersion, ""},
		{"the garbage collector orphans", func() *state { return ending(moveFinalizer, "orphan") }, nil, DeleteVersion, "garbage collector"},
		{"OLM v0 has not noticed", func() *state { return ending(moveFinalizer, "operators.coreos.com/csv-cleanup") }, nil, DeleteVersion, "csv-cleanup"},
		{"OLM v0 does nothing with it", func() *state { return ending(moveFinalizer) }, nil, DeleteSubscription, ""},
		{"a finalizer keeps the Subscription", func() *state { return ending(moveFinalizer) }, func(s *state) { terminate(&s.subscriptions[0]) }, DeleteSubscription, "example.com/finalizer"},
		{"the Subscription is gone", func() *state { return ending(moveFinalizer) }, func(s *state) { s.subscriptions = nil }, DeleteInstallPlans, ""},
		{"a finalizer keeps an InstallPlan", func() *state { return ending(moveFinalizer) }, func(s *state) {
			s.subscriptions = nil
			terminate(&s.installPlans[0])
		}, DeleteInstallPlans, "example.com/finalizer"},
		{"an InstallPlan of others", func() *state { return ending(moveFinalizer) }, func(s *state) {
			s.subscriptions = nil
			s.installPlans[0].OwnerReferences = append(s.installPlans[0].OwnerReferences, metav1.OwnerReference{Kind: "Subscription", UID: "s-2"})
		}, AwaitV0, ""},
		{"an InstallPlan that is carried out", func() *state { return ending(moveFinalizer) }, func(s *state) {
			s.subscriptions, s.installPlans[0].Status.Phase = nil, v1alpha1.InstallPlanPhaseInstalling
		}, DeleteInstallPlans, "install-1"},
		{"OLM v0 may remember", func() *state { return ending(moveFinalizer) }, func(s *state) { s.subscriptions, s.installPlans = nil, nil }, AwaitV0, ""},
		{"OLM v0 gets its time", func() *state { return ending(moveFinalizer) }, func(s *state) {
			s.subscriptions, s.installPlans = nil, nil
			s.log(AwaitV0, time.Second)
		}, AwaitV0, "15 seconds"},
		{"the clock was ahead", func() *state { return ending(moveFinalizer) }, func(s *state) {
			s.subscriptions, s.installPlans = nil, nil
			s.log(AwaitV0, -time.Hour)
		}, AwaitV0, ""},
		{"something was deleted since", func() *state { return unsubscribed(moveFinalizer) }, func(s *state) { s.log(DeleteInstallPlans, time.Second) }, AwaitV0, ""},
		{"OLM v0 owns an object again", func() *state { return unsubscribed(moveFinalizer) }, func(s *state) {
			s.taken[2].live.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterServiceVersion", UID: "v-1"}}
		}, KeepObjects, ""},
		{"nothing is owned any more", func() *state { return unsubscribed(moveFinalizer) }, nil, RemoveVersionFinalizer, ""},
		{"the version goes", func() *state { return unsubscribed() }, nil, RemoveVersionFinalizer, "to be gone"},
		{"OLM v0 installs the version again", arrived, func(s *state) {
			s.version = healthy().versions[0].DeepCopy()
			s.replaced = nil
		}, AddVersionFinalizer, ""},
		{"OLM v0 has nothing", left, nil, MarkObjects, ""},
		{"everything is marked", arrived, func(s *state) { s.extension = nil }, CreateExtension, ""},
		{"with Boxcutter, the ClusterExtension comes first", left, func(s *state) { s.plan.Extension.Boxcutter = true }, CreateExtension, ""},
		{"with Boxcutter, there is no ClusterObjectSet yet", arrived, func(s *state) {
			byBoxcutter(s)
			s.objectSets, s.extension.Object["status"] = nil, nil
		}, AwaitExtension, "not begun"},
		{"with Boxcutter, there is a collision", arrived, byBoxcutter, MarkObjects, ""},
		{"with Boxcutter, everything is its own", arrived, func(s *state) {
			byBoxcutter(s)
			for _, t := range s.taken {
				mark(t.live, "", "", &Owner{"boat-1", "c-1"})
			}
		}, DeleteReplaced, ""},
		{"OLM v1 has not begun", arrived, func(s *state) { s.extension.Object["status"] = nil }, AwaitExtension, "not begun"},
		{"OLM v1 tries again", arrived, func(s *state) { installed(s.extension, "", "Retrying", "it\nexists") }, AwaitExtension, "it; exists"},
		{"pods are not ready", arrived, func(s *state) { s.deployments[0].Status.AvailableReplicas = 0 }, AwaitExtension, "0 are available"},
		{"OLM v1 has its own permissions", arrived, nil, DeleteReplaced, ""},
		{"the last stands", arrived, func(s *state) { s.replaced = nil }, Loosen, ""},
		{"it is as the Subscription was", arrived, func(s *state) {
			s.replaced = nil
			s.extension.Object["spec"].(map[string]any)["source"].(map[string]any)["catalog"] = s.plan.loosened(catalogOf(s.extension))
		}, "", ""},
		{"OLM v1 has updated it since", arrived, func(s *state) {
			s.replaced = nil
			s.extension.Object["spec"].(map[string]any)["source"].(map[string]any)["catalog"] = s.plan.loosened(catalogOf(s.extension))
			s.log(Loosen, time.Second)
			installed(s.extension, "boat.v1.1.0", "Succeeded", "")
		}, "", ""},
	} {
		t.Run(tc.name, tc.mustGoOn)
	}
}

// nextStep is a state of a move, and the step that follows it.
type nextStep struct {
	name   string
	from   func() *state
	change func(*state)
	step   migrate.StepName
	waits  string // a fragment; "" if the step is executed
}

func (tc nextStep) mustGoOn(t *testing.T) {
	s := tc.from()
	if tc.change != nil {
		tc.change(s)
	}
	require.NoError(t, s.Verify())
	next, err := s.Next()
	mustDecide(t, next, err, tc.step, tc.waits)
	if next.Step != "" && s.plan.Does(next.Step) == "" {
		t.Errorf("step %s has no description", next.Step)
	}
}

func mustDecide(t *testing.T, next migrate.Decision, err error, step migrate.StepName, waits string) {
	t.Helper()
	if err != nil || next.Step != step || (next.Waits == "") != (waits == "") || !strings.Contains(next.Waits, waits) {
		t.Fatalf("got step %q, waiting for %q, error %v; want step %q, waiting for %q", next.Step, next.Waits, err, step, waits)
	}
}

// returning is a move back to OLM v0 that has only written its journal.
func returning() *state {
	s := arrived()
	s.plan.To, s.plan.Subject.UID, s.plan.Replaced = ToV0, "e-1", nil
	s.replaced, s.journal.Entries = nil, nil
	s.log(migrate.RecordPlan, time.Hour)
	role := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "made", Labels: labelsOf("boat"), OwnerReferences: []metav1.OwnerReference{{APIVersion: "olm.operatorframework.io/v1", UID: "e-1"}}}}
	role.SetGroupVersionKind(permissionKinds[3])
	s.made = []metav1.PartialObjectMetadata{role}
	s.remembered = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "olmv1", Name: "release"}}}
	return s
}

// leaving is returning with a ClusterExtension that is being deleted, and OLM v1 at rest.
func leaving(finalizers ...string) *state {
	s := returning()
	s.extension.SetDeletionTimestamp(&metav1.Time{Time: s.now})
	s.extension.SetFinalizers(finalizers)
	s.log(DeleteExtension, time.Minute)
	s.log(AwaitV1, time.Minute)
	return s
}

// free is a move back after which OLM v1 has no objects left.
func free() *state {
	s := leaving()
	s.extension, s.remembered, s.made[0].OwnerReferences = nil, nil, nil
	for _, t := range s.taken {
		unmark(t.live)
	}
	return s
}

// subscribed is free with a Subscription again.
func subscribed() *state {
	s := free()
	own := s.plan.subscription()
	own.UID = "s-9"
	own.Status.InstallPlanRef = &corev1.ObjectReference{Name: "install-9", UID: "p-9"}
	s.subscriptions = []v1alpha1.Subscription{*own}
	p := v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "install-9", UID: "p-9"}}
	p.Spec.ClusterServiceVersionNames, p.Status.Phase = []string{"boat.v1.0.0"}, v1alpha1.InstallPlanPhaseRequiresApproval
	s.installPlans = []v1alpha1.InstallPlan{p}
	return s
}

// returned is subscribed with the version installed.
func returned() *state {
	s := subscribed()
	s.version = healthy().versions[0].DeepCopy()
	s.subscriptions[0].Status.InstalledCSV = "boat.v1.0.0"
	s.installPlans[0].Spec.Approved, s.installPlans[0].Status.Phase = true, v1alpha1.InstallPlanPhaseComplete
	return s
}

// TestNextBack: the next step of a move back to OLM v0, from each state.
func TestNextBack(t *testing.T) {
	asBefore := func(s *state) { s.subscriptions[0].Spec = s.plan.Subscription.Spec.DeepCopy() }
	for _, tc := range []nextStep{
		{"at first", returning, nil, AddExtensionFinalizer, ""},
		{"it is held", returning, func(s *state) { s.extension.SetFinalizers([]string{moveFinalizer}) }, DeleteExtension, ""},
		{"the garbage collector orphans", func() *state { return leaving(moveFinalizer, "orphan") }, nil, DeleteExtension, "garbage collector"},
		{"OLM v1 has not noticed", func() *state { return leaving(moveFinalizer, "olm.operatorframework.io/cleanup-unpack-cache") }, nil, DeleteExtension, "cleanup-unpack-cache"},
		{"ClusterObjectSets are left", func() *state { return leaving(moveFinalizer) }, byBoxcutter, DeleteObjectSets, ""},
		{"OLM v1 may be applying it", func() *state { return leaving(moveFinalizer) }, func(s *state) { s.log(DeleteObjectSets, time.Second) }, AwaitV1, ""},
		{"objects are marked", func() *state { return leaving(moveFinalizer) }, nil, UnmarkObjects, ""},
		{"OLM v1 owns its permissions", func() *state { return leaving(moveFinalizer) }, func(s *state) {
			for _, t := range s.taken {
				unmark(t.live)
			}
		}, KeepObjects, ""},
		{"nothing is owned any more", func() *state { return leaving(moveFinalizer) }, func(s *state) {
			s.made[0].OwnerReferences = nil
			for _, t := range s.taken {
				unmark(t.live)
			}
		}, RemoveExtensionFinalizer, ""},
		{"the ClusterExtension goes", func() *state { return leaving() }, func(s *state) {
			s.made[0].OwnerReferences = nil
			for _, t := range s.taken {
				unmark(t.live)
			}
		}, RemoveExtensionFinalizer, "to be gone"},
		{"OLM v1 remembers", free, func(s *state) { s.remembered = []metav1.PartialObjectMetadata{{}} }, DeleteRemembered, ""},
		{"what OLM v1 remembers goes", free, func(s *state) {
			s.remembered = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: s.now}}}}
		}, DeleteRemembered, "to be gone"},
		{"a webhook of OLM v1", free, func(s *state) { s.made[0].Kind = "ValidatingWebhookConfiguration" }, DeleteMade, ""},
		{"a finalizer keeps a webhook", free, func(s *state) {
			s.made[0].Kind = "ValidatingWebhookConfiguration"
			terminate(&s.made[0])
		}, DeleteMade, "example.com/finalizer"},
		{"nothing is left of OLM v1", free, nil, CreateSubscription, ""},
		{"OLM v0 has made no InstallPlan", subscribed, func(s *state) { s.installPlans = nil }, Approve, "OLM v0 to make an InstallPlan"},
		{"OLM v0 makes one", subscribed, func(s *state) { s.installPlans[0].Status.Phase = "" }, Approve, "to ask for approval"},
		{"OLM v0 has made one", subscribed, nil, Approve, ""},
		{"OLM v0 carries it out", subscribed, func(s *state) { s.installPlans[0].Spec.Approved = true }, AwaitVersion, "install-9"},
		{"OLM v0 waits for an InstallPlan of a deleted Subscription", subscribed, func(s *state) {
			s.installPlans, s.subscriptions[0].Status.State = nil, v1alpha1.SubscriptionStateUpgradePending
		}, ResetStatus, ""},
		{"OLM v0 has copied the status of a deleted Subscription", subscribed, func(s *state) {
			s.installPlans, s.subscriptions[0].Status.State = nil, v1alpha1.SubscriptionStateUpgradePending
			s.subscriptions[0].Status.InstalledCSV = "boat.v1.0.0"
		}, ResetStatus, ""},
		{"OLM v0 has made an InstallPlan since", subscribed, func(s *state) { s.subscriptions[0].Status.InstalledCSV = "boat.v1.0.0" }, Approve, ""},
		{"the version is not ready", returned, func(s *state) { s.version.Status.Phase = v1alpha1.CSVPhaseInstalling }, AwaitVersion, "Installing"},
		{"the status says nothing", returned, func(s *state) { s.subscriptions[0].Status.InstalledCSV = "" }, AwaitVersion, "status of Subscription"},
		{"pods are not ready", returned, func(s *state) { s.deployments[0].Status.AvailableReplicas = 0 }, AwaitVersion, "0 are available"},
		{"it is installed", returned, nil, RestoreApproval, ""},
		{"somebody has deleted the Subscription again", returned, func(s *state) { terminate(&s.subscriptions[0]) }, CreateSubscription, "example.com/finalizer"},
		{"an InstallPlan was made meanwhile", returned, func(s *state) {
			asBefore(s)
			s.installPlans[0].Spec.Approved, s.installPlans[0].Status.Phase = false, v1alpha1.InstallPlanPhaseRequiresApproval
		}, Approve, ""},
		{"somebody asks for approval", returned, func(s *state) {
			asBefore(s)
			s.installPlans[0].Spec.Approved, s.installPlans[0].Status.Phase = false, v1alpha1.InstallPlanPhaseRequiresApproval
			s.othersAsk = true
		}, DeleteMade, ""},
		{"OLM v0 has not written all objects", returned, func(s *state) { s.installPlans[0].Status.Phase = v1alpha1.InstallPlanPhaseInstalling }, AwaitVersion, "InstallPlan install-9"},
		{"OLM v0 has its own permissions", returned, asBefore, DeleteMade, ""},
		{"all is as before", returned, func(s *state) {
			asBefore(s)
			s.made = nil
		}, "", ""},
		{"OLM v0 has updated it since", returned, func(s *state) {
			asBefore(s)
			s.made, s.version, s.subscriptions[0].Status.InstalledCSV = nil, nil, "boat.v1.1.0"
		}, "", ""},
	} {
		t.Run(tc.name, tc.mustGoOn)
	}
}

// TestInstallPlanFails: once OLM v0 has given up, nothing waits for it any more. The version may have succeeded before, without the bundle's
// other objects.
func TestInstallPlanFails(t *testing.T) {
	for _, phase := range []v1alpha1.ClusterServiceVersionPhase{v1alpha1.CSVPhasePending, v1alpha1.CSVPhaseSucceeded} {
		s := returned()
		s.version.Status.Phase = phase
		s.installPlans[0].Status.Phase, s.installPlans[0].Status.Message = v1alpha1.InstallPlanPhaseFailed, "no webhook answers"
		_, err := s.Next()
		want := "InstallPlan harbour/install-9, for boat.v1.0.0, has failed: no webhook answers; remove the cause, then have OLM v0 begin again with " +
			"`oc -n harbour delete subscription boats && oc -n harbour delete csv boat.v1.0.0 --cascade=orphan --ignore-not-found`"
		require.ErrorContains(t, err, want)
	}
	s := returned()
	s.version = nil
	_, err := s.Next()
	require.ErrorContains(t, err, "ClusterServiceVersion harbour/boat.v1.0.0 is gone, although InstallPlan install-9 has installed it: find out who has deleted it, then have OLM v0 begin again with `oc -n harbour delete subscription boats && ")
	s = returned()
	s.installPlans[0].Spec.ClusterServiceVersionNames = []string{"boat.v1.1.0"}
	s.installPlans[0].Status.Phase = v1alpha1.InstallPlanPhaseFailed
	_, err = s.Next()
	require.NoError(t, err, "a later version has failed")
}

// TestBack: the next step of a rollback, which restores OLM v0 from any step of a move to OLM v1 before the point of no
// return.
func TestBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		from   func() *state
		change func(*state)
		step   migrate.StepName
		waits  string
		err    string
	}{
		{"nothing was changed", begun, nil, "", "", ""},
		{"nothing was deleted", held, nil, RestorePermissions, "", ""},
		{"an API was annotated", begun, func(s *state) { s.taken[0].live.Annotations = map[string]string{movedAnnotation: "s-1"} }, UnmarkObjects, "", ""},
		{"the finalizer is left", begun, func(s *state) { s.version.Finalizers = append(s.version.Finalizers, moveFinalizer) }, RemoveVersionFinalizer, "", ""},
		{"somebody has deleted the Subscription", begun, func(s *state) { terminate(&s.subscriptions[0]) }, AddVersionFinalizer, "", ""},
		{"OLM v0 takes no version back", func() *state { return ending(moveFinalizer) }, nil, DeleteSubscription, "", ""},
		{"the Subscription is gone", func() *state { return unsubscribed(moveFinalizer) }, nil, RemoveVersionFinalizer, "", ""},
		{"OLM v0 has nothing", left, nil, CreateSubscription, "", ""},
		{"objects are marked", arrived, func(s *state) { s.extension = nil }, UnmarkObjects, "", ""},
		{"there is a ClusterExtension", arrived, nil, AddExtensionFinalizer, "", ""},
		{"OLM v1 may have updated it", arrived, func(s *state) { s.log(Loosen, time.Second) }, "", "", "point of no return"},
		{"the way back has not begun", returning, nil, "", "", ""},
		{"the way back has begun", returning, func(s *state) { s.extension.SetFinalizers([]string{moveFinalizer}) }, RemoveExtensionFinalizer, "", ""},
		{"OLM v1 leaves it", func() *state { return leaving(moveFinalizer) }, nil, "", "", "point of no return"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.from()
			if tc.change != nil {
				tc.change(s)
			}
			next, err := s.Back()
			if restored := s.IsRestored(); restored && (next != migrate.Decision{}) {
				t.Errorf("it counts as restored before step %s", next.Step)
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			mustDecide(t, next, err, tc.step, tc.waits)
		})
	}
}

// TestHolds: a Subscription that is about to go does not hold the operator with OLM v0.
func TestHolds(t *testing.T) {
	for want, change := range map[bool]func(*state){true: func(*state) {}, false: func(s *state) { terminate(&s.subscriptions[0]) }} {
		s := returned()
		change(s)
		if holds, err := s.Holds(); holds != want || err != nil {
			t.Errorf("it holds: %t, error %v; want %t", holds, err, want)
		}
	}
}

// TestVerify: a move stops if somebody interferes, above all if an API or a Deployment is not the same any more.
func TestVerify(t *testing.T) {
	for _, tc := range []struct {
		name   string
		from   func() *state
		change func(*state)
		want   string
	}{
		{"another namespace", begun, func(s *state) { s.namespaceUID = "n-2" }, "recreated under the same name"},
		{"another Subscription", left, func(s *state) { s.subscriptions = []v1alpha1.Subscription{other("harbour", "boats", "boat", "")} }, "GitOps"},
		{"a changed Subscription", begun, func(s *state) { s.subscriptions[0].Spec.Channel = "fast" }, "changed the spec"},
		{"another catalog on the way back", subscribed, func(s *state) { s.subscriptions[0].Spec.CatalogSource = "evil" }, "is not the one that this move gives it"},
		{"an update by OLM v0", begun, func(s *state) { s.subscriptions[0].Status.InstalledCSV = "boat.v1.1.0" }, "OLM v0 has updated"},
		{"another version of the name", begun, func(s *state) { s.version.UID = "v-2" }, "deleted ClusterServiceVersion"},
		{"another ClusterExtension", left, func(s *state) { s.extension = newExtension("boat") }, "somebody has created ClusterExtension"},
		{"another ClusterExtension on the way back", returning, func(s *state) { s.extension.SetUID("e-2") }, "somebody has created ClusterExtension"},
		{"an update by OLM v1", returning, func(s *state) { installed(s.extension, "boat.v1.1.0", "Succeeded", "") }, "OLM v1 updates"},
		{"an API that is gone", left, func(s *state) { s.taken[0].live = nil }, "deleted CustomResourceDefinition"},
		{"an API that is recreated", left, func(s *state) { s.taken[0].live.UID = "u-2" }, "created it again"},
		{"an API that goes", left, func(s *state) { s.taken[0].live.DeletionTimestamp = &metav1.Time{} }, "about to go"},
		{"a Deployment that is recreated", arrived, func(s *state) { s.taken[2].live.UID = "u-2" }, "created it again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.from()
			require.NoError(t, s.Verify())
			tc.change(s)
			assert.ErrorContains(t, s.Verify(), tc.want)
		})
	}
}

// TestMarks: the marks that an object gets for OLM v1, and that a move back removes all of them.
func TestMarks(t *testing.T) {
	for name, set := range map[string]*Owner{"Helm": nil, "Boxcutter": {Name: "boat-1", UID: "c-1"}} {
		t.Run(name, func(t *testing.T) {
			object := exists("", "ConfigMap", "harbour", "chart").PartialObjectMetadata
			object.Labels, object.Annotations = map[string]string{"app": "boat"}, map[string]string{"note": "x"}
			if isMarked(object, "boat", "harbour", set != nil) || hasMarks(object) {
				t.Fatal("it is marked already")
			}
			mark(object, "boat", "harbour", set)
			if !isMarked(object, "boat", "harbour", set != nil) || !hasMarks(object) {
				t.Fatalf("it is not marked: %+v", object.ObjectMeta)
			}
			unmark(object)
			if hasMarks(object) || len(object.Labels) != 1 || len(object.Annotations) != 1 || len(object.OwnerReferences) != 0 {
				t.Errorf("something is left: %+v", object.ObjectMeta)
			}
		})
	}
}
