package move

import (
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/featuregates"
)

// plan makes a plan for a move to OLM v1.
func (in *input) plan() *Plan {
	s := in.own
	p := &Plan{
		To: ToV1, Package: in.request.Package, Namespace: s.Namespace, NamespaceUID: in.namespaceUID, Outline: migrate.Outline{Subject: migrate.Subject{Name: in.request.Package}},
		Version:      Version{Name: s.Status.InstalledCSV},
		Subscription: Subscription{Name: s.Name, UID: s.UID, Spec: *s.Spec.DeepCopy()},
		Extension: Extension{Catalog: in.request.Catalog, ServiceAccount: in.request.ServiceAccount, Boxcutter: in.request.Gates[featuregates.Boxcutter],
			Pinned: s.Spec.InstallPlanApproval == v1alpha1.ApprovalManual, WatchNamespace: in.watched(), DeploymentConfig: in.deploymentConfig()},
		Replaced: in.generated, Accepted: in.request.accepted(),
	}
	if in.channel != "" {
		p.Extension.Channels = []string{in.channel}
	}
	if v := in.version(); v != nil {
		p.Version.UID, p.Version.Number, p.Needs = v.UID, in.number(), in.needs()
	}
	for _, o := range in.present {
		p.TakenOver = append(p.TakenOver, o.Object)
	}
	p.Checks = in.checks()
	if p.Checks.Safe() {
		p.Objects = p.objects()
	}
	return p
}

// number returns the number of the installed version.
func (in *input) number() string { return in.version().Spec.Version.String() }

// objects returns the objects that will change.
func (p *Plan) objects() (objects []migrate.Object) {
	add := func(by, kind, namespace, name, how string) {
		objects = append(objects, migrate.Object{By: by, Kind: kind, Namespace: namespace, Name: name, How: how})
	}
	const created, deleted = "created", "deleted, its objects orphaned"
	if p.To == ToV1 {
		add("berth", v1alpha1.SubscriptionKind, p.Namespace, p.Subscription.Name, "deleted, with its InstallPlans")
		add("berth", v1alpha1.ClusterServiceVersionKind, p.Namespace, p.Version.Name, deleted)
		add("berth", Move.Kind, "", p.Subject.Name, created+", of exactly "+p.Version.Number)
	} else {
		add("berth", Move.Kind, "", p.Subject.Name, deleted)
		add("berth", v1alpha1.SubscriptionKind, p.Namespace, p.Subscription.Name, created)
		add("OLM v0", v1alpha1.ClusterServiceVersionKind, p.Namespace, p.Version.Name, created)
	}
	for _, o := range p.TakenOver {
		add("both OLMs", o.Kind, o.Namespace, o.Name, "stays, and belongs to the other OLM")
	}
	for _, o := range p.Replaced {
		add("berth", o.Kind, o.Namespace, o.Name, "deleted once the other OLM has made its own")
	}
	return objects
}

// movedAnnotation is on objects that a move creates, and on cluster roles and APIs that it keeps. Its value is the UID of the moved
// Subscription. Objects of the same name without this annotation do not count.
const movedAnnotation = "berth.dev/moved-from"

// extension returns the ClusterExtension of exactly the installed version.
func (p *Plan) extension() *unstructured.Unstructured {
	e := newExtension(p.Subject.Name)
	e.SetAnnotations(map[string]string{movedAnnotation: string(p.Subscription.UID)})
	catalog := map[string]any{"packageName": p.Package, "version": p.Version.Number}
	if p.Extension.Catalog != "" {
		catalog["selector"] = map[string]any{"matchLabels": map[string]any{metadataNameLabel: p.Extension.Catalog}}
	}
	spec := map[string]any{"namespace": p.Namespace, "source": map[string]any{"sourceType": "Catalog", "catalog": catalog}}
	if p.Extension.ServiceAccount != "" {
		spec["serviceAccount"] = map[string]any{"name": p.Extension.ServiceAccount}
	}
	inline := map[string]any{}
	if p.Extension.WatchNamespace != "" {
		inline["watchNamespace"] = p.Extension.WatchNamespace
	}
	if config := fieldsOf(p.Extension.DeploymentConfig); len(config) > 0 {
		inline["deploymentConfig"] = config
	}
	if len(inline) > 0 {
		spec["config"] = map[string]any{"configType": "Inline", "inline": inline}
	}
	e.Object["spec"] = spec
	return e
}

// loosened returns spec.source.catalog of the ClusterExtension once the move is complete.
func (p *Plan) loosened(catalog map[string]any) map[string]any {
	changed := map[string]any{}
	for key, value := range catalog {
		changed[key] = value
	}
	if len(p.Extension.Channels) > 0 {
		var channels []any
		for _, channel := range p.Extension.Channels {
			channels = append(channels, channel)
		}
		changed["channels"] = channels
	}
	if !p.Extension.Pinned {
		delete(changed, "version")
	}
	return changed
}
