package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

// subscribed is a Subscription that has installed version 1, changed by edit.
func subscribed(edit func(*v1alpha1.Subscription)) *v1alpha1.Subscription {
	s := &v1alpha1.Subscription{ObjectMeta: named("sub"), Spec: &v1alpha1.SubscriptionSpec{
		Package: "pkg", Channel: "stable", CatalogSource: "source", CatalogSourceNamespace: "market",
	}}
	s.Status.InstalledCSV, s.Status.CurrentCSV, s.Status.State = "pkg.v1", "pkg.v1", v1alpha1.SubscriptionStateAtLatest
	edit(s)
	return s
}

// upgrading makes a Subscription wait for version 2.
func upgrading(s *v1alpha1.Subscription) {
	s.Status.State, s.Status.CurrentCSV, s.Status.InstallPlanRef = v1alpha1.SubscriptionStateUpgradePending, "pkg.v2", &corev1.ObjectReference{Name: "install-1"}
}

func conditions(types ...operatorv1.OperatorCondition) *operatorv1.ClusterCSIDriver {
	custom := &operatorv1.ClusterCSIDriver{}
	custom.Spec.ManagementState, custom.Status.Conditions = operatorv1.Managed, types
	return custom
}

func is(kind string, status operatorv1.ConditionStatus, reason string) operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{Type: kind, Status: status, Reason: reason, Message: "because"}
}

func request(status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "cco", "name": "efs"}, "status": status}}
}

func class(name, isDefault string) storagev1.StorageClass {
	return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{defaultClassAnnotations[0]: isDefault}}}
}

