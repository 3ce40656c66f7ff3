package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// examineOperator examines the operators that OLM or the cluster storage operator runs.
func examineOperator(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	var results []findings.Check
	for _, s := range p.subscriptions {
		if s.Status.InstalledCSV == "" || p.mayBeForeign(s) {
			continue
		}
		csv := &v1alpha1.ClusterServiceVersion{}
		exists, err := p.read(ctx, csv, s.Namespace, s.Status.InstalledCSV)
		if err != nil {
			return nil, err
		}
		if exists && csv.IsCopied() {
			results = append(results, findings.Fail(csvMissing, "delete the Subscription: the operator is installed in namespace "+csv.Labels[v1alpha1.CopiedLabelKey],
				"ClusterServiceVersion %s/%s, which Subscription %s has installed according to OLM, is only a copy", s.Namespace, s.Status.InstalledCSV, s.Name))
			continue
		}
		if !exists {
			results = append(results, findings.Fail(csvMissing, "delete the Subscription and create it again; the driver and its volumes stay",
				"ClusterServiceVersion %s/%s, which Subscription %s has installed, does not exist", s.Namespace, s.Status.InstalledCSV, s.Name))
			continue
		}
		results = append(results, judgeCSV(csv))
		for _, spec := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
			of, err := p.examineDeployment(ctx, s.Namespace, spec.Name)
			if err != nil {
				return nil, err
			}
			results = append(results, of...)
		}
	}
	for _, namespace := range p.ofExtensions() {
		of, err := p.examineDeployment(ctx, namespace, p.driver.Operator.Name)
		if err != nil {
			return nil, err
		}
		results = append(results, of...)
	}
	if owner := p.decision.Owner; owner != nil {
		of, err := p.examineDeployment(ctx, owner.Namespace, p.driver.Operator.Name)
		if err != nil {
			return nil, err
		}
		results = append(results, of...)
	}
	of, err := p.examineActivity(ctx)
	return append(results, of...), err
}

// judgeCSV judges an installed ClusterServiceVersion.
func judgeCSV(csv *v1alpha1.ClusterServiceVersion) findings.Check {
	name := csv.Namespace + "/" + csv.Name
	switch status := csv.Status; status.Phase {
	case v1alpha1.CSVPhaseSucceeded:
		return findings.Pass(csvFine, "ClusterServiceVersion %s has phase %s", name, status.Phase)
	case v1alpha1.CSVPhaseFailed, v1alpha1.CSVPhaseUnknown:
		return findings.Fail(csvFailed, "solve the problem in the message: OLM tries again", "ClusterServiceVersion %s has phase %s: %s", name, status.Phase, explained(string(status.Reason), status.Message))
	default:
		return findings.Warn(csvUnfinished, "wait; if it stays so, look at the operator's Deployment below", "ClusterServiceVersion %s has phase %q: %s", name, status.Phase, explained(string(status.Reason), status.Message))
	}
}

// examineDeployment examines a Deployment, and its pods if they are not all available.
func (p *examinedDriver) examineDeployment(ctx context.Context, namespace, name string) ([]findings.Check, error) {
	deployment := &appsv1.Deployment{}
	exists, err := p.read(ctx, deployment, namespace, name)
	if err != nil {
		return nil, err
	}
	if !exists {
		return []findings.Check{findings.Fail(deploymentMissing, "find out who deleted it: its operator, OLM or the cluster storage operator creates it again",
			"Deployment %s/%s does not exist", namespace, name)}, nil
	}
	w := workload{kind: "Deployment", namespace: namespace, name: name, available: deployment.Status.AvailableReplicas, want: replicas(deployment),
		updated: deployment.Status.UpdatedReplicas, observed: deployment.Status.ObservedGeneration >= deployment.Generation}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			w.refused = c.Message
		}
	}
	return p.examineWorkload(ctx, w, deployment.Spec.Selector)
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// A workload holds the status of a Deployment or DaemonSet.
type workload struct {
	kind, namespace, name    string
	available, updated, want int32
	// observed says that the status is about the current specification.
	observed bool
	// refused says why pods could not be created, or is "".
	refused string
	// notReady are nodes that are NotReady, where pods can be neither updated nor ended.
	notReady []string
}

// isComplete reports whether all pods are available and up to date.
func (w workload) isComplete() bool {
	return w.observed && w.available >= w.want && w.updated >= w.want
}

// allOf returns the words for all pods of a workload.
func allOf(pods int32) string {
	if pods == 1 {
		return "its pod"
	}
	return fmt.Sprintf("all of its %d pods", pods)
}

// judge judges a workload. troubles say why its pods do not start.
func (w workload) judge(troubles []string) findings.Check {
	name := fmt.Sprintf("%s %s/%s", w.kind, w.namespace, w.name)
	state := fmt.Sprintf("%s has %d of %s available, and %d up to date", name, w.available, number(int(w.want), "pod"), w.updated)
	switch {
	case w.kind == "DaemonSet" && w.observed && w.want == 0:
		return findings.Warn(noNodes, "look at the node selector and the tolerations: "+escape.Command("oc -n %s describe daemonset %s", w.namespace, w.name), "%s is for no node at all", name)
	case w.kind == "Deployment" && w.want == 0:
		return findings.Fail(scaledToZero, escape.Command("oc -n %s scale deployment %s --replicas=1", w.namespace, w.name), "%s is scaled to 0: nothing of it runs", name)
	case w.isComplete():
		return findings.Pass(workloadFine, "%s has %s available and up to date", name, allOf(w.want))
	case w.refused != "":
		return findings.Fail(podsRefused, helpForRefusal(w), "%s; pods cannot be created: %s", state, escape.Short(w.refused, maxRefusal))
	case len(w.notReady) > 0 && len(troubles) == 0:
		return findings.Warn(nodesNotReady, "repair the nodes, or delete their Node objects", "%s; nodes are NotReady: %s", state, names(w.notReady))
	case len(troubles) > 0:
		return findings.Fail(podsFail, escape.Command("oc -n %s describe %s %s; oc -n %s get events", w.namespace, strings.ToLower(w.kind), w.name, w.namespace), "%s: %s", state, strings.Join(troubles, "; "))
	case w.available == 0 && w.want > 0:
		return findings.Fail(podsMissing, escape.Command("oc -n %s describe %s %s", w.namespace, strings.ToLower(w.kind), w.name)+": its events say why pods are not created", "%s", state)
	}
	return findings.Warn(rolloutPending, "wait", "%s", state)
}

// maxRefusal is the maximum length of a refusal in a result, in characters.
const maxRefusal = 500

// helpForRefusal returns advice about refused pods.
func helpForRefusal(w workload) string {
	if strings.Contains(w.refused, "violates PodSecurity") {
		return allowPods(w.namespace)
	}
	return escape.Command("oc -n %s describe %s %s", w.namespace, strings.ToLower(w.kind), w.name) + ": have the policy or webhook accept the pods"
}
