package rules

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/blang/semver/v4"
	"github.com/distribution/reference"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// Gates that run the same validators.
var (
	everyHub = []findings.Gate{findings.Community, findings.Certified, findings.OperatorHub}
	ownHubs  = []findings.Gate{findings.Community, findings.OperatorHub}
)

// gateChecks are the checks of gates that neither OLM nor an API server makes. Each applies only if one of its gates is in the
// profile.
// Sources: the static checks of operator-pipelines (operatorcert/static_tests), the policies of openshift-preflight, and the
// tasks of Konflux.
var gateChecks = []struct {
	rule findings.Rule
	find func(*checked, findings.Rule)
}{
	{findings.Rule{ID: "required-fields", Severity: findings.Error, What: "The ClusterServiceVersion has every field that OperatorHub shows for a version.",
		Why:   "The check check_required_fields refuses the change, or warns of it.",
		Gates: []findings.Gate{findings.Community}}, checkRequiredFields},
	{findings.Rule{ID: "openshift-kubernetes", Severity: findings.Error, What: "Each version of OpenShift that the bundle is for runs at least the version of Kubernetes that the bundle needs.",
		Why:   "OLM does not install the bundle there. The check check_api_version_constraints refuses the change.",
		Gates: []findings.Gate{findings.Community, findings.OpenShift}}, checkKubernetes},
	{findings.Rule{ID: "removed-api", Severity: findings.Error, What: "Each version of OpenShift that the bundle is for has the APIs of the bundle's manifests.",
		Why:   "Kubernetes has removed the API, so OLM fails to install the bundle there.",
		Gates: []findings.Gate{findings.Community, findings.Certified, findings.OpenShift}}, checkRemovedAPIs},
	{findings.Rule{ID: "network-policy", Severity: findings.Error, What: "The bundle has no NetworkPolicy.",
		Why:   "Only recent versions of OLM install it. The check check_network_policy_presence refuses the change.",
		Gates: []findings.Gate{findings.Community, findings.Certified}}, checkNetworkPolicies},
	{findings.Rule{ID: "feature-annotations", Severity: findings.Error, What: `For each feature of OpenShift, an annotation of the ClusterServiceVersion says whether the operator has it: "true" or "false".`,
		Why:   "The check RequiredAnnotations of preflight fails.",
		Gates: []findings.Gate{findings.Certified}}, checkFeatureAnnotations},
	{findings.Rule{ID: "one-scc", Severity: findings.Warning, What: "The operator asks for at most one SecurityContextConstraints.",
		Why:   "The check SecurityContextConstraintsInCSV of preflight, which is optional, fails.",
		Gates: []findings.Gate{findings.Certified}}, checkSCCs},
	{findings.Rule{ID: "image-digest", Severity: findings.Error, What: "Each image is named by its digest.",
		Why:   "A tag can name another image later, and disconnected clusters have mirrors for digests only.",
		Gates: []findings.Gate{findings.Certified, findings.Konflux}}, checkDigests},
	{findings.Rule{ID: "related-images-count", Severity: findings.Error, What: "There are at least as many images in spec.relatedImages as the operator names elsewhere.",
		Why:   "The task digest-pinning refuses the change.",
		Gates: []findings.Gate{findings.Certified}}, checkRelatedImagesCount},
	{findings.Rule{ID: "disconnected", Severity: findings.Warning, What: "An operator for disconnected clusters gets its images from variables RELATED_IMAGE_ of its containers.",
		Why:   "The check FollowsRestrictedNetworkEnablementGuidelines of preflight warns.",
		Gates: []findings.Gate{findings.Certified}}, checkDisconnected},
	{findings.Rule{ID: "fips", Severity: findings.Warning, What: "An operator that says it is compliant with FIPS lists its images, and they come from Red Hat's registries.",
		Why:   "The task fips-operator-bundle-check scans all images of such an operator.",
		Gates: []findings.Gate{findings.Konflux}}, checkFIPS},
}

// raw returns the undecoded value at a path of keys in the ClusterServiceVersion.
func (c *checked) raw(path ...string) any {
	for _, o := range c.bundle.Objects {
		if o.File != c.csvFile {
			continue
		}
		var value any = o.Object
		for _, key := range path {
			fields, is := value.(map[string]any)
			if !is {
				return nil
			}
			value = fields[key]
		}
		return value
	}
	return nil
}

