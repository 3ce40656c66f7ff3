package doctor

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/lock"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// examineActivity examines whether one of the operators is active. A settled operator writes nothing, so its reports look the same long
// after it has ended: only the lock shows that it is active, and only its permissions show that it can act.
func (p *examinedDriver) examineActivity(ctx context.Context) ([]findings.Check, error) {
	var results []findings.Check
	var ours []client.ObjectKey
	for _, namespace := range p.operators() {
		deployment := &appsv1.Deployment{}
		exists, err := p.read(ctx, deployment, namespace, p.driver.Operator.Name)
		if err != nil {
			return nil, err
		}
		if !exists || deployment.Labels[drivers.DriverLabel] != p.driver.CSIName {
			continue // other operators have other locks
		}
		key := client.ObjectKey{Namespace: namespace, Name: p.driver.Operator.Lock}
		ours = append(ours, key)
		holder, err := lock.Holder(ctx, p.Client, key)
		if err != nil {
			return nil, err
		}
		if holder == nil {
			continue
		}
		lacking, err := p.examinePermissions(ctx, namespace, deployment.Spec.Template.Spec.ServiceAccountName)
		if err != nil {
			return nil, err
		}
		results = append(results, judgeHolder(key, holder), lacking)
	}
	if len(ours) > 0 && len(results) == 0 {
		results = []findings.Check{judgeUnheld(ours[0], p.driver.Operator.Name)}
	}
	for _, result := range results {
		p.inactive = p.inactive || result.Verdict == findings.Fault
	}
	return results, nil
}

// judgeUnheld judges a lock that no pod holds.
func judgeUnheld(key client.ObjectKey, operator string) findings.Check {
	return findings.Fail(operatorInactive, escape.Command("oc -n %s describe deployment %s; oc -n %s logs deployment/%s", key.Namespace, operator, key.Namespace, operator),
		"no pod holds the lock %s: no operator of the driver is active, nothing reconciles the driver, and its conditions are out of date", key)
}

// judgeHolder judges the pod that holds a lock.
func judgeHolder(key client.ObjectKey, holder *corev1.Pod) findings.Check {
	for _, c := range holder.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && holder.DeletionTimestamp == nil {
			return findings.Pass(operatorActive, "pod %s/%s holds the lock %s: it is the active operator", holder.Namespace, holder.Name, key.Name)
		}
	}
	var of pod
	of.Metadata.Name, of.Spec.NodeName, of.Status = holder.Name, holder.Spec.NodeName, holder.Status
	trouble := of.trouble()
	if holder.DeletionTimestamp != nil {
		trouble = strings.TrimPrefix(trouble+"; it is being deleted", "; ")
	}
	return findings.Fail(operatorInactive, escape.Command("oc -n %s describe pod %s", holder.Namespace, holder.Name)+"; if its node is lost for good, delete the Node: see "+findings.Page("start/install.md#when-the-operator-waits"),
		"pod %s/%s holds the lock %s, so no other operator is active, but it is not Ready on node %s%s", holder.Namespace, holder.Name, key.Name, holder.Spec.NodeName, suffix(trouble))
}

// examinePermissions checks the permissions that an operator needs to read its ClusterCSIDriver and to report. The check writes nothing.
func (p *examinedDriver) examinePermissions(ctx context.Context, namespace, account string) (findings.Check, error) {
	user := fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account)
	var lacks []string
	for _, of := range []struct{ verb, subresource string }{{"list", ""}, {"watch", ""}, {"patch", ""}, {"patch", "status"}} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "operator.openshift.io", Resource: "clustercsidrivers", Subresource: of.subresource, Name: p.driver.CSIName, Verb: of.verb},
		}}
		if err := p.Client.Create(ctx, review); apierrors.IsForbidden(err) {
			return notExamined(fmt.Errorf("permissions of %s: %w", user, err))
		} else if err != nil {
			return findings.Check{}, fmt.Errorf("permissions of %s: %w", user, err)
		}
		if !review.Status.Allowed {
			lacks = append(lacks, of.verb+" clustercsidrivers"+strings.TrimSuffix("/"+of.subresource, "/"))
		}
	}
	return judgePermissions(user, p.driver.CSIName, lacks), nil
}

func judgePermissions(user, driver string, lacks []string) findings.Check {
	if len(lacks) == 0 {
		return findings.Pass(operatorPermitted, "%s may see ClusterCSIDriver %s and write its status", user, driver)
	}
	return findings.Fail(operatorForbidden, "find out who took its ClusterRole or ClusterRoleBinding away: OLM or the cluster storage operator creates them again, or install the operator again",
		"%s may not %s %s: it does nothing, and its reports are out of date", user, strings.Join(lacks, ", "), driver)
}
