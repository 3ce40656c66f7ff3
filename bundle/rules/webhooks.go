package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// checkWebhooks checks the requirements of OLM v0 and v1 for webhooks, except for requirements that the API server checks. OLM v0:
// pkg/controller/install/webhook.go; v1: internal/operator-controller/rukpak/render/registryv1/validators.
func checkWebhooks(c *checked, rule findings.Rule) {
	if c.csv == nil {
		return
	}
	var deployments, owned []string
	for _, d := range c.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		deployments = append(deployments, d.Name)
	}
	for _, d := range c.csv.Spec.CustomResourceDefinitions.Owned {
		owned = append(owned, d.Name)
	}
	for i, api := range c.csv.Spec.APIServiceDefinitions.Owned {
		if !slices.Contains(deployments, api.DeploymentName) {
			c.find(rule, c.csvFile, []any{"spec", "apiservicedefinitions", "owned", i, "deploymentName"}, "API service %s.%s: there is no Deployment %q; expected one of the install strategy's: %s",
				api.Version, api.Group, api.DeploymentName, listed(deployments))
		}
	}
	definitions := c.definitions()
	names, converts := map[string]int{}, map[string]int{}
	for i, w := range c.csv.Spec.WebhookDefinitions {
		find := func(path []any, format string, args ...any) {
			c.find(rule, c.csvFile, append([]any{"spec", "webhookdefinitions", i}, path...), "webhook %s: %s", w.GenerateName, fmt.Sprintf(format, args...))
		}
		if !slices.Contains(deployments, w.DeploymentName) {
			find([]any{"deploymentName"}, "there is no Deployment %q; expected one of the install strategy's: %s", w.DeploymentName, listed(deployments))
		}
		if faults := validation.IsDNS1123Subdomain(w.GenerateName); len(faults) > 0 {
			find([]any{"generateName"}, "generateName is %q: %s", w.GenerateName, strings.Join(faults, ", "))
		}
		key := string(w.Type) + " " + w.GenerateName
		if first, taken := names[key]; taken {
			find([]any{"generateName"}, "webhookdefinitions[%d] has the same name and type; OLM would make one configuration of both", first)
		} else {
			names[key] = i
		}
		if w.Type == v1alpha1.ConversionWebhook {
			c.checkConversion(w, owned, definitions, converts, i, find)
			continue
		}
		for j, r := range w.Rules {
			for k, group := range r.APIGroups {
				if refused := refusedGroup(group, r.Resources); refused != "" {
					find([]any{"rules", j, "apiGroups", k}, "%s: name the groups and resources that the operator is responsible for", refused)
				}
			}
		}
	}
	c.checkUnserved(definitions, converts)
}

// checkConversion checks a conversion webhook. converts holds the index of the earlier webhook that converts a definition, by the
// definition's name.
func (c *checked) checkConversion(w v1alpha1.WebhookDescription, owned []string, definitions map[string]definition, converts map[string]int, index int, find func([]any, string, ...any)) {
	if len(w.ConversionCRDs) == 0 {
		find([]any{"conversionCRDs"}, "it names no CustomResourceDefinition; expected at least one in conversionCRDs")
	}
	for i, name := range w.ConversionCRDs {
		at := []any{"conversionCRDs", i}
		if !slices.Contains(owned, name) {
			find(at, "the ClusterServiceVersion does not own CustomResourceDefinition %q; expected one of spec.customresourcedefinitions.owned: %s", name, listed(owned))
		}
		if first, taken := converts[name]; taken {
			find(at, "webhookdefinitions[%d] converts %s, too; a definition has one conversion webhook", first, name)
		} else {
			converts[name] = index
		}
		if d, known := definitions[name]; known && d.preserves {
			find(at, "CustomResourceDefinition %s has spec.preserveUnknownFields: true; expected false, or the API server calls no webhook", name)
		}
	}
}

// refusedGroup returns why OLM refuses a webhook for a group, or "" if it does not.
func refusedGroup(group string, resources []string) string {
	switch group {
	case "*":
		return "OLM refuses webhooks for all API groups (*)"
	case v1alpha1.GroupName, "olm.operatorframework.io":
		return "OLM refuses webhooks for its own API group " + group
	case "admissionregistration.k8s.io":
		for _, resource := range resources {
			switch strings.ToLower(resource) {
			case "*", "mutatingwebhookconfiguration", "mutatingwebhookconfigurations", "validatingwebhookconfiguration", "validatingwebhookconfigurations":
				return fmt.Sprintf("OLM refuses webhooks for resource %s of group %s", resource, group)
			}
		}
	}
	return ""
}

// checkUnserved warns of definitions with a conversion webhook that the bundle does not serve.
func (c *checked) checkUnserved(definitions map[string]definition, converts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		d := definitions[name]
		if !d.converts {
			continue
		}
		if _, served := converts[name]; !served {
			c.find(unservedRule, d.file, []any{"spec", "conversion"}, "CustomResourceDefinition %s has a conversion webhook, but no webhookdefinition of type %s names it: "+
				"OLM does not fill in its service and certificate; add one, or remove spec.conversion", name, v1alpha1.ConversionWebhook)
		}
	}
}

var unservedRule = findings.Rule{ID: "conversion-webhook", Severity: findings.Warning, What: "OLM serves the conversion webhook of each CustomResourceDefinition.",
	Why: "Nothing answers, and objects of other versions cannot be read."}

// definition is a CustomResourceDefinition of the bundle.
type definition struct {
	file string
	// preserves says that it has spec.preserveUnknownFields, converts that a webhook converts its objects.
	preserves, converts bool
}

// definitions returns the CustomResourceDefinitions of the bundle by name.
func (c *checked) definitions() map[string]definition {
	all := map[string]definition{}
	for _, o := range c.bundle.Objects {
		if o.GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
			continue
		}
		if _, known := all[o.GetName()]; known {
			continue
		}
		// Fields of other types are reported elsewhere.
		preserves, _, _ := unstructured.NestedBool(o.Object, "spec", "preserveUnknownFields")
		strategy, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "strategy")
		all[o.GetName()] = definition{o.File, preserves, strategy == string(apiextensionsv1.WebhookConverter)}
	}
	return all
}

// listed joins the first names with commas. There may be very many, and as many findings that list them.
func listed(names []string) string {
	const most, letters = 20, 1000
	switch others := len(names) - most; {
	case others > 0:
		return fmt.Sprintf("%s and %d others", escape.Short(strings.Join(names[:most], ", "), letters), others)
	case len(names) == 0:
		return "none"
	}
	return escape.Short(strings.Join(names, ", "), letters)
}
