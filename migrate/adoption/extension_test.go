package adoption

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
)

// boatExtension is a ClusterExtension that has installed the operator.
func boatExtension() extension {
	e := extension{&unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"namespace": "harbour", "source": map[string]any{"catalog": map[string]any{"packageName": "boat-operator"}}},
		"status": map[string]any{
			"install": map[string]any{"bundle": map[string]any{"name": "boat-operator.v5.0.0", "version": "5.0.0"}},
			"conditions": []any{
				map[string]any{"type": "Installed", "status": "True", "reason": "Succeeded"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "Succeeded"},
			},
		},
	}}}
	e.SetGroupVersionKind(extensionKind)
	e.SetName("boat")
	e.SetUID("e-1")
	return e
}

// set sets a field of a ClusterExtension.
func (e extension) set(value any, path ...string) {
	if err := unstructured.SetNestedField(e.Object, value, path...); err != nil {
		panic(err)
	}
}

// setCondition sets its condition Installed or Progressing.
func (e extension) setCondition(of, status, reason, message string) {
	e.set([]any{
		map[string]any{"type": "Installed", "status": "True", "reason": "Succeeded"},
		map[string]any{"type": of, "status": status, "reason": reason, "message": message},
	}[map[string]int{"Installed": 1, "Progressing": 0}[of]:], "status", "conditions")
}

func installedObject(kind, namespace, name string) metav1.PartialObjectMetadata {
	o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: predecessor.LabelsOf("boat")}}
	o.Kind = kind
	return o
}

// healthyExtension is a driver that OLM v1 runs and that can be handed over.
func healthyExtension() *input {
	in := healthy()
	in.subscriptions, in.versions, in.installPlans, in.groups, in.old = nil, nil, nil, nil, nil
	in.proven = []predecessor.Operator{{Namespace: "harbour", Account: "boat-operator", Kind: predecessor.Extension, Name: "boat", Binding: "b-1"}}
	in.extensions = []extension{boatExtension()}
	in.installed = []metav1.PartialObjectMetadata{
		installedObject("Deployment", "harbour", "boat-operator"), installedObject("ServiceAccount", "harbour", "boat-operator"), installedObject("ClusterRoleBinding", "", "b-1"),
	}
	return in
}

// TestExtensionChecks: the checks that refuse to hand over an operator that OLM v1 runs.
func TestExtensionChecks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*input)
		code   string
		what   string // a fragment of it
	}{
		{"F10: the cluster storage operator itself", func(in *input) { in.bySuccessor = true }, clusterExtension, "only an administrator can hand over"},
		{"F4: two ClusterExtensions", func(in *input) {
			second := boatExtension()
			second.SetName("raft")
			in.extensions = append(in.extensions, second)
		}, clusterExtension, "boat, raft"},
		{"F4: a ClusterServiceVersion, too", func(in *input) { in.proven = append(in.proven, healthy().proven...) }, clusterExtension, "namespace harbour"},
		{"one that is gone", func(in *input) { in.extensions = nil }, clusterExtension, "does not exist, but ClusterRoleBinding b-1"},
		{"one that has installed nothing", func(in *input) { in.proven = nil }, clusterExtension, "no ClusterRoleBinding of it"},
		{"F10: one that is being deleted", func(in *input) {
			in.extensions[0].SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			in.extensions[0].SetFinalizers([]string{"foregroundDeletion"})
		}, pendingUpdate, "foregroundDeletion"},
		{"F11: an update that is rolled out", func(in *input) { in.extensions[0].setCondition("Progressing", "True", "RollingOut", "to 5.0.1") }, pendingUpdate, "to 5.0.1"},
		{"F11: an update that fails", func(in *input) { in.extensions[0].setCondition("Progressing", "True", "Retrying", "no such bundle") }, pendingUpdate, "no such bundle"},
		{"without conditions", func(in *input) { in.extensions[0].set([]any{}, "status", "conditions") }, pendingUpdate, `""`},
		{"one that is not installed", func(in *input) { in.extensions[0].setCondition("Installed", "False", "Failed", "no such bundle") }, installedVersion, "no such bundle"},
		{"another namespace", func(in *input) { in.extensions[0].set("quay", "spec", "namespace") }, knownVersion, `"quay"`},
		{"a bundle of another package", func(in *input) {
			in.extensions[0].set("raft-operator.v5.0.0", "status", "install", "bundle", "name")
		}, knownVersion, "raft-operator.v5.0.0"},
		{"a version that is not that of the bundle's name", func(in *input) {
			in.extensions[0].set("5.0.1", "status", "install", "bundle", "version")
		}, knownVersion, "5.0.1"},
		{"an unknown version", func(in *input) {
			in.extensions[0].set("boat-operator.v7.0.0", "status", "install", "bundle", "name")
			in.extensions[0].set("7.0.0", "status", "install", "bundle", "version")
		}, knownVersion, "version 7.0.0"},
		{"another Deployment", func(in *input) { in.installed[0].Name = "raft" }, knownVersion, "raft"},
		{"the account of another operator", func(in *input) { in.proven[0].Account = "old-boat-operator" }, knownVersion, "old-boat-operator"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := healthyExtension()
			tc.change(in)
			p := in.plan()
			at := slices.IndexFunc(p.Checks, func(c findings.Check) bool { return c.Code == tc.code && c.Verdict == findings.Refused })
			if at < 0 {
				t.Fatalf("no check %s refuses: %+v", tc.code, p.Checks)
			}
			if check := p.Checks[at]; !strings.Contains(check.What, tc.what) || check.Do == "" {
				t.Errorf("it says %q, do %q; want %q in it, and what to do", check.What, check.Do, tc.what)
			}
			if p.Checks.Safe() || len(p.Objects) > 0 {
				t.Errorf("safe: %t, objects %v; want neither", p.Checks.Safe(), p.Objects)
			}
		})
	}
}

