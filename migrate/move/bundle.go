package move

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/olm/upgrade"
)

const rbac = "rbac.authorization.k8s.io"

var (
	definitionKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	secretKind     = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	// objectSetKind is the kind in which OLM v1 records its installed objects if its feature BoxcutterRuntime is enabled.
	objectSetKind = schema.GroupVersionKind{Group: "olm.operatorframework.io", Version: "v1", Kind: "ClusterObjectSet"}
	conditionKind = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"}
	// permissionKinds are the kinds of permissions that each OLM creates under its own names.
	permissionKinds = []schema.GroupVersionKind{
		{Group: rbac, Version: "v1", Kind: "RoleBinding"}, {Group: rbac, Version: "v1", Kind: "Role"},
		{Group: rbac, Version: "v1", Kind: "ClusterRoleBinding"}, {Group: rbac, Version: "v1", Kind: "ClusterRole"},
	}
)

// isOfCluster reports whether the permissions of a kind are cluster-scoped.
func isOfCluster(kind string) bool { return strings.HasPrefix(kind, "Cluster") }

// Labels of OLM v0. When the owner of an object is deleted, OLM v0 deletes the object if it is cluster-scoped and has the first three.
const (
	ownerLabel          = "olm.owner"
	ownerKindLabel      = "olm.owner.kind"
	ownerNamespaceLabel = "olm.owner.namespace"
	managedLabel        = "olm.managed"
	specHashLabel       = "olm.deployment-spec-hash"
)

// labelsOfVersion returns the labels that OLM v0 gives the objects that it creates for a ClusterServiceVersion.
func labelsOfVersion(namespace, name string) labels.Set {
	return labels.Set{ownerLabel: name, ownerKindLabel: v1alpha1.ClusterServiceVersionKind, ownerNamespaceLabel: namespace}
}

// componentLabel returns the label of the objects that OLM v0 shows as parts of a package.
func componentLabel(pkg, namespace string) string {
	return "operators.coreos.com/" + pkg + "." + namespace
}

// readBundle finds the bundle's objects: from the ClusterServiceVersion, its APIs, and the InstallPlans.
func (in *input) readBundle(ctx context.Context, c client.Client) error {
	v := in.version()
	if v == nil {
		return nil
	}
	in.bundle = &refusal.Bundle{Name: v.Name, Version: v.Spec.Version.String(), Package: in.request.Package, CSV: v}
	for _, owned := range v.Spec.CustomResourceDefinitions.Owned {
		if slices.ContainsFunc(in.bundle.CRDs, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Name == owned.Name }) {
			continue // it is owned in several versions
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(definitionKind)
		found, err := migrate.Find(ctx, c, live, "", owned.Name)
		if err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", owned.Name, err)
		}
		if !found {
			continue // a check of OLM v1 says that the bundle lacks it
		}
		definition, err := definitionOf(live)
		if err != nil {
			return err
		}
		in.bundle.CRDs = append(in.bundle.CRDs, definition)
	}
	for _, step := range in.steps() {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(step.kind())
		o.SetName(step.Name)
		generated, err := in.isGenerated(ctx, c, step)
		if err != nil {
			return err
		}
		if !generated {
			in.bundle.Others = append(in.bundle.Others, o)
		}
	}
	in.known = slices.ContainsFunc(in.installPlans, func(p v1alpha1.InstallPlan) bool { return hasSteps(p, v.Name) })
	return nil
}

func hasSteps(p v1alpha1.InstallPlan, version string) bool {
	return slices.ContainsFunc(p.Status.Plan, func(step *v1alpha1.Step) bool {
		return step != nil && step.Resolving == version && step.Resource.Kind == v1alpha1.ClusterServiceVersionKind
	})
}

// steps returns the objects that InstallPlans have created for the version, except its APIs and what the version describes itself.
func (in *input) steps() (found []Object) {
	v := in.version()
	for _, p := range in.installPlans {
		if !hasSteps(p, v.Name) {
			continue
		}
		for _, step := range p.Status.Plan {
			if step == nil || step.Resolving != v.Name {
				continue
			}
			o := Object{Group: step.Resource.Group, Version: step.Resource.Version, Kind: step.Resource.Kind, Name: step.Resource.Name}
			if o.Group == "core" {
				o.Group = ""
			}
			if o.Kind == "BundleSecret" {
				o = Object{Version: "v1", Kind: secretKind.Kind, Name: o.Name}
			}
			if !slices.Contains(ofOLM, o.Kind) && !slices.Contains(found, o) {
				found = append(found, o)
			}
		}
	}
	return found
}

// ofOLM are the kinds of InstallPlan steps that are no objects of a bundle, or that the ClusterServiceVersion itself describes.
var ofOLM = []string{v1alpha1.ClusterServiceVersionKind, v1alpha1.SubscriptionKind, "CustomResourceDefinition", "ServiceAccount"}

