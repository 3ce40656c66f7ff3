package catalogs

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// csv makes a ClusterServiceVersion with all usual fields.
func (g *generator) csv() *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{
				"capabilities": "Seamless Upgrades", "categories": "Storage, Monitoring", "certified": "false", "support": g.word(),
				"containerImage": g.image(g.name), "createdAt": "2026-01-31T12:00:00Z", "description": g.sentence(10),
				"operatorframework.io/suggested-namespace": g.name, "repository": "https://example.com/" + g.name,
				"features.operators.openshift.io/disconnected": "true", "features.operators.openshift.io/fips-compliant": "false",
			},
			Labels: map[string]string{"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported"},
		},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName: strings.ToUpper(g.word()), Description: g.markdown(160), Keywords: []string{g.word(), g.word(), g.word()},
			Maintainers: []v1alpha1.Maintainer{{Name: g.word(), Email: g.word() + "@example.com"}},
			Provider:    v1alpha1.AppLink{Name: g.word(), URL: "https://example.com"},
			Links:       []v1alpha1.AppLink{{Name: g.sentence(2), URL: "https://example.com/" + g.word()}, {Name: g.word(), URL: "https://example.com"}},
			Maturity:    "stable", MinKubeVersion: "1.26.0",
			InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace}, {Type: v1alpha1.InstallModeTypeSingleNamespace},
				{Type: v1alpha1.InstallModeTypeMultiNamespace}, {Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}},
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: g.strategy()},
		},
	}
	var examples []any
	for i := range 4 {
		kind := strings.ToUpper(words[i][:1]) + words[i][1:]
		plural := words[i] + "s." + g.name + ".example.com"
		owned := v1alpha1.CRDDescription{Name: plural, Version: "v1", Kind: kind, DisplayName: kind, Description: g.sentence(15)}
		for range 2 {
			owned.SpecDescriptors = append(owned.SpecDescriptors, v1alpha1.SpecDescriptor{Path: g.word() + "." + g.word(), DisplayName: g.word(),
				Description: g.sentence(10), XDescriptors: []string{"urn:alm:descriptor:com.tectonic.ui:text", "urn:alm:descriptor:com.tectonic.ui:advanced"}})
		}
		for range 1 {
			owned.StatusDescriptors = append(owned.StatusDescriptors, v1alpha1.StatusDescriptor{Path: g.word(), DisplayName: g.word(), Description: g.sentence(6)})
		}
		owned.Resources = []v1alpha1.APIResourceReference{{Kind: "Deployment", Version: "v1"}, {Kind: "Service", Version: "v1"}}
		csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned, owned)
		examples = append(examples, map[string]any{"apiVersion": g.name + ".example.com/v1", "kind": kind, "metadata": map[string]any{"name": g.word()},
			"spec": map[string]any{g.word(): g.IntN(1000), g.word(): g.word(), g.word(): []any{g.word(), map[string]any{g.word(): true}}}})
	}
	text, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		panic(err) // the input is ours
	}
	csv.Annotations["alm-examples"] = string(text)
	return csv
}

func (g *generator) strategy() v1alpha1.StrategyDetailsDeployment {
	labels := map[string]string{"app": g.name}
	var rules []rbacv1.PolicyRule
	for range 15 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{g.word() + ".example.com"}, Resources: []string{g.word() + "s", g.word() + "s/status"},
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}})
	}
	var env []corev1.EnvVar
	for i := range 12 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("RELATED_IMAGE_%d", i), Value: g.image(g.word())})
	}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	replicas := int32(1)
	return v1alpha1.StrategyDetailsDeployment{
		ClusterPermissions: []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: g.name, Rules: rules}},
		DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: g.name, Label: labels, Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: g.name,
				Containers: []corev1.Container{{Name: "manager", Command: []string{"/manager"}, Args: []string{"--leader-elect"}, Env: env,
					Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}},
			}},
		}}},
	}
}

// crds makes CustomResourceDefinitions with schemas of the size that generators write.
func (g *generator) crds(owned []v1alpha1.CRDDescription) (all []map[string]any) {
	for _, o := range owned[:2] {
		plural, group, _ := strings.Cut(o.Name, ".")
		all = append(all, map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": o.Name},
			"spec": map[string]any{"group": group, "scope": "Namespaced",
				"names": map[string]any{"kind": o.Kind, "listKind": o.Kind + "List", "plural": plural, "singular": strings.ToLower(o.Kind)},
				"versions": []any{map[string]any{"name": o.Version, "served": true, "storage": true, "schema": map[string]any{
					"openAPIV3Schema": g.schema(3 + g.deeper)}, "subresources": map[string]any{"status": map[string]any{}}}},
			},
		})
	}
	return all
}

// schema makes the schema of an object with a number of levels.
func (g *generator) schema(depth int) map[string]any {
	if depth == 0 {
		return map[string]any{"type": "string", "description": g.sentence(18)}
	}
	properties := map[string]any{}
	for range 5 {
		properties[g.word()] = g.schema(depth - 1)
	}
	return map[string]any{"type": "object", "description": g.sentence(12), "properties": properties, "required": []any{g.word()}}
}
