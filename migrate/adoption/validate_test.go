package adoption

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/migrate"
)

// registered is a driver that OLM may have run: plans of others cannot be read.
func registered() drivers.Driver {
	all := registry.All()
	return all[slices.IndexFunc(all, func(d drivers.Driver) bool { return len(d.Predecessors()) > 0 })]
}

// valid is a plan that can be applied.
func valid() *Plan {
	d := registered()
	p := &Plan{
		Outline: migrate.Outline{Schema: Adopt.Schema, Safe: true, Subject: migrate.Subject{Name: d.CSIName}}, Driver: d.Name,
		Operator: &Operator{Namespace: "harbour", NamespaceUID: "n-1", Name: d.Predecessors()[0].Operator,
			Subscription: &Reference{"boat", "s-1"}, Version: Reference{d.Package.Name + ".v4.5.0", "v-1"}},
		Settings: &Settings{Resource: d.OldCustomResources()[0].String(), UID: "o-1", LogLevel: "Debug"},
	}
	p.Steps = slices.Concat([]migrate.Step{{Name: migrate.RecordPlan}}, p.ListSteps(), []migrate.Step{{Name: migrate.Complete}})
	return p
}

// stored is the ConfigMap of a journal.
func stored(p *Plan) *corev1.ConfigMap {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is plain data
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: migrate.DefaultJournalNamespace, Name: "berth-adopt." + registered().CSIName},
		Data: map[string]string{"plan.json": string(text), "phase": "Applying", "log": "2026-11-22T00:00:00Z record-plan\n"}}
}

// TestForgedJournals: a journal can name only an operator of the driver and its objects. Each has one wrong field,
// which the error names.
func TestForgedJournals(t *testing.T) {
	_, err := Adopt.ParseJournal(stored(valid()))
	require.NoError(t, err, "a valid journal")
	for _, tc := range []struct {
		forge func(*Plan)
		want  string
	}{
		{func(p *Plan) { p.Driver = "floppy" }, "driver"},
		{func(p *Plan) {
			p.Driver = registry.Packaged()[slices.IndexFunc(registry.Packaged(), func(d drivers.Driver) bool { return len(d.Predecessors()) == 0 })].Name
		}, "which OLM never ran"},
		{func(p *Plan) { p.Subject.Name = "x.csi.example.com" }, "subject.name"},
		{func(p *Plan) { p.Subject.Namespace = "kube-system" }, "subject.namespace"},
		{func(p *Plan) { p.Subject.UID = "a b" }, "subject.uid"},
		{func(p *Plan) { p.Operator.Namespace = "../x" }, "operator.namespace"},
		{func(p *Plan) { p.Operator.NamespaceUID = "" }, "operator.namespaceUID"},
		{func(p *Plan) { p.Operator.Name = "kube-apiserver" }, "operator.name"},
		{func(p *Plan) { p.Operator.Version.Name = "etcd.v1.0.0" }, "operator.version.name"},
		{func(p *Plan) { p.Operator.Version.UID = "" }, "operator.version.uid"},
		{func(p *Plan) { p.Operator.Subscription.Name = "a/b" }, "operator.subscription.name"},
		{func(p *Plan) { p.Operator.Subscription.UID = "" }, "operator.subscription.uid"},
		{func(p *Plan) { p.Settings.Resource = "Node master-0" }, "settings.resource"},
		{func(p *Plan) { p.Settings.UID = "" }, "settings.uid"},
		{func(p *Plan) { p.Settings.LogLevel = "a\x1b[31m" }, "settings.logLevel"},
		{func(p *Plan) { p.Settings.OperatorLogLevel = "a b" }, "settings.operatorLogLevel"},
		{func(p *Plan) { p.Safe = false }, "safe"},
		{func(p *Plan) { p.Steps = p.Steps[1:] }, "steps"},
		{func(p *Plan) { p.Schema = "berth.switch-plan.v4" }, "schema"},
	} {
		p := valid()
		tc.forge(p)
		_, err := Adopt.ParseJournal(stored(p))
		assert.ErrorContains(t, err, tc.want)
	}
	noted := stored(valid())
	noted.Data["note"] = "x"
	_, err = Adopt.ParseJournal(noted)
	assert.ErrorContains(t, err, `unknown key "note"`)
}

// TestChanges: a plan that was reviewed is not applied to anything else.
func TestChanges(t *testing.T) {
	assert.Empty(t, changes(valid(), valid()), "identical plans have changes")
	for want, change := range map[string]func(*Plan){
		"the driver":                   func(p *Plan) { p.Driver = "x" },
		"the ClusterCSIDriver's UID":   func(p *Plan) { p.Subject.UID = "c-1" },
		"the operator that OLM runs":   func(p *Plan) { p.Operator.Version.UID = "v-2" },
		"the operator that OLM runs w": func(p *Plan) { p.Operator.Subscription = nil },
		"what configured it":           func(p *Plan) { p.Settings.LogLevel = "Trace" },
	} {
		p := valid()
		change(p)
		if found := changes(valid(), p); len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("changes %q, want one with %q", found, want)
		}
	}
}
