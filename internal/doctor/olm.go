package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/catalogsource"
	"github.com/berth-csi/berth/olm/clusterextension"
)

// olmOperators is the prefix of OLM's ClusterOperators.
const olmOperators = "operator-lifecycle-manager"

// examineOLM examines whether OLM can install operators at all.
func examineOLM(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	any := &metav1.PartialObjectMetadataList{} // without the content, which anybody may have written
	any.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("SubscriptionList"))
	err := p.Client.List(ctx, any, client.Limit(1))
	if meta.IsNoMatchError(err) {
		if extensions, err := clusterextension.List(ctx, p.Client); err != nil {
			return nil, err
		} else if len(extensions) > 0 {
			return []findings.Check{findings.Pass(olmFine, "the cluster serves OLM v1's API, and not OLM v0's")}, nil
		}
		return []findings.Check{findings.Warn(olmMissing, "install it, or let the cluster storage operator run the drivers",
			"the cluster does not serve the API of the Operator Lifecycle Manager (OLM)")}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing Subscriptions: %w", err)
	}
	operators := &configv1.ClusterOperatorList{}
	if err := p.list(ctx, operators); err != nil {
		return nil, err
	}
	return judgeOLM(operators.Items), nil
}

func judgeOLM(operators []configv1.ClusterOperator) []findings.Check {
	var results []findings.Check
	for _, operator := range operators {
		if !strings.HasPrefix(operator.Name, olmOperators) {
			continue
		}
		for _, c := range operator.Status.Conditions {
			if c.Type == configv1.OperatorAvailable && c.Status != configv1.ConditionTrue || c.Type == configv1.OperatorDegraded && c.Status == configv1.ConditionTrue {
				results = append(results, findings.Fail(olmUnhealthy, escape.Command("oc describe clusteroperator %s", operator.Name),
					"ClusterOperator %s has %s=%s: %s", operator.Name, c.Type, c.Status, explained(c.Reason, c.Message)))
			}
		}
	}
	if len(results) == 0 {
		results = append(results, findings.Pass(olmFine, "the cluster serves OLM's API, and no ClusterOperator reports trouble of OLM"))
	}
	return results
}

// examineSubscriptions examines the Subscriptions and ClusterExtensions of the driver's package.
func examineSubscriptions(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	if p.subscriptionsErr != nil {
		return nil, p.subscriptionsErr
	}
	results := judgeExtensions(p)
	if !p.isSubscribed() && len(results) == 0 {
		results = judgeUnsubscribed(p)
	}
	for i, s := range p.subscriptions {
		if i == maxSubscriptions {
			break
		}
		of, err := p.examineSubscription(ctx, &s)
		if err != nil {
			return nil, err
		}
		if p.mayBeForeign(s) {
			of = faultsToWarnings(of)
		}
		results = append(results, of...)
	}
	if n := len(p.subscriptions); n > 1 {
		var names []string
		for _, s := range p.subscriptions[:min(n, maxSubscriptions)] {
			names = append(names, s.Namespace+"/"+s.Name)
		}
		results = append(results, findings.Warn(subscriptionsSeveral, "keep one Subscription, and delete the others and their ClusterServiceVersions",
			"%d Subscriptions ask for package %s, such as %s", n, p.driver.Package.Name, strings.Join(names, ", ")))
	}
	return results, nil
}

// maxSubscriptions bounds the Subscriptions to a package that are examined. Anybody may create more.
const maxSubscriptions = 5

func (p *examinedDriver) examineSubscription(ctx context.Context, s *v1alpha1.Subscription) ([]findings.Check, error) {
	source, groups := &v1alpha1.CatalogSource{}, &operatorsv1.OperatorGroupList{}
	exists, err := p.read(ctx, source, s.Spec.CatalogSourceNamespace, s.Spec.CatalogSource)
	if err != nil {
		return nil, err
	}
	if !exists {
		source = nil
	}
	if err := p.list(ctx, groups, client.InNamespace(s.Namespace)); err != nil {
		return nil, err
	}
	return append([]findings.Check{judgeSource(s, source), judgeGroups(s.Namespace, groups.Items)}, judgeSubscription(s)...), nil
}

// faultsToWarnings turns faults into warnings, for objects that may be a stranger's.
func faultsToWarnings(results []findings.Check) []findings.Check {
	for i := range results {
		if results[i].Verdict == findings.Fault {
			results[i].Verdict = findings.Warning
		}
	}
	return results
}