// TestHealthyExtension: the plan names the ClusterExtension, and which of its objects will be deleted.
func TestHealthyExtension(t *testing.T) {
	in := healthyExtension()
	in.extensions[0].set(map[string]any{"configType": "Inline"}, "spec", "config")
	p := in.plan()
	for _, c := range p.Checks {
		if c.Verdict == findings.Refused || c.Verdict == findings.Warning && c.Code != configuration {
			t.Errorf("check %s is %s: %s", c.Code, c.Verdict, c.What)
		}
	}
	var deleted []string
	for _, o := range p.Objects {
		if o.By == "berth" {
			deleted = append(deleted, o.Kind+" "+o.Namespace+"/"+o.Name)
		}
	}
	want := []string{"ClusterExtension /boat", "Deployment harbour/boat-operator", "ServiceAccount harbour/boat-operator", "ClusterRoleBinding /b-1"}
	assert.Equal(t, want, deleted, "objects")
	if want := (&Extension{Reference{"boat", "e-1"}, "boat-operator.v5.0.0"}); *p.Operator.Extension != *want || p.Operator.Version != (Reference{}) {
		t.Errorf("operator %+v, want extension %+v and no version", p.Operator, want)
	}
}

// begunExtension is the state of the hand-over of a ClusterExtension that has only recorded its plan.
func begunExtension() *state {
	in := healthyExtension()
	p := in.plan()
	s := &state{
		now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), plan: p, driver: boat, namespaceUID: "n-1", journal: emptyJournal(),
		extension: &in.extensions[0], installed: in.installed, proven: in.proven, left: "Deployment harbour/boat-operator", conditions: in.storage.Status.Conditions,
	}
	s.journal.Plan = p
	s.log(migrate.RecordPlan, 0)
	return s
}

func heldExtension() *state {
	s := begunExtension()
	s.extension.SetFinalizers([]string{handOverFinalizer})
	s.log(AddHandOverFinalizer, time.Minute)
	return s
}

func deletedExtension() *state {
	s := heldExtension()
	s.extension.SetDeletionTimestamp(&metav1.Time{Time: s.now})
	s.log(DeleteExtension, 30*time.Second)
	return s
}

func quietExtension() *state {
	s := deletedExtension()
	s.log(AwaitOLM, olmDelay)
	return s
}

