package clusterstorage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/status"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
)

// inertia is how long a condition must be Degraded before the summary becomes Degraded. Restarts and updates of nodes
// take less time.
const inertia = 2 * time.Minute

// summarize returns the status of the ClusterOperator, and the time until it changes if the conditions stay as they are.
func summarize(current *configv1.ClusterOperator, conditions []operatorv1.OperatorCondition, now time.Time) (configv1.ClusterOperatorStatus, time.Duration) {
	summary := configv1.ClusterOperatorStatus{}
	if current != nil {
		summary = *current.Status.DeepCopy()
	}
	settled, next := withInertia(conditions, now)
	for _, kind := range []struct {
		conditionType configv1.ClusterStatusConditionType
		healthy       operatorv1.ConditionStatus
	}{
		{configv1.OperatorAvailable, operatorv1.ConditionTrue},
		{configv1.OperatorProgressing, operatorv1.ConditionFalse},
		{configv1.OperatorDegraded, operatorv1.ConditionFalse},
		{configv1.OperatorUpgradeable, operatorv1.ConditionTrue},
	} {
		setSummary(&summary.Conditions, status.UnionClusterCondition(kind.conditionType, kind.healthy, nil, settled...), now)
	}
	return summary, next
}

// withInertia returns the conditions as if a condition that was Degraded for less than the inertia were not Degraded, and the time until
// the first such condition counts as Degraded.
func withInertia(conditions []operatorv1.OperatorCondition, now time.Time) ([]operatorv1.OperatorCondition, time.Duration) {
	settled, next := slices.Clone(conditions), resync
	for i, c := range settled {
		left := inertia - now.Sub(c.LastTransitionTime.Time)
		if !strings.HasSuffix(c.Type, degraded) || c.Status == operatorv1.ConditionFalse || left <= 0 {
			continue
		}
		settled[i].Status, settled[i].Message = operatorv1.ConditionFalse, ""
		next = min(next, left)
	}
	return settled, next
}

// unmanaged returns the status of the ClusterOperator while nothing is managed.
func unmanaged(current *configv1.ClusterOperator, now time.Time) configv1.ClusterOperatorStatus {
	summary := configv1.ClusterOperatorStatus{}
	if current != nil {
		summary = *current.Status.DeepCopy()
	}
	for _, conditionType := range []configv1.ClusterStatusConditionType{
		configv1.OperatorAvailable, configv1.OperatorProgressing, configv1.OperatorDegraded, configv1.OperatorUpgradeable,
	} {
		setSummary(&summary.Conditions, configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: configv1.ConditionUnknown, Reason: "Unmanaged",
			Message: "spec.managementState of Storage cluster is Unmanaged"}, now)
	}
	return summary
}

// setSummary sets a condition. If its status stays the same, the transition time does, too.
func setSummary(conditions *[]configv1.ClusterOperatorStatusCondition, condition configv1.ClusterOperatorStatusCondition, now time.Time) {
	condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	for i, before := range *conditions {
		if before.Type == condition.Type {
			if before.Status == condition.Status {
				condition.LastTransitionTime = before.LastTransitionTime
			}
			(*conditions)[i] = condition
			return
		}
	}
	*conditions = append(*conditions, condition)
}

