package clusterstorage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/test/release"
)

const adoptPage = "move/adopt.md"

// TestAdoptionRefusals: a problem in a real cluster refuses the hand-over, and nothing is written. Once the problem is
// fixed, the driver is handed over, although the tool is killed before and after each of its writes.
func TestAdoptionRefusals(t *testing.T) {
	t.Parallel()
	d := succeedable()[0]
	f := newFormer(t, d, programs(t))
	f.useVolumes()

	f.mustRefuse("no cluster storage operator", "does not say that it waits", func() func() { return func() {} })
	f.install(release.Payload{Version: version, Stopped: true})
	f.mustLeaveUnmanaged()
	recorded := f.record()
	for _, tc := range []struct {
		name, reason, says, want string
		// spoil changes the cluster, and returns a function that undoes that.
		spoil func() func()
	}{
		{"F11: two Subscriptions", predecessor.ReasonRefused, "there are other Subscriptions", "there are other Subscriptions", func() func() {
			second := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "second"}, Spec: f.subscription.Spec}
			return f.with(second)
		}},
		{"F11: a pending InstallPlan", predecessor.ReasonRefused, "is pending", "is pending", func() func() {
			plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pending"},
				Spec: v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{d.Package.Name + ".v4.5.1"}}}
			return f.with(plan)
		}},
		{"an unmanaged driver", predecessor.Reason, "Unmanaged", "Unmanaged", func() func() {
			f.patch(f.old(), `{"spec":{"managementState":"Unmanaged"}}`)
			return func() { f.patch(f.old(), `{"spec":{"managementState":"Managed"}}`) }
		}},
		{"a foreign CSIDriver", "ForeignCSIDriver", "nothing of the driver is touched", "belongs to none of the driver's operators", func() func() {
			csiDriver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.CSIName}}
			f.get(csiDriver)
			f.patch(csiDriver, `{"metadata":{"annotations":{"csi.openshift.io/managed":null}}}`)
			return func() { f.patch(csiDriver, `{"metadata":{"annotations":{"csi.openshift.io/managed":"true"}}}`) }
		}},
		{"F14: a paused roll-out", predecessor.ReasonRefused, "is paused", "is paused", func() func() {
			deployments := &appsv1.DeploymentList{}
			if err := f.Client().List(t.Context(), deployments, client.InNamespace(d.Namespace)); err != nil || len(deployments.Items) != 1 {
				t.Fatalf("%d Deployments, %v; want one", len(deployments.Items), err)
			}
			f.patch(&deployments.Items[0], `{"spec":{"paused":true}}`)
			return func() { f.patch(&deployments.Items[0], `{"spec":{"paused":null}}`) }
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { f.within(t).mustDecline(tc.name, tc.reason, tc.says, tc.want, tc.spoil) })
	}

	// From now on the tool alone hands the driver over.
	f.operate(fault.Record(), nil)
	f.awaitReason(predecessor.Reason, "berth adopt plan "+d.Name)
	f.awaitSafePlan()
	r := f.reader()
	assert.Contains(t, r.Follow(t, adoptPage, "# Hand a driver over to the cluster storage operator"), predecessor.Condition(d)+": ", "what Storage says")
	r.Follow(t, adoptPage, "## Plan")

	t.Run("F12: the tool is killed at each write", func(t *testing.T) { f.within(t).adopt(fault.KillAtEach()) })
	recorded.MustHold(t)
	f.mustBeHandedOver()
	again := fault.Record()
	f.adopt(again)
	assert.Empty(t, again.Writes(), "a second run wrote")

	t.Run("F13: somebody subscribes again", func(t *testing.T) { f.within(t).removeAgain() })
}

// removeAgain subscribes to the operator again: the new operator goes on, the cluster storage operator reports it, and
// the tool removes OLM's new installation.
func (f *former) removeAgain() {
	f.t.Helper()
	f.subscription = &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.subscription.Name}, Spec: f.subscription.Spec}
	f.create(f.subscription)
	cluster.Eventually(f.t, limit, "OLM to install the operator again", func(context.Context) error {
		if p := f.plan(); p.Operator == nil || p.Operator.Subscription == nil {
			return fmt.Errorf("the plan is:\n%s", p.Text(findings.Plain))
		}
		return nil
	})
	f.awaitLate(true)
	f.mustRefuseCleanup("the operator is installed again", "has an operator of the driver that OLM gives permissions")
	f.awaitSafePlan()
	f.reader().Follow(f.t, adoptPage, "## Apply")
	f.mustBeHandedOver()
	f.awaitLate(false)
	f.reader().Follow(f.t, adoptPage, "## Clean up")
	f.testCleanup(fault.KillAtEach())
}

// awaitLate waits until Storage says that OLM runs an operator beside the new one, or does not say so.
func (f *former) awaitLate(want bool) {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "Storage to report the operator of OLM, or not", func(context.Context) error {
		storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		f.get(storage)
		found := v1helpers.FindOperatorCondition(storage.Status.Conditions, f.driver.ConditionPrefix+"CSIDriverOperatorOfOLMDegraded")
		if (found != nil) != want || want && !strings.Contains(found.Message, f.version) {
			return fmt.Errorf("the condition is %+v, want one: %t", found, want)
		}
		return nil
	})
}

// awaitSafePlan waits until a plan is safe, for example until OLM has finished.
func (f *former) awaitSafePlan() {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "a plan that is safe", func(context.Context) error {
		if p := f.plan(); !p.Safe {
			return fmt.Errorf("it is:\n%s", p.Text(findings.Plain))
		}
		return nil
	})
}

// with creates an object, and returns a function that deletes it.
func (f *former) with(object client.Object) func() {
	f.t.Helper()
	f.create(object)
	return func() {
		require.NoError(f.t, f.Client().Delete(f.t.Context(), object))
		cluster.Eventually(f.t, limit, object.GetName()+" to be gone", f.Gone(object))
	}
}

func (f *former) patch(object client.Object, patch string) {
	f.t.Helper()
	require.NoError(f.t, f.Client().Patch(f.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// mustRefuse spoils the cluster, applies, and fails the test unless that is refused with this text, and nothing is written.
func (f *former) mustRefuse(name, want string, spoil func() func()) {
	f.t.Helper()
	undo := spoil()
	defer undo()
	recorder := fault.Record()
	err := recorder.Run(f.t.Context(), f.Config(), f.adopting(nil))
	assert.ErrorContainsf(f.t, err, want, "%s: error", name)
	if writes := recorder.Writes(); len(writes) > 0 {
		f.t.Errorf("%s: it wrote %+v", name, writes)
	}
	if journals := f.journals(); len(journals) > 0 {
		f.t.Errorf("%s: %d journals, want none", name, len(journals))
	}
}
