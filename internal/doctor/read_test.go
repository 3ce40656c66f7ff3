package doctor

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestReadInNoNamespace: OLM's API admits a Subscription whose catalog is in the namespace "". No client sends a request for that: there is no
// such catalog, and the examination goes on.
func TestReadInNoNamespace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was requested", r.URL)
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.SchemeGroupVersion})
	mapper.Add(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.CatalogSourceKind), meta.RESTScopeNamespace)
	api, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme, Mapper: mapper})
	require.NoError(t, err)
	found, err := Cluster{Client: api}.read(t.Context(), &v1alpha1.CatalogSource{}, "", "sea")
	assert.NoError(t, err)
	assert.False(t, found)
}
