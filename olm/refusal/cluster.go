package refusal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/internal/openshift"
	"github.com/berth-csi/berth/olm/crdsafety"
	"github.com/berth-csi/berth/olm/featuregates"
)

// Cluster is the cluster that OLM compares a bundle with.
type Cluster interface {
	// Serves reports whether the API server serves a kind.
	Serves(context.Context, schema.GroupVersionKind) (bool, error)
	// Find returns an object of a served kind, or nil if it does not exist.
	Find(context.Context, Object) (*unstructured.Unstructured, error)
}

// In returns the refusals of a bundle that depend on the cluster, in OLM's order. installed may be nil.
func In(ctx context.Context, c Cluster, b, installed *Bundle, r *Request) ([]Refusal, error) {
	if b.Described {
		return nil, nil
	}
	var ours []Object
	if installed != nil {
		ours = installed.Objects(r)
	}
	var missing, existing []Object
	var present []*unstructured.Unstructured
	for _, object := range b.Objects(r) {
		served, err := c.Serves(ctx, object.GroupVersionKind)
		if err != nil {
			return nil, err
		}
		if !served {
			missing = append(missing, object)
			continue
		}
		found, err := c.Find(ctx, object)
		if err != nil {
			return nil, err
		}
		if found != nil && !slices.Contains(ours, object) && !r.owns(found) {
			existing, present = append(existing, object), append(present, found)
		}
	}
	unsafe, err := changed(ctx, c, b, r)
	if err != nil {
		return nil, err
	}
	if r.Gates[featuregates.Boxcutter] { // Boxcutter fails when it applies a phase
		return slices.Concat(unsafe, b.unserved(missing, r), b.colliding(existing, r)), nil
	}
	return slices.Concat(b.unserved(missing, r), existingFor(existing, present, installed != nil, r), unsafe), nil
}

// twice returns the refusal of a bundle with an object that OLM also makes itself. Helm creates the first of the two, and fails at the
// second. In an update, either may come first.
func (b *Bundle) twice(r *Request) []Refusal {
	_, again := b.objects(r)
	if len(again) == 0 {
		return nil
	}
	if r.Gates[featuregates.Boxcutter] {
		text := `revision validation error: revision "`
		if r.Name != "" {
			text += r.Name + "-"
		}
		return []Refusal{{Code: Twice, step: stepRollout, Cut: true, Text: text,
			What: fmt.Sprintf("%s has %s, which OLM v1 also makes from its ClusterServiceVersion", b.Name, again[0]), Do: "authors: remove the manifest"}}
	}
	text := "1 error occurred:\n"
	if len(again) > 1 {
		text = fmt.Sprintf("%d errors occurred:\n", len(again))
	}
	var names []string
	for _, o := range again {
		text += fmt.Sprintf("\t* %s %q already exists\n", resourceOf(o), o.Name)
		names = append(names, o.String())
	}
	return []Refusal{{Code: Twice, step: stepInstall, Text: text + "\n",
		What: fmt.Sprintf("%s has %s, which OLM v1 also makes from its ClusterServiceVersion: it creates the first one and fails at the second", b.Name, strings.Join(names, ", ")),
		Do:   "authors: remove the manifest"}}
}

// resourceOf returns the resource of an object as the API server's messages name it.
func resourceOf(o Object) string {
	plural := strings.ToLower(o.Kind) + "s"
	if o.Kind == "NetworkPolicy" {
		plural = "networkpolicies"
	}
	return strings.TrimSuffix(plural+"."+o.Group, ".")
}

// The label and the annotations of objects that Helm has installed.
const (
	managedByLabel             = "app.kubernetes.io/managed-by"
	releaseNameAnnotation      = "meta.helm.sh/release-name"
	releaseNamespaceAnnotation = "meta.helm.sh/release-namespace"
)

// owns reports whether an object already belongs to the ClusterExtension: by Helm's label and annotations, or by its controller, a
// ClusterObjectSet whose name is the ClusterExtension's name and a number.
func (r *Request) owns(object *unstructured.Unstructured) bool {
	if !r.Gates[featuregates.Boxcutter] {
		return len(r.strangeness(object)) == 0
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller && owner.Kind == "ClusterObjectSet" && strings.TrimRight(owner.Name, "0123456789") == r.Name+"-" {
			return true
		}
	}
	return false
}

