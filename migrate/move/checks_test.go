package move

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
)

// boats is the API of the operator.
const boats = "boats.example.com"

// healthy is an operator that can be moved to OLM v1.
func healthy() *input {
	v := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "boat.v1.0.0", UID: "v-1"}}
	v.Spec.Version = version.OperatorVersion{Version: semver.MustParse("1.0.0")}
	v.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: boats, Kind: "Boat", Version: "v1"}}
	v.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "boat"}}
	v.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "boat"}}
	v.Status.Phase, v.Status.Reason = v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful
	s := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "boats", UID: "s-1"},
		Spec: &v1alpha1.SubscriptionSpec{Package: "boat", Channel: "stable", CatalogSource: "quay", CatalogSourceNamespace: "olm"}}
	s.Status.InstalledCSV, s.Status.CurrentCSV, s.Status.State = v.Name, v.Name, v1alpha1.SubscriptionStateAtLatest
	p := v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "install-1", UID: "p-1", OwnerReferences: []metav1.OwnerReference{{Kind: "Subscription", UID: "s-1"}}}}
	p.Spec.ClusterServiceVersionNames, p.Status.Phase = []string{v.Name}, v1alpha1.InstallPlanPhaseComplete
	group := operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "all"}, Status: operatorsv1.OperatorGroupStatus{Namespaces: []string{""}}}
	in := &input{
		request: Request{Package: "boat", Gates: featuregates.Set{}}, served: true, setsServed: true, sourced: true, namespaceUID: "n-1", own: s,
		versions: []v1alpha1.ClusterServiceVersion{v}, installPlans: []v1alpha1.InstallPlan{p}, groups: []operatorsv1.OperatorGroup{group},
		bundle: &refusal.Bundle{Name: v.Name, CSV: &v}, known: true, channel: "stable", channels: []string{"stable", "fast"},
		present: []present{
			exists("apiextensions.k8s.io", "CustomResourceDefinition", "", boats), exists("", "ServiceAccount", "harbour", "boat"), exists("apps", "Deployment", "harbour", "boat"),
		},
		generated: []Object{{Group: rbac, Version: "v1", Kind: "ClusterRole", Name: "boat.v1.0.0-abc", UID: "r-1"}},
		now:       &prediction.Prediction{Reaction: prediction.Installs, Next: &prediction.Update{Name: v.Name}},
		then:      &prediction.Prediction{Reaction: prediction.Latest},
	}
	in.present[0].Labels = map[string]string{componentLabel("boat", "harbour"): ""}
	in.present[2].OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterServiceVersion", Name: v.Name, UID: "v-1"}}
	return in
}

func exists(group, kind, namespace, name string) present {
	o := Object{Group: group, Version: "v1", Kind: kind, Namespace: namespace, Name: name, UID: types.UID("u-" + kind)}
	live := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: o.UID}}
	live.SetGroupVersionKind(o.kind())
	return present{Object: o, PartialObjectMetadata: live}
}

func other(namespace, name, pkg, installed string) v1alpha1.Subscription {
	s := v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("s-" + namespace + name)}, Spec: &v1alpha1.SubscriptionSpec{Package: pkg}}
	s.Status.InstalledCSV = installed
	return s
}

