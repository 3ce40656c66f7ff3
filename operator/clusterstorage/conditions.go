package clusterstorage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/status"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings/escape"
)

var (
	available   = operatorv1.OperatorStatusTypeAvailable
	progressing = operatorv1.OperatorStatusTypeProgressing
	degraded    = operatorv1.OperatorStatusTypeDegraded
	upgradeable = operatorv1.OperatorStatusTypeUpgradeable
)

// foreign reports whether an administrator has installed a driver of the same name: its CSIDriver was not created for
// the cluster's storage. Our operator would overwrite that driver, unless the ClusterCSIDriver is Unmanaged.
func foreign(d drivers.Driver, o observed) bool {
	csiDriver, custom := o.csiDrivers[d.CSIName], o.customResources[d.CSIName]
	if csiDriver == nil || custom != nil && custom.Spec.ManagementState == operatorv1.Unmanaged {
		return false
	}
	return !d.IsOwn(csiDriver)
}

// conditionsOf returns the conditions of Storage/cluster, computed from the states of the chosen drivers.
func conditionsOf(o observed, choices []choice, states []driverState, version string) []operatorv1.OperatorCondition {
	conditions := platformConditions(o, choices)
	for _, state := range states {
		reported := state.conditions(version)
		if takesOver(state, o, version) {
			reported = stayAvailable(state.driver, reported)
		}
		conditions = append(conditions, reported...)
	}
	return conditions
}

// platformConditions returns the conditions that say which drivers the platform needs. A platform without drivers has
// no other conditions.
func platformConditions(o observed, choices []choice) []operatorv1.OperatorCondition {
	var with, without []string
	for _, c := range choices {
		if c.without == "" {
			with = append(with, c.driver.CSIName)
		} else {
			without = append(without, fmt.Sprintf("%s is not installed: %s", c.driver.CSIName, c.without))
		}
	}
	message := "the platform " + string(o.platform()) + " has no CSI drivers that this operator knows"
	switch {
	case o.platform() == "":
		message = "Infrastructure cluster has no status.platformStatus.type: no CSI driver is installed"
	case len(with) > 0:
		message = fmt.Sprintf("the platform %s has %s", o.platform(), strings.Join(with, ", "))
	}
	message = strings.Join(append([]string{message}, without...), "; ")
	conditions := conditionSet{prefix: "Platform"}
	conditions.set(available, operatorv1.ConditionTrue, "AsExpected", message)
	conditions.set(progressing, operatorv1.ConditionFalse, "AsExpected", "")
	conditions.set(degraded, operatorv1.ConditionFalse, "AsExpected", "")
	if o.storage.Spec.ManagementState == operatorv1.Removed {
		conditions.set(degraded, operatorv1.ConditionTrue, "RemovalNotSupported",
			"spec.managementState of Storage cluster is Removed, but the platform's storage cannot be removed: set it to Managed, or to Unmanaged to make this operator do nothing")
	}
	conditions.set(upgradeable, operatorv1.ConditionTrue, "AsExpected", "")
	return conditions.all
}

// maxMessage is the maximum number of characters of a condition's message.
const maxMessage = 16 << 10

// A conditionSet builds conditions whose types have a prefix.
type conditionSet struct {
	prefix string
	all    []operatorv1.OperatorCondition
}

// set adds a condition, or replaces the existing one.
func (s *conditionSet) set(conditionType string, status operatorv1.ConditionStatus, reason, message string) {
	condition := operatorv1.OperatorCondition{Type: s.prefix + conditionType, Status: status, Reason: reason, Message: escape.Message(message, maxMessage)}
	if i := slices.IndexFunc(s.all, func(c operatorv1.OperatorCondition) bool { return c.Type == condition.Type }); i >= 0 {
		s.all[i] = condition
		return
	}
	s.all = append(s.all, condition)
}

