package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/doctor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/schemas"
)

// working are the verdicts of "berth doctor" for a driver that works.
var working = map[string]findings.Verdict{
	"operator-active": findings.OK, "operator-permitted": findings.OK, "conditions": findings.OK, "credentials": findings.OK, "workload": findings.OK, "registered": findings.OK,
	"sharedvolumes": findings.OK,
}

// TestDoctor: from an empty cluster to volumes, "berth doctor" names the missing parts, and a stranger's mistakes are
// no fault.
func TestDoctor(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	w.mustDiagnose("an empty cluster", 1, map[string]findings.Verdict{"subscription-missing": findings.Fault, "clustercsidriver-missing": findings.Fault})

	early := w.subscription("elsewhere", w.driver.Package.Channel)
	w.create(early)
	w.mustDiagnose("a catalog that does not exist", 1, map[string]findings.Verdict{"catalog-missing": findings.Fault, "operatorgroup": findings.OK})
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, early); err != nil {
			return err
		}
		return journey.Gone(ctx, c, early)
	})

	w.serveCatalog()
	w.subscribe(nil)
	w.checkOperatorProcess()
	w.mustDiagnose("an operator without a ClusterCSIDriver", 1, map[string]findings.Verdict{
		"catalog": findings.OK, "operatorgroup": findings.OK, "subscription": findings.OK, "csv": findings.OK, "workload": findings.OK, "clustercsidriver-missing": findings.Fault,
	})

	w.step(func(ctx context.Context, c client.Client) error {
		return journey.InstallDriver(ctx, c, w.driver.CSIName)
	})
	w.mustDiagnose("nodes that only report the driver's pods", 2, map[string]findings.Verdict{
		"conditions": findings.OK, "namespace": findings.OK, "workload": findings.OK, "registration-not-examined": findings.NotExamined,
	})
	w.register()
	shared := sharedVolume("kept")
	w.grant(shared.Namespace)
	w.share(shared)
	w.mustDiagnose("a driver that works", 0, working)

	w.taint(w.driver.CSIName + "/agent-not-ready")
	w.mustDiagnose("a node that keeps pods off although the driver runs there", 0, map[string]findings.Verdict{"startup-taint": findings.Warning})

	// A tenant has a SharedVolume without a grant, and a Subscription with an invalid name.
	stranger := w.Namespace(t)
	w.create(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: stranger, Name: "evil"}, Spec: &v1alpha1.SubscriptionSpec{
		Package: w.driver.Package.Name, Channel: "a\nb", CatalogSource: "../../\x1b[2J", CatalogSourceNamespace: "..",
	}})
	refused := sharedVolume("refused")
	refused.Namespace = stranger
	w.create(refused)
	w.mustDiagnose("what strangers break", 0, map[string]findings.Verdict{
		"catalog-missing": findings.Warning, "subscriptions-several": findings.Warning, "sharedvolume-not-ready": findings.Warning, "csv": findings.OK, "registered": findings.OK,
	})

	w.scaleOperator(0)
	w.patchState(operatorv1.Unmanaged)
	w.mustDiagnose("an operator that is scaled to 0, and does not see a change", 1, map[string]findings.Verdict{
		"scaled-to-zero": findings.Fault, "operator-inactive": findings.Fault, "conditions-stale": findings.Warning, "generation-unobserved": findings.Fault,
	})
	w.scaleOperator(1)
	w.setState(operatorv1.Unmanaged)
	w.mustDiagnose("a driver that is not reconciled", 0, map[string]findings.Verdict{"unmanaged": findings.Warning})
	w.step(func(ctx context.Context, c client.Client) error {
		sets := &appsv1.DaemonSetList{}
		if err := c.List(ctx, sets, client.InNamespace(namespace)); err != nil {
			return err
		}
		return c.Delete(ctx, &sets.Items[0])
	})
	w.mustDiagnose("a DaemonSet that somebody has deleted", 1, map[string]findings.Verdict{"daemonset-missing": findings.Fault})

	groups := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "second"}}
	w.create(groups)
	w.mustDiagnose("a second OperatorGroup", 1, map[string]findings.Verdict{"operatorgroup-count": findings.Fault})

	w.step(func(ctx context.Context, c client.Client) error {
		subscriptions := &v1alpha1.SubscriptionList{}
		if err := c.List(ctx, subscriptions); err != nil {
			return err
		}
		for i := range subscriptions.Items {
			if err := c.Delete(ctx, &subscriptions.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
	w.mustDiagnose("nobody subscribes any more", 1, map[string]findings.Verdict{"csv-without-subscription": findings.Warning})
}

// register plays kubelets, which say that they know the driver.
func (w *environment) register() {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		nodes := &corev1.NodeList{}
		if err := c.List(ctx, nodes); err != nil {
			return err
		}
		for _, node := range nodes.Items {
			known := &storagev1.CSINode{
				ObjectMeta: metav1.ObjectMeta{Name: node.Name},
				Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: w.driver.CSIName, NodeID: node.Name}}},
			}
			if err := c.Create(ctx, known); err != nil {
				return err
			}
		}
		return nil
	})
}

