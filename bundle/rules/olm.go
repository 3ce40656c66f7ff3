package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
)

// ownChecks check the requirements of the API server, the Operator Lifecycle Manager and consoles.
var ownChecks = []struct {
	rule findings.Rule
	find func(*checked, findings.Rule)
}{
	{acceptedRule, checkAccepted},
	{droppedRule, func(*checked, findings.Rule) {}}, // checkAccepted finds both
	{sizeRule, checkSizes},
	{findings.Rule{ID: "olm-kind", Severity: findings.Error, What: "OLM can install each manifest.",
		Why: "OLM fails to install a bundle with a kind that it does not know. The operator must create such objects."}, checkKinds},
	{findings.Rule{ID: "olm-duplicate", Severity: findings.Error, What: "No two manifests, and no two Deployments of the install strategy, are the same object.",
		Why: "It would be random which one is installed."}, checkDuplicates},
	{findings.Rule{ID: "olm-annotations", Severity: findings.Error, What: "The metadata says which package and channels the bundle belongs to, and where its manifests are.",
		Why: "The bundle cannot be added to a catalog."}, checkAnnotations},
	{findings.Rule{ID: "olm-labels", Severity: findings.Warning, What: "The Dockerfile's labels are the metadata's annotations.",
		Why: "Some tools read the image's labels, others the file in it."}, checkLabels},
	{findings.Rule{ID: "olm-dependency", Severity: findings.Error, What: "OLM understands each dependency.",
		Why: "The resolver ignores all versions of the package, or the dependency."}, checkDependencies},
	{findings.Rule{ID: "olm-property", Severity: findings.Error, What: "OLM understands each property, in properties.yaml and in the annotation olm.properties.",
		Why: "OLM's tools reject the catalog, or OLM resolves nothing in the namespace."}, checkProperties},
	{findings.Rule{ID: "olm-api", Severity: findings.Error, What: "Each definition that the ClusterServiceVersion owns or requires is called PLURAL.GROUP, as it is in the cluster.",
		Why: "OLM's tools cannot render the bundle, and OLM resolves nothing in a namespace in which the bundle is installed."}, checkAPIs},
	{findings.Rule{ID: "olm-version", Severity: findings.Error, What: "The ClusterServiceVersion has a version.",
		Why: "OLM's tools reject the catalog."}, checkVersion},
	{findings.Rule{ID: "upgrade-edge", Severity: findings.Error, What: "A skipRange is a range of versions, no bundle replaces or skips itself, and none skips an empty name.",
		Why: "OLM's tools reject the catalog, and OLM never makes the update."}, checkEdges},
	{findings.Rule{ID: "webhook", Severity: findings.Error, What: "OLM can set up each webhook and API service: its Deployment and definitions are in the bundle, and its rules do not match OLM itself.",
		Why: "The installation fails."}, checkWebhooks},
	{unservedRule, func(*checked, findings.Rule) {}}, // checkWebhooks finds both
	{findings.Rule{ID: "openshift-version", Severity: findings.Error, What: "The newest OpenShift that the operator supports is given as MAJOR.MINOR.",
		Why: "OpenShift cannot compare it with a cluster's version, and does not update the cluster."}, checkMaxOpenShift},
	{findings.Rule{ID: "openshift-versions", Severity: findings.Warning, What: "The metadata says, in a form that pipelines understand, which versions of OpenShift the bundle is for.",
		Why: "No catalog offers the bundle.", Gates: []findings.Gate{findings.Community, findings.Certified}}, checkVersions},
	{findings.Rule{ID: "console-feature", Severity: findings.Error, What: `Feature annotations are the strings "true" or "false".`,
		Why: "A value without quotes is not a string, and the API server rejects the object."}, checkFeatures},
	{findings.Rule{ID: "related-images", Severity: findings.Warning, What: "Each image that the operator's containers run or have in their environment is in spec.relatedImages.",
		Why: "Mirrors of the package for disconnected clusters would lack it."}, checkRelatedImages},
}