// judgeExtensions judges the ClusterExtensions from which OLM v1 installs the driver's operator.
func judgeExtensions(p *examinedDriver) (results []findings.Check) {
	for _, e := range p.extensions {
		installed, _, _ := unstructured.NestedString(e.Object, "status", "install", "bundle", "name")
		trouble := ""
		if status, reason, message := clusterextension.Condition(e, "Progressing"); reason != "Succeeded" {
			trouble = fmt.Sprintf("Progressing=%s, %s", status, explained(reason, message))
		}
		if status, reason, message := clusterextension.Condition(e, "Installed"); status != "True" {
			trouble = fmt.Sprintf("Installed=%s, %s", status, explained(reason, message))
		}
		switch {
		case e.GetDeletionTimestamp() != nil:
			results = append(results, findings.Fail(extensionUnhealthy, "the APIs that it has installed may go with it, and all their objects: see "+findings.Page("move/olm-v1.md#remove-the-operator"), "ClusterExtension %s is being deleted", e.GetName()))
		case installed == "" || trouble != "":
			results = append(results, findings.Fail(extensionUnhealthy, escape.Command("oc describe clusterextension %s", e.GetName()), "ClusterExtension %s has installed %q: %s", e.GetName(), installed, trouble))
		default:
			results = append(results, findings.Pass(extensionFine, "OLM v1 has installed %s for ClusterExtension %s", installed, e.GetName()))
		}
	}
	if len(p.extensions) > 0 && p.installs() {
		results = append(results, findings.Warn(olmTwice, "remove one of both: see "+findings.Page("operate/uninstall.md")+" and "+findings.Page("move/olm-v1.md#remove-the-operator"),
			"OLM v1 installs package %s for a ClusterExtension, and a Subscription asks OLM v0 for it: only one of the operators is active", p.driver.Package.Name))
	}
	return results
}

// judgeUnsubscribed judges a driver without a Subscription.
func judgeUnsubscribed(p *examinedDriver) []findings.Check {
	switch {
	case p.decision.Owner != nil:
		return []findings.Check{findings.Pass(operatorOfPlatform, "%s runs the driver's operator; it needs no Subscription", p.decision.Owner.Trace.Owner)}
	case p.driverErr != nil:
		return nil // the cluster storage operator may run it; a later section says that it could not be read
	case !p.driver.HasPackage():
		return []findings.Check{findings.Fail(operatorMissing, "see ClusterOperator storage", "the cluster storage operator does not run the driver's operator; this platform may not need it")}
	}
	for _, version := range p.unsubscribed {
		if slices.Contains(p.proven, version.Namespace) { // otherwise it may be a stranger's
			return []findings.Check{findings.Warn(csvUnsubscribed, "delete it, wait until it is gone, and create a Subscription: OLM installs nothing next to it. The driver and its volumes stay. See "+findings.Page("start/install.md#install-the-operator"),
				"ClusterServiceVersion %s has the driver's operator, but no Subscription asks OLM for package %s: OLM does not update it", version, p.driver.Package.Name)}
		}
	}
	return []findings.Check{findings.Fail(subscriptionMissing, "create a Subscription in a namespace with an OperatorGroup for all namespaces: see "+findings.Page("start/install.md#install-the-operator"),
		"no Subscription from which OLM would install it asks for package %s", p.driver.Package.Name)}
}

// judgeSource judges the catalog of a Subscription.
func judgeSource(s *v1alpha1.Subscription, source *v1alpha1.CatalogSource) findings.Check {
	name := s.Spec.CatalogSourceNamespace + "/" + s.Spec.CatalogSource
	switch {
	case source == nil:
		return findings.Fail(catalogMissing, "create it, or name another one in spec.source and spec.sourceNamespace of the Subscription",
			"CatalogSource %s, which Subscription %s/%s names, does not exist", name, s.Namespace, s.Name)
	case !catalogsource.Reachable(source):
		return findings.Fail(catalogUnreachable, escape.Command("oc -n %s get pods -l %s", source.Namespace, "olm.catalogSource="+source.Name),
			"OLM does not reach the catalog of CatalogSource %s: the connection is %s%s", name, catalogsource.ConnectionState(source), suffix(source.Status.Message))
	}
	return findings.Pass(catalogFine, "OLM reaches the catalog of CatalogSource %s", name)
}

