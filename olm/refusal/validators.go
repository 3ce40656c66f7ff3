package refusal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// validators are OLM's checks of a bundle, in OLM's order. OLM reports the results of all of them.
var validators = []func(*Bundle) []Refusal{
	duplicateDeployments, deploymentNames, duplicateDefinitions, missingDefinitions, packageName, conversionModes, webhookDeployments,
	duplicateWebhooks, webhookNames, conversionsOfOne, conversionsOfOwned, webhookRules, objectKinds,
}

func checkBundle(b *Bundle) (all []Refusal) {
	for _, validate := range validators {
		all = append(all, validate(b)...)
	}
	return all
}

func invalid(what, do, format string, args ...any) Refusal {
	for i, arg := range args {
		if text, is := arg.(string); is && len(text) > conditionLimit { // a condition does not show its end
			args[i] = text[:conditionLimit]
		}
	}
	text := fmt.Sprintf(format, args...)
	if what == "" {
		what = shortened(text)
	}
	return Refusal{Code: Invalid, step: stepBundle, Text: text, What: what, Do: "authors: " + do}
}

// shortened returns as much of a text as people read.
func shortened(text string) string { return escape.Short(text, 4<<10) }

// repeated returns the duplicate names, sorted.
func repeated(names []string) []string {
	count := map[string]int{}
	for _, name := range names {
		count[name]++
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n == 1 })
	return slices.Sorted(maps.Keys(count))
}

func (b *Bundle) deployments() (names []string) {
	for _, d := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		names = append(names, d.Name)
	}
	return names
}

func duplicateDeployments(b *Bundle) (all []Refusal) {
	for _, name := range repeated(b.deployments()) {
		all = append(all, invalid("", "give each Deployment a name of its own", "cluster service version contains duplicate strategy deployment spec '%s'", name))
	}
	return all
}

func deploymentNames(b *Bundle) (all []Refusal) {
	for _, name := range distinct(b.deployments()) {
		if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
			all = append(all, invalid(fmt.Sprintf("%q is no name of a Deployment", name), "rename the Deployment",
				"invalid cluster service version strategy deployment name '%s': %s", name, strings.Join(slices.Sorted(slices.Values(faults)), ", ")))
		}
	}
	return all
}

func distinct(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func (b *Bundle) definitions() (names []string) {
	for _, d := range b.CRDs {
		names = append(names, d.Name)
	}
	return names
}

func duplicateDefinitions(b *Bundle) (all []Refusal) {
	for _, name := range repeated(b.definitions()) {
		all = append(all, invalid("", "keep one of its manifests", "bundle contains duplicate custom resource definition '%s'", name))
	}
	return all
}

func (b *Bundle) owned() (names []string) {
	for _, d := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		names = append(names, d.Name)
	}
	return names
}

func missingDefinitions(b *Bundle) (all []Refusal) {
	has := b.definitions()
	for _, name := range distinct(b.owned()) {
		if !slices.Contains(has, name) {
			all = append(all, invalid(fmt.Sprintf("the ClusterServiceVersion owns CRD %s, and the bundle lacks it", name), "add its manifest, or remove it from spec.customresourcedefinitions.owned",
				"cluster service definition references owned custom resource definition '%s' not found in bundle", name))
		}
	}
	return all
}

func packageName(b *Bundle) []Refusal {
	if b.Package != "" {
		return nil
	}
	return []Refusal{invalid("metadata/annotations.yaml names no package", "add operators.operatorframework.io.bundle.package.v1", "package name is empty")}
}

// webhooks returns the webhooks of a type.
func (b *Bundle) webhooks(of ...v1alpha1.WebhookAdmissionType) (found []v1alpha1.WebhookDescription) {
	for _, w := range b.CSV.Spec.WebhookDefinitions {
		if slices.Contains(of, w.Type) {
			found = append(found, w)
		}
	}
	return found
}

func conversionModes(b *Bundle) (all []Refusal) {
	var modes []string
	for _, m := range b.CSV.Spec.InstallModes {
		if m.Supported {
			modes = append(modes, string(m.Type))
		}
	}
	if modes = distinct(modes); slices.Equal(modes, []string{string(v1alpha1.InstallModeTypeAllNamespaces)}) {
		return nil
	}
	listed := fmt.Sprint(modes)
	webhooks := b.webhooks(v1alpha1.ConversionWebhook)
	for _, w := range webhooks[:min(len(webhooks), enough)] {
		r := invalid(fmt.Sprintf("conversion webhook %s is for all namespaces, and the bundle supports the install modes %s", shortened(w.GenerateName), shortened(listed)), "support only AllNamespaces",
			"bundle contains conversion webhook %q and supports install modes %s - conversion webhooks are only supported for bundles that only support AllNamespaces install mode", w.GenerateName, listed)
		r.Code = ConversionWebhook
		all = append(all, r)
	}
	return all
}

func webhookDeployments(b *Bundle) (all []Refusal) {
	has := b.deployments()
	orphans := slices.DeleteFunc(slices.Clone(b.CSV.Spec.WebhookDefinitions), func(w v1alpha1.WebhookDescription) bool { return slices.Contains(has, w.DeploymentName) })
	slices.SortStableFunc(orphans, func(a, b v1alpha1.WebhookDescription) int {
		return cmp.Or(cmp.Compare(a.DeploymentName, b.DeploymentName), cmp.Compare(a.Type, b.Type), cmp.Compare(a.GenerateName, b.GenerateName))
	})
	for _, w := range orphans {
		all = append(all, invalid("", "set deploymentName to a Deployment of the ClusterServiceVersion",
			"webhook of type '%s' with name '%s' references non-existent deployment '%s'", w.Type, w.GenerateName, w.DeploymentName))
	}
	return all
}