func goneExtension() *state {
	s := quietExtension()
	s.extension = nil
	return s
}

// TestNextOfExtension: the next step for each state.
func TestNextOfExtension(t *testing.T) {
	with := func(s *state, change func(*state)) *state { change(s); return s }
	api := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "boats.example.com", OwnerReferences: []metav1.OwnerReference{{UID: "e-1"}}}}
	for _, tc := range []struct {
		name  string
		state *state
		step  migrate.StepName
		waits string // a fragment; "" if the step can be executed
	}{
		{"the beginning", begunExtension(), AddHandOverFinalizer, ""},
		{"it is held", heldExtension(), DeleteExtension, ""},
		{"OLM has overwritten the finalizers", with(heldExtension(), func(s *state) { s.extension.SetFinalizers([]string{"olm"}) }), AddHandOverFinalizer, ""},
		{"the garbage collector has not orphaned everything", with(deletedExtension(), func(s *state) {
			s.extension.SetFinalizers([]string{metav1.FinalizerOrphanDependents, handOverFinalizer})
		}), DeleteExtension, "garbage collector"},
		{"there are ClusterObjectSets", with(deletedExtension(), func(s *state) {
			s.objectSets = []metav1.PartialObjectMetadata{installedObject("ClusterObjectSet", "", "boat-1")}
		}), DeleteObjectSets, ""},
		{"a ClusterObjectSet that is being deleted", with(deletedExtension(), func(s *state) {
			s.objectSets = []metav1.PartialObjectMetadata{installedObject("ClusterObjectSet", "", "boat-1")}
			s.objectSets[0].DeletionTimestamp = &metav1.Time{}
		}), DeleteObjectSets, "ClusterObjectSet boat-1 to be gone"},
		{"OLM may be applying it", deletedExtension(), AwaitOLM, ""},
		{"OLM has not had enough time", with(deletedExtension(), func(s *state) { s.log(AwaitOLM, olmDelay-time.Second) }), AwaitOLM, "15 seconds"},
		{"OLM owns an API again", with(quietExtension(), func(s *state) { s.ownedAPIs = []metav1.PartialObjectMetadata{api} }), KeepAPIs, ""},
		{"nothing is owned", quietExtension(), RemoveHandOverFinalizer, ""},
		{"OLM has not noticed", with(deletedExtension(), func(s *state) { s.extension.SetFinalizers([]string{"olm", handOverFinalizer}) }), DeleteExtension, "its finalizers olm"},
		{"it goes", with(quietExtension(), func(s *state) { s.extension.SetFinalizers(nil) }), RemoveHandOverFinalizer, "to be gone"},
		{"it is gone", goneExtension(), DeleteOperator, ""},
		{"somebody else has deleted it", with(goneExtension(), func(s *state) { s.ownedAPIs = []metav1.PartialObjectMetadata{api} }), KeepAPIs, ""},
		{"the operator's Deployment is being deleted", with(goneExtension(), func(s *state) { s.installed[0].DeletionTimestamp = &metav1.Time{} }), AwaitEnd, "Deployment harbour/boat-operator"},
		{"the operator's pod ends", with(goneExtension(), func(s *state) { s.installed, s.left = s.installed[1:], "pod harbour/boat-operator-1" }), AwaitEnd, "pod harbour/boat-operator-1"},
		{"the operator has ended", with(goneExtension(), func(s *state) { s.installed, s.left = s.installed[1:], "" }), DeleteInstalled, ""},
		{"its account is being deleted", with(goneExtension(), func(s *state) {
			s.installed, s.left = s.installed[1:], ""
			s.installed[0].DeletionTimestamp = &metav1.Time{}
		}), DeleteInstalled, "ServiceAccount harbour/boat-operator to be gone"},
		{"nothing of it is left", with(goneExtension(), func(s *state) { s.installed, s.left, s.proven = nil, "", nil }), AwaitOperator, "to create Deployment"},
	} {
		next, err := tc.state.Next()
		if err != nil || next.Step != tc.step || (next.Waits == "") != (tc.waits == "") || !strings.Contains(next.Waits, tc.waits) {
			t.Errorf("%s: step %q, waits for %q, error %v; want step %q, waits for %q", tc.name, next.Step, next.Waits, err, tc.step, tc.waits)
		}
	}
}

