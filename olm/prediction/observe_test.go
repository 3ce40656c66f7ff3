package prediction

import (
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGlobalNamespace: the spec of a Subscription has no influence on which catalogs are global.
func TestGlobalNamespace(t *testing.T) {
	source := func(namespace string) v1alpha1.CatalogSource {
		return v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "some"}}
	}
	named := func(source string) v1alpha1.Subscription { // by a Subscription
		return v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "project"}, Spec: &v1alpha1.SubscriptionSpec{CatalogSourceNamespace: source}}
	}
	healthOf := func(source string) v1alpha1.Subscription { // by OLM in the status
		s := named("")
		s.Status.CatalogHealth = []v1alpha1.SubscriptionCatalogHealth{{}, {CatalogSourceRef: &corev1.ObjectReference{Namespace: "project"}},
			{CatalogSourceRef: &corev1.ObjectReference{Namespace: source}}}
		return s
	}
	for name, test := range map[string]struct {
		objects clusterObjects
		want    string
	}{
		"OpenShift's":             {clusterObjects{sources: []v1alpha1.CatalogSource{source("olm"), source(openShiftCatalogs)}}, openShiftCatalogs},
		"the one OLM uses":        {clusterObjects{sources: []v1alpha1.CatalogSource{source("other"), source("olm")}, subscriptions: []v1alpha1.Subscription{named("other"), healthOf("olm")}}, "olm"},
		"what Subscriptions name": {clusterObjects{sources: []v1alpha1.CatalogSource{source("other")}, subscriptions: []v1alpha1.Subscription{named("other"), named("other")}}, ""},
		"neither":                 {clusterObjects{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.objects.globalNamespace(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