// TestChecks: the checks that refuse to move an operator, and the warnings for an administrator.
func TestChecks(t *testing.T) {
	dependent := func(change func(*v1alpha1.ClusterServiceVersion)) func(*input) {
		return func(in *input) {
			v := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "port.v1.0.0", UID: "v-2"}}
			change(&v)
			in.versions, in.packages = append(in.versions, v), map[string]string{"boat.v1.0.0": "boat", "port.v1.0.0": "port"}
		}
	}
	requires := func(properties string) func(*v1alpha1.ClusterServiceVersion) {
		return func(v *v1alpha1.ClusterServiceVersion) {
			v.Annotations = map[string]string{propertiesAnnotation: `{"properties":[` + properties + `]}`}
		}
	}
	const (
		requiredAPI     = `{"type":"olm.gvk.required","value":{"group":"example.com","kind":"Boat","version":"v1"}}`
		requiredPackage = `{"type":"olm.package.required","value":{"packageName":"boat","versionRange":">0"}}`
		compound        = `{"type":"olm.constraint","value":{"failureMessage":"no","all":{"constraints":[{"failureMessage":"no","any":{"constraints":[{"failureMessage":"no","package":{"packageName":"boat","versionRange":">0"}}]}}]}}}`
		excluded        = `{"type":"olm.constraint","value":{"failureMessage":"no","not":{"constraints":[{"failureMessage":"no","package":{"packageName":"boat","versionRange":">0"}}]}}}`
	)
	permit := func(groups, resources []string) func(*input) {
		return func(in *input) {
			in.versions[0].Spec.InstallStrategy.StrategySpec.ClusterPermissions[0].Rules = []rbacv1.PolicyRule{{APIGroups: groups, Resources: resources}}
		}
	}
	told := func(status metav1.ConditionStatus) func(*input) {
		return func(in *input) {
			in.condition = &operatorsv1.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "boat.v1.0.0"}}
			in.condition.Status.Conditions = []metav1.Condition{{Type: operatorsv1.Upgradeable, Status: status, Message: "at sea"}}
		}
	}
	watches := func(namespaces ...string) func(*input) {
		return func(in *input) { in.groups[0].Status.Namespaces = namespaces }
	}
	owned := func(owner metav1.OwnerReference) func(*input) {
		return func(in *input) { in.present[2].OwnerReferences = []metav1.OwnerReference{owner} }
	}
	resources := func(in *input) {
		in.own.Spec.Config = &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "DEPTH", Value: "3"}}}
	}
	for _, tc := range []struct {
		name    string
		change  func(*input)
		code    string
		verdict findings.Verdict
		what    string // a fragment of it
	}{
		{"no OLM v1", func(in *input) { in.served, in.now, in.then = false, nil, nil }, olmV1, findings.Refused, "no OLM v1"},
		{"a ClusterExtension of the name", func(in *input) { in.extensions = []*unstructured.Unstructured{newExtension("boat")} }, extensionExists, findings.Refused, "ClusterExtension boat"},
		{"a ClusterExtension of the package", func(in *input) {
			e := newExtension("ship")
			e.Object["spec"] = map[string]any{"source": map[string]any{"catalog": map[string]any{"packageName": "boat"}}}
			in.extensions = []*unstructured.Unstructured{e}
		}, extensionExists, findings.Refused, "ClusterExtension ship"},
		{"Boxcutter without its types", func(in *input) {
			in.setsServed, in.request.Gates = false, featuregates.Set{featuregates.Boxcutter: true}
		}, objectSets, findings.Refused, "ClusterObjectSets"},
		{"Helm without Boxcutter's types", func(in *input) { in.setsServed = false }, extensionExists, findings.OK, ""},
		{"no CatalogSource", func(in *input) { in.sourced = false }, catalogSource, findings.Refused, "olm/quay"},
		{"no CatalogSource, accepted", func(in *input) { in.sourced, in.request.Accepted = false, []string{catalogSource} }, catalogSource, findings.Warning, "olm/quay"},
		{"a channel that OLM v1 does not find", func(in *input) { in.channels = []string{"fast", "slow", "fast"} }, channelAbsent, findings.Refused, `channel "stable"`},
		{"two Subscriptions", func(in *input) { in.twins = []v1alpha1.Subscription{other("harbour", "boats-2", "boat", "")} }, subscriptions, findings.Refused, "harbour/boats-2"},
		{"an installation in another namespace", func(in *input) {
			in.twins = []v1alpha1.Subscription{other("quay", "boats", "boat", "boat.v1.0.0")}
		}, subscriptions, findings.Refused, "quay/boats"},
		{"a Subscription of a tenant that installs nothing", func(in *input) { in.twins = []v1alpha1.Subscription{other("quay", "boats", "boat", "")} },
			subscriptions, findings.OK, ""},
		{"a Subscription that OLM v0 made for a dependency", func(in *input) { in.own.Annotations = map[string]string{generatedAnnotation: "install-7"} },
			generatedBy, findings.Refused, "install-7"},
		{"nothing installed", func(in *input) { in.own.Status.InstalledCSV = "" }, installedVersion, findings.Refused, "installed nothing"},
		{"a Subscription that is being deleted", func(in *input) { terminate(in.own) }, installedVersion, findings.Refused, "being deleted, and has the finalizers example.com/finalizer"},
		{"a missing version", func(in *input) { in.versions = nil }, installedVersion, findings.Refused, "does not exist"},
		{"a version that is being deleted", func(in *input) { in.versions[0].DeletionTimestamp = &metav1.Time{} }, installedVersion, findings.Refused, "being deleted"},
		{"a version that is not installed completely", func(in *input) { in.versions[0].Status.Reason = v1alpha1.CSVReasonWaiting }, installedVersion, findings.Refused, "InstallWaiting"},
		{"a failed version", func(in *input) { in.versions[0].Status.Phase = v1alpha1.CSVPhaseFailed }, installedVersion, findings.Refused, "Failed"},
		{"an InstallPlan that is carried out", func(in *input) { in.installPlans[0].Status.Phase = v1alpha1.InstallPlanPhaseInstalling }, pendingUpdate, findings.Refused, "under way"},
		{"half an update", func(in *input) {
			next := in.versions[0]
			next.Name, next.UID, next.Spec.Replaces = "boat.v1.1.0", "v-3", "boat.v1.0.0"
			in.versions = append(in.versions, next)
		}, pendingUpdate, findings.Refused, "boat.v1.1.0"},
		{"an update that comes", func(in *input) { in.own.Status.State = v1alpha1.SubscriptionStateUpgradePending }, pendingUpdate, findings.Refused, "about to update"},
		{"an update that nobody has approved", func(in *input) {
			in.own.Status.State, in.own.Spec.InstallPlanApproval = v1alpha1.SubscriptionStateUpgradePending, v1alpha1.ApprovalManual
		}, pendingUpdate, findings.Warning, "the move drops it"},
		{"an update that may come", func(in *input) { in.own.Status.State = v1alpha1.SubscriptionStateUpgradeAvailable }, pendingUpdate, findings.Refused, "may begin"},
		{"an update that nobody has asked for yet", func(in *input) {
			in.own.Status.State, in.own.Spec.InstallPlanApproval = v1alpha1.SubscriptionStateUpgradeAvailable, v1alpha1.ApprovalManual
		}, pendingUpdate, findings.OK, ""},
		{"the earlier version is still there", func(in *input) {
			in.versions[0].Spec.Replaces = "boat.v0.9.0"
			in.versions = append(in.versions, v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "boat.v0.9.0", UID: "v-0"}})
		}, pendingUpdate, findings.Refused, "boat.v0.9.0, which boat.v1.0.0 replaces, is still there"},
		{"an unhealthy Subscription", func(in *input) { in.own.Status.State = v1alpha1.SubscriptionStateFailed }, pendingUpdate, findings.Refused, "UpgradeFailed"},
		{"no OperatorGroup", func(in *input) { in.groups = nil }, operatorGroup, findings.Refused, "0 OperatorGroups"},
		{"one namespace, without the gate", watches("harbour"), operatorGroup, findings.Refused, "SingleOwnNamespaceInstallSupport"},
		{"one namespace, with the gate", func(in *input) {
			watches("harbour")(in)
			in.request.Gates = featuregates.Set{featuregates.SingleOwnNamespace: true}
		}, operatorGroup, findings.OK, "watchNamespace"},
		{"two namespaces", watches("harbour", "quay"), operatorGroup, findings.Refused, "2 namespaces"},
		{"namespaces by labels", func(in *input) {
			in.groups[0].Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"sea": "north"}}
		}, operatorGroup, findings.Refused, "by labels"},
		{"a selector of all namespaces", func(in *input) { in.groups[0].Spec.Selector = &metav1.LabelSelector{} }, operatorGroup, findings.OK, "all namespaces"},
		{"namespaces that OLM v0 has not noticed", func(in *input) { in.groups[0].Spec.TargetNamespaces = []string{"harbour"} }, operatorGroup, findings.Refused, "its status names"},
		{"fewer permissions", func(in *input) { in.groups[0].Spec.ServiceAccountName = "mate" }, scopedAccount, findings.Refused, "mate"},
		{"fewer permissions, accepted", func(in *input) {
			in.groups[0].Spec.ServiceAccountName, in.request.Accepted = "mate", []string{scopedAccount}
		}, scopedAccount, findings.Warning, "mate"},
		{"a strategy of updates", func(in *input) { in.groups[0].Spec.UpgradeStrategy = operatorsv1.UpgradeStrategyUnsafeFailForward }, operatorGroup, findings.Warning, "upgradeStrategy"},
		{"another operator needs the API", dependent(func(v *v1alpha1.ClusterServiceVersion) {
			v.Spec.CustomResourceDefinitions.Required = []v1alpha1.CRDDescription{{Name: boats}}
		}), dependents, findings.Refused, "port.v1.0.0 needs API boats.example.com"},
		{"another operator needs the API by its bundle", dependent(requires(requiredAPI)), dependents, findings.Refused, "port.v1.0.0 needs API boats.example.com"},
		{"another operator needs the package", dependent(requires(requiredPackage)), dependents, findings.Refused, "port.v1.0.0 needs package boat"},
		{"another operator needs the package among others", dependent(requires(compound)), dependents, findings.Refused, "port.v1.0.0 needs package boat"},
		{"another operator excludes the package", dependent(requires(excluded)), dependents, findings.OK, ""},
		{"another operator needs the package and moves in the same run", func(in *input) {
			dependent(requires(requiredPackage))(in)
			in.request.With = []string{"boat", "port"}
		}, dependents, findings.OK, "port needs this operator, and moves first"},
		{"an operator without a Subscription needs the package", func(in *input) {
			dependent(requires(requiredPackage))(in)
			in.request.With, in.packages = []string{"boat", "port", ""}, nil
		}, dependents, findings.Refused, "port.v1.0.0 needs package boat"},
		{"the operator needs another one", func(in *input) {
			dependent(func(*v1alpha1.ClusterServiceVersion) {})(in)
			in.versions[0].Annotations = map[string]string{propertiesAnnotation: `{"properties":[{"type":"olm.package.required","value":{"packageName":"port"}}]}`}
		}, needed, findings.Warning, "needs port"},
		{"nobody can say what the operator needs", func(in *input) {
			in.versions[0].Annotations = map[string]string{propertiesAnnotation: "none"}
		}, needed, findings.Refused, "harbour/boat.v1.0.0"},
		{"another operator needs nothing", dependent(func(*v1alpha1.ClusterServiceVersion) {}), dependents, findings.OK, ""},
		{"settings of the Deployment", resources, subscriptionConf, findings.Refused, "spec.config"},
		{"settings of the Deployment, with the gate", func(in *input) {
			resources(in)
			in.request.Gates = featuregates.Set{featuregates.DeploymentConfig: true}
		}, subscriptionConf, findings.OK, "gets what"},
		{"a selector, which never had an effect", func(in *input) {
			in.own.Spec.Config = &v1alpha1.SubscriptionConfig{Selector: &metav1.LabelSelector{}}
		}, subscriptionConf, findings.OK, "sets nothing"},
		{"the operator wants no update", told(metav1.ConditionFalse), conditions, findings.Refused, "at sea"},
		{"the operator allows updates", told(metav1.ConditionTrue), conditions, findings.Warning, "no effect any more"},
		{"OLM v0's objects", permit([]string{"operators.coreos.com"}, []string{"subscriptions"}), olmV0APIs, findings.Refused, "subscriptions"},
		{"OLM v0's objects and OLM v1's", permit([]string{"operators.coreos.com", "olm.operatorframework.io"}, []string{"subscriptions"}), olmV0APIs, findings.OK, ""},
		{"OperatorConditions, as every operator", permit([]string{"operators.coreos.com"}, []string{"operatorconditions"}), olmV0APIs, findings.OK, ""},
		{"a conversion webhook", func(in *input) {
			in.versions[0].Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{{Type: v1alpha1.ConversionWebhook, GenerateName: "convert", ConversionCRDs: []string{boats}}}
		}, conversion, findings.Refused, boats},
		{"a webhook", func(in *input) {
			in.versions[0].Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{{Type: v1alpha1.ValidatingAdmissionWebhook}}
		}, webhooks, findings.Warning, "1 webhooks"},
		{"no InstallPlan and no manifests", func(in *input) { in.known = false }, unknownObjects, findings.Refused, "neither an InstallPlan"},
		{"another version owns an object", owned(metav1.OwnerReference{Kind: "ClusterServiceVersion", Name: "ship.v1", UID: "v-9"}), foreignObjects, findings.Refused, "ship.v1"},
		{"the earlier version has just gone", func(in *input) {
			in.versions[0].Spec.Replaces = "boat.v0.9.0"
			in.present[2].OwnerReferences = append(in.present[2].OwnerReferences, metav1.OwnerReference{Kind: "ClusterServiceVersion", Name: "boat.v0.9.0", UID: "v-0"})
		}, foreignObjects, findings.Refused, "boat.v0.9.0, which boat.v1.0.0 has replaced, owns it, too"},
		{"objects that nobody can read", func(in *input) { in.existing = []prediction.Reason{{What: "no webhook answers"}} }, existingObjects, findings.Refused, "could install the operator again: no webhook answers"},
		{"nobody needs to read them", func(in *input) {
			in.existing, in.request.Accepted = []prediction.Reason{{What: "no webhook answers"}}, []string{existingObjects}
		}, existingObjects, findings.Warning, "no webhook answers"},
		{"something controls an object", owned(metav1.OwnerReference{Kind: "Fleet", Name: "north", UID: "f-1", Controller: new(true)}), foreignObjects, findings.Refused, "Fleet north"},
		{"OLM v1 owns an object", owned(metav1.OwnerReference{APIVersion: "olm.operatorframework.io/v1", Kind: "ClusterExtension", Name: "ship", UID: "e-1"}), foreignObjects, findings.Refused, "ClusterExtension ship"},
		{"Helm has installed an object", func(in *input) { in.present[1].Annotations = map[string]string{helmNameAnnotation: "fleet"} }, foreignObjects, findings.Refused, "fleet"},
		{"an object that OLM v0 has not brought", func(in *input) {
			in.present = append(in.present, exists("", "ConfigMap", "harbour", "chart"))
		}, foreignObjects, findings.Refused, "OLM v0 has not installed it"},
		{"an object that an InstallPlan has created", func(in *input) {
			chart := exists("", "ConfigMap", "harbour", "chart")
			chart.stepped = true
			in.present = append(in.present, chart)
		}, foreignObjects, findings.OK, "4 objects"},
		{"another content of the version", func(in *input) {
			csv := in.versions[0].DeepCopy()
			csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec = appsv1.DeploymentSpec{Replicas: new(int32(2))}
			in.offered = &refusal.Bundle{CSV: csv}
		}, differentContent, findings.Refused, "differ"},
		{"a property of its own", func(in *input) {
			in.properties = []property.Property{property.MustBuildPackage("boat", "1.0.0"), {Type: "olm.maxOpenShiftVersion", Value: []byte(`"5.0"`)}}
		}, operatorPods, findings.Warning, "metadata/properties.yaml: olm.maxOpenShiftVersion"},
		{"no catalog has the version", func(in *input) {
			in.now = &prediction.Prediction{Reaction: prediction.Refused, Why: []prediction.Reason{{Code: prediction.NoBundle, What: "no bundle"}}}
		}, string(prediction.NoBundle), findings.Refused, "no bundle"},
		{"a dependency", func(in *input) {
			in.now = &prediction.Prediction{Reaction: prediction.Refused, Why: []prediction.Reason{{Code: prediction.Code(refusal.Dependency), What: "a dependency", Do: "leave it"}}}
		}, string(refusal.Dependency), findings.Refused, "a dependency"},
		{"another bundle of the version", func(in *input) { in.now.Next.Name = "boat-v1" }, exactVersion, findings.Refused, "boat-v1"},
		{"a later version comes", func(in *input) {
			in.then = &prediction.Prediction{Reaction: prediction.Updates, Next: &prediction.Update{Name: "boat.v1.1.0"}}
		}, laterVersions, findings.Warning, "boat.v1.1.0"},
		{"a later version comes, with manual approval", func(in *input) {
			in.then = &prediction.Prediction{Reaction: prediction.Updates, Next: &prediction.Update{Name: "boat.v1.1.0"}}
			in.own.Spec.InstallPlanApproval = v1alpha1.ApprovalManual
		}, laterVersions, findings.OK, "stays at 1.0.0"},
		{"OLM v1 does not go on", func(in *input) {
			in.then = &prediction.Prediction{Reaction: prediction.Stranded, Why: []prediction.Reason{{Code: prediction.NoEdge, What: "no edge", Do: "add one"}}}
		}, laterVersions, findings.Warning, "no edge"},
		{"the API server refuses the ClusterExtension", func(in *input) { in.refusedBy = errors.New("spec.serviceAccount: Required value") }, extensionRefused, findings.Refused, "Required value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := healthy()
			tc.change(in)
			p := in.plan()
			at := slices.IndexFunc(p.Checks, func(c findings.Check) bool {
				return c.Code == tc.code && c.Verdict == tc.verdict && strings.Contains(c.What, tc.what)
			})
			if at < 0 {
				t.Fatalf("got %+v, want %s %s with %q", p.Checks, tc.code, tc.verdict, tc.what)
			}
			for i, c := range p.Checks {
				if i != at && c.Verdict == findings.Refused && tc.verdict != findings.Refused {
					t.Errorf("check %+v refuses it, too", c)
				}
				if c.Verdict != findings.OK && c.Do == "" {
					t.Errorf("check %+v says nothing to do", c)
				}
			}
			assert.Equalf(t, tc.verdict != findings.Refused, len(p.Objects) > 0, "the plan has objects that change, and the verdict is %s", tc.verdict)
		})
	}
}

