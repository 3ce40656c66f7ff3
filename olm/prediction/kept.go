package prediction

import (
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/projection"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keeper reduces objects to the fields that predictions for a namespace need, or for all namespaces if namespace is "". From other
// namespaces, predictions need the OperatorGroups, the specs of Subscriptions and the names of ClusterServiceVersions.
type keeper struct{ namespace string }

func (k keeper) isElsewhere(o metav1.Object) bool {
	return k.namespace != "" && o.GetNamespace() != k.namespace
}

// maxText is the maximum length of a text that a tenant writes into a Subscription. Names are shorter, so a longer text names no existing
// object, and neither does its beginning.
const maxText = 1 << 10

func bounded(text string) string {
	if len(text) > maxText {
		return strings.Clone(text[:maxText])
	}
	return text
}

// identity returns only the metadata that identifies an object.
func identity(o metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation, CreationTimestamp: o.CreationTimestamp}
}

// subscription drops the configuration of pods. It does not bound the status, which tenants cannot write.
func (k keeper) subscription(s *v1alpha1.Subscription) v1alpha1.Subscription {
	kept := v1alpha1.Subscription{ObjectMeta: identity(s.ObjectMeta), Spec: &v1alpha1.SubscriptionSpec{}}
	if s.Spec != nil {
		kept.Spec = &v1alpha1.SubscriptionSpec{
			CatalogSource: bounded(s.Spec.CatalogSource), CatalogSourceNamespace: bounded(s.Spec.CatalogSourceNamespace), Package: bounded(s.Spec.Package),
			Channel: bounded(s.Spec.Channel), StartingCSV: bounded(s.Spec.StartingCSV), InstallPlanApproval: v1alpha1.Approval(bounded(string(s.Spec.InstallPlanApproval))),
		}
	}
	global := slices.IndexFunc(s.Status.CatalogHealth, func(h v1alpha1.SubscriptionCatalogHealth) bool {
		return h.CatalogSourceRef != nil && h.CatalogSourceRef.Namespace != s.Namespace
	})
	if !k.isElsewhere(s) {
		kept.Status = s.Status
	}
	kept.Status.CatalogHealth = nil
	if global >= 0 {
		kept.Status.CatalogHealth = []v1alpha1.SubscriptionCatalogHealth{{CatalogSourceRef: s.Status.CatalogHealth[global].CatalogSourceRef}}
	}
	return kept
}

// csv keeps what the resolver reads.
func (k keeper) csv(csv *v1alpha1.ClusterServiceVersion) v1alpha1.ClusterServiceVersion {
	kept := v1alpha1.ClusterServiceVersion{ObjectMeta: identity(csv.ObjectMeta)}
	if k.isElsewhere(csv) {
		return kept
	}
	if properties, found := csv.Annotations[projection.PropertiesAnnotationKey]; found {
		kept.Annotations = map[string]string{projection.PropertiesAnnotationKey: properties}
	}
	kept.Spec.Version, kept.Spec.Replaces, kept.Status.Phase = csv.Spec.Version, csv.Spec.Replaces, csv.Status.Phase
	kept.Spec.CustomResourceDefinitions.Owned = definitions(csv.Spec.CustomResourceDefinitions.Owned)
	kept.Spec.CustomResourceDefinitions.Required = definitions(csv.Spec.CustomResourceDefinitions.Required)
	kept.Spec.APIServiceDefinitions.Owned = services(csv.Spec.APIServiceDefinitions.Owned)
	kept.Spec.APIServiceDefinitions.Required = services(csv.Spec.APIServiceDefinitions.Required)
	return kept
}

func definitions(all []v1alpha1.CRDDescription) (kept []v1alpha1.CRDDescription) {
	for _, d := range all {
		kept = append(kept, v1alpha1.CRDDescription{Name: d.Name, Version: d.Version, Kind: d.Kind})
	}
	return kept
}

func services(all []v1alpha1.APIServiceDescription) (kept []v1alpha1.APIServiceDescription) {
	for _, s := range all {
		kept = append(kept, v1alpha1.APIServiceDescription{Name: s.Name, Group: s.Group, Version: s.Version, Kind: s.Kind})
	}
	return kept
}

// installPlan keeps only the identity: predictions need to know whether an InstallPlan exists.
func (k keeper) installPlan(p *v1alpha1.InstallPlan) v1alpha1.InstallPlan {
	return v1alpha1.InstallPlan{ObjectMeta: identity(p.ObjectMeta)}
}

// operatorGroup keeps the target namespaces and OLM's annotations. Only administrators write OperatorGroups.
func (k keeper) operatorGroup(g *operatorsv1.OperatorGroup) operatorsv1.OperatorGroup {
	kept := operatorsv1.OperatorGroup{ObjectMeta: identity(g.ObjectMeta), Status: g.Status}
	kept.Spec.UpgradeStrategy = g.Spec.UpgradeStrategy
	for _, key := range []string{operatorsv1.OperatorGroupProvidedAPIsAnnotationKey, withoutGlobal} {
		if value, found := g.Annotations[key]; found {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[key] = value
		}
	}
	return kept
}

// condition keeps what an operator or an administrator says about updates.
func (k keeper) condition(c *operatorsv2.OperatorCondition) operatorsv2.OperatorCondition {
	kept := operatorsv2.OperatorCondition{ObjectMeta: identity(c.ObjectMeta)}
	if k.isElsewhere(c) {
		return kept
	}
	others := func(c metav1.Condition) bool { return c.Type != operatorsv2.Upgradeable }
	kept.Spec.Overrides = slices.DeleteFunc(c.Spec.Overrides, others)
	kept.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, others)
	return kept
}

// source keeps the connection of a CatalogSource, and its priority.
func (k keeper) source(s *v1alpha1.CatalogSource) v1alpha1.CatalogSource {
	kept := v1alpha1.CatalogSource{ObjectMeta: identity(s.ObjectMeta)}
	kept.Spec = v1alpha1.CatalogSourceSpec{SourceType: s.Spec.SourceType, Priority: s.Spec.Priority, Address: bounded(s.Spec.Address)}
	kept.Status.GRPCConnectionState = s.Status.GRPCConnectionState
	return kept
}