// TestJudgements: objects, and the results about them.
func TestJudgements(t *testing.T) {
	one := func(r findings.Check) []findings.Check { return []findings.Check{r} }
	csv := func(phase v1alpha1.ClusterServiceVersionPhase) []findings.Check {
		return one(judgeCSV(&v1alpha1.ClusterServiceVersion{ObjectMeta: named("pkg.v1"), Status: v1alpha1.ClusterServiceVersionStatus{Phase: phase, Reason: "Why", Message: "it is so"}}))
	}
	source := func(state string) *v1alpha1.CatalogSource {
		return &v1alpha1.CatalogSource{ObjectMeta: named("source"), Status: v1alpha1.CatalogSourceStatus{GRPCConnectionState: &v1alpha1.GRPCConnectionState{LastObservedState: state}}}
	}
	group := func(namespaces ...string) operatorsv1.OperatorGroup {
		return operatorsv1.OperatorGroup{ObjectMeta: named("group"), Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: namespaces}}
	}
	olm := func(name string, kind configv1.ClusterStatusConditionType, status configv1.ConditionStatus) []configv1.ClusterOperator {
		return []configv1.ClusterOperator{{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: configv1.ClusterOperatorStatus{
			Conditions: []configv1.ClusterOperatorStatusCondition{{Type: kind, Status: status, Reason: "Why"}}}}}
	}
	condition := func(kind v1alpha1.SubscriptionConditionType, status corev1.ConditionStatus) func(*v1alpha1.Subscription) {
		return func(s *v1alpha1.Subscription) {
			s.Status.Conditions = []v1alpha1.SubscriptionCondition{{Type: kind, Status: status, Reason: "Why", Message: "it is so"}}
		}
	}
	lockKey := client.ObjectKey{Namespace: "ns", Name: "lock"}
	holder := func(ready corev1.ConditionStatus, deleted bool) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: named("op-1"), Spec: corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
		if deleted {
			pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		return pod
	}
	generations := func(now, observed int64) *operatorv1.ClusterCSIDriver {
		custom := conditions(is("Available", "True", ""))
		custom.Generation, custom.Status.ObservedGeneration = now, observed
		return custom
	}
	set := workload{kind: "DaemonSet", namespace: "ns", name: "node", available: 3, updated: 3, want: 3, observed: true}
	with := func(edit func(*workload)) workload { w := set; edit(&w); return w }
	for name, test := range map[string]struct {
		got  []findings.Check
		want string // code and verdict of each
		says string // is part of the text
	}{
		"OLM":                             {judgeOLM(nil), "olm ok", ""},
		"OLM available":                   {judgeOLM(olm("operator-lifecycle-manager", configv1.OperatorAvailable, configv1.ConditionTrue)), "olm ok", ""},
		"OLM unavailable":                 {judgeOLM(olm("operator-lifecycle-manager-catalog", configv1.OperatorAvailable, configv1.ConditionFalse)), "olm-unhealthy fault", "Why"},
		"OLM degraded":                    {judgeOLM(olm("operator-lifecycle-manager", configv1.OperatorDegraded, configv1.ConditionTrue)), "olm-unhealthy fault", ""},
		"another operator degraded":       {judgeOLM(olm("dns", configv1.OperatorDegraded, configv1.ConditionTrue)), "olm ok", ""},
		"no catalog":                      {one(judgeSource(subscribed(func(*v1alpha1.Subscription) {}), nil)), "catalog-missing fault", "market/source"},
		"catalog connecting":              {one(judgeSource(subscribed(func(*v1alpha1.Subscription) {}), source("CONNECTING"))), "catalog-unreachable fault", "CONNECTING"},
		"catalog idle":                    {one(judgeSource(subscribed(func(*v1alpha1.Subscription) {}), source("IDLE"))), "catalog ok", ""},
		"no OperatorGroup":                {one(judgeGroups("ns", nil)), "operatorgroup-count fault", "has 0 OperatorGroups"},
		"two OperatorGroups":              {one(judgeGroups("ns", []operatorsv1.OperatorGroup{group(), group()})), "operatorgroup-count fault", "group, group"},
		"OperatorGroup for one namespace": {one(judgeGroups("ns", []operatorsv1.OperatorGroup{group("ns")})), "operatorgroup-scope fault", ""},
		"OperatorGroup for all":           {one(judgeGroups("ns", []operatorsv1.OperatorGroup{group()})), "operatorgroup ok", ""},
		"installed":                       {judgeSubscription(subscribed(func(*v1alpha1.Subscription) {})), "subscription ok", "pkg.v1"},
		"nothing installed":               {judgeSubscription(subscribed(func(s *v1alpha1.Subscription) { s.Status = v1alpha1.SubscriptionStatus{} })), "nothing-installed fault", `channel "stable"`},
		"resolution failed":               {judgeSubscription(subscribed(condition(v1alpha1.SubscriptionResolutionFailed, corev1.ConditionTrue))), "subscription-unhealthy fault", "it is so"},
		"resolution no longer fails":      {judgeSubscription(subscribed(condition(v1alpha1.SubscriptionResolutionFailed, corev1.ConditionFalse))), "subscription ok", ""},
		"deprecated":                      {judgeSubscription(subscribed(condition(v1alpha1.SubscriptionDeprecated, corev1.ConditionTrue))), "subscription ok", ""},
		"updating":                        {judgeSubscription(subscribed(upgrading)), "update-pending warning", "from pkg.v1 to pkg.v2"},
		"update waits for approval":       {judgeSubscription(subscribed(func(s *v1alpha1.Subscription) { upgrading(s); s.Spec.InstallPlanApproval = v1alpha1.ApprovalManual })), "approval-pending warning", "install-1"},
		"installation waits for approval": {judgeSubscription(subscribed(func(s *v1alpha1.Subscription) {
			upgrading(s)
			s.Status.InstalledCSV = ""
			s.Spec.InstallPlanApproval = v1alpha1.ApprovalManual
		})), "approval-pending fault", ""},
		"version succeeded":                  {csv(v1alpha1.CSVPhaseSucceeded), "csv ok", ""},
		"version failed":                     {csv(v1alpha1.CSVPhaseFailed), "csv-failed fault", "Why: it is so"},
		"version installing":                 {csv(v1alpha1.CSVPhaseInstalling), "csv-unfinished warning", "Installing"},
		"no ClusterCSIDriver":                {judgeCustomResource("x", nil, false), "clustercsidriver-missing fault", ""},
		"no conditions":                      {judgeCustomResource("x", conditions(), false), "no-conditions fault", ""},
		"conditions as they should be":       {judgeCustomResource("x", conditions(is("Available", "True", ""), is("ADegraded", "False", ""), is("AProgressing", "False", ""), is("AUpgradeable", "True", "")), false), "conditions ok", "all 4"},
		"a part and its summary":             {judgeCustomResource("x", conditions(is("Degraded", "True", "Sum"), is("ANamespaceDegraded", "True", "OtherDriver")), false), "condition fault", "ANamespaceDegraded is True: OtherDriver: because"},
		"a summary alone":                    {judgeCustomResource("x", conditions(is("Available", "False", "Sum")), false), "condition fault", "Available is False"},
		"unavailable, and progressing":       {judgeCustomResource("x", conditions(is("AAvailable", "False", ""), is("AProgressing", "True", "")), false), "condition fault, condition warning", ""},
		"unknown":                            {judgeCustomResource("x", conditions(is("AAvailable", "Unknown", "")), false), "condition warning", ""},
		"left out":                           {judgeCustomResource("x", conditions(is("ADriverSettingsApplied", "False", "LeftOut")), false), "condition warning", ""},
		"a controller disabled":              {judgeCustomResource("x", conditions(is("AControllerDisabled", "True", "")), false), "condition warning", ""},
		"a condition of nobody":              {judgeCustomResource("x", conditions(is("AControllerDisabled", "False", "")), false), "conditions ok", ""},
		"credentials refused":                {one(judgeCredentials(request(map[string]any{"provisioned": true, "conditions": []any{map[string]any{"type": "InsufficientCloudCreds", "status": "True", "message": "no"}}}))), "credentials-refused fault", "InsufficientCloudCreds: no"},
		"credentials were refused":           {one(judgeCredentials(request(map[string]any{"provisioned": true, "conditions": []any{map[string]any{"type": "InsufficientCloudCreds", "status": "False"}, "x"}}))), "credentials ok", ""},
		"credentials not provisioned":        {one(judgeCredentials(request(map[string]any{}))), "credentials-not-provisioned warning", ""},
		"pods complete":                      {one(set.judge(nil)), "workload ok", ""},
		"status of an earlier specification": {one(with(func(w *workload) { w.observed = false }).judge(nil)), "rollout warning", ""},
		"outdated pods":                      {one(with(func(w *workload) { w.updated = 1 }).judge(nil)), "rollout warning", "1 up to date"},
		"nodes NotReady":                     {one(with(func(w *workload) { w.available = 2; w.notReady = []string{"n1"} }).judge(nil)), "nodes-not-ready warning", "n1"},
		"pods fail":                          {one(with(func(w *workload) { w.available = 2 }).judge([]string{"container c of pod p: ImagePullBackOff"})), "pods-fail fault", "ImagePullBackOff"},
		"no pods":                            {one(with(func(w *workload) { w.available, w.updated = 0, 0 }).judge(nil)), "pods-missing fault", ""},
		"no nodes":                           {one(with(func(w *workload) { w.available, w.updated, w.want = 0, 0, 0 }).judge(nil)), "no-nodes warning", ""},
		"a Deployment of no replicas":        {one(workload{kind: "Deployment", namespace: "ns", name: "op", observed: true}.judge(nil)), "scaled-to-zero fault", "oc -n ns scale deployment op --replicas=1"},
		"pods refused":                       {one(with(func(w *workload) { w.available, w.updated = 0, 0; w.refused = "a webhook says no" }).judge(nil)), "pods-refused fault", "has 0 of 3 pods available, and 0 up to date; pods cannot be created: a webhook says no"},
		"pods refused by Pod Security": {one(with(func(w *workload) {
			w.available = 0
			w.refused = `pods "node-" is forbidden: violates PodSecurity "baseline:latest"`
		}).judge(nil)), "pods-refused fault", "oc label --overwrite namespace ns pod-security.kubernetes.io/enforce=privileged security.openshift.io/scc.podSecurityLabelSync=false"},
		"a namespace that admits pods":      {judgePodSecurity("ns", map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}), "", ""},
		"a namespace without a label":       {judgePodSecurity("ns", nil), "", ""},
		"a namespace that refuses pods":     {judgePodSecurity("ns", map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}), "pod-security fault", "oc label --overwrite namespace ns pod-security.kubernetes.io/enforce=privileged"},
		"nobody holds the lock":             {one(judgeUnheld(lockKey, "op")), "operator-inactive fault", "no pod holds the lock ns/lock"},
		"an active operator":                {one(judgeHolder(lockKey, holder(corev1.ConditionTrue, false))), "operator-active ok", "ns/op-1"},
		"a lock on a lost node":             {one(judgeHolder(lockKey, holder(corev1.ConditionFalse, false))), "operator-inactive fault", "not Ready on node n1"},
		"a lock of a pod that does not end": {one(judgeHolder(lockKey, holder(corev1.ConditionTrue, true))), "operator-inactive fault", "it is being deleted"},
		"an operator with its permissions":  {one(judgePermissions("u", "x", nil)), "operator-permitted ok", ""},
		"an operator without permissions":   {one(judgePermissions("u", "x", []string{"watch clustercsidrivers", "patch clustercsidrivers/status"})), "operator-forbidden fault", "u may not watch clustercsidrivers, patch clustercsidrivers/status x"},
		"an operator that is gone":          {judgeCustomResource("x", conditions(is("Available", "True", ""), is("ADegraded", "True", "")), true), "conditions-stale warning, condition fault", ""},
		"a change that nobody has seen":     {judgeCustomResource("x", generations(3, 2), false), "generation-unobserved fault", "generation 2 of ClusterCSIDriver x, and it has generation 3"},
		"a change that was seen":            {judgeCustomResource("x", generations(3, 3), false), "conditions ok", ""},
		"an operator that never says":       {judgeCustomResource("x", generations(3, 0), false), "conditions ok", ""},
		"kubelets":                          {one(registrations{want: 2, known: []string{"n1", "n2"}, missing: []string{"control-plane"}}.judge("d")), "registered ok", ""},
		"kubelets that lack the driver":     {one(registrations{want: 2, known: []string{"n2"}, missing: []string{"n1"}, registrar: "csi-driver-registrar"}.judge("d")), "not-registered fault", "their container csi-driver-registrar registers"},
		"kubelets that know no driver":      {one(registrations{want: 2}.judge("d")), "not-registered fault", "of 0 nodes know driver d, want 2\n"},
		"pods that are reported":            {one(registrations{want: 2, reported: []string{"n1", "n2"}}.judge("d")), "registration-not-examined not-examined", "not examined: pods of these nodes are reported, not run: n1, n2"},
		"a pod that is reported":            {one(registrations{want: 2, known: []string{"n1"}, reported: []string{"n2"}}.judge("d")), "registration-not-examined not-examined", "not examined: pods of this node are reported, not run: n2"},
		"a kubelet that lacks it, and a pod that is reported": {
			one(registrations{want: 2, missing: []string{"n1"}, reported: []string{"n2"}}.judge("d")), "not-registered fault", "of 0 nodes know driver d, want 1; nodes without it: n1"},
		"a node that registered although its pods are reported": {
			one(registrations{want: 2, known: []string{"n1"}, missing: []string{"n2"}, reported: []string{"n1"}}.judge("d")), "not-registered fault", "of 1 node know driver d, want 2"},
		"a startup taint":     {judgeTaints("d/agent-not-ready", []string{"n1", "n2"}), "startup-taint warning", "taint d/agent-not-ready, which keeps pods off them: n1, n2"},
		"no startup taint":    {judgeTaints("d/agent-not-ready", nil), "", ""},
		"monitored":           {one(judgeMonitoring("ns", map[string]string{"openshift.io/cluster-monitoring": "true"})), "monitored ok", ""},
		"not monitored":       {one(judgeMonitoring("ns", map[string]string{"openshift.io/cluster-monitoring": "false"})), "not-monitored warning", "including other operators' objects"},
		"no default class":    {one(judgeDefaultClass([]storagev1.StorageClass{class("a", "false")})), "default-class-none ok", ""},
		"a default class":     {one(judgeDefaultClass([]storagev1.StorageClass{class("a", "false"), class("b", "true")})), "default-class ok", "b"},
		"two default classes": {one(judgeDefaultClass([]storagev1.StorageClass{class("a", "true"), class("b", "true")})), "default-class-several warning", "a, b"},
	} {
		t.Run(name, func(t *testing.T) {
			var got, text []string
			for _, r := range test.got {
				got = append(got, fmt.Sprintf("%s %s", r.Code, r.Verdict))
				text = append(text, r.What, r.Do)
				assert.Equalf(t, r.Do == "", r.Verdict == findings.OK, "verdict %s, and to do is %q", r.Verdict, r.Do)
			}
			assert.Equalf(t, test.want, strings.Join(got, ", "), "%+v", test.got)
			assert.Contains(t, strings.Join(text, "\n"), test.says)
		})
	}
}