// namesByType returns the names of webhooks by their types.
func (b *Bundle) namesByType() map[v1alpha1.WebhookAdmissionType][]string {
	names := map[v1alpha1.WebhookAdmissionType][]string{}
	for _, w := range b.CSV.Spec.WebhookDefinitions {
		names[w.Type] = append(names[w.Type], w.GenerateName)
	}
	return names
}

func duplicateWebhooks(b *Bundle) (all []Refusal) {
	names := b.namesByType()
	for _, of := range slices.Sorted(maps.Keys(names)) {
		for _, name := range repeated(names[of]) {
			all = append(all, invalid("", "give each webhook a generateName of its own", "duplicate webhook '%s' of type '%s'", name, of))
		}
	}
	return all
}

func webhookNames(b *Bundle) (all []Refusal) {
	names := b.namesByType()
	for _, of := range slices.Sorted(maps.Keys(names)) {
		for _, name := range distinct(names[of]) {
			if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
				all = append(all, invalid(fmt.Sprintf("%q is no name of a webhook", name), "set generateName to one",
					"webhook of type '%s' has invalid name '%s': %s", of, name, strings.Join(slices.Sorted(slices.Values(faults)), ",")))
			}
		}
	}
	return all
}

func conversionsOfOne(b *Bundle) (all []Refusal) {
	webhooks := map[string][]string{}
	for _, w := range b.webhooks(v1alpha1.ConversionWebhook) {
		for _, name := range w.ConversionCRDs {
			webhooks[name] = append(webhooks[name], w.GenerateName)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(webhooks)) {
		if len(all) == enough {
			break
		}
		if len(webhooks[name]) > 1 {
			all = append(all, invalid("", "name each CRD in one conversion webhook",
				"conversion webhooks [%s] reference same custom resource definition '%s'", strings.Join(slices.Sorted(slices.Values(webhooks[name])), ","), name))
		}
	}
	return all
}

func conversionsOfOwned(b *Bundle) (all []Refusal) {
	owned := b.owned()
	webhooks := b.webhooks(v1alpha1.ConversionWebhook)
	slices.SortStableFunc(webhooks, func(a, b v1alpha1.WebhookDescription) int { return cmp.Compare(a.GenerateName, b.GenerateName) })
	for _, w := range webhooks {
		for _, name := range slices.Sorted(slices.Values(w.ConversionCRDs)) {
			if len(all) == enough {
				return all
			}
			if !slices.Contains(owned, name) {
				all = append(all, invalid(fmt.Sprintf("conversion webhook %s is for CRD %s, which the bundle does not own", shortened(w.GenerateName), shortened(name)), "add it to spec.customresourcedefinitions.owned",
					"conversion webhook '%s' references custom resource definition '%s' not owned bundle", w.GenerateName, name)) // sic
			}
		}
	}
	return all
}

// guarded lists resources that the rules of webhooks may not cover, so that a broken webhook can still be removed.
var guarded = struct {
	groups, resources []string
	group             string
}{
	groups: []string{"olm.operatorframework.io", "*"}, group: "admissionregistration.k8s.io",
	resources: []string{"*", "mutatingwebhookconfiguration", "mutatingwebhookconfigurations", "validatingwebhookconfiguration", "validatingwebhookconfigurations"},
}

// enough is a number of refusals whose texts fill the 32 KiB of a condition. OLM has one for each guarded resource of each guarded group, as
// often as a rule repeats them, and each names the webhook, which can have a name of megabytes.
const enough = conditionLimit / 64

func webhookRules(b *Bundle) (all []Refusal) {
	isGuarded := func(resource string) bool { return slices.Contains(guarded.resources, strings.ToLower(resource)) }
	const do = "name the API groups and the resources that the webhook needs"
	for _, w := range b.CSV.Spec.WebhookDefinitions {
		if w.Type == v1alpha1.ConversionWebhook {
			continue
		}
		for _, rule := range w.Rules {
			resources := slices.DeleteFunc(slices.Clone(rule.Resources), func(resource string) bool { return !isGuarded(resource) })
			for _, group := range rule.APIGroups {
				if len(all) >= enough {
					return all[:enough]
				}
				if slices.Contains(guarded.groups, group) {
					all = append(all, invalid("", do, "webhook %q contains forbidden rule: admission webhook rules cannot reference API group %q", w.GenerateName, group))
				}
				if group != guarded.group {
					continue
				}
				for _, resource := range resources[:min(len(resources), enough)] {
					all = append(all, invalid("", do, "webhook %q contains forbidden rule: admission webhook rules cannot reference resource %q for API group %q", w.GenerateName, resource, group))
				}
			}
		}
	}
	return all
}

func objectKinds(b *Bundle) (all []Refusal) {
	for _, object := range b.Others {
		if _, supported := namespaced[object.GetKind()]; supported {
			continue
		}
		r := invalid(fmt.Sprintf("the bundle has a %s, %s, and bundles may have no such objects", object.GetKind(), object.GetName()), "have the operator create it",
			"unsupported resource %q with kind %q", object.GetName(), object.GetKind())
		r.Code = Kind
		all = append(all, r)
	}
	return all
}