// encoded is a plan as a journal holds it.
func encoded(p *Plan) string {
	p.Schema, p.Safe = Move.Schema, true
	p.Steps = []migrate.Step{{Name: migrate.RecordPlan}}
	for _, s := range p.ListSteps() {
		p.Steps = append(p.Steps, migrate.Step{Name: s.Name, NoReturn: s.NoReturn})
	}
	p.Steps = append(p.Steps, migrate.Step{Name: migrate.Complete})
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// TestPlanOfHealthy: the plan of an operator that can be moved is valid, and survives its journal unchanged.
func TestPlanOfHealthy(t *testing.T) {
	in := healthy()
	p := in.plan()
	require.Truef(t, p.Checks.Safe(), "checks %+v, want none that refuses", p.Checks)
	read, err := Move.Read(strings.NewReader(encoded(p)))
	require.NoError(t, err)
	assert.Empty(t, changes(p, read), "it was read with changes")
	if text := p.Text(findings.Plain); !strings.Contains(text, "from  OLM v0: Subscription harbour/boats") || !strings.Contains(text, "keeps 1 CustomResourceDefinition, 1 Deployment, 1 ServiceAccount") {
		t.Errorf("its text is\n%s", text)
	}
}

// TestValidate: no journal can name anything that a move does not change.
func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"another target":              {func(p *Plan) { p.To = "olm-v2" }, "want olm-v1 or olm-v0"},
		"another subject":             {func(p *Plan) { p.Subject.Name = "ship" }, "want the package's name"},
		"a Namespace":                 {func(p *Plan) { p.TakenOver[0].Group, p.TakenOver[0].Kind = "", "Namespace" }, "changes no such objects"},
		"an object elsewhere":         {func(p *Plan) { p.TakenOver[1].Namespace = "kube-system" }, "want it in namespace harbour"},
		"a replaced Deployment":       {func(p *Plan) { p.Replaced = p.TakenOver[2:] }, "changes no such objects"},
		"a replaced role elsewhere":   {func(p *Plan) { p.Replaced[0].Kind, p.Replaced[0].Namespace = "Role", "kube-system" }, "want it in namespace harbour"},
		"an object without a UID":     {func(p *Plan) { p.TakenOver[0].UID = "" }, "uid is missing"},
		"a check that cannot be":      {func(p *Plan) { p.Accepted = []string{foreignObjects} }, "accepted has"},
		"a Subscription of another":   {func(p *Plan) { p.Subscription.Spec.Package = "ship" }, "the package"},
		"a need that is no package":   {func(p *Plan) { p.Needs = []string{"$(boat)"} }, "needs is"},
		"a version that is no number": {func(p *Plan) { p.Version.Number = "one" }, "semantic version"},
	} {
		t.Run(name, func(t *testing.T) {
			p := healthy().plan()
			require.NoError(t, p.Validate())
			tc.change(p)
			assert.ErrorContains(t, p.Validate(), tc.want)
		})
	}
}