// TestClassRisks: a class of the driver for which one deletion removes everybody's files is reported.
func TestClassRisks(t *testing.T) {
	d, err := registry.Get("efs")
	require.NoError(t, err)
	bad := class("bad", "")
	bad.Provisioner, bad.Parameters = d.CSIName, map[string]string{"provisioningMode": "efs-ap", "subPathPattern": "/", "ensureUniqueDirectory": "false"}
	other := bad
	other.Provisioner = "ebs.csi.aws.com"
	got := judgeClassRisks(d, []storagev1.StorageClass{other, bad, {ObjectMeta: metav1.ObjectMeta{Name: "fine"}, Provisioner: d.CSIName}})
	if len(got) != 1 || got[0].Verdict != findings.Warning || !strings.Contains(got[0].What, "StorageClass bad: ") {
		t.Errorf("got %+v, want one warning about class bad", got)
	}

	d, err = registry.Get("azurefile")
	require.NoError(t, err)
	migrated := class("migrated", "")
	migrated.Provisioner, migrated.Parameters = d.InTree.Plugin, map[string]string{"shareName": "all"}
	if got := judgeClassRisks(d, []storagev1.StorageClass{migrated}); len(got) != 1 || !strings.Contains(got[0].What, "StorageClass migrated: ") {
		t.Errorf("got %+v, want one warning about class migrated, whose claims the driver serves by CSI migration", got)
	}
}