// TestVerifyExtension: a hand-over stops when somebody changes the objects that it moves.
func TestVerifyExtension(t *testing.T) {
	with := func(s *state, change func(*state)) *state { change(s); return s }
	for _, tc := range []struct {
		name  string
		state *state
		want  string // a fragment of the error; "" for none
	}{
		{"the beginning", begunExtension(), ""}, {"it is held", heldExtension(), ""}, {"it is deleted", deletedExtension(), ""}, {"it is gone", goneExtension(), ""},
		{"F13: somebody creates it again", with(goneExtension(), func(s *state) {
			again := boatExtension()
			again.SetUID("e-9")
			s.extension = &again
		}), "GitOps"},
		{"F11: OLM updates the operator", with(heldExtension(), func(s *state) {
			s.extension.set("boat-operator.v5.0.1", "status", "install", "bundle", "name")
		}), "OLM updates the operator"},
		{"another namespace of the name", with(begunExtension(), func(s *state) { s.namespaceUID = types.UID("n-9") }), "recreated under the same name"},
	} {
		if err := tc.state.Verify(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q in it", tc.name, err, tc.want)
		}
	}
}

// TestBackOfExtension: a hand-over can be rolled back as long as the ClusterExtension is not being deleted. The
// rollback leaves no trace.
func TestBackOfExtension(t *testing.T) {
	for _, tc := range []struct {
		name     string
		state    *state
		step     migrate.StepName
		restored bool
	}{
		{"the beginning", begunExtension(), "", true}, {"it is held", heldExtension(), RemoveHandOverFinalizer, false},
	} {
		if next, err := tc.state.Back(); err != nil || next.Step != tc.step || next.Waits != "" {
			t.Errorf("%s: %+v, error %v; want step %q", tc.name, next, err, tc.step)
		}
		assert.Equalf(t, tc.restored, tc.state.IsRestored(), "%s: restored", tc.name)
	}
	for name, s := range map[string]*state{"it is deleted": deletedExtension(), "it is gone": goneExtension()} {
		if next, err := s.Back(); err == nil || s.IsRestored() {
			t.Errorf("%s: %+v, restored: %t; want an error, and that it is not", name, next, s.IsRestored())
		}
	}
}

// validExtension is a plan about a ClusterExtension that can be applied.
func validExtension() *Plan {
	p := valid()
	p.Operator.Subscription, p.Operator.Version = nil, Reference{}
	p.Operator.Extension = &Extension{Reference{"boat", "e-1"}, registered().Package.Name + ".v5.0.0"}
	p.Steps = slices.Concat([]migrate.Step{{Name: migrate.RecordPlan}}, p.ListSteps(), []migrate.Step{{Name: migrate.Complete}})
	return p
}

// TestForgedExtensions: a journal can name only a ClusterExtension of the driver's package.
func TestForgedExtensions(t *testing.T) {
	_, err := Adopt.ParseJournal(stored(validExtension()))
	require.NoError(t, err, "a valid journal")
	for want, forge := range map[string]func(*Plan){
		"operator.extension.name":   func(p *Plan) { p.Operator.Extension.Name = "../x" },
		"operator.extension.uid":    func(p *Plan) { p.Operator.Extension.UID = "" },
		"operator.extension.bundle": func(p *Plan) { p.Operator.Extension.Bundle = "etcd.v1.0.0" },
		"no operator.subscription":  func(p *Plan) { p.Operator.Subscription = valid().Operator.Subscription },
		"no operator.version":       func(p *Plan) { p.Operator.Version = valid().Operator.Version },
		"operator.version":          func(p *Plan) { p.Operator.Extension = nil },
		"steps":                     func(p *Plan) { p.Steps = valid().Steps },
	} {
		p := validExtension()
		forge(p)
		_, err := Adopt.ParseJournal(stored(p))
		assert.ErrorContains(t, err, want)
	}
}
