package refusal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/featuregates"
)

// Code identifies a kind of refusal to programs.
type Code string

// The kinds of refusals.
const (
	// Dependency: the bundle has dependencies, which OLM v1 does not support.
	Dependency Code = "dependency-unsupported"
	// Image: the catalog has no image of the bundle, and OLM v1 installs only images.
	Image Code = "image-missing"
	// Name: OLM cannot write the bundle's name into the status of the ClusterExtension.
	Name Code = "bundle-name-invalid"
	// APIService: the bundle has an API service, which OLM v1 does not support.
	APIService Code = "api-service-unsupported"
	// Webhook: the bundle has webhooks, and no feature gate names a provider of certificates.
	Webhook Code = "webhook-unsupported"
	// InstallMode: the bundle supports no install mode that OLM v1 uses.
	InstallMode Code = "install-mode-unsupported"
	// Configuration: the bundle does not accept spec.config of the ClusterExtension.
	Configuration Code = "configuration-invalid"
	// Invalid: the bundle's manifests are contradictory or incomplete.
	Invalid Code = "bundle-invalid"
	// Kind: the bundle has an object of a kind that bundles may not contain.
	Kind Code = "kind-unsupported"
	// ConversionWebhook: the bundle has a conversion webhook that OLM cannot set up.
	ConversionWebhook Code = "conversion-webhook-unsupported"
	// API: the cluster does not serve the API of an object.
	API Code = "api-missing"
	// Existing: an object already exists and belongs to something else.
	Existing Code = "object-exists"
	// Twice: the bundle has an object that OLM also makes.
	Twice Code = "object-twice"
	// Definition: an update changes a CustomResourceDefinition in a way that could break its users.
	Definition Code = "crd-change-unsafe"
)

// Refusal is a reason for which OLM v1 does not install a bundle.
type Refusal struct {
	Code Code
	// Text is OLM's message. OLM stops at the first step that fails, so it reports only that step's refusals: see Message.
	Text string
	// Cut says that OLM's text continues with details that are not predicted.
	Cut bool
	// What describes the fault of the bundle, and Do the remedy.
	What, Do string

	step step
}

// step is a step of an installation. If one refuses, OLM stops.
type step int

const (
	stepChoice step = iota
	stepImage
	stepServices
	stepWebhooks
	stepAllNamespaces
	stepModes
	stepConfiguration
	stepBundle
	stepDefinitions
	stepAPIs
	stepObjects
	stepSafety
	stepInstall
	stepRollout
	stepStatus
)

// Request holds the fields of the ClusterExtension and the setup of OLM v1.
type Request struct {
	Gates featuregates.Set
	// Name is the name of the ClusterExtension, and Namespace the namespace of the operator. "" means unknown.
	Name, Namespace string
	// Configured says that spec.config is set. Config is its field inline, or nil.
	Configured bool
	Config     json.RawMessage
	// UnsafeDefinitions says that spec.install.preflight.crdUpgradeSafety.enforcement is None.
	UnsafeDefinitions bool
}

// Of returns the refusals of a bundle that do not depend on the cluster, in OLM's order.
func Of(b *Bundle, r *Request) (all []Refusal) {
	all = append(all, checkServices(b)...)
	if !b.Described {
		all = append(all, checkWebhooks(b, r)...)
	}
	all = append(all, checkModes(b, r)...)
	all = append(all, checkConfiguration(b, r)...)
	if !b.Described {
		all = append(all, checkBundle(b)...)
		all = append(all, checkConversion(b)...)
		all = append(all, b.twice(r)...)
	}
	return all
}

// Reason returns the reason of the condition Progressing.
func Reason(all []Refusal) string {
	first := First(all)
	switch {
	case first == nil:
		return ""
	case first.step == stepConfiguration:
		return InvalidConfiguration
	case first.step == stepImage:
		return Blocked
	}
	return Retrying
}

// The reasons of the condition Progressing. With the last two it is False, and OLM does not try again until the ClusterExtension changes.
const (
	Retrying             = "Retrying"
	Blocked              = "Blocked"
	InvalidConfiguration = "InvalidConfiguration"
)

// conditionLimit is the maximum length of a condition's message in bytes. cut is the end of a truncated message.
const (
	conditionLimit = 32 << 10
	cut            = "\n\n... [message truncated]"
)

// First returns the refusal that OLM reports first, given the refusals of all checks, or nil if there are none.
func First(all []Refusal) *Refusal {
	if len(all) == 0 {
		return nil
	}
	return &inOrder(slices.Clone(all))[0]
}

// Message returns the message of the condition Progressing, from the first step that refuses, or "" if no step does. If First(all) is Cut,
// the real message continues.
func Message(b *Bundle, all []Refusal) string {
	if len(all) == 0 {
		return ""
	}
	all = inOrder(slices.Clone(all))
	first := slices.DeleteFunc(slices.Clone(all), func(r Refusal) bool { return r.step != all[0].step })
	var texts []string
	for _, refused := range first {
		texts = append(texts, refused.Text)
	}
	text := strings.Join(texts, "\n")
	if first := all[0].step; text != "" && first != stepRollout && first != stepChoice {
		text = fmt.Sprintf("error for resolved bundle %q with version %q: %s", b.Name, b.Version, text)
	}
	return Condition(text)
}