// conditions returns the conditions of one driver: about the objects of its operator, about the operator's Deployment,
// and what the operator reports in the ClusterCSIDriver.
func (s driverState) conditions(version string) []operatorv1.OperatorCondition {
	prefix := s.driver.ConditionPrefix + "CSIDriverOperator"
	if s.foreign {
		conditions := conditionSet{prefix: prefix}
		conditions.set(degraded, operatorv1.ConditionTrue, "ForeignCSIDriver", fmt.Sprintf(
			"CSIDriver %s was not created for this cluster's storage, so nothing of the driver is touched: remove that driver, CSIDriver included, "+
				"or keep it and create ClusterCSIDriver %[1]s with spec.managementState Unmanaged", s.driver.CSIName))
		return conditions.all
	}
	if s.held != nil {
		return s.held.conditions(prefix)
	}
	applied := conditionSet{prefix: prefix + "Objects"}
	applied.set(degraded, operatorv1.ConditionFalse, "AsExpected", "")
	if s.err != nil {
		applied.set(degraded, operatorv1.ConditionTrue, "ApplyFailed", s.err.Error())
	}
	second := conditionSet{prefix: prefix + "OfOLM"}
	switch {
	case s.stuck != "":
		second.set(degraded, operatorv1.ConditionTrue, predecessor.ReasonStuck, s.stuck)
	case s.late != "":
		second.set(degraded, operatorv1.ConditionTrue, predecessor.Reason, s.late)
	}
	return slices.Concat(applied.all, second.all, deploymentConditions(prefix+"Deployment", s.deployment), s.reported(prefix+"CR", version))
}

// conditions returns the conditions while a driver's operator is not started. The driver keeps serving its volumes, so
// storage stays available.
func (h *hold) conditions(prefix string) []operatorv1.OperatorCondition {
	conditions := conditionSet{prefix: prefix}
	status := func(is bool) operatorv1.ConditionStatus {
		if is {
			return operatorv1.ConditionTrue
		}
		return operatorv1.ConditionFalse
	}
	conditions.set(available, operatorv1.ConditionTrue, h.reason, h.message)
	conditions.set(progressing, status(h.progresses), h.reason, h.message)
	conditions.set(degraded, status(h.degraded), h.reason, h.message)
	conditions.set(upgradeable, operatorv1.ConditionTrue, h.reason, h.message)
	return conditions.all
}

// deploymentConditions returns the conditions that say whether a driver's operator runs as it should. Available is not among them,
// because it is about the driver: the driver serves volumes without its operator, too, for example while the operator's pod moves to
// another node.
func deploymentConditions(prefix string, d *appsv1.Deployment) []operatorv1.OperatorCondition {
	conditions := conditionSet{prefix: prefix}
	if d == nil {
		conditions.set(progressing, operatorv1.ConditionTrue, "Missing", "the driver's operator has not been started yet")
		conditions.set(degraded, operatorv1.ConditionFalse, "AsExpected", "")
		return conditions.all
	}
	conditions.set(progressing, operatorv1.ConditionFalse, "AsExpected", "")
	conditions.set(degraded, operatorv1.ConditionFalse, "AsExpected", "")
	name := d.Namespace + "/" + d.Name
	switch stuck := stuckReason(d); {
	case stuck != "":
		conditions.set(degraded, operatorv1.ConditionTrue, "RolloutStuck", fmt.Sprintf("Deployment %s does not roll out: %s", name, stuck))
	case !rolledOut(d):
		conditions.set(progressing, operatorv1.ConditionTrue, "RollingOut", fmt.Sprintf("Deployment %s is rolling out", name))
	case d.Status.AvailableReplicas == 0:
		conditions.set(degraded, operatorv1.ConditionTrue, "NoPod", fmt.Sprintf("no pod of Deployment %s is available", name))
	}
	return conditions.all
}

// rolledOut reports whether the rollout of a Deployment has ended, according to the controller manager's condition. The condition stays
// true when a pod is evicted or its node restarts.
func rolledOut(d *appsv1.Deployment) bool {
	c := rollout(d)
	return c.Status == corev1.ConditionTrue && c.Reason == "NewReplicaSetAvailable"
}

// stuckReason returns the controller manager's reason why the rollout of a Deployment missed its deadline; "" if it may
// still end.
func stuckReason(d *appsv1.Deployment) string {
	if c := rollout(d); c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" {
		return c.Message
	}
	return ""
}

