package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/fbc"
)

// Content is how one version differs from another.
type Content struct {
	// Images are pull specs by image name or, without one, by repository.
	Images map[string]*Change `json:"images,omitempty"`
	// Permissions are verbs by scope and resource: "cluster apps/deployments" or "namespace apps/deployments". They are not
	// known if the catalog does not carry the bundles' objects; Unknown then says why.
	Permissions map[string]*Change `json:"permissions,omitempty"`
	Unknown     string             `json:"unknown,omitempty"`
	// Risks are what the new version asks for and the one before did not, the worst first: permissions that can be used for more than it
	// seems, pods with rights on nodes, and webhooks.
	Risks []Risk `json:"risks,omitempty"`
	// CRDs are the versions of CustomResourceDefinitions by name.
	CRDs map[string]*Change `json:"crds,omitempty"`
	// InstallModes are the supported install modes.
	InstallModes   *Change            `json:"installModes,omitempty"`
	MinKubeVersion *Change            `json:"minKubeVersion,omitempty"`
	Dependencies   map[string]*Change `json:"dependencies,omitempty"`
}

// compareHeads returns how one bundle differs from another.
func compareHeads(before, after *fbc.Bundle) (*Content, error) {
	was, err := before.Details()
	if err != nil {
		return nil, err
	}
	is, err := after.Details()
	if err != nil {
		return nil, err
	}
	c := &Content{
		Images:       changes(images(before), images(after)),
		Dependencies: changes(dependencies(before), dependencies(after)),
	}
	if was.CSV == nil || is.CSV == nil {
		c.Unknown = "the catalogs do not describe the bundles; see their images"
		return c, nil
	}
	c.InstallModes = changed(installModes(was.CSV), installModes(is.CSV))
	c.MinKubeVersion = changed(was.CSV.Spec.MinKubeVersion, is.CSV.Spec.MinKubeVersion)
	if !was.Carried || !is.Carried {
		c.Unknown = "the catalogs do not carry the permissions; see the bundles' images"
		c.CRDs = changes(owned(was.CSV), owned(is.CSV))
		return c, nil
	}
	c.Permissions = changes(permissions(was.CSV), permissions(is.CSV))
	c.Risks = newRisks(was.CSV, is.CSV)
	c.CRDs, err = compareCRDs(was, is)
	return c, err
}

// changes returns the differences between two maps, or nil.
func changes(before, after map[string]string) map[string]*Change {
	all := map[string]*Change{}
	for key := range before {
		if c := changed(before[key], after[key]); c != nil {
			all[key] = c
		}
	}
	for key := range after {
		if c := changed(before[key], after[key]); c != nil {
			all[key] = c
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// images returns the pull specs of the images that a bundle needs, by name.
func images(b *fbc.Bundle) map[string]string {
	specs := map[string]string{}
	for _, image := range b.RelatedImages {
		name := image.Name
		if name == "" {
			name = repository(image.Image)
		}
		specs[name] = image.Image
	}
	return specs
}

// repository is a pull spec without its tag or digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image
}

// dependencies returns what a bundle requires.
func dependencies(b *fbc.Bundle) map[string]string {
	required := map[string]string{}
	for _, p := range b.Properties {
		parsed, err := fbc.ParseProperty(p)
		if err != nil {
			continue // not a dependency
		}
		for _, r := range parsed.PackagesRequired {
			required["package "+r.PackageName] = r.VersionRange
		}
		for _, r := range parsed.GVKsRequired {
			required["API "+r.Kind+" of "+r.Group] = r.Version
		}
		if p.Type == property.TypeConstraint {
			required["constraint "+string(p.Value)] = "required"
		}
	}
	return required
}

func installModes(csv *v1alpha1.ClusterServiceVersion) string {
	var supported []string
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported {
			supported = append(supported, string(mode.Type))
		}
	}
	slices.Sort(supported)
	return strings.Join(supported, ", ")
}

// owned returns the versions of the APIs that a ClusterServiceVersion owns.
func owned(csv *v1alpha1.ClusterServiceVersion) map[string]string {
	versions := map[string][]string{}
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		versions[crd.Name] = append(versions[crd.Name], crd.Version)
	}
	return joined(versions)
}

// joined sorts each list and joins it into one text.
func joined(lists map[string][]string) map[string]string {
	texts := map[string]string{}
	for key, list := range lists {
		slices.Sort(list)
		texts[key] = strings.Join(slices.Compact(list), ", ")
	}
	return texts
}

// permissions returns the verbs that a ClusterServiceVersion requests, by scope and resource.
func permissions(csv *v1alpha1.ClusterServiceVersion) map[string]string {
	verbs := map[string][]string{}
	strategy := csv.Spec.InstallStrategy.StrategySpec
	for scope, asked := range map[string][]v1alpha1.StrategyDeploymentPermissions{"cluster": strategy.ClusterPermissions, "namespace": strategy.Permissions} {
		for _, permission := range asked {
			for _, rule := range permission.Rules {
				for _, object := range objects(rule) {
					verbs[scope+" "+object] = append(verbs[scope+" "+object], rule.Verbs...)
				}
			}
		}
	}
	return joined(verbs)
}

// objects are the resources and URLs of a rule.
func objects(rule rbacv1.PolicyRule) (all []string) {
	all = append(all, rule.NonResourceURLs...)
	names := ""
	if len(rule.ResourceNames) > 0 {
		names = " " + strings.Join(slices.Sorted(slices.Values(rule.ResourceNames)), ",")
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if group != "" {
				resource = group + "/" + resource
			}
			all = append(all, resource+names)
		}
	}
	return all
}

// compareCRDs compares the versions of the CustomResourceDefinitions that two bundles carry.
func compareCRDs(before, after *fbc.Details) (map[string]*Change, error) {
	was, err := crds(before)
	if err != nil {
		return nil, err
	}
	is, err := crds(after)
	if err != nil {
		return nil, err
	}
	return changes(was, is), nil
}

// crds returns the versions of the CustomResourceDefinitions that a bundle carries, by name.
func crds(d *fbc.Details) (map[string]string, error) {
	versions := map[string][]string{}
	for _, object := range d.Objects {
		if object.GetKind() != "CustomResourceDefinition" || object.GetAPIVersion() != apiextensionsv1.SchemeGroupVersion.String() {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return nil, fmt.Errorf("CustomResourceDefinition %s: %w", object.GetName(), err)
		}
		for _, v := range crd.Spec.Versions {
			versions[crd.Name] = append(versions[crd.Name], v.Name+state(v))
		}
	}
	return joined(versions), nil
}

// state says whether a version of an API is stored, not served or deprecated.
func state(v apiextensionsv1.CustomResourceDefinitionVersion) string {
	var states []string
	if v.Storage {
		states = append(states, "stored")
	}
	if !v.Served {
		states = append(states, "not served")
	}
	if v.Deprecated {
		states = append(states, "deprecated")
	}
	if len(states) == 0 {
		return ""
	}
	return " (" + strings.Join(states, ", ") + ")"
}

// sortedKeys returns the keys of a map in order.
func sortedKeys(m map[string]*Change) []string { return slices.Sorted(maps.Keys(m)) }
