package move

import (
	"context"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/remote"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/subscription"
)

// back is the observed state that a plan for a move back to OLM v0 is made from. Missing objects are nil.
type back struct {
	request Request
	// moved is the plan that moved the operator to OLM v1, or moved it back before.
	moved        *Plan
	namespaceUID types.UID
	extension    *unstructured.Unstructured
	// installed are the objects that OLM v1 has installed.
	installed []metav1.PartialObjectMetadata
	// subscribed is a Subscription in the namespace that is to the package or has the name of the earlier Subscription, and versions are
	// OLM v0's ClusterServiceVersions there.
	subscribed *v1alpha1.Subscription
	versions   []v1alpha1.ClusterServiceVersion
	// has are the packages that the operator needs and that OLM v0 has installed in the namespace.
	has []string
	// existing are the reasons why OLM v0 could not install the APIs again: objects of the APIs that it cannot read or validate.
	existing []prediction.Reason
	// source is the catalog of the Subscription, or unread is why it cannot be read.
	source *fbc.Catalog
	unread error
}

// observeBack reads all that a plan for the way back is made from.
func observeBack(ctx context.Context, cluster migrate.Cluster, r Request) (*back, error) {
	in := &back{request: r}
	j, err := Move.FindJournal(ctx, cluster, r)
	if err != nil || j == nil {
		return in, err
	}
	in.moved = j.Plan.(*Plan)
	c := cluster.Client
	if in.namespaceUID, err = migrate.NamespaceUID(ctx, c, in.moved.Namespace); err != nil {
		return nil, err
	}
	if in.extension, err = readExtension(ctx, c, in.moved.Subject.Name); err != nil {
		return nil, err
	}
	if err := in.readInstalled(ctx, c); err != nil {
		return nil, err
	}
	if err := in.readV0(ctx, cluster); err != nil {
		return nil, err
	}
	var apis []string
	for _, o := range in.installed {
		if o.Kind == definitionKind.Kind {
			apis = append(apis, o.Name)
		}
	}
	in.existing, err = prediction.Objects(ctx, cluster.Config, in.moved.Version.Name, apis)
	return in, err
}

// readInstalled reads the objects that were taken over, and new ones of a later version of the bundle.
func (in *back) readInstalled(ctx context.Context, c client.Client) error {
	add := func(o metav1.PartialObjectMetadata) {
		if !slices.ContainsFunc(in.installed, func(other metav1.PartialObjectMetadata) bool { return other.UID == o.UID }) {
			in.installed = append(in.installed, o)
		}
	}
	for _, o := range in.moved.TakenOver {
		found, err := find(ctx, c, o.kind(), o.Namespace, o.Name)
		if err != nil {
			return err
		}
		if found != nil {
			add(*found)
		}
	}
	// Objects that a list leaves out keep nothing of OLM v1 but their labels: the objects that were taken over are found in the plan.
	inNamespace := first{rank: in.rankNew}
	for _, kind := range bundleKinds {
		of, options := add, []client.ListOption{labelsOf(in.moved.Subject.Name)}
		if !kind.ofCluster {
			of, options = inNamespace.add, append(options, client.InNamespace(in.moved.Namespace))
		}
		if err := each(ctx, c, kind.GroupVersionKind, of, options...); err != nil {
			return err
		}
	}
	for _, o := range inNamespace.objects {
		add(o)
	}
	return nil
}

// rankNew leaves out the objects that are known already.
func (in *back) rankNew(o metav1.PartialObjectMetadata) int {
	if slices.ContainsFunc(in.installed, func(k metav1.PartialObjectMetadata) bool { return k.UID == o.UID }) {
		return -1
	}
	return 0
}

func readExtension(ctx context.Context, c client.Client, name string) (*unstructured.Unstructured, error) {
	extension := newExtension(name)
	found, err := migrate.Find(ctx, c, extension, "", name)
	if err != nil {
		return nil, fmt.Errorf("reading ClusterExtension %s: %w", name, err)
	}
	if !found {
		return nil, nil
	}
	return extension, nil
}

