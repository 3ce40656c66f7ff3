// Package subscription reads Subscriptions of OLM v0 that anybody may have written. Whoever may edit one namespace can create any number of
// them, each as large as the API server accepts. The API server also accepts values that no program in Go decodes: the pattern for
// quantities in OLM's CustomResourceDefinition matches 1e1.5, which is no quantity. A list that is decoded as a whole fails because of one
// such object, for everybody.
package subscription

import (
	"context"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/internal/listing"
)

// Client returns a client for Each.
func Client(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &v1alpha1.SchemeGroupVersion, "/apis", clientgoscheme.Codecs.WithoutConversion()
	return rest.RESTClientFor(config)
}

// written has the fields of a Subscription that are decoded: all but spec.config. In the other fields of spec, users can write only texts,
// and only OLM writes the status.
type written struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     *struct {
		v1alpha1.SubscriptionSpec
		Config struct{} `json:"config"`
	} `json:"spec"`
	Status v1alpha1.SubscriptionStatus `json:"status"`
}

// Each calls do for each Subscription of a namespace, or of all namespaces if it is "", until do returns an error. The Subscriptions lack
// spec.config and managed fields; to get these, read one by its name. As for any list, errors say what was read and why it failed.
func Each(ctx context.Context, client rest.Interface, namespace string, do func(v1alpha1.Subscription) error) error {
	return listing.Each(ctx, client, listing.List{Resource: "subscriptions", Namespace: namespace}, func(w written) error {
		s := v1alpha1.Subscription{ObjectMeta: w.Metadata, Status: w.Status}
		s.ManagedFields = nil
		if w.Spec != nil {
			s.Spec = &w.Spec.SubscriptionSpec
		}
		return do(s)
	})
}
