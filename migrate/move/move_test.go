package move_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/test/page"
)

// TestThereAndBack: with the real OLM v0, and with a stand-in for each applier of OLM v1, an operator moves there and
// back. Its API with its objects, its Deployment and its pods, and the bundle's other objects keep their UIDs
// throughout. However often the tool is killed, the end is the same, and a run after that writes nothing.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, boxcutter := range map[string]bool{"Helm": false, "Boxcutter": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := s.newPlace(t, boxcutter)
			p.startV1()
			forged := p.forgeMemory()
			for _, to := range []move.Target{move.ToV1, move.ToV0} {
				apply := p.apply(to)
				p.RunKilled(apply)
				p.mustBe("the operator to be with "+string(to), p.isWith(to))
				p.MustWriteNothing(apply)
			}
			if err := s.Client().Get(t.Context(), client.ObjectKeyFromObject(forged), forged); err != nil || forged.DeletionTimestamp != nil {
				t.Errorf("a tenant's Secret was taken for one in which OLM v1 remembers an installation: it is deleted, or %v", err)
			}
		})
	}
}

// forgeMemory makes a tenant write a Secret that looks like OLM v1's record of an installation, and that nobody can delete.
func (p *place) forgeMemory() *corev1.Secret {
	p.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace(p.t), Name: "remembered", Labels: map[string]string{"owner": "operator-controller", "name": p.pkg},
		Finalizers: []string{"example.com/never"}}, Type: "operatorframework.io/index.v1"}
	p.Create(secret)
	p.t.Cleanup(func() { // so that the namespace can go
		secret.Finalizers = nil
		assert.NoError(p.t, p.Client().Update(context.Background(), secret))
	})
	return secret
}

func (p *place) isWith(to move.Target) func(context.Context) error {
	if to == move.ToV0 {
		return p.isWithV0
	}
	return p.isWithV1
}

// TestRollback: a move can be undone at any step before the point of no return, however often the tool is killed. Then
// it can be moved again.
func TestRollback(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, step := range []migrate.StepName{move.DeleteVersion, move.DeleteSubscription, move.CreateExtension, move.Loosen} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			p := s.newPlace(t, false)
			p.startV1()
			p.applyUntil(step, move.ToV1)
			p.RunKilled(p.rollback)
			p.mustBe("the operator to be with OLM v0 again", p.isWithV0)
			p.MustWriteNothing(p.rollback)
			if step == move.Loosen {
				p.Run(p.apply(move.ToV1))
				p.mustBe("the operator to be with OLM v1", p.isWithV1)
				assert.ErrorContains(t, p.rollback(t.Context(), p.Config()), "point of no return")
			}
		})
	}
}

// TestCrashSweep injects each kind of fault into single writes of a move there and back. Whatever the fault, the end is the same.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	workers := 8
	siteFor := func(direction) *site { return newSite(t) }
	if fault.All() {
		// Some 900 faults. One OLM v0 installs and removes some five operators a minute, however many ask for it, so there are four.
		workers = 24
		siteFor = func(d direction) *site { return siteNamed(t, "TestCrashSweep-"+d.String()) }
	}
	var scenarios []fault.Scenario
	for _, d := range []direction{{false, move.ToV1}, {false, move.ToV0}, {true, move.ToV1}, {true, move.ToV0}} {
		s := siteFor(d)
		var points []fault.Point
		for _, w := range d.play(t, s, fault.Record()) {
			points = append(points, w.Point)
		}
		scenarios = append(scenarios, fault.Scenario{Name: d.String(), Points: points, Sample: 6, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
			injector := fault.InjectNth(slices.Index(points, at)+1, f)
			d.play(t, s, injector)
			return injector.Came()
		}})
	}
	for i, tally := range fault.Sweep(t, workers, scenarios...) {
		assert.Emptyf(t, tally.Missed, "%s: %s", scenarios[i].Name, tally)
	}
}

// direction is a move with one of OLM v1's appliers, there or back.
type direction struct {
	boxcutter bool
	to        move.Target
}

func (d direction) String() string {
	if d.boxcutter {
		return "boxcutter-" + string(d.to)
	}
	return "helm-" + string(d.to)
}

// play moves an operator, and returns the writes of that move.
func (d direction) play(t *testing.T, s *site, injector *fault.Injector) []fault.Write {
	t.Helper()
	p := s.newPlace(t, d.boxcutter)
	p.startV1()
	if d.to == move.ToV0 {
		p.Run(p.apply(move.ToV1))
	}
	apply := p.apply(d.to)
	p.RunWith(injector, apply)
	p.mustBe("the operator to be with "+string(d.to), p.isWith(d.to))
	p.MustWriteNothing(apply)
	return injector.Writes()
}

const movePage = "move/move-to-olm-v1.md"