// requiredField is a field that a ClusterServiceVersion must have.
type requiredField struct {
	path []string
	want string
	good func(value any) bool
	// fatal says that gates refuse a bundle without the field; otherwise they only warn.
	fatal bool
}

var requiredFields = []requiredField{
	{[]string{"metadata", "annotations", "capabilities"}, "a level such as Seamless Upgrades", isText, false}, // standardcapabilities knows the levels
	{[]string{"metadata", "annotations", "categories"}, "categories that are separated by commas", isText, false},
	{[]string{"metadata", "annotations", "containerImage"}, "an image with a tag or a digest", matches(`^([^/]+/)+[^/:]+:.+`), false},
	{[]string{"metadata", "annotations", "createdAt"}, "a time such as 2026-01-31T12:00:00Z", isTime, false},
	{[]string{"metadata", "annotations", "repository"}, "the address of the source code", matches(`^https?://.+`), false},
	{[]string{"metadata", "annotations", "support"}, "who supports the operator, in 3 characters or more", longerThan(2, false), false},
	{[]string{"metadata", "annotations", "description"}, "10 characters or more", longerThan(9, false), false},
	{[]string{"spec", "displayName"}, "3 characters or more", longerThan(2, true), true},
	{[]string{"spec", "description"}, "20 characters or more", longerThan(19, false), true},
	{[]string{"spec", "icon"}, "an image in base64data, and one of image/png, image/jpeg, image/gif and image/svg+xml as mediatype", isIcon, true},
	{[]string{"spec", "version"}, "a semantic version", isVersion, true},
	{[]string{"spec", "maintainers"}, "at least one, with name and email", listOf("name", "email"), true},
	{[]string{"spec", "provider", "name"}, "3 characters or more", longerThan(2, true), true},
	{[]string{"spec", "links"}, "at least one, with name and url", listOf("name", "url"), true},
	{[]string{"spec", "keywords"}, "a list of texts", isTexts, false},
}

func checkRequiredFields(c *checked, rule findings.Rule) {
	for _, field := range requiredFields {
		value := c.raw(field.path...)
		if value != nil && field.good(value) {
			continue
		}
		rule.Severity = findings.Warning
		if field.fatal {
			rule.Severity = findings.Error
		}
		name, at := strings.Join(field.path, "."), make([]any, len(field.path))
		for i, key := range field.path {
			at[i] = key
		}
		if value == nil {
			c.find(rule, c.csvFile, at, "%s is missing; expected %s", name, field.want)
		} else {
			c.find(rule, c.csvFile, at, "%s is not as expected: %s", name, field.want)
		}
	}
}

// scalar converts a scalar to text as the gate does.
func scalar(value any) string { return fmt.Sprint(value) }

func isText(value any) bool { text, is := value.(string); return is && text != "" }

func matches(pattern string) func(any) bool {
	compiled := regexp.MustCompile(pattern)
	return func(value any) bool { return compiled.MatchString(scalar(value)) }
}

// longerThan returns a function that accepts longer texts. With firstLine, only the first line counts.
func longerThan(characters int, firstLine bool) func(any) bool {
	return func(value any) bool {
		text := scalar(value)
		if firstLine {
			text, _, _ = strings.Cut(text, "\n")
		}
		return utf8.RuneCountInString(text) > characters
	}
}

var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly, "20060102T150405Z", "20060102", "2006-01", "2006"}

func isTime(value any) bool {
	return slices.ContainsFunc(timeLayouts, func(layout string) bool { _, err := time.Parse(layout, scalar(value)); return err == nil })
}

func isVersion(value any) bool {
	text, is := value.(string)
	_, err := semver.Parse(text)
	return is && err == nil
}

func listOf(keys ...string) func(any) bool {
	return func(value any) bool {
		list, is := value.([]any)
		for _, item := range list {
			fields, _ := item.(map[string]any)
			for _, key := range keys {
				if _, isText := fields[key].(string); !isText {
					return false
				}
			}
		}
		return is && len(list) > 0
	}
}

