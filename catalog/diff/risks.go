package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Risk is something that a version asks for and the one before did not, and that a cluster's administrator should know of.
type Risk struct {
	// What is asked for: scope and resource as in Permissions, with the verbs that are new, or a part of a Deployment's pods.
	What string `json:"what"`
	// Why says what it can be used for.
	Why string `json:"why"`
}

// danger is a permission that can be used for more than it seems.
type danger struct {
	verbs     []string
	resources []string // with their groups; "*" for all, also those of a group
	why       string
}

// dangers are the worst first. The first one that fits counts.
var dangers = []danger{
	{[]string{"*"}, []string{"*"}, "everything: it is an administrator of the cluster"},
	{[]string{"escalate"}, []string{"rbac.authorization.k8s.io/clusterroles", "rbac.authorization.k8s.io/roles"}, "gives itself any permission"},
	{[]string{"bind"}, []string{"rbac.authorization.k8s.io/clusterroles", "rbac.authorization.k8s.io/roles"}, "gives itself any role"},
	{[]string{"impersonate"}, []string{"users", "groups", "serviceaccounts"}, "acts as somebody else"},
	{[]string{"create"}, []string{"serviceaccounts/token"}, "acts as any service account"},
	{[]string{"get", "list", "watch"}, []string{"secrets"}, "reads credentials"},
	{[]string{"get", "create", "update", "patch"}, []string{"nodes/proxy"}, "runs commands in any pod"},
	{[]string{"create", "get"}, []string{"pods/exec", "pods/attach"}, "runs commands in any pod"},
	{[]string{"create", "update", "patch"}, []string{"admissionregistration.k8s.io/mutatingwebhookconfigurations", "admissionregistration.k8s.io/validatingwebhookconfigurations"}, "changes or refuses what others write"},
	{[]string{"use"}, []string{"security.openshift.io/securitycontextconstraints"}, "runs pods with more rights"},
}

// wildcard is why a permission for everything of some kind matters.
const wildcard = "includes what does not exist yet"

// fits reports whether a resource, with its group, is one of the danger's.
func (d danger) fits(resource string) bool {
	return slices.ContainsFunc(d.resources, func(of string) bool {
		group, name, grouped := strings.Cut(of, "/")
		_, isCore := strings.CutPrefix(resource, "*/")
		switch {
		case resource == of, resource == "*/*", of != "*" && resource == "*":
			return true
		case grouped && strings.Contains(group, "."):
			return resource == group+"/*" || isCore && resource == "*/"+name
		}
		return of == "*" && (resource == "*" || resource == "*/*")
	})
}

// newRisks returns what a ClusterServiceVersion asks for and the one before did not, the worst first.
func newRisks(before, after *v1alpha1.ClusterServiceVersion) (risks []Risk) {
	was, is := permissions(before), permissions(after)
	ranked := map[int][]Risk{}
	for _, key := range slices.Sorted(maps.Keys(is)) {
		verbs := slices.DeleteFunc(split(is[key]), func(verb string) bool {
			had := split(was[key])
			return slices.Contains(had, verb) || slices.Contains(had, "*")
		})
		if len(verbs) == 0 {
			continue
		}
		_, object, _ := strings.Cut(key, " ")
		resource, _, _ := strings.Cut(object, " ") // without names
		rank := slices.IndexFunc(dangers, func(d danger) bool {
			return d.fits(resource) && slices.ContainsFunc(verbs, func(verb string) bool { return verb == "*" || slices.Contains(d.verbs, verb) })
		})
		switch {
		case rank >= 0:
			ranked[rank] = append(ranked[rank], Risk{asked(key, verbs), dangers[rank].why})
		case slices.Contains(verbs, "*") || strings.Contains(resource, "*"):
			ranked[len(dangers)] = append(ranked[len(dangers)], Risk{asked(key, verbs), wildcard})
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(ranked)) {
		risks = append(risks, ranked[rank]...)
	}
	had := podRisks(before)
	for _, risk := range podRisks(after) {
		if !slices.Contains(had, risk) {
			risks = append(risks, risk)
		}
	}
	return risks
}

// asked names a permission.
func asked(key string, verbs []string) string { return key + " (" + strings.Join(verbs, ", ") + ")" }

func split(verbs string) []string { return strings.Split(verbs, ", ") }

// podRisks returns what pods of the operator have that others may not, and its webhooks.
func podRisks(csv *v1alpha1.ClusterServiceVersion) (risks []Risk) {
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		pod := d.Spec.Template.Spec
		add := func(why, format string, args ...any) {
			risks = append(risks, Risk{"Deployment " + d.Name + ": " + fmt.Sprintf(format, args...), why})
		}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if isPrivileged(c) {
				add("is root on the node", "container %s is privileged", c.Name)
			}
		}
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				add("reads or writes files of the node", "volume %s is %s of the node", v.Name, v.HostPath.Path)
			}
		}
		for field, on := range map[string]bool{"hostNetwork": pod.HostNetwork, "hostPID": pod.HostPID, "hostIPC": pod.HostIPC} {
			if on {
				add("is not separated from the node", "%s", field)
			}
		}
	}
	for _, w := range csv.Spec.WebhookDefinitions {
		risks = append(risks, Risk{"webhook " + string(w.Type) + " " + w.GenerateName, "changes or refuses what others write"})
	}
	slices.SortStableFunc(risks, func(a, b Risk) int { return strings.Compare(a.Why+a.What, b.Why+b.What) })
	return risks
}

func isPrivileged(c corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}
