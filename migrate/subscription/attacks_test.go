package subscription_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/test/migrations"
	"github.com/berth-csi/berth/test/tenant"
)

// TestAttacks covers a tenant's attempts against an administrator's switch. The administrator runs the commands without
// --namespace unless a test says otherwise.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		pkg   string // one that no other attack is about
		known string
		do    func(*attack)
	}{
		{"forge a journal in a project", "gull", second, forgeSubscription},
		{"forge a journal that deletes a ClusterServiceVersion", "tern", second, forgeDeletion},
		{"forge a journal that makes commands panic", "skua", second, forgePanic},
		{"write garbage with a journal's labels", "crake", second, writeGarbage},
		{"write a journal in kube-system", "heron", second, writeWhereJournalsAre},
		{"forge a journal beside the Subscription", "egret", renamed, forgeBeside},
		{"forge the way back beside the Subscription", "stork", second, forgeWayBack},
		{"take the place of a Subscription that is replaced", "plover", renamed, takePlace},
		{"replace the recreated Subscription", "dunlin", renamed, recreate},
		{"subscribe to the package in a project", "curlew", renamed, subscribeToo},
		{"make a DaemonSet with the driver's name", "aws-efs-operator", second, forgeDaemonSet},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSiteOf(t, test.pkg, test.pkg+"-renamed")
			test.do(&attack{site: s, t: t, tenant: tenant.New(t, s.Cluster), known: test.known})
		})
	}
}

// attack is a tenant, and an administrator who switches.
type attack struct {
	*site
	t      *testing.T
	tenant *tenant.Tenant
	known  string
}

// everywhere is a request without a namespace.
func (p *place) everywhere(source string) subscription.Request {
	r := p.to(source)
	r.Namespace = ""
	return r
}

// forged is the operator's environment in a forged journal.
var forged = &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/forged.so"}}}

// forge writes a journal as a tenant, for a real plan with changes.
func (a *attack) forge(namespace string, p *place, change func(*subscription.Plan)) {
	a.t.Helper()
	made := p.plan(p.to(a.known))
	change(made)
	text, err := json.Marshal(made)
	require.NoError(a.t, err)
	a.write(namespace, string(text), made.Subject)
}

// write writes a journal as a tenant.
func (a *attack) write(namespace, plan string, s migrate.Subject) {
	a.t.Helper()
	require.NoError(a.t, a.tenant.Client.Create(a.t.Context(), journalOf(namespace, "berth-switch."+s.Namespace+"."+s.Name, plan)))
}

func journalOf(namespace, name, plan string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "switch"}},
		Data: map[string]string{"plan.json": plan, "phase": "Applying", "log": "2026-11-22T00:00:00Z record-plan\n"},
	}
}

// replacing changes the strategy of a plan to replace, which gives a forger the most control.
func replacing(made *subscription.Plan) {
	made.Strategy = subscription.Replace
	made.Steps = nil
	for _, name := range []migrate.StepName{migrate.RecordPlan, subscription.RemoveOperator, subscription.RecreateSubscription, subscription.Approve,
		subscription.Install, subscription.RestoreApproval, subscription.AwaitOperator, migrate.Complete} {
		made.Steps = append(made.Steps, migrate.Step{Name: name, Does: "all is well", NoReturn: name == subscription.RemoveOperator})
	}
	made.Config = forged
}

// try runs a tool and returns its error.
func (p *place) try(t migrations.Tool) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	err := t(ctx, p.Config())
	p.t.Logf("the tool returned: %v", err)
	return err
}

// mustNotForge fails if a Subscription has the forged environment.
func (a *attack) mustNotForge() {
	a.t.Helper()
	all := &v1alpha1.SubscriptionList{}
	require.NoError(a.t, a.Client().List(a.t.Context(), all))
	for _, s := range all.Items {
		if strings.HasPrefix(s.Spec.Package, a.pkg) && s.Spec.Config != nil && len(s.Spec.Config.Env) > 0 {
			a.t.Errorf("Subscription %s/%s has environment %+v, which is forged", s.Namespace, s.Name, s.Spec.Config.Env)
		}
	}
}

func forgeSubscription(a *attack) {
	p, victim := a.newPlace(a.t, "", a.known), a.Namespace(a.t)
	a.forge(a.tenant.Project(a.t, ""), p, func(made *subscription.Plan) {
		replacing(made)
		made.Subject.Namespace, made.Subject.Name, made.Installed = victim, "lighthouse", ""
	})
	_ = p.try(p.apply(p.everywhere(a.known), migrate.Options{}))
	a.mustNotForge()
	p.mustBeInstalled(a.pkg + ".v1.1.0")
}