// installable are the kinds that OLM installs.
var installable = map[string]bool{
	"ClusterServiceVersion": true, "CustomResourceDefinition": true,
	"ServiceAccount": true, "Service": true, "Secret": true, "ConfigMap": true,
	"Role": true, "RoleBinding": true, "ClusterRole": true, "ClusterRoleBinding": true,
	"PrometheusRule": true, "ServiceMonitor": true, "PodDisruptionBudget": true, "PriorityClass": true, "VerticalPodAutoscaler": true,
	"ConsoleYAMLSample": true, "ConsoleQuickStart": true, "ConsoleCLIDownload": true, "ConsoleLink": true, "ConsolePlugin": true,
	"NetworkPolicy": true,
}

func checkKinds(c *checked, rule findings.Rule) {
	for _, o := range c.bundle.Objects {
		if !installable[o.GetKind()] {
			c.find(rule, o.File, []any{"kind"}, "OLM cannot install a %s: let the operator create %q", o.GetKind(), o.GetName())
		}
	}
}

func checkDuplicates(c *checked, rule findings.Rule) {
	mild := rule
	mild.Severity = findings.Warning // OLM writes one, and then the other over it
	first := map[string]string{}     // file, by group, kind and name
	for _, o := range c.bundle.Objects {
		key := o.GroupVersionKind().GroupKind().String() + " " + o.GetName()
		if other, taken := first[key]; taken {
			c.find(mild, o.File, []any{"metadata", "name"}, "%s %s is also in %s; OLM writes one of them over the other", o.GetKind(), o.GetName(), other)
			continue
		}
		first[key] = o.File
	}
	if c.csv == nil {
		return
	}
	deployments := map[string]int{}
	for i, d := range c.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if other, taken := deployments[d.Name]; taken {
			c.find(rule, c.csvFile, inStrategy("deployments", i, "name"), "Deployment %s is also deployments[%d]", d.Name, other)
			continue
		}
		deployments[d.Name] = i
	}
}

func checkAnnotations(c *checked, rule findings.Rule) {
	annotations := c.bundle.Metadata.Annotations
	complain := func(severity findings.Verdict, key, format string, args ...any) *findings.Finding {
		rule := rule
		if c.options.Profile.Has(ownHubs...) {
			severity = findings.Error // they run opm's former check of the format
		}
		rule.Severity = severity
		return c.find(rule, c.inMetadata(c.bundle.Metadata.Document), []any{"annotations", key}, format, args...)
	}
	for key, want := range map[string]string{
		registryv1.MediaTypeAnnotation: registryv1.MediaType, registryv1.ManifestsAnnotation: registryv1.ManifestsDir + "/",
		registryv1.MetadataAnnotation: registryv1.MetadataDir + "/",
	} {
		if got := annotations[key]; got != want { // OLM's tools ignore it
			f := complain(findings.Warning, key, "%s is %q, want %q", key, got, want)
			if _, given := annotations[key]; given {
				f.Fixed(c.bundle.Metadata.Replaced([]any{"annotations", key}, want))
			} else {
				f.Fixed(c.bundle.Metadata.Added([]any{"annotations"}, key, want))
			}
		}
	}
	const packageKey, channelsKey, defaultKey = registryv1.PackageAnnotation, registryv1.ChannelsAnnotation, registryv1.DefaultChannelAnnotation
	if annotations[packageKey] == "" {
		complain(findings.Error, packageKey, "%s is missing: want the name of the package", packageKey)
	}
	if faults := validation.IsDNS1123Label(annotations[packageKey]); annotations[packageKey] != "" && len(faults) > 0 {
		complain(findings.Error, packageKey, "%s is %q, and OLM's tools reject a package of this name: %s", packageKey, annotations[packageKey], strings.Join(faults, "; "))
	}
	if annotations[channelsKey] == "" {
		complain(findings.Error, channelsKey, "%s is missing: want the channels that the bundle belongs to, separated by commas", channelsKey)
	}
	if channel, given := annotations[defaultKey]; given && channel == "" {
		complain(findings.Warning, defaultKey, "%s is empty: leave it out, or name a channel", defaultKey)
	}
}

