// Package transport has the HTTP round trippers through which the operator's clients reach the API server. They set a
// deadline for each request, and narrow requests so that RBAC can limit them to objects of one name.
package transport

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
)

// RoundTripperFunc is a function that is an http.RoundTripper.
type RoundTripperFunc func(*http.Request) (*http.Response, error)

func (f RoundTripperFunc) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// OnlyName limits the list and watch requests of an informer to the object with this name. RBAC rules with
// resourceNames allow such requests, so the operator needs no permission for other objects.
func OnlyName(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) { options.FieldSelector = nameSelector(name) }
}

// WithOnlyName limits all list and watch requests for a cluster-scoped resource to the object with this name.
// library-go's operator client has no such option and would watch the ClusterCSIDrivers of all drivers.
func WithOnlyName(cfg *rest.Config, resource, name string) *rest.Config {
	narrowed := rest.CopyConfig(cfg)
	narrowed.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/"+resource) {
				request = request.Clone(request.Context())
				query := request.URL.Query()
				query.Set("fieldSelector", nameSelector(name))
				request.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(request)
		})
	})
	return narrowed
}

func nameSelector(name string) string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
}