// isGenerated reports whether OLM v0 has made a permission itself, instead of taking it from the bundle, or whether it does not exist.
func (in *input) isGenerated(ctx context.Context, c client.Client, o Object) (bool, error) {
	if !slices.ContainsFunc(permissionKinds, func(k schema.GroupVersionKind) bool { return k.Kind == o.Kind }) {
		return false, nil
	}
	namespace := in.own.Namespace
	if isOfCluster(o.Kind) {
		namespace = ""
	}
	live, err := find(ctx, c, o.kind(), namespace, o.Name)
	if err != nil || live == nil {
		return live == nil, err
	}
	return labels.SelectorFromSet(labelsOfVersion(in.own.Namespace, in.version().Name)).Matches(labels.Set(live.Labels)), nil
}

// find reads the metadata of an object, or returns nil if it does not exist.
func find(ctx context.Context, c client.Client, kind schema.GroupVersionKind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	found, err := migrate.Find(ctx, c, object, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", named(kind.Kind, namespace, name), err)
	}
	if !found {
		return nil, nil
	}
	object.SetGroupVersionKind(kind)
	return object, nil
}

// pageSize is how many objects are in memory while a list is read. Their authors decide how large they are.
const pageSize = 50

// each reads the metadata of the objects of a kind, page by page, without annotations, which nobody needs. It reads nothing if the API is
// not served.
func each(ctx context.Context, c client.Client, kind schema.GroupVersionKind, do func(metav1.PartialObjectMetadata), options ...client.ListOption) error {
	for next := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, page, append(slices.Clone(options), client.Limit(pageSize), client.Continue(next))...); meta.IsNoMatchError(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("listing the objects of kind %s: %w", kind.Kind, err)
		}
		for _, o := range page.Items {
			o.SetGroupVersionKind(kind)
			o.Annotations = nil
			do(o)
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// list lists the metadata of objects that only administrators and OLM v1 create.
func list(ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption) (found []metav1.PartialObjectMetadata, err error) {
	err = each(ctx, c, kind, func(o metav1.PartialObjectMetadata) { found = append(found, o) }, options...)
	return found, err
}

// maxListed is how many objects of a list are kept: anybody who may write in the operator's namespace can create any number of them.
const maxListed = 50

// first keeps the first objects of lists, at most maxListed: by rank, and with the same rank, the oldest first.
type first struct {
	// rank says which objects come first: those with the lowest rank. Objects with a negative rank are left out.
	rank    func(metav1.PartialObjectMetadata) int
	objects []metav1.PartialObjectMetadata
}

func (f *first) add(o metav1.PartialObjectMetadata) {
	if f.rank(o) < 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(f.objects, o, func(a, b metav1.PartialObjectMetadata) int { // older objects do not aim to keep others out
		return cmp.Or(f.rank(a)-f.rank(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	if at == maxListed {
		return
	}
	f.objects = slices.Insert(f.objects, at, o)
	f.objects = f.objects[:min(len(f.objects), maxListed)]
}

// ranked returns a rank that puts the objects that fulfil a condition before the others.
func ranked(is func(metav1.PartialObjectMetadata) bool) func(metav1.PartialObjectMetadata) int {
	return func(o metav1.PartialObjectMetadata) int {
		if is(o) {
			return 0
		}
		return 1
	}
}

func objectOf(found metav1.PartialObjectMetadata) Object {
	kind := found.GroupVersionKind()
	return Object{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: found.Namespace, Name: found.Name, UID: found.UID}
}

// readGenerated reads the permissions that OLM v0 has made for the version, and the certificates of its webhooks.
func (in *input) readGenerated(ctx context.Context, c client.Client) error {
	v := in.version()
	if v == nil {
		return nil
	}
	for _, kind := range permissionKinds {
		options := []client.ListOption{client.MatchingLabels(labelsOfVersion(v.Namespace, v.Name))}
		if !isOfCluster(kind.Kind) {
			options = append(options, client.InNamespace(v.Namespace))
		}
		found := first{rank: ranked(func(o metav1.PartialObjectMetadata) bool { return isOwnedBy(&o, v.UID) })}
		if err := each(ctx, c, kind, found.add, options...); err != nil {
			return err
		}
		for _, o := range found.objects {
			in.generated = append(in.generated, objectOf(o))
		}
	}
	for _, w := range v.Spec.WebhookDefinitions {
		name := strings.ReplaceAll(w.DeploymentName, ".", "-") + certificateSuffix
		found, err := find(ctx, c, secretKind, v.Namespace, name)
		if err != nil {
			return err
		}
		if found == nil || !isOwnedBy(found, v.UID) {
			continue
		}
		if o := objectOf(*found); !slices.Contains(in.generated, o) {
			in.generated = append(in.generated, o)
		}
	}
	return nil
}

func isOwnedBy(object client.Object, uid types.UID) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == uid })
}

// readOffered reads the bundle of the installed version from the catalogs of OLM v1. If all objects of that bundle are known, it counts as
// the installed bundle.
func (in *input) readOffered(ctx context.Context, catalogs []*prediction.ClusterCatalog) error {
	for _, catalog := range catalogs {
		if catalog.Content == nil || in.request.Catalog != "" && catalog.Name != in.request.Catalog {
			continue
		}
		pkg := catalog.Content.Find(in.request.Package)
		if pkg == nil {
			continue
		}
		b := pkg.FindBundle(in.version().Name)
		if b == nil {
			continue
		}
		in.properties = b.Properties
		read, err := in.request.Content(ctx, b)
		if err != nil {
			return err
		}
		if read != nil && !read.Described {
			in.offered, in.bundle, in.known = read, read, true
			return nil
		}
	}
	return nil
}

// content returns the parts of a bundle that OLM v1 reads. For the installed bundle, the cluster shows what the catalog
// lacks.
func (in *input) content(ctx context.Context, b *fbc.Bundle) (*refusal.Bundle, error) {
	read, err := in.request.Content(ctx, b)
	if err == nil && b.Name == in.bundle.Name && (read == nil || read.Described) {
		read = in.bundle.As(b)
	}
	return read, err
}

// readPresent reads the objects that OLM v1 will make from the bundle and that exist already.
func (in *input) readPresent(ctx context.Context, c client.Client) error {
	steps := in.steps()
	for _, wanted := range in.bundle.Objects(&in.extension().Request) {
		live, err := find(ctx, c, wanted.GroupVersionKind, wanted.Namespace, wanted.Name)
		if err != nil {
			return err
		}
		if live == nil {
			continue
		}
		stepped := slices.ContainsFunc(steps, func(o Object) bool { return o.Kind == wanted.Kind && o.Group == wanted.Group && o.Name == wanted.Name })
		in.present = append(in.present, present{objectOf(*live), live, stepped})
	}
	return nil
}

// extension returns the ClusterExtension of exactly the installed version, for the prediction.
func (in *input) extension() *prediction.Extension {
	e := &prediction.Extension{Package: in.request.Package, Versions: in.number(), Catalogs: catalogSelector(in.request.Catalog)}
	e.Name, e.Namespace, e.Gates = in.request.Package, in.own.Namespace, in.request.Gates
	if config := in.inline(); config != nil {
		e.Configured, e.Config = true, config
	}
	return e
}

// loosened returns the ClusterExtension as it is once the move is complete.
func (in *input) loosened(e *prediction.Extension) *prediction.Extension {
	later := *e
	later.Versions, later.Channels = "", nil
	if in.channel != "" {
		later.Channels = []string{in.channel}
	}
	number := in.version().Spec.Version.Version
	later.Installed = upgrade.Version{Name: in.version().Name, Number: &number}
	return &later
}

// metadataNameLabel is on each ClusterCatalog, with its name.
const metadataNameLabel = "olm.operatorframework.io/metadata.name"

func catalogSelector(name string) labels.Selector {
	if name == "" {
		return nil
	}
	return labels.SelectorFromSet(labels.Set{metadataNameLabel: name})
}

// readChannels reads the channels of the package in OLM v1's catalogs, and the channel that the Subscription uses.
func (in *input) readChannels(catalogs []*prediction.ClusterCatalog) {
	in.channel = in.own.Spec.Channel
	for _, catalog := range catalogs {
		if catalog.Content == nil || in.request.Catalog != "" && catalog.Name != in.request.Catalog {
			continue
		}
		pkg := catalog.Content.Find(in.request.Package)
		if pkg == nil {
			continue
		}
		if in.channel == "" {
			in.channel = pkg.DefaultChannel
		}
		for _, c := range pkg.Channels {
			in.channels = append(in.channels, c.Name)
		}
	}
}

// marked is the cluster as if the objects had the marks that let OLM v1 take them over.
type marked struct {
	refusal.Cluster
	in *input
}

func (m *marked) Find(ctx context.Context, o refusal.Object) (*unstructured.Unstructured, error) {
	found, err := m.Cluster.Find(ctx, o)
	if err != nil || found == nil {
		return found, err
	}
	if !slices.ContainsFunc(m.in.present, func(p present) bool {
		return p.Kind == o.Kind && p.Group == o.Group && p.Object.Namespace == found.GetNamespace() && p.Object.Name == o.Name
	}) {
		return found, nil
	}
	set := (*Owner)(nil)
	if m.in.request.Gates[featuregates.Boxcutter] {
		set = &Owner{Name: m.in.request.Package + "-1", UID: "predicted"}
	}
	changed := found.DeepCopy()
	changed.SetOwnerReferences(nil)
	mark(changed, m.in.request.Package, m.in.own.Namespace, set)
	return changed, nil
}