func checkLabels(c *checked, rule findings.Rule) {
	dockerfile := c.bundle.File(registryv1.DockerfilePath)
	if dockerfile == nil {
		return // the image may be built without it
	}
	labels := labelsOf(string(dockerfile))
	annotations := c.bundle.Metadata.Annotations
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if labels[key] != annotations[key] && strings.HasPrefix(key, registryv1.AnnotationPrefix) {
			c.find(rule, c.inMetadata(c.bundle.Metadata.Document), []any{"annotations", key}, "the annotation %s is %q, but as a label in %s it is %q", key, annotations[key], registryv1.DockerfilePath, labels[key])
		}
	}
}

func checkFeatures(c *checked, rule findings.Rule) {
	for _, o := range c.bundle.Objects {
		if o.File != c.csvFile {
			continue
		}
		metadata, _ := o.Object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		wrong, others := 0, findings.Warning
		for _, key := range slices.Sorted(maps.Keys(annotations)) {
			value := annotations[key]
			_, isText := value.(string)
			rule := rule
			if isText || value == nil {
				rule.Severity = findings.Warning // only consoles care, and the API server reads null as an empty text
			}
			if value == nil {
				value = "null"
			}
			if !isText || strings.HasPrefix(key, bundle.FeaturePrefix) && value != "true" && value != "false" {
				if wrong++; wrong > document.MaxFaults { // each correction parses the document
					if rule.Severity == findings.Error {
						others = findings.Error
					}
					continue
				}
				at := []any{"metadata", "annotations", key}
				f := c.find(rule, c.csvFile, at, "the annotation %s is %v, want a string in quotes%s", key, value, orBoolean(key))
				if feature := strings.ToLower(fmt.Sprint(value)); strings.HasPrefix(key, bundle.FeaturePrefix) && (feature == "true" || feature == "false") {
					f.Fixed(c.bundle.CSV.Replaced(at, feature))
				} else if !isText {
					f.Fixed(c.bundle.CSV.Quoted(at))
				}
			}
		}
		if wrong -= document.MaxFaults; wrong > 0 {
			rule.Severity = others
			c.find(rule, c.csvFile, []any{"metadata", "annotations"}, "there are %d more such annotations; correct the reported ones first", wrong)
		}
	}
}

func orBoolean(key string) string {
	if strings.HasPrefix(key, bundle.FeaturePrefix) {
		return `: "true" or "false"`
	}
	return ""
}

func checkRelatedImages(c *checked, rule findings.Rule) {
	if c.csv == nil {
		return
	}
	related := map[string]bool{}
	for _, image := range c.csv.Spec.RelatedImages {
		related[image.Image] = true
	}
	for i, d := range c.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		pod := d.Spec.Template.Spec
		for kind, containers := range map[string][]corev1.Container{"initContainers": pod.InitContainers, "containers": pod.Containers} {
			for j, container := range containers {
				at := inStrategy("deployments", i, "spec", "template", "spec", kind, j)
				if !related[container.Image] {
					c.find(rule, c.csvFile, append(at, "image"), "image %s of container %s is not in spec.relatedImages", container.Image, container.Name)
				}
				for k, env := range container.Env {
					if imageVariable.MatchString(env.Name) && isPullSpec(env.Value) && !related[env.Value] {
						c.find(rule, c.csvFile, append(slices.Clone(at), "env", k, "value"), "image %s, which container %s has in variable %s, is not in spec.relatedImages", env.Value, container.Name, env.Name)
					}
				}
			}
		}
	}
}

// imageVariable matches environment variables that hold images, by the two usual conventions.
var imageVariable = regexp.MustCompile(`(^RELATED_IMAGE_|_IMAGE$)`)

// isPullSpec reports whether the value of such a variable is an image, with a path, a tag or a digest, and not a setting such as
// PULL_IMAGE=true.
func isPullSpec(value string) bool {
	if !strings.ContainsAny(value, "/:@") {
		return false
	}
	_, err := reference.ParseNormalizedNamed(value)
	return err == nil
}