func isTexts(value any) bool {
	list, is := value.([]any)
	return is && len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool { _, isText := item.(string); return !isText })
}

var iconTypes = []string{"image/png", "image/jpeg", "image/gif", "image/svg+xml"}

func isIcon(value any) bool {
	if !listOf("base64data", "mediatype")(value) {
		return false
	}
	for _, item := range value.([]any) {
		icon := item.(map[string]any)
		data := strings.Join(strings.Fields(icon["base64data"].(string)), "")
		if _, err := base64.StdEncoding.DecodeString(data); err != nil || len(data) < 4 || !slices.Contains(iconTypes, icon["mediatype"].(string)) {
			return false
		}
	}
	return true
}

// openShiftVersions returns the versions that the bundle is for: all if it names none. known is false if the value is not valid.
func (c *checked) openShiftVersions() (r openshift.Range, known bool) {
	r, err := openshift.ParseRange(c.bundle.Metadata.Annotations[openshift.VersionsAnnotation])
	return r, err == nil
}

// targets returns the versions of OpenShift to check. The bundle is for each of them, and each is in the profile or, for operator
// repositories, has a catalog that is still built.
func (c *checked) targets() []openshift.Version {
	r, known := c.openShiftVersions()
	if !known {
		return nil // checkVersions reports it
	}
	asked := c.options.Profile.Versions
	if c.options.Profile.Has(findings.Community, findings.Certified) {
		asked = append(slices.Clone(asked), openshift.Offering()...)
	}
	return r.Of(asked)
}

// checkVersions checks the versions of OpenShift that the bundle is for.
func checkVersions(c *checked, rule findings.Rule) {
	value, given := c.bundle.Metadata.Annotations[openshift.VersionsAnnotation]
	if _, err := openshift.ParseRange(value); given && err != nil {
		rule.Severity = c.options.Profile.Severity(rule, findings.Warning)
		at := []any{"annotations", openshift.VersionsAnnotation}
		f := c.find(rule, c.inMetadata(c.bundle.Metadata.Document), at, "%s %v", openshift.VersionsAnnotation, err)
		meant := strings.TrimPrefix(strings.ReplaceAll(value, " ", ""), ">=") // v4.14 alone means 4.14 and later
		if _, err := openshift.ParseRange(meant); err == nil && meant != "" {
			f.Fixed(c.bundle.Metadata.Replaced(at, meant))
		}
	}
}

// minKubernetes returns the minimum version of Kubernetes, and its minor version. It matches the case of the field's name, as gates
// and the API server do.
func (c *checked) minKubernetes() (text string, minor int) {
	text, _ = c.raw("spec", "minKubeVersion").(string)
	v, err := semver.ParseTolerant(text)
	if err != nil || v.Major != 1 || v.Minor > 1000 {
		return "", 0
	}
	return text, int(v.Minor)
}

func checkKubernetes(c *checked, rule findings.Rule) {
	said, needed := c.minKubernetes()
	if said == "" {
		return
	}
	at := []any{"spec", "minKubeVersion"}
	pipeline := c.options.Profile.Has(findings.Community) && !c.options.InCatalogs
	if _, given := c.bundle.Metadata.Annotations[openshift.VersionsAnnotation]; !given && pipeline {
		c.find(rule, c.csvFile, at, "minKubeVersion is %s, but no annotation %s in the metadata says which versions of OpenShift the bundle is for; add it", said, openshift.VersionsAnnotation)
		return
	}
	r, known := c.openShiftVersions()
	if !known {
		return
	}
	var older []string
	for _, release := range openshift.Releases {
		if r.Includes(release.Version) && release.Kubernetes < needed && (pipeline || slices.Contains(c.options.Profile.Versions, release.Version)) {
			older = append(older, fmt.Sprintf("%s (Kubernetes 1.%d)", release.Version, release.Kubernetes))
		}
	}
	if len(older) > 0 {
		c.find(rule, c.csvFile, at, "minKubeVersion is %s, but the bundle is also for OpenShift %s; let %s begin with a later version", said, strings.Join(older, ", "), openshift.VersionsAnnotation)
	}
}

