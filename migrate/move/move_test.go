package move_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
				apply := p.apply(to, migrate.Options{})
				p.runKilled(apply)
				p.mustBe("the operator to be with "+string(to), p.isWith(to))
				p.mustWriteNothing(apply)
			}
			if err := s.Client().Get(t.Context(), client.ObjectKeyFromObject(forged), forged); err != nil || forged.DeletionTimestamp != nil {
				t.Errorf("a tenant's Secret was taken for one in which OLM v1 remembers an installation: it is deleted, or %v", err)
			}
		})
	}
}

// forgeMemory has a tenant write a Secret that looks like OLM v1's record of an installation, and that nobody can
// delete.
func (p *place) forgeMemory() *corev1.Secret {
	p.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace(p.t), Name: "remembered", Labels: map[string]string{"owner": "operator-controller", "name": p.pkg},
		Finalizers: []string{"example.com/never"}}, Type: "operatorframework.io/index.v1"}
	p.create(secret)
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

// runKilled runs a tool that is killed before and after each of its writes, and started again.
func (p *place) runKilled(t tool) {
	p.t.Helper()
	injector := fault.KillAtEach()
	p.run(func(ctx context.Context, config *rest.Config) error { return injector.Run(ctx, config, t) })
	p.t.Logf("the tool was killed at %d writes", len(injector.Writes()))
}

// mustWriteNothing runs a tool again, and fails the test if it writes anything.
func (p *place) mustWriteNothing(t tool) {
	p.t.Helper()
	recorder := fault.Record()
	p.run(func(ctx context.Context, config *rest.Config) error { return recorder.Run(ctx, config, t) })
	if writes := recorder.Writes(); len(writes) > 0 {
		p.t.Errorf("a second run wrote %+v", writes)
	}
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
			p.runKilled(p.rollback)
			p.mustBe("the operator to be with OLM v0 again", p.isWithV0)
			p.mustWriteNothing(p.rollback)
			if step == move.Loosen {
				p.run(p.apply(move.ToV1, migrate.Options{}))
				p.mustBe("the operator to be with OLM v1", p.isWithV1)
				assert.ErrorContains(t, p.rollback(t.Context(), p.Config()), "point of no return")
			}
		})
	}
}

// TestCrashSweep injects each kind of fault into single writes of a move there and back. Whatever the fault, the end is the same.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var plans []fault.Scenario
	for name, boxcutter := range map[string]bool{"helm": false, "boxcutter": true} {
		for _, to := range []move.Target{move.ToV1, move.ToV0} {
			play := func(t *testing.T, injector *fault.Injector) []fault.Write {
				t.Helper()
				p := s.newPlace(t, boxcutter)
				p.startV1()
				if to == move.ToV0 {
					p.run(p.apply(move.ToV1, migrate.Options{}))
				}
				apply := p.apply(to, migrate.Options{})
				p.run(func(ctx context.Context, config *rest.Config) error { return injector.Run(ctx, config, apply) })
				p.mustBe("the operator to be with "+string(to), p.isWith(to))
				p.mustWriteNothing(apply)
				return injector.Writes()
			}
			var points []fault.Point
			for _, w := range play(t, fault.Record()) {
				points = append(points, w.Point)
			}
			plans = append(plans, fault.Scenario{Name: name + "-" + string(to), Points: points, Sample: 6, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
				injector := fault.InjectNth(slices.Index(points, at)+1, f)
				play(t, injector)
				return injector.Came()
			}})
		}
	}
	for i, tally := range fault.Sweep(t, 8, plans...) {
		if len(tally.Missed) > 0 {
			t.Errorf("%s: %s", plans[i].Name, tally)
		}
	}
}

const movePage = "move-to-olm-v1.md"

// TestFollowPage: an administrator follows docs/move-to-olm-v1.md, with its commands: looks at the plan, changes their
// mind, moves the operator to OLM v1, and moves it back. Then they move two operators with one command, which moves
// none if one cannot be moved.
func TestFollowPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, second := s.newPlace(t, false), s.newPlace(t, false)
	p.startV1()
	second.startV1()
	authority := filepath.Join(t.TempDir(), "authority.crt")
	require.NoError(t, os.WriteFile(authority, slices.Concat(p.startCatalogd(), second.startCatalogd()), 0o644))
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
	if printed := r.Follow(t, movePage, "## Apply", status); !strings.Contains(printed, "The plan was applied.") {
		t.Errorf("the status is\n%s", printed)
	}
	r.Follow(t, movePage, "## Back")
	p.mustBe("the operator to be with OLM v0 again", p.isWithV0)

	move := func(pkgs ...string) (string, error) {
		args := append([]string{"move", "apply", "--kubeconfig", p.Kubeconfig(), "--catalogd-ca", authority}, pkgs...)
		output, err := exec.CommandContext(t.Context(), built.Path("berth"), args...).CombinedOutput()
		t.Logf("%q: %v\n%s", args, err, output)
		return string(output), err
	}
	if printed, err := move(p.pkg, "none"); err == nil || !strings.Contains(printed, "there is no Subscription to package none") {
		t.Errorf("got %v, want that there is no Subscription to the second package", err)
	}
	p.mustBe("the operator to be with OLM v0 still", p.isWithV0)
	if _, err := move(p.pkg, second.pkg); err != nil {
		t.Error(err)
	}
	p.mustBe("the operator to be with OLM v1", p.isWithV1)
	second.mustBe("the second operator to be with OLM v1", second.isWithV1)
}