// TestSharedVolumes: SharedVolumes are counted by fault, the most frequent first, within a limit.
func TestSharedVolumes(t *testing.T) {
	unready := func(name, reason string) sharedVolume {
		var v sharedVolume
		v.Metadata.Namespace, v.Metadata.Name, v.Status.Phase = "team", name, "Failed"
		v.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: "because"}}
		return v
	}
	var ready sharedVolume
	ready.Status.Phase = "Ready"
	var c count
	for _, v := range []sharedVolume{ready, unready("a", "Conflict"), unready("b", "NotGranted"), unready("c", "NotGranted"), {}} {
		require.NoError(t, c.add(v))
	}
	var got []string
	for _, r := range c.judge() {
		got = append(got, r.What)
	}
	want := []string{
		"2 of 5 SharedVolumes are not Ready, with reason NotGranted, such as team/b: because",
		"1 of 5 SharedVolumes is not Ready, with reason Conflict, such as team/a: because",
		"1 of 5 SharedVolumes is not Ready, with reason no status, such as /: the operator has not seen it: does it run?",
	}
	assert.Equal(t, want, got)
	for i := range 100 {
		require.NoError(t, c.add(unready("x", fmt.Sprintf("Reason%d", i))))
	}
	if got := len(c.judge()); got > maxReasons+1 {
		t.Errorf("got %d results, want at most %d", got, maxReasons+1)
	}
	var absent count
	for _, condition := range []metav1.Condition{{Status: metav1.ConditionFalse, Reason: "AccessPointNotFound", Message: "gone"}, {Status: metav1.ConditionTrue, Reason: "Found"}} {
		v := ready
		condition.Type = "FileSystemAvailable"
		v.Metadata.Namespace, v.Metadata.Name, v.Status.Conditions = "team", "mistyped", []metav1.Condition{condition}
		require.NoError(t, absent.add(v))
	}
	if got := absent.judge(); len(got) != 2 || got[0].Verdict != findings.OK || got[1].Code != fileSystemNotAvailable || got[1].Verdict != findings.Warning ||
		got[1].What != "1 of 2 SharedVolumes is Ready, but AWS lacks something, with reason AccessPointNotFound, such as team/mistyped: gone" {
		t.Errorf("with an access point that does not exist: %+v", got)
	}
	var leaving count
	for _, phase := range []sharedvolume.Phase{sharedvolume.Ready, sharedvolume.Deleting} {
		v := unready("a", "ClaimInUse")
		v.Metadata.DeletionTimestamp, v.Status.Phase = "2026-11-30T18:00:28Z", phase
		require.NoError(t, leaving.add(v))
	}
	if got := leaving.judge(); len(got) != 2 || got[0].Verdict != findings.Warning || got[0].What != "1 of 2 SharedVolumes is being deleted, and no operator has reported on that, such as team/a" ||
		!strings.Contains(got[1].What, "with reason ClaimInUse") {
		t.Errorf("with a deletion that no operator has seen: %+v", got)
	}
	var none count
	if got := none.judge(); len(got) != 1 || got[0].Verdict != findings.OK {
		t.Errorf("without SharedVolumes: %+v", got)
	}
}

