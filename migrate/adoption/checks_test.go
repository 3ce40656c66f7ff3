package adoption

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings"
)

// boat is a driver that OLM may have run.
var boat = drivers.Driver{
	Name: "boat", CSIName: "boat.csi.example.com", ConditionPrefix: "Boat", Namespace: "openshift-boat",
	Package: drivers.Package{Name: "boat-operator"}, Operator: drivers.Operator{Name: "boat-operator"},
	ClusterStorage: &drivers.ClusterStorage{},
	History: drivers.History{
		CSIDriverAnnotation: "boat.example.com/made",
		Predecessors: []drivers.Predecessor{
			{Versions: ">=1.0.0-0 <2.0.0-0", Operator: "old-boat-operator", CustomResource: &drivers.CustomResource{
				Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"}, Name: "cluster", Definition: "boats.example.com"}},
			{Versions: ">=5.0.0-0 <6.0.0-0", Operator: "boat-operator"},
		},
	},
}

// healthy is a driver that can be handed over.
func healthy() *input {
	v := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "boat-operator.v1.4.0", UID: "v-1"}}
	v.Spec.Version = version.OperatorVersion{Version: semver.MustParse("1.4.0")}
	v.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "boats.example.com"}}
	v.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "old-boat-operator"}}
	v.Status.Phase = v1alpha1.CSVPhaseSucceeded
	s := v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "boat", UID: "s-1"}, Spec: &v1alpha1.SubscriptionSpec{Package: "boat-operator"}}
	s.Status.InstalledCSV, s.Status.CurrentCSV = v.Name, v.Name
	p := v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "install-1", OwnerReferences: []metav1.OwnerReference{{Kind: "Subscription", UID: "s-1"}}}}
	p.Spec.ClusterServiceVersionNames, p.Status.Phase = []string{v.Name}, v1alpha1.InstallPlanPhaseComplete
	storage := &operatorv1.Storage{}
	storage.Status.Conditions = []operatorv1.OperatorCondition{{Type: "BoatCSIDriverOperatorAvailable", Status: "True", Reason: predecessor.Reason}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "boat"}}
	set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-boat", Name: "boat-node"}, Spec: appsv1.DaemonSetSpec{Selector: selector}}
	controller := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-boat", Name: "boat-controller"}, Spec: appsv1.DeploymentSpec{Selector: selector}}
	return &input{
		driver:        boat,
		proven:        []predecessor.Operator{{Namespace: "harbour", Account: "old-boat-operator", Kind: predecessor.Version, Name: v.Name, Binding: "b-1"}},
		subscriptions: []v1alpha1.Subscription{s}, versions: []v1alpha1.ClusterServiceVersion{v}, installPlans: []v1alpha1.InstallPlan{p},
		groups: []string{"harbour"}, namespaceUID: "n-1",
		old:       []oldCustomResource{{boat.OldCustomResources()[0], drivers.OldSettings{UID: "o-1", ManagementState: operatorv1.Managed, LogLevel: operatorv1.Debug}}},
		csiDriver: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"boat.example.com/made": "x"}}},
		storage:   storage, placed: placement.Decision{Namespace: "openshift-boat", UID: "n-2"},
		deployments: []workload[appsv1.Deployment]{{controller, *controller.DeepCopy()}}, daemonSets: []workload[appsv1.DaemonSet]{{set, *set.DeepCopy()}},
	}
}