// rollout returns the controller manager's condition about the rollout of a Deployment's current generation; an empty
// one if there is none.
func rollout(d *appsv1.Deployment) appsv1.DeploymentCondition {
	if d.Status.ObservedGeneration < d.Generation {
		return appsv1.DeploymentCondition{}
	}
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentProgressing })
	if i < 0 {
		return appsv1.DeploymentCondition{}
	}
	return d.Status.Conditions[i]
}

// reported returns the conditions that the driver's operator reports in the ClusterCSIDriver.
func (s driverState) reported(prefix, version string) []operatorv1.OperatorCondition {
	conditions := conditionSet{prefix: prefix}
	custom := s.customResource
	if custom != nil && custom.Spec.ManagementState == operatorv1.Unmanaged {
		const message = "an administrator manages the driver: spec.managementState of its ClusterCSIDriver is Unmanaged"
		conditions.set(available, operatorv1.ConditionTrue, "Unmanaged", message)
		conditions.set(progressing, operatorv1.ConditionFalse, "Unmanaged", message)
		conditions.set(degraded, operatorv1.ConditionFalse, "Unmanaged", message)
		conditions.set(upgradeable, operatorv1.ConditionTrue, "Unmanaged", message)
		return conditions.all
	}
	waiting := fmt.Sprintf("the driver's operator has not reported in ClusterCSIDriver %s yet", s.driver.CSIName)
	if custom == nil {
		conditions.set(available, operatorv1.ConditionFalse, "WaitForOperator", waiting)
		conditions.set(progressing, operatorv1.ConditionTrue, "WaitForOperator", waiting)
		conditions.set(degraded, operatorv1.ConditionFalse, "WaitForOperator", waiting)
		return conditions.all
	}
	reported := custom.Status.Conditions
	for _, kind := range []struct {
		conditionType   string
		healthy, absent operatorv1.ConditionStatus
	}{
		{available, operatorv1.ConditionTrue, operatorv1.ConditionFalse},
		{progressing, operatorv1.ConditionFalse, operatorv1.ConditionTrue},
		{degraded, operatorv1.ConditionFalse, operatorv1.ConditionFalse},
		{upgradeable, operatorv1.ConditionTrue, operatorv1.ConditionTrue},
	} {
		union := status.UnionCondition(kind.conditionType, kind.healthy, nil, reported...)
		if union.Reason == "NoData" {
			union.Status, union.Reason, union.Message = kind.absent, "WaitForOperator", waiting
			if kind.conditionType == upgradeable {
				union.Reason, union.Message = "AsExpected", "" // no driver has to report it
			}
		}
		conditions.set(kind.conditionType, union.Status, union.Reason, union.Message)
	}
	if custom.Status.Version != version {
		conditions.set(progressing, operatorv1.ConditionTrue, "WaitForOperator", fmt.Sprintf(
			"the driver's operator of version %s has not reported in ClusterCSIDriver %s yet; the last one was of version %q", version, s.driver.CSIName, custom.Status.Version))
	}
	if disabled := disabled(reported); disabled != "" && s.driver.ClusterStorage.Optional {
		conditions.set(available, operatorv1.ConditionTrue, "DriverDisabled", disabled)
		conditions.set(progressing, operatorv1.ConditionFalse, "DriverDisabled", disabled)
	}
	return conditions.all
}

// disabled returns why the driver's operator does not install the driver; "" if it installs it.
func disabled(conditions []operatorv1.OperatorCondition) string {
	for _, c := range conditions {
		if strings.HasSuffix(c.Type, "Disabled") && c.Status == operatorv1.ConditionTrue {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// merge returns the desired conditions, sorted by type. A condition whose status stays the same keeps its transition
// time. Old conditions of other types are removed, because nothing else writes conditions of Storage.
func merge(old, desired []operatorv1.OperatorCondition, now time.Time) []operatorv1.OperatorCondition {
	merged := slices.Clone(desired)
	for i := range merged {
		merged[i].LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
		if before := v1helpers.FindOperatorCondition(old, merged[i].Type); before != nil && before.Status == merged[i].Status {
			merged[i].LastTransitionTime = before.LastTransitionTime
		}
	}
	slices.SortFunc(merged, func(a, b operatorv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) })
	return merged
}
