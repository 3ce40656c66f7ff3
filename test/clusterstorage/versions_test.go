package clusterstorage

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// workloadRecord has the Deployments and DaemonSets of a time, by their resource versions.
type workloadRecord struct {
	t   testing.TB
	all []client.Object
}

func (r *workloadRecord) add(object client.Object) { r.all = append(r.all, object) }

// at returns the workloads of drivers and operators at a resource version. All objects of the cluster share one count.
func (r *workloadRecord) at(version string) []client.Object {
	latest := map[string]client.Object{}
	for _, object := range r.all {
		key := fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())
		if before := latest[key]; r.number(object.GetResourceVersion()) <= r.number(version) &&
			(before == nil || r.number(before.GetResourceVersion()) <= r.number(object.GetResourceVersion())) {
			latest[key] = object
		}
	}
	return slices.Collect(maps.Values(latest))
}

func (r *workloadRecord) number(version string) int {
	number, err := strconv.Atoi(version)
	require.NoError(r.t, err)
	return number
}

// checkVersion fails the test unless everything that a version in the ClusterOperator is about ran at it.
func (l *life) checkVersion(workloads *workloadRecord, operator *configv1.ClusterOperator, v configv1.OperandVersion) {
	l.t.Helper()
	checked := 0
	for _, d := range l.drivers {
		if v.Name != "operator" && v.Name != d.ConditionPrefix+"CSIDriverOperator" {
			continue
		}
		for _, object := range workloads.at(operator.ResourceVersion) {
			var template corev1.PodTemplateSpec
			var wanted, updated, available int32
			var seen int64
			switch w := object.(type) {
			case *appsv1.DaemonSet:
				template, seen = w.Spec.Template, w.Status.ObservedGeneration
				wanted, updated, available = w.Status.DesiredNumberScheduled, w.Status.UpdatedNumberScheduled, w.Status.NumberAvailable
			case *appsv1.Deployment:
				template, seen = w.Spec.Template, w.Status.ObservedGeneration
				wanted, updated, available = ptr.Deref(w.Spec.Replicas, 1), w.Status.UpdatedReplicas, w.Status.AvailableReplicas
			}
			if object.GetName() != d.Operator.Name && !l.isOf(d, object) {
				continue
			}
			checked++
			if seen != object.GetGeneration() || updated != wanted || available < wanted {
				l.t.Errorf("ClusterOperator %s says that %s is at version %s, but of %T %s, %d of %d pods are updated, and %d available",
					operator.Name, v.Name, v.Version, object, object.GetName(), updated, wanted, available)
			}
			for _, c := range template.Spec.Containers {
				if _, tag, _ := strings.Cut(c.Image, ":"); tag != v.Version {
					l.t.Errorf("ClusterOperator %s says that %s is at version %s, but %T %s has the image %s",
						operator.Name, v.Name, v.Version, object, object.GetName(), c.Image)
				}
			}
		}
	}
	if checked == 0 {
		l.t.Errorf("nothing runs of which ClusterOperator %s says that %s is at version %s", operator.Name, v.Name, v.Version)
	}
}

// isOf reports whether a workload is one of the driver's.
func (l *life) isOf(d drivers.Driver, object client.Object) bool {
	manifests, err := d.Operand(drivers.Values{Namespace: d.Namespace, Image: func(env string) string { return env }})
	require.NoError(l.t, err)
	for _, m := range manifests {
		if kind := m.Object.GetKind(); (kind == "Deployment" || kind == "DaemonSet") && kind == strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.") &&
			m.Object.GetName() == object.GetName() && m.Object.GetNamespace() == object.GetNamespace() {
			return true
		}
	}
	return false
}