// TestPlacement: only objects of a driver show where it is. Without any, the decision is where an operator would install it.
func TestPlacement(t *testing.T) {
	csi, custom := &storagev1.CSIDriver{}, &operatorv1.ClusterCSIDriver{}
	decided := placement.Decision{Namespace: "csi-drivers"}
	for name, test := range map[string]struct {
		location location
		want     string
	}{
		"a driver":                  {location{csiDriver: csi, decision: decided}, "the driver is in namespace csi-drivers, as cluster-scoped objects show"},
		"one that is asked for":     {location{custom: custom, decision: decided}, "the driver is in namespace csi-drivers, as cluster-scoped objects show"},
		"one that has been removed": {location{decision: decided}, ""},
	} {
		var got []string
		for _, c := range (&examinedDriver{location: &test.location}).judgePlacement() {
			got = append(got, c.What)
		}
		assert.Equal(t, test.want, strings.Join(got, "\n"), name)
	}
}

// TestRefusedReads: objects that the API server refuses to show are not fine, and a server that does not answer is an error.
func TestRefusedReads(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	result, err := notExamined(fmt.Errorf("listing nodes: %w", forbidden))
	if err != nil || result.Verdict != findings.NotExamined || !strings.Contains(result.Do, "cluster administrator") {
		t.Errorf("got %+v, %v", result, err)
	}
	if result, err := notExamined(os.ErrDeadlineExceeded); err == nil {
		t.Errorf("got %+v, want an error", result)
	}
}

