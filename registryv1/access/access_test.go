package access

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// asking returns a ClusterServiceVersion with rules for all of a cluster, and pods.
func asking(pod corev1.PodSpec, rules ...rbacv1.PolicyRule) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{Rules: rules}}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "tide", Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}}
	return csv
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// TestNewRisks: the worst comes first, and what the version before asked for is not new.
func TestNewRisks(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	yes := true
	before := asking(corev1.PodSpec{HostNetwork: true}, rule("", "secrets", "get"), rule("apps", "deployments", "*"), rule("", "pods", "get"))
	after := asking(corev1.PodSpec{HostNetwork: true,
		Containers: []corev1.Container{{Name: "driver", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}},
		Volumes:    []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}}}},
		rule("", "secrets", "get", "list"), rule("apps", "deployments", "get"), rule("", "pods", "get", "list"), rule("batch", "*", "get"),
		rule(rbac, "clusterroles", "escalate", "get"), rule("", "users", "impersonate"), rule("", "nodes/proxy", "get"), rule(rbac, "roles", "bind"))
	want := []Risk{
		{"cluster rbac.authorization.k8s.io/clusterroles (escalate, get)", "gives itself any permission"},
		{"cluster rbac.authorization.k8s.io/roles (bind)", "gives itself any role"},
		{"cluster users (impersonate)", "acts as somebody else"},
		{"cluster secrets (list)", "reads credentials"},
		{"cluster nodes/proxy (get)", "runs commands in any pod"},
		{"cluster batch/* (get)", wildcard},
		{"Deployment tide: container driver is privileged", "is root on the node"},
		{"Deployment tide: volume keys is /etc of the node", "reads or writes files of the node"},
	}
	if diff := cmp.Diff(want, newRisks(before, after)); diff != "" {
		t.Error(diff)
	}
	if got := newRisks(after, after); len(got) > 0 {
		t.Errorf("between the same versions: %v", got)
	}
	everything := newRisks(asking(corev1.PodSpec{}), asking(corev1.PodSpec{}, rule("*", "*", "*"), rule("", "*", "get"), rule(rbac, "*", "*")))
	if len(everything) != 3 || everything[0].Why != dangers[0].why || everything[1].Why != "gives itself any permission" || everything[2].Why != "reads credentials" {
		t.Errorf("of everything: %v", everything)
	}
}