// Condition truncates a text to the 32 KiB of a condition, like OLM.
func Condition(text string) string {
	if len(text) > conditionLimit {
		return text[:conditionLimit-len(cut)] + cut
	}
	return text
}

// dependencies are the types of properties because of which OLM refuses a bundle.
var dependencies = []string{property.TypePackageRequired, property.TypeGVKRequired, property.TypeConstraint}

// Listed returns the refusals that a bundle's document in the catalog causes.
func Listed(b *fbc.Bundle) (all []Refusal) {
	for _, p := range b.Properties {
		if slices.Contains(dependencies, p.Type) {
			all = append(all, Refusal{Code: Dependency, step: stepChoice,
				Text: fmt.Sprintf("validating bundle %q: bundle %q has a dependency declared via property %q which is currently not supported", b.Name, b.Name, p.Type),
				What: fmt.Sprintf("%s has the property %s: OLM v1 installs nothing that depends on other packages or APIs", b.Name, p.Type),
				Do:   "install what it needs yourself, and use a bundle without that property"})
			break
		}
	}
	if b.Image == "" {
		all = append(all, Refusal{Code: Image, step: stepImage, Text: `error parsing image reference "": invalid reference format`,
			What: b.Name + " has no image in the catalog, and OLM v1 unpacks only images",
			Do:   "push the bundle with `berth bundle image`, and build the catalog from the image"})
	}
	if faults := validation.IsDNS1123Subdomain(b.Name); len(faults) > 0 {
		all = append(all, Refusal{Code: Name, step: stepStatus,
			What: fmt.Sprintf("the name %s is no DNS subdomain: OLM v1 installs the bundle, but the API server refuses the status that names it, and OLM tries again forever", b.Name),
			Do:   "have the bundle renamed in the catalog, to lower-case letters, digits, hyphens and periods"})
	}
	return all
}

// inOrder returns refusals in the order of the steps.
func inOrder(all []Refusal) []Refusal {
	slices.SortStableFunc(all, func(a, b Refusal) int { return cmp.Compare(a.step, b.step) })
	return all
}

func checkServices(b *Bundle) []Refusal {
	if len(b.CSV.Spec.APIServiceDefinitions.Owned) == 0 {
		return nil
	}
	var names []string
	for _, owned := range b.CSV.Spec.APIServiceDefinitions.Owned {
		names = append(names, owned.GetName())
	}
	return []Refusal{{Code: APIService, step: stepServices, Text: "unsupported bundle: apiServiceDefintions are not supported", // sic
		What: fmt.Sprintf("%s owns the API services %s, and OLM v1 installs none", b.Name, strings.Join(names, ", ")),
		Do:   "install it with OLM v0; authors: serve the API by a CustomResourceDefinition"}}
}

func checkWebhooks(b *Bundle, r *Request) []Refusal {
	n := len(b.CSV.Spec.WebhookDefinitions)
	if n == 0 || r.Gates[featuregates.CertManager] || r.Gates[featuregates.ServiceCA] {
		return nil
	}
	return []Refusal{{Code: Webhook, step: stepWebhooks, Text: "unsupported bundle: webhookDefinitions are not supported",
		What: fmt.Sprintf("%s has %d webhooks, and this OLM v1 has no provider of certificates for them", b.Name, n),
		Do:   fmt.Sprintf("enable the feature gate %s on OpenShift, or %s where cert-manager runs; OpenShift enables its own from 4.21 on", featuregates.ServiceCA, featuregates.CertManager)}}
}

func checkModes(b *Bundle, r *Request) []Refusal {
	if b.supports(v1alpha1.InstallModeTypeAllNamespaces) {
		return nil
	}
	const do = "install it with OLM v0; or choose a version that supports AllNamespaces"
	if !r.Gates[featuregates.SingleOwnNamespace] {
		return []Refusal{{Code: InstallMode, step: stepAllNamespaces, Text: "unsupported bundle: bundle does not support AllNamespaces install mode",
			What: fmt.Sprintf("%s does not support the install mode AllNamespaces, the only one that OLM v1 uses unless its feature gate %s is enabled", b.Name, featuregates.SingleOwnNamespace),
			Do:   do}}
	}
	if b.supports(v1alpha1.InstallModeTypeSingleNamespace, v1alpha1.InstallModeTypeOwnNamespace) {
		return nil
	}
	return []Refusal{{Code: InstallMode, step: stepModes, Text: "unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes",
		What: b.Name + " supports none of the install modes AllNamespaces, SingleNamespace and OwnNamespace, and OLM v1 uses no other", Do: do}}
}

// checkConversion refuses conversion webhooks that the API server would not call.
func checkConversion(b *Bundle) []Refusal {
	for _, definition := range b.CRDs {
		if b.rendered(definition) != definition && definition.Spec.PreserveUnknownFields {
			return []Refusal{{Code: ConversionWebhook, step: stepDefinitions,
				Text: fmt.Sprintf("custom resource definition '%s' must have .spec.preserveUnknownFields set to false to let API Server call webhook to do the conversion", definition.Name),
				What: fmt.Sprintf("CRD %s has a conversion webhook and preserveUnknownFields, and the API server calls no webhook then", definition.Name),
				Do:   "authors: set spec.preserveUnknownFields to false"}}
		}
	}
	return nil
}
