package doctor

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// examineNamespace examines the driver's namespace, and whether the cluster's monitoring reads it.
func examineNamespace(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	if p.driverErr != nil {
		return nil, p.driverErr
	}
	results := p.judgePlacement()
	if name := p.decision.Namespace; name != "" && !p.decision.Create && p.custom != nil {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if _, err := p.read(ctx, namespace, "", name); err != nil {
			return nil, err
		}
		results = append(results, judgePodSecurity(name, namespace.Labels)...)
	}
	monitored, err := p.hasMonitoring(ctx)
	if err != nil || !monitored {
		return results, err
	}
	namespaces := p.operators()
	if p.decision.Namespace != "" && !p.decision.Create {
		namespaces = append(namespaces, p.decision.Namespace)
	}
	slices.Sort(namespaces)
	for _, name := range slices.Compact(namespaces) {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		exists, err := p.read(ctx, namespace, "", name)
		if err != nil {
			return nil, err
		}
		if exists {
			results = append(results, judgeMonitoring(name, namespace.Labels))
		}
	}
	return results, nil
}

func (p *examinedDriver) judgePlacement() []findings.Check {
	switch refusal := p.decision.Refusal; {
	case refusal != nil && (p.custom != nil || p.csiDriver != nil):
		return []findings.Check{findings.Fail(namespaceUnknown, helpFor(string(refusal.Reason), "see "+findings.Page("start/install.md#where-the-driver-is")), "%s: %s", refusal.Reason, refusal.Message)}
	case refusal != nil || p.decision.Namespace == "" || p.custom == nil && p.csiDriver == nil:
		return nil // there is no driver yet, or no longer
	case p.decision.Create:
		return []findings.Check{findings.Warn(namespaceMissing, "the operator creates it when it installs the driver", "namespace %s does not exist", p.decision.Namespace)}
	}
	return []findings.Check{findings.Pass(namespaceFine, "the driver is in namespace %s, as cluster-scoped objects show", p.decision.Namespace)}
}

// hasMonitoring reports whether the cluster serves the API of the Prometheus operator.
func (p *examinedDriver) hasMonitoring(ctx context.Context) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitorList"})
	err := p.Client.List(ctx, list, client.Limit(1))
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("listing ServiceMonitors: %w", err)
	}
	return true, nil
}

func judgeMonitoring(namespace string, labels map[string]string) findings.Check {
	if labels[drivers.MonitoringLabel] == "true" {
		return findings.Pass(monitored, "the cluster's monitoring reads metrics in namespace %s", namespace)
	}
	return findings.Warn(notMonitored, escape.Command("oc label namespace %s %s", namespace, drivers.MonitoringLabel+"=true")+
		" makes the cluster's Prometheus read every ServiceMonitor, PodMonitor and PrometheusRule in it, including other operators' objects: see "+
		findings.Page("start/install.md#watch-it"),
		"namespace %s lacks the label %s=true: no alert about the driver will ever fire", namespace, drivers.MonitoringLabel)
}

// podSecurityLabel on a namespace says which pods the API server admits there. Without it, the cluster's default applies.
const podSecurityLabel = "pod-security.kubernetes.io/enforce"

// judgePodSecurity judges this label of the driver's namespace. The driver's pods on nodes are privileged: they mount volumes.
func judgePodSecurity(namespace string, labels map[string]string) []findings.Check {
	level, labelled := labels[podSecurityLabel]
	if !labelled || level == "privileged" {
		return nil
	}
	return []findings.Check{findings.Fail(podSecurity, allowPods(namespace), "namespace %s has the label %s=%s: the API server refuses new pods of the driver there", namespace, podSecurityLabel, level)}
}

// allowPods returns the command that makes the API server admit the driver's pods in a namespace. Without the second label, OpenShift would
// change the first one back.
func allowPods(namespace string) string {
	return escape.Command("oc label --overwrite namespace %s %s %s", namespace, podSecurityLabel+"=privileged", "security.openshift.io/scc.podSecurityLabelSync=false")
}