// TestChecks: the checks that refuse to hand over a driver, and the warnings for an administrator.
func TestChecks(t *testing.T) {
	another := func(namespace, name string) v1alpha1.Subscription {
		return v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "s-2"}, Spec: &v1alpha1.SubscriptionSpec{Package: "boat-operator"}}
	}
	for _, tc := range []struct {
		name    string
		change  func(*input)
		code    string
		verdict findings.Verdict
		what    string // a fragment of it
	}{
		{"F11: two Subscriptions in the namespace", func(in *input) { in.subscriptions = append(in.subscriptions, another("harbour", "boat-2")) },
			subscriptions, findings.Refused, "harbour/boat-2"},
		{"F11: a Subscription in another namespace in which OLM installs", func(in *input) {
			in.subscriptions, in.groups = append(in.subscriptions, another("quay", "boat")), append(in.groups, "quay")
		}, subscriptions, findings.Refused, "quay/boat"},
		{"a Subscription of a tenant", func(in *input) { in.subscriptions = append(in.subscriptions, another("project", "boat")) },
			subscriptions, findings.Warning, "project/boat"},
		{"a deleted Subscription", func(in *input) { in.subscriptions = nil }, subscriptions, findings.Warning, "deleted the Subscription"},
		{"F4: two operators", func(in *input) {
			second := in.proven[0]
			second.Namespace = "quay"
			in.proven = append(in.proven, second)
		}, severalOperators, findings.Refused, "harbour, quay"},
		{"F10: a ClusterExtension", func(in *input) { in.extensions = []extension{boatExtension()} }, clusterExtension, findings.Refused, "ClusterExtension boat"},
		{"F10: permissions of a ClusterExtension", func(in *input) {
			in.proven[0].Kind, in.subscriptions, in.versions = predecessor.Extension, nil, nil
		}, clusterExtension, findings.Refused, "boat-operator.v1.4.0"},
		{"F11: an InstallPlan that waits for approval", func(in *input) { in.installPlans[0].Status.Phase = v1alpha1.InstallPlanPhaseRequiresApproval },
			pendingUpdate, findings.Refused, "RequiresApproval"},
		{"F11: an InstallPlan that OLM carries out", func(in *input) { in.installPlans[0].Status.Phase = v1alpha1.InstallPlanPhaseInstalling },
			pendingUpdate, findings.Refused, "Installing"},
		{"an InstallPlan without a phase", func(in *input) { in.installPlans[0].Status.Phase = "" }, pendingUpdate, findings.Refused, "not known yet"},
		{"F11: half an update", func(in *input) {
			next := in.versions[0]
			next.Name, next.UID = "boat-operator.v1.5.0", "v-2"
			in.versions = append(in.versions, next)
		}, pendingUpdate, findings.Refused, "boat-operator.v1.5.0"},
		{"F11: an update that has been resolved", func(in *input) { in.subscriptions[0].Status.CurrentCSV = "boat-operator.v1.5.0" },
			pendingUpdate, findings.Refused, `"boat-operator.v1.5.0" as current`},
		{"F11: a Subscription that has installed nothing", func(in *input) { in.subscriptions[0].Status = v1alpha1.SubscriptionStatus{} },
			pendingUpdate, findings.Refused, `has "" installed`},
		{"a Subscription that is being deleted", func(in *input) {
			in.subscriptions[0].DeletionTimestamp, in.subscriptions[0].Finalizers = &metav1.Time{}, []string{"example.com/hold"}
		}, pendingUpdate, findings.Refused, "being deleted, and has the finalizers example.com/hold"},
		{"F11: a missing ClusterServiceVersion", func(in *input) { in.versions = nil }, installedVersion, findings.Refused, "does not exist"},
		{"a ClusterServiceVersion that is being deleted", func(in *input) { in.versions[0].DeletionTimestamp = &metav1.Time{} }, installedVersion, findings.Refused, "being deleted"},
		{"a failed ClusterServiceVersion", func(in *input) { in.versions[0].Status.Phase = v1alpha1.CSVPhaseFailed }, installedVersion, findings.Refused, "Failed"},
		{"an unknown version", func(in *input) {
			in.versions[0].Name, in.proven[0].Name = "boat-operator.v2.0.0", "boat-operator.v2.0.0"
			in.versions[0].Spec.Version = version.OperatorVersion{Version: semver.MustParse("2.0.0")}
			in.subscriptions[0].Status.InstalledCSV, in.subscriptions[0].Status.CurrentCSV = "boat-operator.v2.0.0", "boat-operator.v2.0.0"
		}, knownVersion, findings.Refused, "version 2.0.0"},
		{"a version that is not that of its name", func(in *input) {
			in.versions[0].Spec.Version = version.OperatorVersion{Version: semver.MustParse("1.4.1")}
		}, knownVersion, findings.Refused, "1.4.1"},
		{"a ClusterServiceVersion that owns no API", func(in *input) { in.versions[0].Spec.CustomResourceDefinitions.Owned = nil }, knownVersion, findings.Refused, "does not own"},
		{"a ClusterServiceVersion with another Deployment", func(in *input) {
			in.versions[0].Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name = "raft"
		}, knownVersion, findings.Refused, "old-boat-operator"},
		{"a configured operator", func(in *input) {
			in.subscriptions[0].Spec.Config = &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "ROLE"}}, Tolerations: []corev1.Toleration{{}}}
		}, configuration, findings.Warning, "does not get: tolerations, env ROLE"},
		{"an unmanaged driver", func(in *input) { in.old[0].ManagementState = operatorv1.Unmanaged }, managementState, findings.Refused, "Unmanaged"},
		{"a driver to be removed", func(in *input) { in.old[0].ManagementState = operatorv1.Removed }, managementState, findings.Refused, "Removed"},
		{"F1, F2: a driver that is being removed", func(in *input) { in.old[0].Deleted = true }, managementState, findings.Refused, "being deleted"},
		{"an unmanaged ClusterCSIDriver", func(in *input) {
			in.custom = &operatorv1.ClusterCSIDriver{}
			in.custom.Spec.ManagementState = operatorv1.Unmanaged
		}, managementState, findings.Refused, "Unmanaged"},
		{"a ClusterCSIDriver that is being deleted", func(in *input) {
			in.custom = &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
		}, managementState, findings.Refused, "being deleted"},
		{"a foreign CSIDriver", func(in *input) { in.csiDriver.Annotations = nil }, csiDriverOwner, findings.Refused, "boat.csi.example.com"},
		{"a driver of another cluster storage operator", func(in *input) {
			in.references = []placement.Reference{{Namespace: drivers.ClusterStorageNamespace, Account: "boat-node-sa", Trace: drivers.Trace{Name: "boat-binding"}}}
		}, driverOwner, findings.Refused, "boat-binding"},
		{"the new operator has been started", func(in *input) { in.started = true }, driverOwner, findings.Warning, "started its operator"},
		{"a driver in an unknown place", func(in *input) {
			in.placed = placement.Decision{Refusal: &placement.Refusal{Message: "anybody may have created it"}}
		}, driverPlace, findings.Refused, "anybody may have created it"},
		{"F9: another selector of a Deployment", func(in *input) {
			in.deployments[0].live.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "raft"}}
		}, selectors, findings.Refused, "app=raft"},
		{"F9: another selector of a DaemonSet", func(in *input) {
			in.daemonSets[0].live.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "raft"}}
		}, selectors, findings.Refused, "app=raft"},
		{"F14: a paused Deployment", func(in *input) { in.deployments[0].live.Spec.Paused = true }, rolloutState, findings.Refused, "paused"},
		{"F14: a DaemonSet that is not updated", func(in *input) { in.daemonSets[0].live.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType },
			rolloutState, findings.Refused, "OnDelete"},
		{"F14: a DaemonSet that rolls out", func(in *input) { in.daemonSets[0].live.Status.DesiredNumberScheduled = 3 }, rolloutState, findings.Refused, "0 of 3"},
		{"F14: a node that is not ready", func(in *input) { in.daemonSets[0].live.Status.NumberUnavailable = 1 }, rolloutState, findings.Warning, "1 pods"},
		{"no Storage", func(in *input) { in.storage = nil }, successor, findings.Refused, "no Storage"},
		{"unmanaged storage", func(in *input) { in.storage.Spec.ManagementState = operatorv1.Unmanaged }, successor, findings.Refused, "Unmanaged"},
		{"a cluster storage operator that does not wait", func(in *input) { in.storage.Status.Conditions[0].Reason = "AsExpected" }, successor, findings.Refused, "does not say that it waits"},
		{"no cluster storage operator, or another platform", func(in *input) { in.storage.Status.Conditions = nil }, successor, findings.Refused, "does not say that it waits"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := healthy()
			tc.change(in)
			p := in.plan()
			at := slices.IndexFunc(p.Checks, func(c findings.Check) bool { return c.Code == tc.code && c.Verdict == tc.verdict })
			if at < 0 {
				t.Fatalf("no check %s is %s: %+v", tc.code, tc.verdict, p.Checks)
			}
			check := p.Checks[at]
			if !strings.Contains(check.What, tc.what) || check.Do == "" {
				t.Errorf("it says %q, do %q; want %q in it, and what to do", check.What, check.Do, tc.what)
			}
			if safe := tc.verdict != findings.Refused; p.Checks.Safe() != safe || (len(p.Objects) > 0) != safe {
				t.Errorf("safe: %t, with %d objects; want safe: %t", p.Checks.Safe(), len(p.Objects), safe)
			}
			for _, c := range p.Checks {
				alsoRefuses := tc.code == installedVersion && c.Code == pendingUpdate || tc.code == severalOperators && c.Code == subscriptions
				if c.Verdict == findings.Refused && c.Code != tc.code && !alsoRefuses {
					t.Errorf("check %s refuses, too: %s", c.Code, c.What)
				}
			}
		})
	}
}