func checkRemovedAPIs(c *checked, rule findings.Rule) {
	if _, said := c.bundle.Metadata.Annotations[openshift.VersionsAnnotation]; !said && !c.options.Profile.Has(findings.Community, findings.OpenShift) {
		return // preflight looks only at versions that are given
	}
	targets := c.targets()
	for _, o := range c.bundle.Objects {
		without, instead, removed := openshift.Removed(o.GetAPIVersion(), o.GetKind())
		if !removed {
			continue
		}
		var on []string
		for _, v := range targets {
			if release, _ := openshift.Find(v); release.Kubernetes >= without {
				on = append(on, v.String())
			}
		}
		do := "leave it out"
		if instead != "" {
			do = "use " + instead
		}
		if len(on) > 0 {
			f := c.find(rule, o.File, []any{"apiVersion"}, "%s of %s is gone since Kubernetes 1.%d, and the bundle is for OpenShift %s; %s, or say in %s that it is for earlier ones alone",
				o.GetKind(), o.GetAPIVersion(), without, strings.Join(on, ", "), do, openshift.VersionsAnnotation)
			if openshift.Unchanged(o.GetAPIVersion()) {
				f.Fixed(o.Document.Replaced([]any{"apiVersion"}, instead))
			}
		}
	}
}

func checkNetworkPolicies(c *checked, rule findings.Rule) {
	for _, o := range c.bundle.Objects {
		if o.GetKind() == "NetworkPolicy" && strings.HasPrefix(o.GetAPIVersion(), "networking.k8s.io/") {
			c.find(rule, o.File, []any{"kind"}, "the bundle has NetworkPolicy %s: let the operator create it", o.GetName())
		}
	}
}

// The required and the optional feature annotations.
var (
	statedFeatures   = []string{"disconnected", "fips-compliant", "proxy-aware", "tls-profiles", "token-auth-aws", "token-auth-azure", "token-auth-gcp"}
	optionalFeatures = []string{"cnf", "cni", "csi"}
)

func checkFeatureAnnotations(c *checked, rule findings.Rule) {
	annotations := c.annotations()
	var missing []string
	for _, feature := range slices.Concat(statedFeatures, optionalFeatures) {
		value, given := annotations[bundle.FeaturePrefix+feature]
		switch {
		case !given && slices.Contains(statedFeatures, feature):
			missing = append(missing, bundle.FeaturePrefix+feature)
		case given && value != "true" && value != "false":
			at := []any{"metadata", "annotations", bundle.FeaturePrefix + feature}
			f := c.find(rule, c.csvFile, at, `the annotation %s is %q, want "true" or "false"`, bundle.FeaturePrefix+feature, value)
			if meant := strings.ToLower(value); meant == "true" || meant == "false" {
				f.Fixed(c.bundle.CSV.Replaced(at, meant))
			}
		}
	}
	if len(missing) > 0 {
		c.find(rule, c.csvFile, []any{"metadata", "annotations"}, `annotations are missing, each "true" or "false": %s`, strings.Join(missing, ", "))
	}
}

func checkSCCs(c *checked, rule findings.Rule) {
	if c.csv == nil {
		return
	}
	for i, permission := range c.csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions {
		for j, r := range permission.Rules {
			if !isSCC(r) {
				continue
			}
			if names := r.ResourceNames; len(names) > 1 {
				c.find(rule, c.csvFile, inStrategy("clusterPermissions", i, "rules", j, "resourceNames"), "the operator asks for %d SecurityContextConstraints, %s; expected one at most", len(names), strings.Join(names, ", "))
			}
			return // the first rule counts
		}
	}
}

func isSCC(r rbacv1.PolicyRule) bool {
	return slices.Contains(r.APIGroups, "security.openshift.io") && slices.Contains(r.Resources, "securitycontextconstraints")
}

// namedImage is an image in a ClusterServiceVersion, with its path.
type namedImage struct {
	image string
	path  []any
}