func (in *back) readV0(ctx context.Context, cluster migrate.Cluster) error {
	c, err := subscription.Client(cluster.Config)
	if err != nil {
		return err
	}
	namespace := in.moved.Namespace
	err = subscription.Each(ctx, c, namespace, func(s v1alpha1.Subscription) error {
		if in.subscribed == nil && s.Spec != nil && (s.Spec.Package == in.moved.Package || s.Name == in.moved.Subscription.Name) {
			in.subscribed = &s
		}
		if s.Spec != nil && s.Status.InstalledCSV != "" && slices.Contains(in.moved.Needs, s.Spec.Package) && !slices.Contains(in.has, s.Spec.Package) {
			in.has = append(in.has, s.Spec.Package)
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	versions := &v1alpha1.ClusterServiceVersionList{}
	if err := cluster.Client.List(ctx, versions, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing ClusterServiceVersions of namespace %s: %w", namespace, err)
	}
	in.versions = slices.DeleteFunc(versions.Items, func(v v1alpha1.ClusterServiceVersion) bool { return v.IsCopied() })
	spec := in.moved.Subscription.Spec
	source := &v1alpha1.CatalogSource{}
	found, err := migrate.Find(ctx, cluster.Client, source, spec.CatalogSourceNamespace, spec.CatalogSource)
	switch {
	case err != nil:
		return fmt.Errorf("reading CatalogSource %s/%s: %w", spec.CatalogSourceNamespace, spec.CatalogSource, err)
	case !found:
		in.unread = fmt.Errorf("there is no CatalogSource %s/%s", spec.CatalogSourceNamespace, spec.CatalogSource)
	default:
		in.source, in.unread = remote.Read(ctx, cluster.Config, source)
	}
	return nil
}

// text returns a field of an object.
func text(of *unstructured.Unstructured, path ...string) string {
	found, _, _ := unstructured.NestedString(of.Object, path...)
	return found
}

// plan makes a plan for the way back.
func (in *back) plan() *Plan {
	p := &Plan{To: ToV0, Package: in.request.Package, Namespace: in.request.Namespace, Outline: migrate.Outline{Subject: migrate.Subject{Name: in.request.Package}}}
	if in.moved != nil {
		p.Namespace, p.NamespaceUID, p.Subscription, p.Extension, p.Version = in.moved.Namespace, in.namespaceUID, in.moved.Subscription, in.moved.Extension, in.moved.Version
		p.Needs = in.moved.Needs
		p.Version.UID = ""
	}
	if e := in.extension; e != nil {
		p.Subject.UID = e.GetUID()
		p.Version.Name, p.Version.Number = text(e, "status", "install", "bundle", "name"), text(e, "status", "install", "bundle", "version")
	}
	for _, o := range in.installed {
		p.TakenOver = append(p.TakenOver, objectOf(o))
	}
	p.Checks = in.checks()
	if p.Checks.Safe() {
		p.Objects = p.objects()
	}
	return p
}

func (in *back) checks() (found migrate.Checks) {
	if in.moved == nil {
		return migrate.Refuse(movedBefore, "create a Subscription yourself, after what \"Remove the operator\" in the documentation says",
			"no journal shows that %s was moved from OLM v0, so nobody knows its Subscription", in.request)
	}
	e := in.extension
	if s := in.subscribed; e == nil && s != nil && s.Spec.Package == in.moved.Package {
		return migrate.Refuse(movedBefore, "leave it as it is: nothing has to be moved back", "OLM v0 has the operator already, for Subscription %s/%s, and ClusterExtension %s does not exist",
			s.Namespace, s.Name, in.moved.Subject.Name)
	}
	if e == nil {
		return migrate.Refuse(movedBefore, "create a Subscription yourself", "ClusterExtension %s does not exist: somebody has deleted it since it was moved", in.moved.Subject.Name)
	}
	if from := e.GetAnnotations()[movedAnnotation]; from != string(in.moved.Subscription.UID) {
		return migrate.Refuse(movedBefore, "find out who has created it", "ClusterExtension %s is not the one to which the operator was moved: its annotation %s is %q, want %q", e.GetName(), movedAnnotation, from, in.moved.Subscription.UID)
	}
	found = migrate.Pass(movedBefore, "the operator was moved from Subscription %s/%s", in.moved.Namespace, in.moved.Subscription.Name)
	for _, check := range []func() migrate.Checks{in.checkProgress, in.checkV0, in.checkNeeds, in.checkSource, in.checkExisting} {
		found = append(found, check()...)
	}
	return found
}

// checkProgress refuses a ClusterExtension that OLM v1 has not finished with.
func (in *back) checkProgress() migrate.Checks {
	e := in.extension
	if e.GetDeletionTimestamp() != nil {
		return migrate.Refuse(extensionProgress, "find out who has deleted it, and whether the operator still runs", "ClusterExtension %s is being deleted", e.GetName())
	}
	for _, of := range []string{"Installed", "Progressing"} {
		if status, reason, message := clusterextension.Condition(e, of); status != "True" || reason != "Succeeded" {
			return migrate.Refuse(extensionProgress, "wait until OLM v1 has finished, or find out why it does not", "condition %s of ClusterExtension %s is %q with reason %q, want True with Succeeded: %s", of, e.GetName(), status, reason, message)
		}
	}
	return migrate.Pass(extensionProgress, "OLM v1 has installed %s, and is at rest", text(e, "status", "install", "bundle", "name"))
}

// checkV0 refuses objects that are in the way of the Subscription.
func (in *back) checkV0() migrate.Checks {
	if s := in.subscribed; s != nil {
		return migrate.Refuse(namespaceTaken, "find out who has created it, and delete it", "there is a Subscription %s/%s, to package %s", s.Namespace, s.Name, s.Spec.Package)
	}
	for _, v := range in.versions {
		if v.Name == text(in.extension, "status", "install", "bundle", "name") {
			return migrate.Refuse(namespaceTaken, "find out who has created it, and delete it", "there is a ClusterServiceVersion %s/%s", v.Namespace, v.Name)
		}
	}
	return migrate.Pass(namespaceTaken, "OLM v0 has nothing of the package in the namespace")
}

// checkExisting refuses objects that OLM v0 cannot read or validate, as it does whenever it installs.
func (in *back) checkExisting() migrate.Checks { return checkExisting(in.existing, "") }

// checkSource refuses a version that OLM v0's catalog does not have.
func (in *back) checkSource() migrate.Checks {
	spec, name := in.moved.Subscription.Spec, text(in.extension, "status", "install", "bundle", "name")
	source := spec.CatalogSourceNamespace + "/" + spec.CatalogSource
	if in.source == nil {
		return migrate.Refuse(sourceVersion, "have a CatalogSource of that name that has the package", "the catalog of the Subscription cannot be read: %v", in.unread)
	}
	pkg := in.source.Find(in.moved.Package)
	if pkg == nil {
		return migrate.Refuse(sourceVersion, "add the package to the catalog", "CatalogSource %s has no package %s", source, in.moved.Package)
	}
	channel := spec.Channel
	if channel == "" {
		channel = pkg.DefaultChannel
	}
	if c := pkg.FindChannel(channel); c == nil || !slices.ContainsFunc(c.Entries, func(e declcfg.ChannelEntry) bool { return e.Name == name }) {
		return migrate.Refuse(sourceVersion, "have a catalog with that version in the channel", "channel %q of package %s in CatalogSource %s does not have %s, which is installed", channel, pkg.Name, source, name)
	}
	return migrate.Pass(sourceVersion, "CatalogSource %s has %s", source, name)
}