// TestOrder: operators move in the order of their dependencies, or not at all.
func TestOrder(t *testing.T) {
	of := func(needs ...string) *Plan { return &Plan{Package: needs[0], Namespace: "harbour", Needs: needs[1:]} }
	elsewhere := of("boat")
	elsewhere.Namespace = "quay"
	for name, tc := range map[string]struct {
		plans            []*Plan
		toV1, toV0, fail string
	}{
		"independent":                {plans: []*Plan{of("port"), of("boat")}, toV1: "port boat", toV0: "port boat"},
		"one needs the other":        {plans: []*Plan{of("boat"), of("port", "boat")}, toV1: "port boat", toV0: "boat port"},
		"one after the other":        {plans: []*Plan{of("port", "boat"), of("boat", "rope"), of("rope")}, toV1: "port boat rope", toV0: "rope boat port"},
		"two need the same":          {plans: []*Plan{of("rope"), of("port", "rope"), of("boat", "rope")}, toV1: "port boat rope", toV0: "rope port boat"},
		"a need that does not move":  {plans: []*Plan{of("boat", "rope"), of("port")}, toV1: "boat port", toV0: "boat port"},
		"a namesake elsewhere":       {plans: []*Plan{elsewhere, of("port", "boat")}, toV1: "boat port", toV0: "boat port"},
		"one twice":                  {plans: []*Plan{of("boat", "rope"), of("boat", "rope")}, toV1: "boat boat", toV0: "boat boat"},
		"each other":                 {plans: []*Plan{of("port"), of("rope", "boat"), of("boat", "rope")}, fail: "boat, rope need each other"},
		"each other, through others": {plans: []*Plan{of("port", "rope"), of("rope", "boat"), of("boat", "sail"), of("sail", "rope")}, fail: "boat, rope, sail need each other"},
	} {
		for to, want := range map[Target]string{ToV1: tc.toV1, ToV0: tc.toV0} {
			for _, p := range tc.plans {
				p.To = to
			}
			ordered, err := Order(tc.plans)
			if tc.fail != "" {
				assert.ErrorContainsf(t, err, tc.fail, "%s, to %s: got error", name, to)
				continue
			}
			var got []string
			for _, p := range ordered {
				got = append(got, p.Package)
			}
			require.NoErrorf(t, err, "%s, to %s", name, to)
			assert.Equalf(t, want, strings.Join(got, " "), "%s, to %s", name, to)
		}
	}
}

