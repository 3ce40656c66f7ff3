package clusterstorage

import (
	"maps"
	"strings"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/operator/clusterstorage"
)

// A course is the history of a ClusterOperator: the successive statuses of each condition, and the versions.
type course map[string]string

// anyCourse matches any course of a condition.
const anyCourse = "whatever"

// expect fails the test unless the ClusterOperator takes a course while something happens. It compares each version
// that the ClusterOperator reports with the running one.
func (l *life) expect(what string, want course, happens func()) {
	l.t.Helper()
	workloads := &workloadRecord{t: l.t}
	var sets appsv1.DaemonSetList
	var deployments appsv1.DeploymentList
	var operators configv1.ClusterOperatorList
	endSets, endDeployments := l.Record(l.t, &sets), l.Record(l.t, &deployments)
	endOperators := l.Record(l.t, &operators)
	happens()
	var told []*configv1.ClusterOperator
	for i := range operators.Items {
		told = append(told, &operators.Items[i])
	}
	for _, event := range endOperators() {
		told = append(told, event.Object.(*configv1.ClusterOperator))
	}
	for i := range sets.Items {
		workloads.add(&sets.Items[i])
	}
	for i := range deployments.Items {
		workloads.add(&deployments.Items[i])
	}
	for _, event := range append(endSets(), endDeployments()...) {
		workloads.add(event.Object.(client.Object))
	}
	got := course{}
	for i, operator := range told {
		if operator.Name != clusterstorage.ClusterOperatorName {
			continue
		}
		for _, c := range operator.Status.Conditions {
			got.follow(string(c.Type), string(c.Status))
		}
		for _, v := range operator.Status.Versions {
			got.follow(v.Name, v.Version)
			if i > 0 && versionOf(told[i-1], v.Name) != v.Version {
				l.checkVersion(workloads, operator, v)
			}
		}
	}
	for name := range got {
		if want[name] == anyCourse {
			got[name] = anyCourse
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("%s: the course of the ClusterOperator (-want +got):\n%s", what, diff)
		for _, operator := range told {
			for _, c := range operator.Status.Conditions {
				if c.Status != settled[c.Type] {
					l.t.Logf("  at %s: %s=%s %s: %s", operator.ResourceVersion, c.Type, c.Status, c.Reason, c.Message)
				}
			}
		}
	}
}

func (c course) follow(name, now string) {
	if before := c[name]; before == "" {
		c[name] = now
	} else if last := before[strings.LastIndex(before, " ")+1:]; last != now {
		c[name] += " " + now
	}
}

func versionOf(operator *configv1.ClusterOperator, name string) string {
	for _, v := range operator.Status.Versions {
		if v.Name == name {
			return v.Version
		}
	}
	return ""
}

// with returns a course that differs.
func (c course) with(different course) course {
	whole := maps.Clone(c)
	maps.Copy(whole, different)
	return whole
}

// versions returns the course of all versions of drivers and of the operator.
func (l *life) versions(text string) course {
	c := course{"operator": text}
	for _, d := range l.drivers {
		c[d.ConditionPrefix+"CSIDriverOperator"] = text
	}
	return c
}