// TestHealthy: the plan of a driver that can be handed over names exactly the objects to delete.
func TestHealthy(t *testing.T) {
	p := healthy().plan()
	for _, c := range p.Checks {
		assert.Equalf(t, findings.OK, c.Verdict, "check %s: %s", c.Code, c.What)
	}
	var deleted []string
	for _, o := range p.Objects {
		if o.By == "berth" {
			deleted = append(deleted, o.Kind+" "+o.Namespace+"/"+o.Name+" "+o.How)
		}
	}
	want := []string{"Subscription harbour/boat deleted", "InstallPlan harbour/install-1 deleted", "ClusterServiceVersion harbour/boat-operator.v1.4.0 deleted"}
	assert.Equal(t, want, deleted, "objects")
	if p.Settings == nil || p.Settings.LogLevel != "Debug" || p.Settings.Resource != "Boat cluster" {
		t.Errorf("settings %+v, want those of Boat cluster", p.Settings)
	}
}

// TestNothingOfOLM: without an operator of OLM, nothing is left to do.
func TestNothingOfOLM(t *testing.T) {
	in := healthy()
	in.proven, in.subscriptions, in.versions, in.installPlans = nil, nil, nil, nil
	if p := in.plan(); !p.Checks.Safe() || p.Operator != nil || len(p.Objects) > 0 {
		t.Errorf("safe: %t, operator %+v, objects %v; want a safe plan without either: %+v", p.Checks.Safe(), p.Operator, p.Objects, p.Checks)
	}
	in.subscriptions = healthy().subscriptions // which has not installed anything yet
	if p := in.plan(); p.Checks.Safe() {
		t.Errorf("a Subscription would install the operator, and the plan is safe: %+v", p.Checks)
	}
}