// TestFollowPage: an administrator follows docs/move/move-to-olm-v1.md, with its commands: looks at the plan, changes their
// mind, moves the operator to OLM v1, and moves it back. Then they move it with another operator that needs it, by one
// command, which moves none if one cannot be moved, and otherwise each when nothing needs it any more.
func TestFollowPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.newPlace(t, false)
	p.startV1()
	authority := filepath.Join(t.TempDir(), "authority.crt")
	trusted := p.startCatalogd()
	require.NoError(t, os.WriteFile(authority, trusted, 0o644))
	built, err := tools.Programs(t.Context(), "./cmd/berth")
	require.NoError(t, err)
	r := &page.Reader{
		Docs: "../../docs", Kubectl: p.Tools().Path("kubectl"), Kubeconfig: p.Kubeconfig(), Berth: built.Path("berth"), Limit: limit, Dir: t.TempDir(),
		Names: strings.NewReplacer("plan aws-efs-operator", "plan "+p.pkg+" --catalogd-ca "+authority, "apply aws-efs-operator", "apply "+p.pkg+" --catalogd-ca "+authority, "aws-efs-operator", p.pkg),
	}
	if plan := r.Follow(t, movePage, "## Plan"); !strings.Contains(plan, "The plan is safe to apply.") || !strings.Contains(plan, "OLM v1 takes exactly the installed version, "+p.versionName()) {
		t.Errorf("the plan is\n%s", plan)
	}
	p.applyUntil(move.CreateExtension, move.ToV1)
	const apply, status, rollback = 0, 1, 2 // the blocks
	r.Follow(t, movePage, "## Apply", rollback)
	p.mustBe("the operator to be with OLM v0 again", p.isWithV0)
	r.Follow(t, movePage, "## Apply", apply)
	p.mustBe("the operator to be with OLM v1", p.isWithV1)
	assert.Contains(t, r.Follow(t, movePage, "## Apply", status), "The plan was applied.", "the status")
	r.Follow(t, movePage, "## Back")
	p.mustBe("the operator to be with OLM v0 again", p.isWithV0)

	second := p.needing()
	second.startV1()
	require.NoError(t, os.WriteFile(authority, slices.Concat(trusted, second.startCatalogd()), 0o644))
	move := func(args ...string) (string, error) {
		args = append([]string{"move", "apply", "--kubeconfig", p.Kubeconfig(), "--catalogd-ca", authority}, args...)
		output, err := exec.CommandContext(t.Context(), built.Path("berth"), args...).CombinedOutput()
		t.Logf("%q: %v\n%s", args, err, output)
		return string(output), err
	}
	refuses := func(want string, args ...string) {
		t.Helper()
		if printed, err := move(args...); err == nil || !strings.Contains(printed, want) {
			t.Errorf("got %v, want a refusal with %q", err, want)
		}
	}
	refuses("there is no Subscription to package none", second.pkg, "none")
	refuses(second.versionName()+" needs package "+p.pkg, p.pkg)
	p.mustBe("the operator to be with OLM v0 still", p.isWithV0)
	second.mustBe("the second operator to be with OLM v0 still", second.isWithV0)
	if printed, err := move(p.pkg, second.pkg); err != nil || !strings.Contains(printed, "one after the other: "+second.pkg+", "+p.pkg) {
		t.Errorf("got %v, want that what needs the other moves first", err)
	}
	p.mustBe("the operator to be with OLM v1", p.isWithV1)
	second.mustBe("the second operator to be with OLM v1", second.isWithV1)
	refuses("needs package "+p.pkg, second.pkg, "--to", "olm-v0")
	if printed, err := move(second.pkg, p.pkg, "--to", "olm-v0"); err != nil || !strings.Contains(printed, "one after the other: "+p.pkg+", "+second.pkg) {
		t.Errorf("got %v, want that what the other needs moves first", err)
	}
	p.mustBe("the operator to be with OLM v0 again", p.isWithV0)
	second.mustBe("the second operator to be with OLM v0 again", second.isWithV0)
}