// taint taints a node.
func (w *environment) taint(key string) {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		nodes := &corev1.NodeList{}
		if err := c.List(ctx, nodes); err != nil {
			return err
		}
		node := &nodes.Items[0]
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectPreferNoSchedule})
		return c.Update(ctx, node)
	})
}

// scaleOperator scales the operator, and to 0 waits until it has ended.
func (w *environment) scaleOperator(replicas int32) {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.driver.Operator.Name}}
		if err := c.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil || replicas > 0 {
			return err
		}
		return cluster.Until(ctx, "the operator's pods to be gone", func(ctx context.Context) error {
			pods := &corev1.PodList{}
			if err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels)); err != nil {
				return err
			}
			if len(pods.Items) > 0 { // one that ends still notices changes
				return fmt.Errorf("there are %d", len(pods.Items))
			}
			return nil
		})
	})
}

// patchState has the driver managed, or not.
func (w *environment) patchState(state operatorv1.ManagementState) {
	w.t.Helper()
	w.step(func(ctx context.Context, c client.Client) error {
		custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
		return c.Patch(ctx, custom, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"managementState":%q}}`, state)))
	})
}

// setState has the driver managed, or not, and waits until its operator has noticed.
func (w *environment) setState(state operatorv1.ManagementState) {
	w.t.Helper()
	w.patchState(state)
	w.step(func(ctx context.Context, c client.Client) error {
		custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
		return cluster.Until(ctx, "the operator to notice", func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
				return err
			}
			if !slices.ContainsFunc(custom.Status.Conditions, func(c operatorv1.OperatorCondition) bool { return c.Reason == string(state) }) {
				return fmt.Errorf("conditions are %+v", custom.Status.Conditions)
			}
			return nil
		})
	})
}

// mustDiagnose waits until "berth doctor" exits with a code, and its findings include the wanted ones.
func (w *environment) mustDiagnose(what string, code int, want map[string]findings.Verdict) {
	w.t.Helper()
	w.step(func(ctx context.Context, _ client.Client) error {
		return cluster.Until(ctx, "berth doctor to diagnose "+what, func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, w.berth, "doctor", w.driver.Name, "--kubeconfig", w.Kubeconfig(), "-o", "json").Output()
			got := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				got = exit.ExitCode()
			} else if err != nil {
				return err
			}
			if err := schemas.Check(out); err != nil {
				return fmt.Errorf("the report does not comply with its schema: %w", err)
			}
			report := &doctor.Report{}
			if err := json.Unmarshal(out, report); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			missing := findingsMissing(report, want)
			if got != code || len(missing) > 0 {
				return fmt.Errorf("exit code %d, want %d; missing are %v in %s", got, code, missing, out)
			}
			return nil
		})
	})
}

// findingsMissing returns the wanted findings that a report lacks.
func findingsMissing(report *doctor.Report, want map[string]findings.Verdict) []string {
	found := map[string][]findings.Verdict{}
	sections := slices.Clone(report.Cluster)
	for _, d := range report.Drivers {
		sections = append(sections, d.Sections...)
	}
	for _, s := range sections {
		for _, result := range s.Results {
			found[result.Code] = append(found[result.Code], result.Verdict)
		}
	}
	var missing []string
	for code, verdict := range want {
		if !slices.Contains(found[code], verdict) {
			missing = append(missing, code)
		}
	}
	return missing
}
