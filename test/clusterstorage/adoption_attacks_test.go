package clusterstorage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/test/tenant"
)

// attack plays a tenant's attack on a hand-over: it forges journals, subscribes to the driver's package in a project
// with an OperatorGroup of its own, so that OLM gives the account of the driver's operator there permissions in the
// whole cluster when the one of the administrator is gone, and runs pods with that account. It returns a check that the
// hand-over has touched none of that, and the clean-up by an administrator.
func (f *former) attack() (mustBeUntouched, end func()) {
	f.t.Helper()
	user := tenant.New(f.t, f.Cluster)
	project := user.Project(f.t, "")
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: project, Name: name} }
	write := func(object client.Object) {
		f.t.Helper()
		require.NoErrorf(f.t, user.Client.Create(f.t.Context(), object), "the tenant creates %T", object)
	}
	forged, garbage := f.forgedJournal(project, migrate.RolledBack), f.forgedJournal(project, migrate.Applying)
	garbage.Name, garbage.Data["plan.json"] = "garbage", "garbage"
	write(forged)
	write(garbage)
	beside := f.forgedJournal(migrate.DefaultJournalNamespace, migrate.RolledBack)
	if err := user.Client.Create(f.t.Context(), beside); !apierrors.IsForbidden(err) {
		f.t.Errorf("a tenant creates a journal where journals are: %v, want it forbidden", err)
	}

	f.create(&operatorsv1.OperatorGroup{ObjectMeta: in("own"), Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{project}}})
	source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "former"}}
	f.get(source)
	f.create(&v1alpha1.CatalogSource{ObjectMeta: in("mine"), Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: source.Spec.Address}})
	versions := f.Record(f.t, &v1alpha1.ClusterServiceVersionList{}, client.InNamespace(project))
	subscription := &v1alpha1.Subscription{ObjectMeta: in("mine"), Spec: &v1alpha1.SubscriptionSpec{
		CatalogSource: "mine", CatalogSourceNamespace: project, Package: f.driver.Package.Name, Channel: f.subscription.Spec.Channel}}
	write(subscription)
	labels := map[string]string{"app": "mine"}
	write(&corev1.ServiceAccount{ObjectMeta: in(f.operator)})
	write(&appsv1.Deployment{ObjectMeta: in(f.operator), Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: f.operator, Containers: []corev1.Container{{Name: "mine", Image: "registry.example.com/mine:1"}}}}}})
	pods := &corev1.PodList{}
	cluster.Eventually(f.t, limit, "the tenant's pod", func(ctx context.Context) error {
		err := f.Client().List(ctx, pods, client.InNamespace(project))
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
	untouched := []client.Object{&pods.Items[0], subscription, &appsv1.Deployment{ObjectMeta: in(f.operator)}, forged, garbage}
	before := map[client.Object]string{}
	for _, object := range untouched {
		f.get(object)
		before[object] = string(object.GetUID())
	}
	mustBeUntouched = func() {
		f.t.Helper()
		for _, object := range untouched {
			f.get(object)
			if string(object.GetUID()) != before[object] || object.GetDeletionTimestamp() != nil {
				f.t.Errorf("%T %s of a tenant has UID %s, deletion at %v; want UID %s", object, object.GetName(), object.GetUID(), object.GetDeletionTimestamp(), before[object])
			}
		}
	}
	return mustBeUntouched, func() {
		f.t.Helper()
		f.awaitPermissions(project, true)
		f.mustRefuseCleanup("an account of a tenant has permissions", "gives permissions to service account "+project+"/"+f.operator)
		for _, event := range versions() {
			if csv := event.Object.(*v1alpha1.ClusterServiceVersion); !csv.IsCopied() && (event.Type == watch.Deleted || csv.DeletionTimestamp != nil) {
				f.t.Errorf("ClusterServiceVersion %s/%s, which OLM has installed for a tenant, was deleted", csv.Namespace, csv.Name)
			}
		}
		f.unsubscribe(subscription)
	}
}

// unsubscribe removes a tenant's Subscription and its installed objects. If OLM had copied the ClusterServiceVersion of
// the former operator into the namespace before, it took that for the tenant's own, and has deleted it with the
// original. Then only an administrator can remove the permissions.
func (f *former) unsubscribe(subscription *v1alpha1.Subscription) {
	f.t.Helper()
	project := subscription.Namespace
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: f.version}}
	err := f.Client().Get(f.t.Context(), client.ObjectKeyFromObject(csv), csv)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	own := err == nil && !csv.IsCopied()
	if own {
		f.awaitInstallPlan(project)
	}
	require.NoError(f.t, f.Client().Delete(f.t.Context(), subscription))
	require.NoError(f.t, f.Client().DeleteAllOf(f.t.Context(), &v1alpha1.InstallPlan{}, client.InNamespace(project)))
	if own {
		require.NoError(f.t, f.Client().Delete(f.t.Context(), csv))
	} else {
		for _, binding := range f.bindingsOf(f.t.Context(), project) {
			require.NoError(f.t, f.Client().Delete(f.t.Context(), &binding))
		}
	}
	f.awaitPermissions(project, false)
}

