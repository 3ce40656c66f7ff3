package refusal

import (
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/olm/featuregates"
)

// Object is an object that OLM creates from a bundle.
type Object struct {
	schema.GroupVersionKind
	Namespace, Name string
}

// Objects returns the objects that OLM creates from a bundle, in Helm's order. It omits roles and their bindings: their names
// contain a hash of their rules, so they never collide.
func (b *Bundle) Objects(r *Request) []Object {
	all, _ := b.objects(r)
	return all
}

// objects returns the objects that OLM creates from a bundle, and the repeated ones among them.
func (b *Bundle) objects(r *Request) (all, again []Object) {
	add := func(group, version, kind, namespace, name string) {
		object := Object{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, namespace, name}
		if slices.Contains(all, object) {
			again = append(again, object)
			return
		}
		all = append(all, object)
	}
	strategy := b.CSV.Spec.InstallStrategy.StrategySpec
	var accounts []string
	for _, p := range slices.Concat(strategy.Permissions, strategy.ClusterPermissions) {
		if p.ServiceAccountName != "" && p.ServiceAccountName != "default" {
			accounts = append(accounts, p.ServiceAccountName)
		}
	}
	for _, name := range distinct(accounts) {
		add("", "v1", "ServiceAccount", r.Namespace, name)
	}
	for _, d := range b.CRDs {
		kind := schema.FromAPIVersionAndKind(d.APIVersion, crdKind) // its version may no longer be served
		if r.Gates[featuregates.Boxcutter] {                        // Boxcutter writes it as v1
			kind.Version = "v1"
		}
		add(kind.Group, kind.Version, crdKind, "", d.Name)
	}
	for _, other := range b.Others {
		kind := other.GroupVersionKind()
		namespace := other.GetNamespace()
		if namespaced[kind.Kind] {
			namespace = r.Namespace
		}
		add(kind.Group, kind.Version, kind.Kind, namespace, other.GetName())
	}
	for _, name := range b.deployments() {
		add("apps", "v1", "Deployment", r.Namespace, name)
	}
	const admission = "admissionregistration.k8s.io"
	served := map[string]bool{}
	for _, w := range b.CSV.Spec.WebhookDefinitions {
		switch w.Type {
		case v1alpha1.ValidatingAdmissionWebhook:
			add(admission, "v1", "ValidatingWebhookConfiguration", "", strings.TrimSuffix(w.GenerateName, "-"))
		case v1alpha1.MutatingAdmissionWebhook:
			add(admission, "v1", "MutatingWebhookConfiguration", "", strings.TrimSuffix(w.GenerateName, "-"))
		}
		if served[w.DeploymentName] {
			continue
		}
		served[w.DeploymentName] = true
		service := suffixed(strings.ReplaceAll(w.DeploymentName, ".", "-"), "service")
		add("", "v1", "Service", r.Namespace, service)
		if certificate := suffixed(service, "cert"); r.Gates[featuregates.CertManager] {
			add("cert-manager.io", "v1", "Issuer", r.Namespace, suffixed(certificate, "selfsigned-issuer"))
			add("cert-manager.io", "v1", "Certificate", r.Namespace, certificate)
		}
	}
	slices.SortStableFunc(all, func(a, b Object) int { return helmOrder(a.Kind, b.Kind) })
	return all, again
}

// suffixed joins a name and a suffix like OLM: it cuts the name if both together have more than 63 characters.
func suffixed(name, suffix string) string {
	const limit = 63
	if len(name)+len(suffix) > limit {
		name = name[:limit-len(suffix)-1]
	}
	return name + "-" + suffix
}

// installOrder is the order in which Helm installs kinds that bundles have. Others come last, by their names.
var installOrder = []string{
	"PriorityClass", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "Secret", "ConfigMap", crdKind, "ClusterRole",
	"ClusterRoleBinding", "Role", "RoleBinding", "Service", "Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

func helmOrder(a, b string) int {
	first, second := slices.Index(installOrder, a), slices.Index(installOrder, b)
	switch {
	case first < 0 && second < 0:
		return strings.Compare(a, b)
	case first < 0:
		return 1
	case second < 0:
		return -1
	}
	return first - second
}

// phases are the phases in which Boxcutter applies objects, by kind. Kinds without a phase are applied with Deployments.
var phases = [][]string{
	{"NetworkPolicy", "PodDisruptionBudget", "PriorityClass"}, {"ServiceAccount"}, {"Secret", "ConfigMap"}, {crdKind},
	{"ClusterRole", "Role"}, {"ClusterRoleBinding", "RoleBinding"}, {"Service", "Issuer", "Certificate"}, deployPhase, {"VerticalPodAutoscaler"},
	{"PrometheusRule", "ServiceMonitor", "PodMonitor", "ConsoleYAMLSample", "ConsoleQuickStart", "ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin"},
	{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"},
}

var deployPhase = []string{"Deployment"}

// phaseOf returns the position of the phase of a kind in phases.
func phaseOf(kind string) int {
	if i := slices.IndexFunc(phases, func(kinds []string) bool { return slices.Contains(kinds, kind) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(phases, func(kinds []string) bool { return slices.Equal(kinds, deployPhase) })
}

// phasesOf returns the phases of a bundle's objects, in order. Boxcutter counts only these.
func (b *Bundle) phasesOf(r *Request) (positions []int) {
	for _, object := range b.Objects(r) {
		positions = append(positions, phaseOf(object.Kind))
	}
	strategy := b.CSV.Spec.InstallStrategy.StrategySpec
	if len(strategy.Permissions)+len(strategy.ClusterPermissions) > 0 {
		positions = append(positions, phaseOf("ClusterRole"), phaseOf("ClusterRoleBinding"))
	}
	slices.Sort(positions)
	return slices.Compact(positions)
}