func (p *place) mustBeInstalled(name string) {
	p.t.Helper()
	assert.NoError(p.t, p.installed(p.t.Context(), name))
}

func forgeDeletion(a *attack) {
	p, victim := a.newPlace(a.t, "", a.known), newSiteOf(a.t, a.pkg+"-victim", a.pkg+"-none").newPlace(a.t, "")
	version := &v1alpha1.ClusterServiceVersion{}
	key := client.ObjectKey{Namespace: victim.namespace, Name: victim.pkg + ".v1.0.0"}
	require.NoError(a.t, a.Client().Get(a.t.Context(), key, version))
	a.forge(a.tenant.Project(a.t, ""), p, func(made *subscription.Plan) {
		replacing(made)
		made.Subject.Namespace, made.Subject.Name, made.Installed = key.Namespace, "nothing", key.Name
	})
	_ = p.try(p.apply(p.everywhere(a.known), migrate.Options{}))
	after := &v1alpha1.ClusterServiceVersion{}
	if err := a.Client().Get(a.t.Context(), key, after); err != nil || after.UID != version.UID || after.DeletionTimestamp != nil {
		a.t.Errorf("ClusterServiceVersion %s: %v, UID %s, deleted at %v; want it with UID %s as before", key, err, after.UID, after.DeletionTimestamp, version.UID)
	}
	a.mustNotForge()
	p.mustBeInstalled(a.pkg + ".v1.1.0")
}

func forgePanic(a *attack) {
	p := a.newPlace(a.t, "", a.known)
	real := p.plan(p.to(a.known))
	project := a.tenant.Project(a.t, "")
	a.write(project, fmt.Sprintf(`{"schema":%q,"subject":{"namespace":%q,"name":"x"},"from":{"package":%q},"to":{"source":%q},"strategy":"update","safe":true,"outcomes":[null]}`, real.Schema, project, a.pkg, a.known), migrate.Subject{Namespace: project, Name: "x"})
	for name, call := range map[string]func() error{
		"status": func() error {
			status, err := subscription.Switch.Status(a.t.Context(), p.admin(), subscription.Request{Package: a.pkg})
			if err == nil {
				status.Text(findings.Plain)
			}
			return err
		},
		"plan": func() error {
			_, err := subscription.Switch.Plan(a.t.Context(), p.admin(), p.everywhere(a.known))
			return err
		},
		"apply": func() error {
			return p.apply(p.everywhere(a.known), migrate.Options{DryRun: true})(a.t.Context(), p.Config())
		},
	} {
		err := func() (err error) {
			defer func() {
				if cause := recover(); cause != nil {
					err = fmt.Errorf("it panicked: %v", cause)
				}
			}()
			return call()
		}()
		if name == "status" && err != nil && strings.HasPrefix(err.Error(), "no journal in namespace") {
			err = nil
		}
		assert.NoError(a.t, err, name)
	}
}

func writeGarbage(a *attack) {
	p := a.newPlace(a.t, "", a.known)
	a.write(a.tenant.Project(a.t, ""), "garbage", migrate.Subject{Namespace: p.namespace, Name: a.pkg})
	p.Run(p.apply(p.everywhere(a.known), migrate.Options{}))
	p.mustBeInstalled(a.pkg + ".v1.1.0")
	_, err := subscription.Switch.Plan(a.t.Context(), p.admin(), p.everywhere(a.known))
	assert.NoError(a.t, err, "plan")
	_, err = subscription.Switch.Status(a.t.Context(), p.admin(), subscription.Request{Package: a.pkg})
	assert.NoError(a.t, err, "status")
}

func writeWhereJournalsAre(a *attack) {
	err := a.tenant.Client.Create(a.t.Context(), journalOf(migrate.DefaultJournalNamespace, "berth-switch.x.y", "{}"))
	if !apierrors.IsForbidden(err) {
		a.t.Errorf("got %v, want it forbidden", err)
	}
}