// TestText: each conclusion, and a stranger's text.
func TestText(t *testing.T) {
	report := func(verdicts ...findings.Verdict) *Report {
		var results []findings.Check
		for _, v := range verdicts {
			results = append(results, findings.Check{Verdict: v, What: "evil\x1b[2J\ntext"})
		}
		return &Report{Drivers: []DriverReport{{Driver: "d", Sections: []Section{{Subject: "s", Results: results}}}}}
	}
	for want, r := range map[string]*Report{
		"✔ No driver is installed.":                         {},
		"✔ Everything is as it should be.":                  report(findings.OK),
		"! No fault was found; 2 warnings.":                 report(findings.OK, findings.Warning, findings.Warning),
		"? No fault was found, but not everything":          report(findings.Warning, findings.NotExamined),
		"✗ 1 fault, 2 warnings. Begin with the first fault": report(findings.Warning, findings.Fault, findings.Warning, findings.NotExamined),
	} {
		text := r.Text(func(_ findings.Verdict, mark string) string { return mark })
		assert.Contains(t, text, "\n"+want)
		if strings.Contains(text, "\x1b") || strings.Contains(text, "\ntext") {
			t.Errorf("%q is not escaped", text)
		}
	}
}

// TestHelp: each reason that has help is on the page that lists them.
func TestHelp(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/troubleshooting.md")
	require.NoError(t, err)
	for reason := range help {
		assert.Contains(t, string(page), "`"+reason+"`", "docs/operate/troubleshooting.md")
	}
}