// TestPutBack: somebody who may write in the operator's namespace puts the marks of OLM v1 back as often as a rollback removes them. It
// ends with an error that says who writes, and goes on once they stop.
func TestPutBack(t *testing.T) {
	t.Parallel()
	p := newSite(t).newPlace(t, false)
	p.applyUntil(move.CreateExtension, move.ToV1)
	ctx, stop := context.WithTimeout(t.Context(), limit)
	ended := make(chan error, 1)
	go func() {
		marks := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":{"meta.helm.sh/release-name":"`+p.pkg+`","meta.helm.sh/release-namespace":"`+p.namespace+`"}}}`))
		for ctx.Err() == nil {
			if err := p.Client().Patch(ctx, object("v1", "ConfigMap", p.namespace, "chart-"+p.pkg), marks, client.FieldOwner("gitops")); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	err := p.rollback(ctx, p.Config())
	for _, want := range []string{"changes ConfigMap " + p.namespace + "/chart-" + p.pkg + " back", `the last time as "gitops"`, "berth move rollback " + p.pkg} {
		assert.ErrorContains(t, err, want)
	}
	stop()
	assert.NoError(t, <-ended)
	p.Run(p.rollback)
	p.mustBe("the operator to be with OLM v0 again", p.isWithV0)
}

// TestFailedInstallPlan: OLM v0 cannot install the operator again, because somebody's policy refuses one of its objects. The move back ends
// with the reason and with commands, after which it goes on.
func TestFailedInstallPlan(t *testing.T) {
	t.Parallel()
	p := newSite(t).newPlace(t, false)
	p.startV1()
	p.Run(p.apply(move.ToV1))
	p.mustBe("the operator to be with OLM v1", p.isWithV1)
	allow := p.refuseConfigMapOfOLM()
	err := p.apply(move.ToV0)(t.Context(), p.Config())
	require.ErrorContains(t, err, "the harbour is closed")
	commands := regexp.MustCompile("begin again with `([^`]+)`, and run `berth move resume " + p.pkg).FindStringSubmatch(err.Error())
	require.Len(t, commands, 2, "the error is: %v", err)
	allow()
	sh := exec.CommandContext(t.Context(), "bash", "-ec", `oc() { "$KUBECTL" "$@"; }; `+commands[1])
	sh.Env = append(os.Environ(), "KUBECTL="+p.Tools().Path("kubectl"), "KUBECONFIG="+p.Kubeconfig())
	output, err := sh.CombinedOutput()
	require.NoError(t, err, "%s\n%s", commands[1], output)
	p.Run(p.apply(move.ToV0))
	p.mustBe("the operator to be with OLM v0 again", p.isWithV0)
}

// refuseConfigMapOfOLM has the API server refuse that OLM v0 writes the bundle's ConfigMap, until allow is called.
func (p *place) refuseConfigMapOfOLM() (allow func()) {
	p.t.Helper()
	catalogOperator := "system:serviceaccount:openshift-operator-lifecycle-manager:catalog-operator-serviceaccount"
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: p.pkg},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}}}},
			Validations: []admissionv1.Validation{{Message: "the harbour is closed",
				Expression: fmt.Sprintf("request.namespace != %q || request.userInfo.username != %q", p.namespace, catalogOperator)}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: p.pkg},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	p.Create(policy)
	p.Create(binding)
	asOLM := rest.CopyConfig(p.Config())
	asOLM.Impersonate = rest.ImpersonationConfig{UserName: catalogOperator, Groups: []string{"system:masters"}}
	writer, err := client.New(asOLM, client.Options{})
	require.NoError(p.t, err)
	cluster.Eventually(p.t, limit, "the policy to be in force", func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "probe"}}
		if err := writer.Create(ctx, probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "the harbour is closed") {
			return fmt.Errorf("creating a ConfigMap as OLM results in %v", err)
		}
		return nil
	})
	return func() {
		p.t.Helper()
		for _, object := range []client.Object{binding, policy} {
			require.NoError(p.t, p.Client().Delete(p.t.Context(), object))
		}
	}
}

// TestLabelledObjects: somebody who may write in the operator's namespace creates many objects with the labels of OLM v0 or of the
// ClusterExtension. Plans read them page by page, and name few of them.
func TestLabelledObjects(t *testing.T) {
	t.Parallel()
	p := newSite(t).newPlace(t, false)
	p.startV1()
	labels := map[string]string{"olm.owner": p.versionName(), "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": p.namespace,
		"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": p.pkg, "forged": ""}
	for i := range 60 {
		p.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: fmt.Sprint("forged-", i), Labels: labels}})
		p.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: fmt.Sprint("forged-", i), Labels: labels}})
	}
	p.mustReadPages(move.ToV1)
	require.NoError(t, p.Client().DeleteAllOf(t.Context(), &rbacv1.Role{}, client.InNamespace(p.namespace), client.HasLabels{"forged"}))
	p.Run(p.apply(move.ToV1))
	p.mustBe("the operator to be with OLM v1", p.isWithV1)
	p.mustReadPages(move.ToV0)
}

// mustReadPages makes a plan, and fails the test if that reads a whole list of what somebody has labelled, or if the plan names more
// objects than a journal can hold.
func (p *place) mustReadPages(to move.Target) {
	p.t.Helper()
	config := rest.CopyConfig(p.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			journals := strings.HasSuffix(r.URL.Path, "/namespaces/"+migrate.DefaultJournalNamespace+"/configmaps")
			if query := r.URL.Query(); query.Get("labelSelector") != "" && query.Get("limit") == "" && !journals {
				p.t.Errorf("a whole list is read: %s", r.URL)
			}
			return next.RoundTrip(r)
		})
	})
	seen, err := p.Connect(config)
	require.NoError(p.t, err)
	made, err := move.Move.Plan(p.t.Context(), seen, p.request(to))
	require.NoError(p.t, err)
	if forged := slices.DeleteFunc(slices.Concat(made.TakenOver, made.Replaced), func(o move.Object) bool { return !strings.HasPrefix(o.Name, "forged-") }); len(forged) > 50 {
		p.t.Errorf("the plan names %d objects of others, want at most 50", len(forged))
	}
	assert.Truef(p.t, made.Safe, "it is not safe: %+v", made.Checks)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