// strangeness says why Helm considers an object somebody else's.
func (r *Request) strangeness(object *unstructured.Unstructured) (texts []string) {
	for _, wanted := range []struct {
		what, key, value string
		of               map[string]string
	}{
		{"label", managedByLabel, "Helm", object.GetLabels()},
		{"annotation", releaseNameAnnotation, r.Name, object.GetAnnotations()},
		{"annotation", releaseNamespaceAnnotation, r.Namespace, object.GetAnnotations()},
	} {
		value, has := wanted.of[wanted.key]
		switch {
		case !has:
			texts = append(texts, fmt.Sprintf("%s validation error: missing key %q: must be set to %q", wanted.what, wanted.key, wanted.value))
		case value != wanted.value:
			texts = append(texts, fmt.Sprintf("%s validation error: key %q must equal %q: current value is %q", wanted.what, wanted.key, wanted.value, value))
		}
	}
	return texts
}

// dryRun is the prefix of Helm's messages from its dry run before it installs.
const dryRun = "failed to get release state using server-side dry-run: "

// existingFor returns the refusal because of existing objects. Helm stops at the first object. For installations, OLM has its own text.
func existingFor(objects []Object, present []*unstructured.Unstructured, update bool, r *Request) []Refusal {
	if len(objects) == 0 {
		return nil
	}
	first := objects[0]
	text := fmt.Sprintf("%s '%s' already exists in namespace '%s' and cannot be managed by operator-controller", first.Kind, first.Name, first.Namespace)
	if update {
		text = fmt.Sprintf("Unable to continue with update: %s %q in namespace %q exists and cannot be imported into the current release: invalid ownership metadata; %s",
			first.Kind, first.Name, first.Namespace, strings.Join(r.strangeness(present[0]), "; "))
	}
	return []Refusal{{Code: Existing, step: stepObjects, Text: dryRun + text,
		What: fmt.Sprintf("%s exists and does not belong to this ClusterExtension%s: %s", first, more(objects), strings.Join(r.strangeness(present[0]), "; ")),
		Do: fmt.Sprintf("if OLM v0 has installed the operator, move the operator with `berth move`; otherwise, if the object may be taken over, add to it the label %s=Helm and the annotations %s=%s and %s=%s; if not, delete it if nobody needs it, or remove what it belongs to",
			managedByLabel, releaseNameAnnotation, r.Name, releaseNamespaceAnnotation, r.Namespace)}}
}

// String names an object.
func (o Object) String() string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

func more(objects []Object) string {
	if len(objects) == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d more like it)", len(objects)-1)
}

// colliding returns the refusal of Boxcutter, which takes over only objects that its ClusterObjectSet controls. Boxcutter applies one phase
// after the other, and reports the collisions of the first phase that has any.
func (b *Bundle) colliding(objects []Object, r *Request) []Refusal {
	if len(objects) == 0 {
		return nil
	}
	first := slices.MinFunc(objects, func(a, b Object) int { return phaseOf(a.Kind) - phaseOf(b.Kind) })
	return []Refusal{{Code: Existing, step: stepRollout, Cut: true,
		Text: fmt.Sprintf("revision object collisions in phase %d", slices.Index(b.phasesOf(r), phaseOf(first.Kind))),
		What: fmt.Sprintf("%s exists%s, and OLM v1 with the feature gate %s takes over nothing that is not marked for it", first, more(objects), featuregates.Boxcutter),
		Do:   "if OLM v0 has installed the operator, move the operator with `berth move`; otherwise delete the object if nobody needs it, or remove what it belongs to"}}
}