// TestExtensions: an operator that OLM v1 has installed needs no Subscription.
func TestExtensions(t *testing.T) {
	d, err := registry.Get("efs")
	require.NoError(t, err)
	condition := func(of, status, reason string) any {
		return map[string]any{"type": of, "status": status, "reason": reason, "message": "because"}
	}
	installed, succeeded := condition("Installed", "True", "Succeeded"), condition("Progressing", "True", "Succeeded")
	now := metav1.Now()
	for name, test := range map[string]struct {
		bundle     string
		conditions []any
		deleted    *metav1.Time
		subscribed string // the namespace of a Subscription
		want       []string
		says       string
	}{
		"installed":                 {bundle: "aws-efs-operator.v1.0.0", conditions: []any{installed, succeeded}, want: []string{extensionFine}, says: "aws-efs-operator.v1.0.0"},
		"cannot be updated":         {bundle: "aws-efs-operator.v1.0.0", conditions: []any{installed, condition("Progressing", "True", "Retrying")}, want: []string{extensionUnhealthy}, says: "Retrying: because"},
		"nothing installed":         {conditions: []any{condition("Installed", "False", "Failed")}, want: []string{extensionUnhealthy}, says: "Installed=False"},
		"not yet seen by OLM":       {want: []string{extensionUnhealthy}},
		"being deleted":             {bundle: "aws-efs-operator.v1.0.0", conditions: []any{installed, succeeded}, deleted: &now, want: []string{extensionUnhealthy}, says: "their objects"},
		"a Subscription, too":       {bundle: "aws-efs-operator.v1.0.0", conditions: []any{installed, succeeded}, subscribed: "openshift-operators", want: []string{extensionFine, olmTwice}},
		"a stranger's Subscription": {bundle: "aws-efs-operator.v1.0.0", conditions: []any{installed, succeeded}, subscribed: "tenant", want: []string{extensionFine}},
	} {
		e := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": test.conditions, "install": map[string]any{"bundle": map[string]any{"name": test.bundle}}}}}
		e.SetName("aws-efs-operator")
		e.SetDeletionTimestamp(test.deleted)
		f := &location{extensions: []*unstructured.Unstructured{e}, forAll: map[string]bool{"openshift-operators": true}}
		if test.subscribed != "" {
			f.subscriptions = []v1alpha1.Subscription{{ObjectMeta: metav1.ObjectMeta{Namespace: test.subscribed}}}
		}
		var codes []string
		var text strings.Builder
		for _, result := range judgeExtensions(&examinedDriver{driver: d, location: f}) {
			codes = append(codes, result.Code)
			text.WriteString(result.What + " " + result.Do)
		}
		if !slices.Equal(codes, test.want) || !strings.Contains(text.String(), test.says) {
			t.Errorf("%s: got %v, %q; want %v, %q", name, codes, text.String(), test.want, test.says)
		}
	}
}

// TestUnsubscribed: a ClusterServiceVersion proves an operator only if cluster-scoped objects confirm it.
func TestUnsubscribed(t *testing.T) {
	d, err := registry.Get("efs")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		proven []string
		want   string
	}{
		"the operator's":     {[]string{"openshift-operators"}, csvUnsubscribed},
		"perhaps somebody's": {nil, subscriptionMissing},
	} {
		p := &examinedDriver{driver: d, location: &location{proven: test.proven, unsubscribed: []types.NamespacedName{
			{Namespace: "a-stranger", Name: "aws-efs-operator.v1.0.0"}, {Namespace: "openshift-operators", Name: "aws-efs-operator.v1.0.0"}}}}
		got := judgeUnsubscribed(p)
		if len(got) != 1 || got[0].Code != test.want || test.want == csvUnsubscribed && !strings.Contains(got[0].What, "openshift-operators/aws-efs-operator.v1.0.0") {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}

// TestHelpForSeveralReasons: a condition about several things has a reason for each.
func TestHelpForSeveralReasons(t *testing.T) {
	for reasons, want := range map[string]string{
		"MissingImage": help["MissingImage"], "SyncError::MissingImage": help["MissingImage"], "SyncError": "describe", "": "describe",
	} {
		assert.EqualValuesf(t, want, helpFor(reasons, "describe"), "for %q", reasons)
	}
}