// allowConfigMaps allows the tenant to write ConfigMaps in a namespace, but not Subscriptions.
func (a *attack) allowConfigMaps(namespace string) {
	a.t.Helper()
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "configmaps"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "update", "get", "list"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "configmaps"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "configmaps"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: a.tenant.Name}}},
	} {
		require.NoError(a.t, a.Client().Create(a.t.Context(), object))
	}
	cluster.Eventually(a.t, limit, "the tenant's permission to write ConfigMaps", func(ctx context.Context) error {
		return a.tenant.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "may-i"}}, client.DryRunAll)
	})
	err := a.tenant.Client.Create(a.t.Context(), &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "may-i"},
		Spec: &v1alpha1.SubscriptionSpec{Package: "any"}}, client.DryRunAll)
	if !apierrors.IsForbidden(err) {
		a.t.Fatalf("creating a Subscription: %v, want it forbidden", err)
	}
}

func forgeBeside(a *attack) {
	p := a.newPlace(a.t, "", a.known)
	a.allowConfigMaps(p.namespace)
	a.forge(p.namespace, p, func(made *subscription.Plan) { made.Config = forged })
	_ = p.try(p.apply(p.to(a.known), migrate.Options{}))
	a.mustNotForge()
	p.mustBeInstalled(a.renamedPkg + ".v2.0.0")
}

func forgeWayBack(a *attack) {
	p := a.newPlace(a.t, "", a.known)
	a.allowConfigMaps(p.namespace)
	a.forge(p.namespace, p, func(made *subscription.Plan) {
		made.To = made.From
		made.From.Source, made.From.SourceNamespace = "forged", a.Namespace(a.t)
	})
	_ = p.try(func(ctx context.Context, _ *rest.Config) error {
		status, err := subscription.Switch.Status(ctx, p.admin(), subscription.Request{Package: a.pkg})
		if err != nil {
			return err
		}
		return subscription.Switch.Rollback(ctx, p.admin(), status.Plan, migrate.Options{Report: func(migrate.Event) {}})
	})
	if got, err := p.end(a.t.Context()); err != nil || got.source != first {
		a.t.Errorf("the Subscription is to source %q, %v; want %q as before", got.source, err, first)
	}
}

// takes is a Subscription that a tenant creates under the name of the deleted one.
func (p *place) takes(config *v1alpha1.SubscriptionConfig, annotations map[string]string) *v1alpha1.Subscription {
	return &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.pkg, Annotations: annotations},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: renamed, CatalogSourceNamespace: p.namespace, Package: p.renamedPkg, Channel: "stable",
			InstallPlanApproval: v1alpha1.ApprovalManual, Config: config},
	}
}

// mustRefuseForeign applies again while there is a tenant's Subscription, which must be left alone, and deletes that.
func (a *attack) mustRefuseForeign(p *place, foreign *v1alpha1.Subscription) {
	a.t.Helper()
	err := p.try(p.apply(p.everywhere(a.known), migrate.Options{}))
	if err == nil || !strings.Contains(err.Error(), "somebody else has recreated") || !strings.Contains(err.Error(), "delete it") {
		a.t.Errorf("apply: got %v, want that somebody else has recreated the Subscription, and what to do", err)
	}
	requests := &v1alpha1.InstallPlanList{}
	require.NoError(a.t, a.Client().List(a.t.Context(), requests, client.InNamespace(p.namespace)))
	for _, request := range requests.Items {
		if request.Spec.Approved && slices.ContainsFunc(request.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == foreign.UID }) {
			a.t.Errorf("InstallPlan %s, which the tenant's Subscription has asked for, is approved", request.Name)
		}
	}
	require.NoError(a.t, client.IgnoreNotFound(a.Client().Delete(a.t.Context(), foreign)))
}

func takePlace(a *attack) {
	p := a.newPlaceIn(a.t, a.tenant.Project(a.t, ""), "", a.known)
	p.applyUntil(subscription.RecreateSubscription, p.everywhere(a.known))
	for _, config := range []*v1alpha1.SubscriptionConfig{forged, nil} {
		foreign := p.takes(config, nil)
		require.NoError(a.t, a.tenant.Client.Create(a.t.Context(), foreign))
		a.mustRefuseForeign(p, foreign)
	}
	p.Run(p.apply(p.everywhere(a.known), migrate.Options{}))
	a.mustNotForge()
	p.mustBeInstalled(a.renamedPkg + ".v2.0.0")
}

