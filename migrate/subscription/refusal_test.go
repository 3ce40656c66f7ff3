package subscription_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/olm/catalogsource"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/test/migrations"
)

func unsafePlan(p *place) {
	p.mustRefuse(p.to(broken), prediction.NoEdge)
	p.mustLeaveAsIs(func() {
		assert.Error(p.t, p.apply(p.to(broken), migrate.Options{})(p.t.Context(), p.Config()), "an unsafe plan was applied")
	})
}

// check returns the check of a plan with a code, or nil.
func check(p *subscription.Plan, code prediction.Code) *findings.Check {
	at := slices.IndexFunc(p.Checks, func(c findings.Check) bool { return c.Code == string(code) })
	if at < 0 {
		return nil
	}
	return &p.Checks[at]
}

func clusterChanged(p *place) {
	text, err := json.Marshal(p.plan(p.to(second)))
	require.NoError(p.t, err)
	given, err := subscription.Switch.Read(strings.NewReader(string(text)))
	require.NoError(p.t, err)
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"low"}]}}}`)
	_, _, err = subscription.Switch.EnsureGiven(p.t.Context(), p.admin(), given.Request(), given)
	assert.ErrorContains(p.t, err, "generation was 1 and is 2")
}

func missingChannel(p *place) {
	r := p.to(second)
	r.Channel = "preview"
	p.mustRefuse(r, prediction.ChannelAbsent)
}

func missingCatalog(p *place) { p.mustRefuse(p.to("nowhere"), prediction.SourceMissing) }

func installedByOLMv1(p *place) {
	require.NoError(p.t, crds.OLMv1.Create(p.t.Context(), p.Client()))
	extension := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"namespace": p.namespace,
		"source": map[string]any{"sourceType": "Catalog", "catalog": map[string]any{"packageName": "dinghy"}}}}}
	extension.SetGroupVersionKind(clusterextension.Kind)
	extension.SetName("harbour")
	cluster.Eventually(p.t, limit, "the API server to serve ClusterExtensions", func(ctx context.Context) error { return p.Client().Create(ctx, extension) })
	for pkg, want := range map[string]string{"dinghy": "for ClusterExtension harbour, which needs no switch", "raft": "there is no Subscription to"} {
		_, err := subscription.Switch.Plan(p.t.Context(), p.admin(), subscription.Request{Package: pkg, Source: second})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "harbour") != (pkg == "dinghy") {
			p.t.Errorf("for package %s got the error %v, want %q", pkg, err, want)
		}
	}
}

func unreachableCatalog(p *place) {
	adrift := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: "adrift", Namespace: p.namespace},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: "127.0.0.1:1"}}
	p.Create(adrift)
	// A connection is IDLE before OLM connects, too.
	cluster.Eventually(p.t, limit, "OLM to find out that it cannot connect", func(ctx context.Context) error {
		if err := p.Client().Get(ctx, client.ObjectKeyFromObject(adrift), adrift); err != nil {
			return err
		}
		if state := catalogsource.ConnectionState(adrift); state != connectivity.TransientFailure.String() {
			return fmt.Errorf("the connection is %s", state)
		}
		return nil
	})
	p.mustRefuse(p.to("adrift"), prediction.SourceUnreachable)
}

func twoSubscriptions(p *place) {
	again := p.subscription.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Name: "again", Namespace: p.namespace}
	p.Create(again)
	p.mustRefuse(p.to(second), prediction.SecondSubscription)
}

// mustRefuse makes a plan, which must be refused for at least this reason.
func (p *place) mustRefuse(r subscription.Request, code prediction.Code) {
	p.t.Helper()
	made := p.plan(r)
	c := check(made, code)
	if made.Safe || c == nil || c.Verdict != findings.Refused || c.Do == "" {
		p.t.Fatalf("the plan is safe: %t, check %s is %+v; want it refused, with what to do", made.Safe, code, c)
	}
	assert.NotContains(p.t, c.Do, "spec.", "what to do, want a flag of the command")
	if later := check(made, prediction.Downgrade); made.Target == "" && later != nil {
		p.t.Errorf("OLM installs nothing, but there is a check of the version: %+v", later)
	}
	p.t.Logf("\n%s", made.Text(findings.Plain))
}

func inProgress(p *place) {
	applyToApproval(p)
	_, err := subscription.Switch.Plan(p.t.Context(), p.admin(), p.to(second))
	assert.ErrorContains(p.t, err, "berth switch rollback buoy", "it is in progress, and how to roll back")
	p.Run(p.rollback)
}

func changedSubscription(p *place) {
	applyToApproval(p)
	p.patchSubscription(`{"spec":{"channel":"preview"}}`)
	// In this order: a switch cannot be applied any more once its rollback has begun.
	for i, tool := range []migrations.Tool{p.apply(p.to(second), migrate.Options{}), p.rollback} {
		err := tool(p.t.Context(), p.Config())
		assert.ErrorContains(p.t, err, "somebody has changed Subscription", []string{"apply", "rollback"}[i])
	}
	p.patchSubscription(`{"spec":{"channel":"stable"}}`)
	p.Run(p.rollback)
	p.patchSubscription(`{"spec":{"channel":"preview"}}`)
	assert.ErrorContains(p.t, p.rollback(p.t.Context(), p.Config()), "rolled back already")
}

func recreatedSubscription(p *place) {
	applyToApproval(p)
	former := &v1alpha1.Subscription{}
	require.NoError(p.t, p.Client().Get(p.t.Context(), client.ObjectKeyFromObject(p.subscription), former))
	require.NoError(p.t, p.Client().Delete(p.t.Context(), former))
	p.Create(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: former.Namespace, Name: former.Name}, Spec: former.Spec})
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	err := p.apply(p.to(second), migrate.Options{})(ctx, p.Config())
	assert.ErrorContains(p.t, err, "deleted and recreated")
	if err := p.rollback(p.t.Context(), p.Config()); err == nil || !strings.Contains(err.Error(), "deleted and recreated") || !strings.Contains(err.Error(), "delete configmap "+p.journal().Name) {
		p.t.Errorf("rollback: got %v, want that somebody has recreated the Subscription, and how to abandon the switch", err)
	}
	journal := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.journal().Namespace, Name: p.journal().Name}}
	require.NoError(p.t, p.Client().Delete(p.t.Context(), journal))
	_, err = subscription.Switch.Plan(p.t.Context(), p.admin(), p.to(second))
	assert.NoError(p.t, err, "a new plan")
}

func invalidJournals(p *place) {
	foreign := journalOf(migrate.DefaultJournalNamespace, "berth-switch."+p.namespace+".other", "garbage")
	own := journalOf(p.journal().Namespace, p.journal().Name, "garbage")
	for _, journal := range []*corev1.ConfigMap{foreign, own} {
		p.Create(journal)
		p.t.Cleanup(func() {
			assert.NoError(p.t, client.IgnoreNotFound(p.Client().Delete(context.Background(), journal)))
		})
	}
	seen, warned := p.admin(), ""
	seen.Warn = func(what string) { warned += what + "\n" }
	_, err := subscription.Switch.Plan(p.t.Context(), seen, p.to(second))
	assert.ErrorContains(p.t, err, "ConfigMap "+own.Namespace+"/"+own.Name+" is not a valid journal")
	for _, journal := range []*corev1.ConfigMap{foreign, own} {
		assert.Contains(p.t, warned, "ignored: ConfigMap "+journal.Namespace+"/"+journal.Name+" is not a valid journal", "warnings")
	}
	require.NoError(p.t, p.Client().Delete(p.t.Context(), own))
	p.mustSwitch(second, "buoy.v1.1.0")
}

func conflictingRequest(p *place) {
	applyToApproval(p)
	r := p.to(second)
	r.Channel = "preview"
	_, _, err := subscription.Switch.Ensure(p.t.Context(), p.admin(), r)
	assert.ErrorContains(p.t, err, `--channel: the plan has "stable", requested is "preview"`)
	_, resumed, err := subscription.Switch.Ensure(p.t.Context(), p.admin(), p.to(second))
	if err != nil || resumed == nil || resumed.Next != subscription.Approve || !strings.Contains(resumed.Text(findings.Plain), "approve the InstallPlan") {
		p.t.Errorf("got %+v, %v; want its status and its steps", resumed, err)
	}
	p.Run(p.rollback)
}

func changedConfig(p *place) {
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"high"}]}}}`)
	assert.Contains(p.t, p.plan(p.to(second)).Text(findings.Plain), "value: high", "the plan does not show the configuration")
	applyToApproval(p)
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"low"}]}}}`)
	for i, tool := range []migrations.Tool{p.apply(p.to(second), migrate.Options{}), p.rollback} {
		err := tool(p.t.Context(), p.Config())
		assert.ErrorContains(p.t, err, "spec.config differs from the plan", []string{"apply", "rollback"}[i])
	}
	p.patchSubscription(`{"spec":{"config":{"env":[{"name":"TIDE","value":"high"}]}}}`)
	p.Run(p.apply(p.to(second), migrate.Options{}))
	// OLM applies each change of the configuration to the Deployment. For that, it installs the ClusterServiceVersion again, although it
	// has succeeded (reason NeedsReinstall).
	cluster.Eventually(p.t, limit, "OLM to apply the configuration", func(ctx context.Context) error { return p.installed(ctx, "buoy.v1.1.0") })
}