// bindingsOf returns the ClusterRoleBindings of the account of the driver's operator in a namespace.
func (f *former) bindingsOf(ctx context.Context, namespace string) []rbacv1.ClusterRoleBinding {
	f.t.Helper()
	bindings := &rbacv1.ClusterRoleBindingList{}
	require.NoError(f.t, f.Client().List(ctx, bindings))
	return slices.DeleteFunc(bindings.Items, func(b rbacv1.ClusterRoleBinding) bool {
		return !slices.Contains(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: f.operator})
	})
}

// awaitPermissions waits until OLM has given the account of the driver's operator in a namespace permissions in the whole cluster,
// or has taken them away.
func (f *former) awaitPermissions(namespace string, want bool) {
	f.t.Helper()
	cluster.Eventually(f.t, limit, fmt.Sprintf("permissions of account %s/%s: %t", namespace, f.operator, want), func(ctx context.Context) error {
		if has := f.bindingsOf(ctx, namespace); len(has) > 0 != want {
			return fmt.Errorf("it has %d ClusterRoleBindings", len(has))
		}
		return nil
	})
}

// awaitInstallPlan waits until OLM has done all that the InstallPlan of a namespace says: it gives permissions before it creates the
// ClusterServiceVersion.
func (f *former) awaitInstallPlan(namespace string) {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "the InstallPlan in namespace "+namespace+" to be complete", func(ctx context.Context) error {
		plans := &v1alpha1.InstallPlanList{}
		if err := f.Client().List(ctx, plans, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(plans.Items) != 1 || plans.Items[0].Status.Phase != v1alpha1.InstallPlanPhaseComplete {
			return fmt.Errorf("the InstallPlans are %+v", plans.Items)
		}
		return nil
	})
}

// forgedJournal is a journal for a hand-over that an administrator has never planned.
func (f *former) forgedJournal(namespace string, phase migrate.Phase) *corev1.ConfigMap {
	f.t.Helper()
	plan := &adoption.Plan{Driver: f.driver.Name, Outline: migrate.Outline{Schema: adoption.Adopt.Schema, Safe: true, Subject: migrate.Subject{Name: f.driver.CSIName}}}
	plan.Steps = slices.Concat([]migrate.Step{{Name: migrate.RecordPlan}}, plan.ListSteps(), []migrate.Step{{Name: migrate.Complete}})
	text, err := json.Marshal(plan)
	require.NoError(f.t, err)
	journal := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "berth-adopt." + f.driver.CSIName,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "adopt"}},
		Data: map[string]string{"plan.json": string(text), "phase": string(phase), "log": "2026-11-22T00:00:00Z record-plan\n"},
	}
	if _, err := adoption.Adopt.ParseJournal(journal); err != nil { // otherwise it would be ignored anyway
		f.t.Fatal(err)
	}
	return journal
}

// mustRefuseJournals fails the test unless the cluster storage operator does nothing with journals from any source that
// name something else than an operator of the driver, and leaves them alone.
func (f *former) mustRefuseJournals() {
	f.t.Helper()
	t, d := f.t, f.driver
	handOver, err := handsOver(f.Config())
	require.NoError(t, err)
	victim := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace(t), Name: "victim.v1.0.0"}}
	victim.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{}}}
	f.create(victim)
	for _, tc := range []struct {
		name   string
		change func(*adoption.Plan)
	}{
		{"of another package", func(p *adoption.Plan) { p.Operator.Version.Name = victim.Name }},
		{"of another operator", func(p *adoption.Plan) { p.Operator.Name = "victim" }},
		{"of another driver", func(p *adoption.Plan) { p.Driver = "efs" }},
		{"of no driver", func(p *adoption.Plan) { p.Driver = "../x" }},
		{"of another subject", func(p *adoption.Plan) { p.Subject.Name = "victim" }},
		{"without a UID", func(p *adoption.Plan) { p.Operator.Version.UID = "" }},
	} {
		journal := f.forgedJournal(migrate.DefaultJournalNamespace, migrate.Applying)
		plan := &adoption.Plan{}
		require.NoError(t, json.Unmarshal([]byte(journal.Data["plan.json"]), plan))
		plan.Operator = &adoption.Operator{Namespace: victim.Namespace, NamespaceUID: "n", Name: f.operator, Version: adoption.Reference{Name: d.Package.Name + ".v4.5.0", UID: victim.UID}}
		plan.Steps = slices.Concat([]migrate.Step{{Name: migrate.RecordPlan}}, plan.ListSteps(), []migrate.Step{{Name: migrate.Complete}})
		tc.change(plan)
		text, err := json.Marshal(plan)
		require.NoError(t, err)
		journal.Data["plan.json"] = string(text)
		undo := f.with(journal)
		for _, begin := range []bool{false, true} {
			if got, err := handOver(t.Context(), d, begin); err == nil || got.Stage != "" {
				t.Errorf("a journal %s: it is %+v, %v, want an error", tc.name, got, err)
			}
		}
		f.get(journal)
		assert.Equalf(t, string(text), journal.Data["plan.json"], "a journal %s was overwritten", tc.name)
		undo()
	}
	f.get(victim)
	assert.Nil(t, victim.DeletionTimestamp, "the victim is being deleted")
}