// TestExtension: the fields of the ClusterExtension at first and in the end.
func TestExtension(t *testing.T) {
	in := healthy()
	in.request.Catalog, in.request.ServiceAccount = "quay", "installer"
	in.request.Gates = featuregates.Set{featuregates.SingleOwnNamespace: true, featuregates.DeploymentConfig: true}
	in.groups[0].Status.Namespaces = []string{"harbour"}
	in.own.Spec.Config = &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "DEPTH", Value: "3"}}}
	p := in.plan()
	e := p.extension()
	got, err := json.Marshal(e.Object["spec"])
	require.NoError(t, err)
	const want = `{"config":{"configType":"Inline","inline":{"deploymentConfig":{"env":[{"name":"DEPTH","value":"3"}]},"watchNamespace":"harbour"}},"namespace":"harbour",` +
		`"serviceAccount":{"name":"installer"},"source":{"catalog":{"packageName":"boat","selector":{"matchLabels":{"olm.operatorframework.io/metadata.name":"quay"}},"version":"1.0.0"},"sourceType":"Catalog"}}`
	assert.Equal(t, want, string(got))
	then, err := json.Marshal(p.loosened(catalogOf(e)))
	require.NoError(t, err)
	assert.Equal(t, `{"channels":["stable"],"packageName":"boat","selector":{"matchLabels":{"olm.operatorframework.io/metadata.name":"quay"}}}`, string(then))
	p.Extension.Pinned = true
	assert.Equal(t, "1.0.0", p.loosened(catalogOf(e))["version"], "with manual approval, it stays")
}
