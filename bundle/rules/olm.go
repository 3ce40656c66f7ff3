package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/registryv1"
	"github.com/berth-csi/berth/yaml"
)

// ownChecks are what the Operator Lifecycle Manager and consoles require of a bundle but no validator of the Operator
// Framework checks.
var ownChecks = []struct {
	rule findings.Rule
	find func(*check, findings.Rule)
}{
	{findings.Rule{ID: "olm-kind", Severity: findings.Error, What: "OLM can install each manifest.",
		Why: "OLM fails to install a bundle with a kind that it does not know. The operator must create such objects."}, checkKinds},
	{findings.Rule{ID: "olm-duplicate", Severity: findings.Error, What: "No two manifests are the same object.",
		Why: "It would be random which one is installed."}, checkDuplicates},
	{findings.Rule{ID: "olm-annotations", Severity: findings.Error, What: "The metadata says which package and channels the bundle belongs to, and where its manifests are.",
		Why: "The bundle cannot be added to a catalog."}, checkAnnotations},
	{findings.Rule{ID: "olm-labels", Severity: findings.Error, What: "The Dockerfile's labels are the metadata's annotations.",
		Why: "Some tools read the image's labels, others the file in it."}, checkLabels},
	{findings.Rule{ID: "olm-dependency", Severity: findings.Error, What: "OLM knows the type of each dependency.",
		Why: "The resolver ignores all versions of the package."}, checkDependencies},
	{findings.Rule{ID: "openshift-version", Severity: findings.Error, What: "The newest OpenShift that the operator supports is given as MAJOR.MINOR.",
		Why: "OpenShift cannot compare it with a cluster's version, and does not update the cluster."}, checkMaxOpenShift},
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

func checkKinds(c *check, rule findings.Rule) {
	for _, o := range c.bundle.Objects {
		if !installable[o.GetKind()] {
			c.find(rule, o.File, []string{"kind"}, "OLM cannot install a %s: let the operator create %q", o.GetKind(), o.GetName())
		}
	}
}

// csv returns the bundle's ClusterServiceVersion; there is one, or the bundle could not be loaded.
func (c *check) csv() registryv1.Object {
	return c.bundle.Objects[slices.IndexFunc(c.bundle.Objects, func(o registryv1.Object) bool { return o.GetKind() == "ClusterServiceVersion" })]
}

func checkDuplicates(c *check, rule findings.Rule) {
	first := map[string]string{} // file, by group, kind and name
	for _, o := range c.bundle.Objects {
		key := o.GroupVersionKind().GroupKind().String() + " " + o.GetName()
		if other, taken := first[key]; taken {
			c.find(rule, o.File, []string{"metadata", "name"}, "%s %s is also in %s", o.GetKind(), o.GetName(), other)
			continue
		}
		first[key] = o.File
	}
}

func checkAnnotations(c *check, rule findings.Rule) {
	annotations := c.bundle.Metadata.Annotations
	complain := func(key, format string, args ...any) {
		c.found = append(c.found, c.bundle.Metadata.FaultAt(rule, []any{"annotations", key}, format, args...))
	}
	for key, want := range map[string]string{
		registryv1.MediaTypeAnnotation: registryv1.MediaType, registryv1.ManifestsAnnotation: registryv1.ManifestsDir + "/",
		registryv1.MetadataAnnotation: registryv1.MetadataDir + "/",
	} {
		if got := annotations[key]; got != want {
			complain(key, "%s is %q, want %q", key, got, want)
		}
	}
	const channelsKey, defaultKey = registryv1.ChannelsAnnotation, registryv1.DefaultChannelAnnotation
	if annotations[channelsKey] == "" {
		complain(channelsKey, "%s is missing: want the channels that the bundle belongs to, separated by commas", channelsKey)
	}
	if channel, given := annotations[defaultKey]; given && channel == "" {
		complain(defaultKey, "%s is empty: leave it out, or name a channel", defaultKey)
	}
}

func checkLabels(c *check, rule findings.Rule) {
	dockerfile := c.bundle.File(registryv1.DockerfilePath)
	if dockerfile == nil {
		return // the image may be built in another way
	}
	labels := map[string]string{}
	for _, line := range strings.Split(string(dockerfile), "\n") {
		if label, ok := strings.CutPrefix(strings.TrimSpace(line), "LABEL "); ok {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = strings.Trim(value, `"`)
		}
	}
	annotations := c.bundle.Metadata.Annotations
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if labels[key] != annotations[key] && strings.HasPrefix(key, registryv1.AnnotationPrefix) {
			c.found = append(c.found, c.bundle.Metadata.FaultAt(rule, []any{"annotations", key}, "the annotation %s is %q, but as a label in %s it is %q", key, annotations[key], registryv1.DockerfilePath, labels[key]))
		}
	}
}

