package access

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Risk is a new request of a version that a cluster's administrator should know of.
type Risk struct {
	// What is the request: scope and resource as in Permissions, with the new verbs, or a part of a Deployment's pods.
	What string `json:"what"`
	// Why says how it can be used.
	Why string `json:"why"`
}

// danger is a permission that can be used for more than it seems.
type danger struct {
	verbs     []string
	resources []string // with their groups; "*" for all resources, or all of a group
	why       string
}

// dangers begin with the worst. The first one that fits counts.
var dangers = []danger{
	{[]string{"*"}, []string{"*"}, "everything: it is an administrator of the cluster"},
	{[]string{"escalate"}, []string{"rbac.authorization.k8s.io/clusterroles", "rbac.authorization.k8s.io/roles"}, "gives itself any permission"},
	{[]string{"bind"}, []string{"rbac.authorization.k8s.io/clusterroles", "rbac.authorization.k8s.io/roles"}, "gives itself any role"},
	{[]string{"impersonate"}, []string{"users", "groups", "serviceaccounts"}, "acts as somebody else"},
	{[]string{"create"}, []string{"serviceaccounts/token"}, "acts as any service account"},
	{[]string{"get", "list", "watch"}, []string{"secrets"}, "reads credentials"},
	{[]string{"get", "create", "update", "patch"}, []string{"nodes/proxy"}, "runs commands in any pod"},
	{[]string{"create", "get"}, []string{"pods/exec", "pods/attach"}, "runs commands in any pod"},
	{[]string{"create", "update", "patch"}, []string{"admissionregistration.k8s.io/mutatingwebhookconfigurations", "admissionregistration.k8s.io/validatingwebhookconfigurations"}, intercepts},
	{[]string{"use"}, []string{"security.openshift.io/securitycontextconstraints"}, "runs pods with more rights"},
}

// Reasons for other risks.
const (
	// wildcard: a permission for everything of some kind.
	wildcard   = "includes what does not exist yet"
	intercepts = "changes or refuses other clients' writes"
	floating   = "its tag can lead to another image tomorrow"
	unstored   = "OLM refuses the update on clusters that have stored objects in that version"
)

// fits reports whether a resource, with its group, is one of the danger's resources.
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

// rank returns the rank of verbs of a resource, from 0 for the worst, and the reason. It returns false if they are harmless.
func rank(resource string, verbs []string) (int, string, bool) {
	worst := slices.IndexFunc(dangers, func(d danger) bool {
		return d.fits(resource) && slices.ContainsFunc(verbs, func(verb string) bool { return verb == "*" || slices.Contains(d.verbs, verb) })
	})
	switch {
	case worst >= 0:
		return worst, dangers[worst].why, true
	case slices.Contains(verbs, "*") || strings.Contains(resource, "*"):
		return len(dangers), wildcard, true
	}
	return len(dangers) + 1, "", false
}

// newRisks returns the new requests of a version, the worst first. updating says that clusters are updated from before to after.
func newRisks(before, after *requests, updating bool) (risks []Risk) {
	ranked := map[int][]Risk{}
	for _, p := range slices.SortedFunc(maps.Keys(after.verbs), func(a, b permission) int { return strings.Compare(a.String(), b.String()) }) {
		had := before.verbs[p]
		verbs := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(after.verbs[p]))), func(verb string) bool {
			return slices.Contains(had, verb) || slices.Contains(had, "*")
		})
		if place, why, risky := rank(p.resource, verbs); risky && len(verbs) > 0 {
			ranked[place] = append(ranked[place], Risk{fmt.Sprintf("%s (%s)", p, strings.Join(verbs, ", ")), why})
		}
	}
	for _, b := range without(after.bindings, before.bindings) {
		place := len(dangers)
		if b.Why == dangers[0].why {
			place = 0
		}
		ranked[place] = append(ranked[place], b)
	}
	for _, place := range slices.Sorted(maps.Keys(ranked)) {
		risks = append(risks, ranked[place]...)
	}
	risks = append(risks, without(after.pods, before.pods)...)
	if updating {
		risks = append(risks, removedVersions(before, after)...)
		risks = append(risks, floatingImages(before, after)...)
	}
	return risks
}

// without returns the risks that others does not have.
func without(risks, others []Risk) []Risk {
	return slices.DeleteFunc(slices.Clone(risks), func(r Risk) bool { return slices.Contains(others, r) })
}

// removedVersions returns a risk for each API version that before has and after lacks, unless after lacks the whole definition.
func removedVersions(before, after *requests) (risks []Risk) {
	for _, name := range slices.Sorted(maps.Keys(before.versions)) {
		now, has := after.versions[name]
		for _, version := range before.versions[name] {
			if has && !slices.Contains(now, version) {
				risks = append(risks, Risk{fmt.Sprintf("CustomResourceDefinition %s: version %s is gone", name, version), unstored})
			}
		}
	}
	return risks
}

// floatingImages returns a risk for each image without a digest that is new, or that had a digest before.
func floatingImages(before, after *requests) (risks []Risk) {
	fixed := func(image string) bool { return strings.Contains(image, "@") }
	for _, name := range slices.Sorted(maps.Keys(after.images)) {
		was, is := before.images[name], after.images[name]
		if !fixed(is) && (was == "" || fixed(was)) {
			risks = append(risks, Risk{fmt.Sprintf("image %s has no digest", is), floating})
		}
	}
	return risks
}

// bindingRisk returns the risk of a binding to a role outside of the bundle.
func bindingRisk(kind, name string, ref rbacv1.RoleRef) Risk {
	why := "has the permissions of that role"
	if kind == "ClusterRoleBinding" && ref.Name == "cluster-admin" {
		why = dangers[0].why
	}
	return Risk{fmt.Sprintf("%s %s: %s %s", kind, name, ref.Kind, ref.Name), why}
}

// podRisks returns the special rights of the operator's pods, and the operator's webhooks.
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
		risks = append(risks, Risk{"webhook " + string(w.Type) + " " + w.GenerateName, intercepts})
	}
	slices.SortStableFunc(risks, func(a, b Risk) int { return cmp.Or(strings.Compare(a.Why, b.Why), strings.Compare(a.What, b.What)) })
	return risks
}

func isPrivileged(c corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}