// TestConfiguration: of everything that a Subscription can set for its operator, a plan says where to set it instead.
func TestConfiguration(t *testing.T) {
	config := &v1alpha1.SubscriptionConfig{}
	fields := reflect.ValueOf(config).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i); field.Kind() {
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.ValueOf("a"), reflect.ValueOf("b"))
		default:
			t.Fatalf("field %s is a %s", fields.Type().Field(i).Name, field.Kind())
		}
	}
	config.Env = []corev1.EnvVar{{Name: "https_proxy"}, {Name: "ROLE"}, {Name: "COLOUR"}}
	in := healthy()
	in.driver.Operator.Env = []string{"ROLE"}
	in.subscriptions[0].Spec.Config = config
	found := in.checkConfiguration(in.operator())
	if len(found) != 1 || found[0].Verdict != findings.Warning {
		t.Fatalf("checks %+v, want one warning", found)
	}
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		if name != "env" && (!strings.Contains(found[0].What, name) || !strings.Contains(found[0].Do, name+": ")) {
			t.Errorf("field %s is lost, and neither %q nor %q says so", name, found[0].What, found[0].Do)
		}
	}
	for _, want := range []string{"https_proxy: set it in the spec of Proxy cluster", "ROLE: make the Secrets", "COLOUR: nothing"} {
		assert.Contains(t, found[0].Do, want)
	}
	in.subscriptions[0].Spec.Config = &v1alpha1.SubscriptionConfig{}
	assert.Empty(t, in.checkConfiguration(in.operator()), "checks of an empty configuration")
}