var dependencyTypes = []string{"olm.package", "olm.gvk", "olm.label", "olm.constraint"}

func checkDependencies(c *check, rule findings.Rule) {
	const path = registryv1.MetadataDir + "/dependencies.yaml"
	var file struct{ Dependencies []struct{ Type string } }
	if data := c.bundle.File(path); data == nil || yaml.Unmarshal(data, &file) != nil {
		return
	}
	for i, d := range file.Dependencies {
		if !slices.Contains(dependencyTypes, d.Type) {
			c.find(rule, path, []string{"dependencies", strconv.Itoa(i), "type"}, "the type is %q, want one of %s", d.Type, strings.Join(dependencyTypes, ", "))
		}
	}
}

var majorMinor = regexp.MustCompile(`^\d+\.\d+$`)

func checkMaxOpenShift(c *check, rule findings.Rule) {
	var file struct {
		Properties []struct {
			Type  string
			Value any
		}
	}
	if data := c.bundle.File(registryv1.PropertiesPath); data == nil || yaml.Unmarshal(data, &file) != nil {
		return
	}
	for i, p := range file.Properties {
		if text, isText := p.Value.(string); p.Type == bundle.MaxOpenShiftProperty && (!isText || !majorMinor.MatchString(text)) {
			c.find(rule, registryv1.PropertiesPath, []string{"properties", strconv.Itoa(i), "value"}, "%s is %v, want MAJOR.MINOR in quotes, such as \"4.22\"", bundle.MaxOpenShiftProperty, p.Value)
		}
	}
}

func checkFeatures(c *check, rule findings.Rule) {
	csv := c.csv()
	metadata, _ := csv.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		_, isText := value.(string)
		if !isText || strings.HasPrefix(key, bundle.FeaturePrefix) && value != "true" && value != "false" {
			c.find(rule, csv.File, []string{"metadata", "annotations", key}, "the annotation %s is %v, want a string in quotes%s", key, value, orBoolean(key))
		}
	}
}

func orBoolean(key string) string {
	if strings.HasPrefix(key, bundle.FeaturePrefix) {
		return `: "true" or "false"`
	}
	return ""
}

func checkRelatedImages(c *check, rule findings.Rule) {
	var csv struct {
		Spec struct {
			RelatedImages []struct{ Image string }
			Install       struct {
				Spec struct {
					Deployments []struct {
						Spec struct {
							Template struct {
								Spec struct{ InitContainers, Containers []imageUser }
							}
						}
					}
				}
			}
		}
	}
	file := c.csv().File
	if yaml.Unmarshal(c.bundle.File(file), &csv) != nil {
		return // the validators report it
	}
	related := map[string]bool{}
	for _, image := range csv.Spec.RelatedImages {
		related[image.Image] = true
	}
	for i, d := range csv.Spec.Install.Spec.Deployments {
		pod := d.Spec.Template.Spec
		for kind, containers := range map[string][]imageUser{"initContainers": pod.InitContainers, "containers": pod.Containers} {
			for j, container := range containers {
				at := []string{"spec", "install", "spec", "deployments", strconv.Itoa(i), "spec", "template", "spec", kind, strconv.Itoa(j)}
				if !related[container.Image] {
					c.find(rule, file, append(at, "image"), "image %s of container %s is not in spec.relatedImages", container.Image, container.Name)
				}
				for k, env := range container.Env {
					if imageVariable.MatchString(env.Name) && env.Value != "" && !related[env.Value] {
						c.find(rule, file, append(at, "env", fmt.Sprint(k), "value"), "image %s, which container %s has in variable %s, is not in spec.relatedImages", env.Value, container.Name, env.Name)
					}
				}
			}
		}
	}
}

// imageUser is the part of a container that names images.
type imageUser struct {
	Name, Image string
	Env         []struct{ Name, Value string }
}

// imageVariable matches environment variables that hold images, by the two usual conventions.
var imageVariable = regexp.MustCompile(`(^RELATED_IMAGE_|_IMAGE$)`)