// operatorImages returns the images of the operator's containers, in their order.
func (c *checked) operatorImages() (all []namedImage) {
	if c.csv == nil {
		return nil
	}
	for i, d := range c.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		pod := d.Spec.Template.Spec
		for j, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			kind, k := "initContainers", j
			if j >= len(pod.InitContainers) {
				kind, k = "containers", j-len(pod.InitContainers)
			}
			at := inStrategy("deployments", i, "spec", "template", "spec", kind, k)
			all = append(all, namedImage{container.Image, append(slices.Clone(at), "image")})
			for l, env := range container.Env {
				if strings.HasPrefix(env.Name, relatedImagePrefix) && env.Value != "" {
					all = append(all, namedImage{env.Value, append(slices.Clone(at), "env", l, "value")})
				}
			}
		}
	}
	return all
}

const relatedImagePrefix = "RELATED_IMAGE_"

func (c *checked) relatedImages() (all []namedImage) {
	if c.csv == nil {
		return nil
	}
	for i, related := range c.csv.Spec.RelatedImages {
		all = append(all, namedImage{related.Image, []any{"spec", "relatedImages", i, "image"}})
	}
	return all
}

func checkDigests(c *checked, rule findings.Rule) {
	seen := map[string]bool{}
	for _, named := range slices.Concat(c.operatorImages(), c.relatedImages()) {
		if seen[named.image] || hasDigest(named.image) {
			continue
		}
		seen[named.image] = true
		c.find(rule, c.csvFile, named.path, "image %s has no digest; name it by its digest, as NAME@sha256:…", named.image)
	}
}

func hasDigest(image string) bool {
	named, err := reference.ParseNormalizedNamed(image)
	_, is := named.(reference.Digested)
	return err == nil && is
}

func checkRelatedImagesCount(c *checked, rule findings.Rule) {
	images := map[string]bool{}
	for _, named := range slices.Concat(c.operatorImages(), c.relatedImages()) {
		images[named.image] = true
	}
	related := c.relatedImages()
	if c.csv != nil && len(related) < len(images) {
		c.find(rule, c.csvFile, []any{"spec", "relatedImages"}, "spec.relatedImages has %d of the %d images that the operator names; list all of them", len(related), len(images))
	}
}

func checkDisconnected(c *checked, rule findings.Rule) {
	annotations := c.annotations()
	said := annotations[bundle.FeaturePrefix+"disconnected"] == "true" || strings.Contains(strings.ToLower(annotations["operators.openshift.io/infrastructure-features"]), `"disconnected"`)
	if !said || c.csv == nil {
		return
	}
	if len(c.csv.Spec.RelatedImages) == 0 {
		c.find(rule, c.csvFile, []any{"spec", "relatedImages"}, "the operator says that it is for disconnected clusters, but has no spec.relatedImages, so its images are not mirrored")
		return
	}
	for _, d := range c.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, container := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			for _, env := range container.Env {
				if strings.HasPrefix(env.Name, relatedImagePrefix) {
					return
				}
			}
		}
	}
	c.find(rule, c.csvFile, inStrategy("deployments"), "the operator says that it is for disconnected clusters, but none of its containers has a variable %s…, from which it could take mirrored images", relatedImagePrefix)
}

func checkFIPS(c *checked, rule findings.Rule) {
	annotations := c.annotations()
	if annotations[bundle.FeaturePrefix+"fips-compliant"] != "true" || c.csv == nil {
		return
	}
	at := []any{"metadata", "annotations", bundle.FeaturePrefix + "fips-compliant"}
	if len(c.csv.Spec.RelatedImages) == 0 {
		c.find(rule, c.csvFile, at, "the operator says that it is compliant with FIPS, but has no spec.relatedImages, so none of its images is scanned")
	}
	for _, named := range c.relatedImages() {
		host, _, _ := strings.Cut(named.image, "/")
		if u, err := url.Parse("https://" + host); err != nil || !slices.Contains(redHatRegistries, u.Hostname()) {
			c.find(rule, c.csvFile, named.path, "the operator says that it is compliant with FIPS, and image %s comes from elsewhere than %s; make sure that its programs use the host's cryptography", named.image, strings.Join(redHatRegistries, " and "))
		}
	}
}

// redHatRegistries are the registries whose images have passed the same FIPS check.
var redHatRegistries = []string{"registry.redhat.io", "registry.access.redhat.com"}
