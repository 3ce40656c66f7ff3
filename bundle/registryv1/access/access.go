// Package access lists the access to a cluster that a version of an operator requests, and the difference to another version:
// permissions, pods with rights on nodes, webhooks, CustomResourceDefinitions and images.
package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Version is a version of an operator.
type Version struct {
	CSV *v1alpha1.ClusterServiceVersion
	// Objects are the objects of its bundle.
	Objects []*unstructured.Unstructured
	// Images are pull specs by image name or, without one, by repository.
	Images map[string]string
}

// Change is a value that changes. An empty value means none.
type Change struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// Changed returns a change, or nil if there is none.
func Changed(before, after string) *Change {
	if before == after {
		return nil
	}
	return &Change{before, after}
}

// Changes returns the differences between two maps, or nil.
func Changes(before, after map[string]string) map[string]*Change {
	all := map[string]*Change{}
	for _, keys := range []map[string]string{before, after} {
		for key := range keys {
			if c := Changed(before[key], after[key]); c != nil {
				all[key] = c
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Content is the difference between two versions.
type Content struct {
	// Images are pull specs by image name or, without one, by repository.
	Images map[string]*Change `json:"images,omitempty"`
	// Permissions are verbs by scope and resource: "cluster apps/deployments" or "namespace apps/deployments". They are not
	// known if the catalog does not carry the bundles' objects; Unknown then says why.
	Permissions map[string]*Change `json:"permissions,omitempty"`
	Unknown     string             `json:"unknown,omitempty"`
	// Risks are new requests of a version, the worst first: permissions that can be used for more than it seems, pods with rights on
	// nodes, webhooks, removed versions of APIs, and images without a digest.
	Risks []Risk `json:"risks,omitempty"`
	// Dropped are the requests that only the earlier version has, the worst first.
	Dropped []Risk `json:"dropped,omitempty"`
	// CRDs are the versions of CustomResourceDefinitions by name.
	CRDs map[string]*Change `json:"crds,omitempty"`
	// InstallModes are the supported install modes.
	InstallModes   *Change            `json:"installModes,omitempty"`
	MinKubeVersion *Change            `json:"minKubeVersion,omitempty"`
	Dependencies   map[string]*Change `json:"dependencies,omitempty"`
}

// Compare returns the difference between two versions, except for dependencies. If before is the zero value, the difference is everything
// that after requests. It fails if an object of a bundle cannot be decoded.
func Compare(before, after Version) (*Content, error) {
	was, err := requestsOf(before)
	if err != nil {
		return nil, err
	}
	is, err := requestsOf(after)
	if err != nil {
		return nil, err
	}
	return &Content{
		Images:         Changes(before.Images, after.Images),
		Permissions:    Changes(was.texts(), is.texts()),
		Risks:          newRisks(was, is, true),
		Dropped:        newRisks(is, was, false),
		CRDs:           Changes(joinedAll(was.crds), joinedAll(is.crds)),
		InstallModes:   Changed(InstallModes(before.CSV), InstallModes(after.CSV)),
		MinKubeVersion: Changed(minKubeVersion(before.CSV), minKubeVersion(after.CSV)),
	}, nil
}

func minKubeVersion(csv *v1alpha1.ClusterServiceVersion) string {
	if csv == nil {
		return ""
	}
	return csv.Spec.MinKubeVersion
}

// InstallModes returns the supported install modes.
func InstallModes(csv *v1alpha1.ClusterServiceVersion) string {
	var supported []string
	if csv != nil {
		for _, mode := range csv.Spec.InstallModes {
			if mode.Supported {
				supported = append(supported, string(mode.Type))
			}
		}
	}
	return joined(supported)
}

// Repository returns a pull spec without its tag or digest.
func Repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image
}

// ImagesOf returns the images of a ClusterServiceVersion, from its pods and spec.relatedImages, by name.
func ImagesOf(csv *v1alpha1.ClusterServiceVersion) map[string]string {
	all := map[string]string{}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			all[Repository(c.Image)] = c.Image
		}
	}
	for _, related := range csv.Spec.RelatedImages {
		if all[Repository(related.Image)] == related.Image {
			delete(all, Repository(related.Image)) // it has a better name
		}
		name := related.Name
		if name == "" {
			name = Repository(related.Image)
		}
		all[name] = related.Image
	}
	delete(all, "")
	return all
}

// permission is a resource, or a URL, in the cluster or in the namespace of the operator.
type permission struct {
	scope    string // cluster or namespace
	resource string // with its group
	names    string // of the objects; "" for all
}

func (p permission) String() string {
	text := p.scope + " " + p.resource
	if p.names != "" {
		text += " " + p.names
	}
	return text
}

// requests holds the requests of a version.
type requests struct {
	verbs    map[permission][]string
	bindings []Risk // to roles outside of the bundle
	crds     map[string][]string
	versions map[string][]string // of CustomResourceDefinitions, without their states
	pods     []Risk
	images   map[string]string
	combined int // the combinations of all rules
	spelled  int // the bytes of their texts
}

func (a *requests) texts() map[string]string {
	all := map[string]string{}
	for p, verbs := range a.verbs {
		all[p.String()] = joined(verbs)
	}
	return all
}

// requestsOf returns the requests of a version.
func requestsOf(v Version) (*requests, error) {
	a := &requests{verbs: map[permission][]string{}, crds: map[string][]string{}, versions: map[string][]string{}, images: v.Images}
	if v.CSV != nil {
		strategy := v.CSV.Spec.InstallStrategy.StrategySpec
		for scope, all := range map[string][]v1alpha1.StrategyDeploymentPermissions{"cluster": strategy.ClusterPermissions, "namespace": strategy.Permissions} {
			for _, of := range all {
				if err := a.add(scope, of.Rules); err != nil {
					return nil, fmt.Errorf("ClusterServiceVersion %s: %w", v.CSV.Name, err)
				}
			}
		}
		a.pods = podRisks(v.CSV)
	}
	if err := a.addDefinitions(v.Objects); err != nil {
		return nil, err
	}
	return a, a.addBindings(v.Objects)
}

// maxCombined is the maximum number of combinations of a group, a resource and a verb in the rules of a version. A rule of a few kilobytes
// can have millions. Real operators have some thousands.
const maxCombined = 100_000

// maxSpelled is the maximum number of bytes of these combinations, and of the names that they are for. A rule can have a text of megabytes,
// which is in each of its combinations.
const maxSpelled = 16 << 20

func (a *requests) add(scope string, rules []rbacv1.PolicyRule) error {
	for _, rule := range rules {
		a.combined += (len(rule.NonResourceURLs) + len(rule.APIGroups)*len(rule.Resources)) * len(rule.Verbs)
		if a.combined > maxCombined {
			return fmt.Errorf("its rules have more than %d combinations of a group, a resource and a verb; expected fewer", maxCombined)
		}
		names := strings.Join(slices.Sorted(slices.Values(rule.ResourceNames)), ",")
		groups, resources, other := len(rule.APIGroups), len(rule.Resources), bytesOf(rule.Verbs)
		a.spelled += groups*bytesOf(rule.Resources) + resources*bytesOf(rule.APIGroups) + groups*resources*(len(names)+other) +
			bytesOf(rule.NonResourceURLs) + len(rule.NonResourceURLs)*other
		if a.spelled > maxSpelled {
			return fmt.Errorf("the combinations of a group, a resource and a verb in its rules have more than %d bytes, with their resourceNames; expected fewer", maxSpelled)
		}
		for _, url := range rule.NonResourceURLs {
			key := permission{scope, url, ""}
			a.verbs[key] = append(a.verbs[key], rule.Verbs...)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group != "" {
					resource = group + "/" + resource
				}
				key := permission{scope, resource, names}
				a.verbs[key] = append(a.verbs[key], rule.Verbs...)
			}
		}
	}
	return nil
}