// versions returns the versions to report: the old ones until everything runs at the new ones. A driver that the
// cluster does not get has no version.
func versions(old []configv1.OperandVersion, states []driverState, version string) []configv1.OperandVersion {
	previous := map[string]string{}
	for _, v := range old {
		previous[v.Name] = v.Version
	}
	all := true
	var found []configv1.OperandVersion
	add := func(name string, arrived bool) {
		if arrived {
			previous[name] = version
		}
		if v := previous[name]; v != "" {
			found = append(found, configv1.OperandVersion{Name: name, Version: v})
		}
	}
	for _, s := range states {
		arrived := s.arrived(version)
		all = all && arrived
		add(s.driver.ConditionPrefix+"CSIDriverOperator", arrived)
	}
	add("operator", all)
	slices.SortFunc(found, func(a, b configv1.OperandVersion) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// arrived reports whether the driver and its operator run at a version.
func (s driverState) arrived(version string) bool {
	for _, c := range s.conditions(version) {
		if strings.HasSuffix(c.Type, progressing) && c.Status != operatorv1.ConditionFalse || strings.HasSuffix(c.Type, available) && c.Status != operatorv1.ConditionTrue {
			return false
		}
	}
	return s.err == nil && !s.foreign
}

// CommonRelatedObjects returns the objects that support needs from every cluster.
func CommonRelatedObjects() []configv1.ObjectReference {
	return []configv1.ObjectReference{
		{Resource: "namespaces", Name: Namespace},
		{Resource: "namespaces", Name: drivers.ClusterStorageNamespace},
		{Group: operatorv1.GroupName, Resource: "storages", Name: "cluster"},
	}
}

// relatedObjects returns the objects that support needs. old are the objects that the ClusterOperator has now. While the sync of a driver
// fails, the old objects stay: they record which operators of OLM have to end before the driver's operator starts.
func relatedObjects(states []driverState, old []configv1.ObjectReference) []configv1.ObjectReference {
	related := CommonRelatedObjects()
	for _, s := range states {
		if s.driver.Namespace != "" && s.driver.Namespace != drivers.ClusterStorageNamespace {
			related = append(related, configv1.ObjectReference{Resource: "namespaces", Name: s.driver.Namespace})
		}
		related = append(related, configv1.ObjectReference{Group: operatorv1.GroupName, Resource: "clustercsidrivers", Name: s.driver.CSIName})
		for _, former := range s.former {
			related = append(related, configv1.ObjectReference{Group: appsv1.GroupName, Resource: "deployments", Namespace: former.Namespace, Name: former.Name})
		}
		for _, object := range s.objects {
			kind := object.GroupVersionKind().GroupKind()
			resource, err := drivers.ResourceOf(kind)
			if err != nil {
				continue // a test of the rules finds it
			}
			related = append(related, configv1.ObjectReference{Group: kind.Group, Resource: resource,
				Namespace: object.GetNamespace(), Name: object.GetName()})
		}
	}
	if slices.ContainsFunc(states, func(s driverState) bool { return s.err != nil }) {
		for _, o := range old {
			if !slices.Contains(related, o) {
				related = append(related, o)
			}
		}
	}
	return related
}

// writeStorage writes the status of Storage/cluster, unless it is up to date.
func (c *controller) writeStorage(ctx context.Context, current *operatorv1.Storage, status *operatorv1.OperatorStatus) error {
	if equality.Semantic.DeepEqual(&current.Status.OperatorStatus, status) {
		return nil
	}
	updated := current.DeepCopy()
	updated.Status.OperatorStatus = *status
	if _, err := c.cluster.operatorClient.OperatorV1().Storages().UpdateStatus(ctx, updated, metav1.UpdateOptions{FieldManager: Name}); err != nil {
		return fmt.Errorf("writing the status of Storage %s: %w", current.Name, err)
	}
	klog.V(2).InfoS("Wrote the status", "storage", current.Name)
	return nil
}

// writeClusterOperator writes the ClusterOperator, unless it is up to date. The cluster version operator creates it, or
// else this operator.
func (c *controller) writeClusterOperator(ctx context.Context, o observed, status configv1.ClusterOperatorStatus) error {
	client := c.cluster.configClient.ConfigV1().ClusterOperators()
	current := o.clusterOperator
	if current == nil {
		var err error
		if current, err = client.Create(ctx, &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: ClusterOperatorName}}, metav1.CreateOptions{FieldManager: Name}); err != nil {
			return fmt.Errorf("creating ClusterOperator %s: %w", ClusterOperatorName, err)
		}
	}
	if equality.Semantic.DeepEqual(current.Status, status) {
		return nil
	}
	updated := current.DeepCopy()
	updated.Status = status
	if _, err := client.UpdateStatus(ctx, updated, metav1.UpdateOptions{FieldManager: Name}); err != nil {
		return fmt.Errorf("writing the status of ClusterOperator %s: %w", ClusterOperatorName, err)
	}
	klog.V(2).InfoS("Wrote the status", "clusterOperator", ClusterOperatorName)
	return nil
}