// judgeGroups judges the OperatorGroups of an operator's namespace. OLM requires exactly one, and drivers' operators support only
// groups for all namespaces.
func judgeGroups(namespace string, groups []operatorsv1.OperatorGroup) findings.Check {
	if len(groups) != 1 {
		var names []string
		for _, group := range groups {
			names = append(names, group.Name)
		}
		return findings.Fail(operatorGroupCount, "leave exactly one, without spec.targetNamespaces",
			"namespace %s has %s, want one: OLM installs nothing there%s", namespace, number(len(groups), "OperatorGroup"), suffix(strings.Join(names, ", ")))
	}
	if spec := groups[0].Spec; len(spec.TargetNamespaces) > 0 || spec.Selector != nil && len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) > 0 {
		return findings.Fail(operatorGroupScope, "delete spec.targetNamespaces and spec.selector",
			"OperatorGroup %s/%s is not for all namespaces, but the operator supports nothing else", namespace, groups[0].Name)
	}
	return findings.Pass(operatorGroupFine, "OperatorGroup %s/%s is for all namespaces", namespace, groups[0].Name)
}

// faultsOfSubscriptions are the conditions of a Subscription that are faults if they are true, with advice.
var faultsOfSubscriptions = map[v1alpha1.SubscriptionConditionType]string{
	v1alpha1.SubscriptionCatalogSourcesUnhealthy: "repair or delete the CatalogSource that the message names: one that cannot be reached may block all updates",
	v1alpha1.SubscriptionResolutionFailed:        "solve the problem in the message: OLM resolves all Subscriptions of a namespace together",
	v1alpha1.SubscriptionBundleUnpackFailed:      "see the Job in the namespace of the catalog: often the bundle image cannot be pulled",
	v1alpha1.SubscriptionInstallPlanFailed:       "read the InstallPlan; when its cause is gone, delete the Subscription and the ClusterServiceVersion and create the Subscription again",
	v1alpha1.SubscriptionInstallPlanMissing:      "delete the Subscription and create it again; the driver and its volumes stay",
}

// judgeSubscription judges OLM's reports in a Subscription.
func judgeSubscription(s *v1alpha1.Subscription) []findings.Check {
	name := s.Namespace + "/" + s.Name
	var results []findings.Check
	for _, c := range s.Status.Conditions {
		do, isFault := faultsOfSubscriptions[c.Type]
		if c.Status == corev1.ConditionTrue && isFault {
			results = append(results, findings.Fail(subscriptionUnhealthy, do, "Subscription %s has %s: %s", name, c.Type, explained(c.Reason, c.Message)))
		}
	}
	slices.SortStableFunc(results, func(a, b findings.Check) int { return strings.Compare(a.What, b.What) })
	pending := s.Status.State == v1alpha1.SubscriptionStateUpgradePending
	switch {
	case pending && s.GetInstallPlanApproval() == v1alpha1.ApprovalManual && s.Status.InstallPlanRef != nil:
		plan := s.Status.InstallPlanRef.Name
		result := findings.Warn(approvalPending, "read it, and approve it: set spec.approved of the InstallPlan to true",
			"Subscription %s waits until somebody approves InstallPlan %s/%s, which installs %s", name, s.Namespace, plan, s.Status.CurrentCSV)
		if s.Status.InstalledCSV == "" {
			result.Verdict = findings.Fault
		}
		results = append(results, result)
	case len(results) > 0:
	case s.Status.InstalledCSV == "":
		results = append(results, findings.Fail(nothingInstalled, fmt.Sprintf("wait a minute; then check that the catalog has package %s with channel %q", s.Spec.Package, s.Spec.Channel),
			"OLM has installed nothing yet for Subscription %s", name))
	case pending:
		results = append(results, findings.Warn(updatePending, "wait", "OLM is updating Subscription %s from %s to %s", name, s.Status.InstalledCSV, s.Status.CurrentCSV))
	default:
		results = append(results, findings.Pass(subscriptionFine, "Subscription %s has installed %s", name, s.Status.InstalledCSV))
	}
	return results
}

// explained joins a reason and a message. Either may be missing.
func explained(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// suffix returns a text to append to a sentence.
func suffix(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