// unserved returns the refusal because of kinds that the API server does not serve.
func (b *Bundle) unserved(objects []Object, r *Request) []Refusal {
	if len(objects) == 0 {
		return nil
	}
	var texts, kinds []string
	for _, o := range objects {
		text := fmt.Sprintf("resource mapping not found for name: %q namespace: %q from \"\": no matches for kind %q in version %q\nensure CRDs are installed first",
			o.Name, o.Namespace, o.Kind, o.GroupVersion())
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		if kind := fmt.Sprintf("%s (%s)", o.Kind, o.GroupVersion()); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	text := strings.Join(texts, ", ")
	if len(texts) > 1 {
		text = "[" + text + "]"
	}
	refused := Refusal{Code: API, step: stepAPIs, Text: dryRun + "error while running post render on files: postrenderer[0] (*client.ownerPostRenderer) failed: " + text,
		What: fmt.Sprintf("the cluster does not serve %s, which %s needs", strings.Join(kinds, ", "), b.Name),
		Do:   "install what serves it first"}
	if slices.ContainsFunc(objects, func(o Object) bool { return o.Group == "cert-manager.io" }) {
		refused.Do = fmt.Sprintf("install cert-manager; or, on OpenShift, use the feature gate %s without %s", featuregates.ServiceCA, featuregates.CertManager)
	}
	if r.Gates[featuregates.Boxcutter] {
		first := objects[0]
		refused.step, refused.Cut = stepRollout, true
		refused.Text = fmt.Sprintf("establish watch: no matches for kind %q in version %q", first.Kind, first.GroupVersion())
	}
	return []Refusal{refused}
}

// oldestKubernetes is the minor version of the oldest Kubernetes 1.x that was maintained when the first version of operator-controller was
// released.
const oldestKubernetes = 29

// Removed returns the refusal of a bundle with objects whose kinds are served by no Kubernetes on which OLM v1 runs. The function
// In finds these objects, too, because it asks the cluster for their kinds.
func Removed(b *Bundle, r *Request) []Refusal {
	if b.Described {
		return nil
	}
	var gone []Object
	var instead []string
	for _, o := range b.Objects(r) {
		since, by, removed := openshift.Removed(o.GroupVersion().String(), o.Kind)
		if !removed || since > oldestKubernetes {
			continue
		}
		gone = append(gone, o)
		do := "leave out " + o.Kind + " " + o.Name
		if by != "" {
			do = fmt.Sprintf("write %s %s for %s", o.Kind, o.Name, by)
		}
		if !slices.Contains(instead, do) {
			instead = append(instead, do)
		}
	}
	refused := b.unserved(gone, r)
	for i := range refused {
		refused[i].What = strings.Replace(refused[i].What, "the cluster does not serve", "no Kubernetes on which OLM v1 runs serves", 1)
		refused[i].Do = "authors: " + strings.Join(instead, "; ")
	}
	return refused
}

// changed returns the refusals because of changed CustomResourceDefinitions.
func changed(ctx context.Context, c Cluster, b *Bundle, r *Request) (all []Refusal, err error) {
	if r.UnsafeDefinitions {
		return nil, nil
	}
	for _, definition := range b.CRDs {
		if !r.compares(definition) {
			continue
		}
		found, err := c.Find(ctx, Object{apiextensionsv1.SchemeGroupVersion.WithKind(crdKind), "", definition.Name})
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		present := &apiextensionsv1.CustomResourceDefinition{}
		if err := into(found, present); err != nil {
			return nil, err
		}
		all = append(all, unsafeChange(present, b.rendered(definition))...)
	}
	return all, nil
}

// compares reports whether OLM compares a CustomResourceDefinition with the installed one: it does so only in API version v1, to which
// Boxcutter converts all definitions.
func (r *Request) compares(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return r.Gates[featuregates.Boxcutter] || definition.APIVersion == apiextensionsv1.SchemeGroupVersion.String()
}

// Between returns the refusals of an update because of changed CustomResourceDefinitions, on a cluster with the definitions of the
// earlier bundle and objects in their storage versions.
func Between(from, to *Bundle, r *Request) (all []Refusal, err error) {
	if r.UnsafeDefinitions || from == nil || from.Described || to.Described {
		return nil, nil
	}
	for _, definition := range to.CRDs {
		for _, before := range from.CRDs {
			if before.Name != definition.Name || !r.compares(definition) {
				continue
			}
			if equality.Semantic.DeepEqual(before, definition) {
				break
			}
			present, err := crdsafety.Installed(from.rendered(before))
			if err != nil {
				return nil, fmt.Errorf("CRD %s of %s: %w", before.Name, from.Name, err)
			}
			all = append(all, unsafeChange(present, to.rendered(definition))...)
			break
		}
	}
	return all, nil
}

func unsafeChange(present, updated *apiextensionsv1.CustomResourceDefinition) []Refusal {
	lines, err := crdsafety.Breaks(present, updated)
	if err != nil { // API servers refuse it, too
		return []Refusal{{Code: Definition, step: stepSafety, What: fmt.Sprintf("CRD %s cannot be compared with the earlier one: %v", updated.Name, err), Do: "authors: correct the CRD"}}
	}
	if len(lines) == 0 {
		return nil
	}
	what := fmt.Sprintf("CRD %s changes in a way that could break what uses it: %s", updated.Name, lines[0])
	if len(lines) > 1 {
		what += fmt.Sprintf(" (and %d more changes)", len(lines)-1)
	}
	return []Refusal{{Code: Definition, step: stepSafety, Text: crdsafety.Message(updated.Name, lines), What: what,
		Do: "check that no object uses what is gone, and set spec.install.preflight.crdUpgradeSafety.enforcement to None for this update; authors: add a version to the CRD instead"}}
}