func recreate(a *attack) {
	p := a.newPlaceIn(a.t, a.tenant.Project(a.t, ""), "", a.known)
	p.applyUntil(subscription.Approve, p.everywhere(a.known))
	made := &v1alpha1.Subscription{}
	require.NoError(a.t, a.tenant.Client.Get(a.t.Context(), client.ObjectKeyFromObject(p.subscription), made))
	require.NoError(a.t, a.tenant.Client.Delete(a.t.Context(), made))
	foreign := p.takes(forged, made.Annotations)
	require.NoError(a.t, a.tenant.Client.Create(a.t.Context(), foreign))
	a.mustRefuseForeign(p, foreign)
	p.Run(p.apply(p.everywhere(a.known), migrate.Options{}))
	a.mustNotForge()
	p.mustBeInstalled(a.renamedPkg + ".v2.0.0")
}

func subscribeToo(a *attack) {
	p, project := a.newPlace(a.t, "", a.known), a.tenant.Project(a.t, "")
	own := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "mine"},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: first, CatalogSourceNamespace: project, Package: a.pkg, Channel: "stable", Config: forged}}
	require.NoError(a.t, a.tenant.Client.Create(a.t.Context(), own))
	for _, when := range []string{"before the switch", "after it"} {
		_, err := subscription.Switch.Plan(a.t.Context(), p.admin(), p.everywhere(a.known))
		if err == nil || !strings.Contains(err.Error(), "--namespace") || !strings.Contains(err.Error(), p.namespace+"/"+a.pkg) || !strings.Contains(err.Error(), project+"/mine") {
			a.t.Errorf("%s: got %v, want that both Subscriptions match, and their names", when, err)
		}
		p.Run(p.apply(p.to(a.known), migrate.Options{})) // which names the namespace
	}
	p.mustBeInstalled(a.renamedPkg + ".v2.0.0")
}

func forgeDaemonSet(a *attack) {
	const driver = "efs.csi.aws.com"
	p, project := a.newPlace(a.t, "", a.known), a.tenant.Project(a.t, "")
	labels := map[string]string{"app": "efs-csi-node", "openshift.io/aws-efs-operator-owned": "true"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "efs-csi-node", Labels: labels},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "never", Image: "registry.example.com/never:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10000")}}}}},
		}}}
	require.NoError(a.t, a.tenant.Client.Create(a.t.Context(), set))
	cluster.Eventually(a.t, limit, "the tenant's DaemonSet to schedule pods", func(ctx context.Context) error {
		if err := a.Client().Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.DesiredNumberScheduled == 0 {
			return errors.New("it schedules none")
		}
		return nil
	})
	r := p.everywhere(a.known)
	r.CreateDriver = true
	for _, object := range p.plan(r).Objects {
		assert.NotEqualf(a.t, project, object.Namespace, "the plan takes %+v for an object of the driver", object)
	}
	a.t.Cleanup(func() {
		custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}}
		assert.NoError(a.t, client.IgnoreNotFound(a.Client().Delete(context.Background(), custom)))
	})
	var reported sync.Once
	available := migrate.Options{Report: func(e migrate.Event) {
		switch e.Step {
		case subscription.AwaitOperator:
			a.lock(p)
		case subscription.AwaitDriver:
			reported.Do(func() { a.report(driver) })
		}
	}}
	assert.NoError(a.t, p.try(p.apply(r, available)), "apply --create-driver")
}

// lock makes the pod of the operator hold the lock, like the real operator.
func (a *attack) lock(p *place) {
	a.t.Helper()
	pods := &corev1.PodList{}
	assert.NoError(a.t, a.Client().List(a.t.Context(), pods, client.InNamespace(p.namespace), client.MatchingLabels{"app": a.pkg}))
	for _, pod := range pods.Items {
		lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "aws-efs-operator-lock",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}}
		assert.NoError(a.t, client.IgnoreAlreadyExists(a.Client().Create(a.t.Context(), lock)))
	}
}

// report sets the ClusterCSIDriver's conditions as for an available driver.
func (a *attack) report(driver string) {
	a.t.Helper()
	custom := &operatorv1.ClusterCSIDriver{}
	assert.NoError(a.t, a.Client().Get(a.t.Context(), client.ObjectKey{Name: driver}, custom))
	for condition, status := range map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionTrue, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionFalse} {
		custom.Status.Conditions = append(custom.Status.Conditions, operatorv1.OperatorCondition{Type: condition, Status: status, LastTransitionTime: metav1.Now()})
	}
	assert.NoError(a.t, a.Client().Status().Update(a.t.Context(), custom))
}