// bytesOf returns the total length of texts.
func bytesOf(texts []string) (sum int) {
	for _, text := range texts {
		sum += len(text)
	}
	return sum
}

// role holds the fields of roles and bindings that are read.
type role struct {
	Rules   []rbacv1.PolicyRule `json:"rules"`
	RoleRef rbacv1.RoleRef      `json:"roleRef"`
}

// addBindings adds the permissions that bindings in the bundle give through roles in the bundle, and a risk for each binding to another
// role. It ignores the subjects: for any subject, the permissions are new.
func (a *requests) addBindings(objects []*unstructured.Unstructured) error {
	roles := map[[2]string]role{}
	for _, pass := range []string{"Role", "Binding"} {
		for _, o := range objects {
			kind := o.GetKind()
			if !strings.HasPrefix(o.GetAPIVersion(), rbacv1.GroupName+"/") || !strings.HasSuffix(kind, pass) {
				continue
			}
			var r role
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r); err != nil {
				return fmt.Errorf("%s %s: %w", kind, o.GetName(), err)
			}
			if pass == "Role" {
				roles[[2]string{kind, o.GetName()}] = r
				continue
			}
			of, own := roles[[2]string{r.RoleRef.Kind, r.RoleRef.Name}]
			scope := "cluster"
			if kind == "RoleBinding" {
				scope = "namespace"
			}
			if !own {
				a.bindings = append(a.bindings, bindingRisk(kind, o.GetName(), r.RoleRef))
			} else if err := a.add(scope, of.Rules); err != nil {
				return fmt.Errorf("%s %s: %w", kind, o.GetName(), err)
			}
		}
	}
	slices.SortFunc(a.bindings, func(x, y Risk) int { return strings.Compare(x.What, y.What) })
	return nil
}

// addDefinitions adds the versions of the CustomResourceDefinitions of a bundle, by name.
func (a *requests) addDefinitions(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" || object.GetAPIVersion() != apiextensionsv1.SchemeGroupVersion.String() {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return fmt.Errorf("CustomResourceDefinition %s: %w", object.GetName(), err)
		}
		for _, v := range crd.Spec.Versions {
			a.crds[crd.Name] = append(a.crds[crd.Name], v.Name+state(v))
			a.versions[crd.Name] = append(a.versions[crd.Name], v.Name)
		}
	}
	return nil
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

// joined returns a list, sorted and without duplicates, as one text.
func joined(list []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(list))), ", ")
}

// joinedAll joins each list.
func joinedAll(lists map[string][]string) map[string]string {
	texts := map[string]string{}
	for key, list := range lists {
		texts[key] = joined(list)
	}
	return texts
}

// sortedKeys returns the keys of a map in order.
func sortedKeys(m map[string]*Change) []string { return slices.Sorted(maps.Keys(m)) }
