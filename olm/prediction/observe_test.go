package prediction

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/projection"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
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
			assert.EqualValues(t, test.want, test.objects.globalNamespace())
		})
	}
}

// TestTenantsMakeLargeObjects: a tenant fills objects of OLM with long texts, in a hundred namespaces. Little of it stays in memory, and
// what a prediction needs does.
func TestTenantsMakeLargeObjects(t *testing.T) {
	const namespaces = 100
	text := strings.Repeat("x", 32<<10)
	object := func(kind string, i int) string {
		metadata := fmt.Sprintf(`"metadata":{"name":"own","namespace":"project-%d","uid":"%s-%d","annotations":{"note":"%s","operatorframework.io/properties":"[]"},"managedFields":[{"manager":"%s"}]}`, i, kind, i, text, text)
		rest := map[string]string{
			"subscriptions": `"spec":{"name":"boat","channel":"` + text + `","config":{"nodeSelector":{"x":"` + text + `"}}},"status":{"installedCSV":"own"}`,
			"clusterserviceversions": `"spec":{"version":"1.2.3","description":"` + text + `","icon":[{"base64data":"` + text + `"}],` +
				`"customresourcedefinitions":{"owned":[{"name":"boats.example.com","version":"v1","kind":"Boat","description":"` + text + `"}]}},"status":{"phase":"Succeeded","message":"` + text + `"}`,
			"installplans":       `"spec":{"clusterServiceVersionNames":["` + text + `"]},"status":{"plan":[{"resolving":"` + text + `"}]}`,
			"operatorconditions": `"status":{"conditions":[{"type":"Other","message":"` + text + `"},{"type":"Upgradeable","status":"False","message":"m"}]}`,
			"catalogsources":     `"spec":{"description":"` + text + `","priority":7},"status":{"message":"` + text + `"}`,
		}[kind]
		return "{" + metadata + "," + rest + "}"
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch {
		case kind == "version" && r.URL.Path == "/version":
			fmt.Fprint(w, `{"gitVersion":"v1.36.3"}`)
		case kind == "operatorgroups":
			fmt.Fprint(w, `{"items":[]}`)
		case strings.Contains(r.URL.Path, "operators.coreos.com"):
			first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
			if limit == 0 {
				limit = namespaces
			}
			next := min(first+limit, namespaces)
			fmt.Fprint(w, `{"items":[`)
			for i := first; i < next; i++ {
				fmt.Fprint(w, strings.Repeat(",", min(1, i-first)), object(kind, i))
			}
			token := ""
			if next < namespaces {
				token = strconv.Itoa(next)
			}
			fmt.Fprintf(w, `],"metadata":{"continue":"%s"}}`, token)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	for _, namespace := range []string{"", "project-7"} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		states, err := Observe(t.Context(), &rest.Config{Host: server.URL}, namespace)
		require.NoError(t, err)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2<<20 {
			t.Errorf("namespace %q: %d KiB stay in memory, want at most 2048", namespace, kept>>10)
		}
		require.Lenf(t, states, map[string]int{"": namespaces, "project-7": 1}[namespace], "namespace %q", namespace)
		for _, st := range states {
			s, csv, c, source := st.Subscriptions[0], st.CSVs[0], st.Conditions[0], st.CatalogSources[0]
			if s.Spec.Package != "boat" || s.Status.InstalledCSV != "own" || csv.Spec.Version.String() != "1.2.3" || csv.Annotations[projection.PropertiesAnnotationKey] != "[]" || csv.Status.Phase != "Succeeded" ||
				csv.Spec.CustomResourceDefinitions.Owned[0].Kind != "Boat" || len(st.InstallPlans) != 1 || len(c.Status.Conditions) != 1 || c.Status.Conditions[0].Message != "m" || source.Spec.Priority != 7 {
				t.Fatalf("namespace %s lacks what a prediction needs", st.Namespace)
			}
		}
		runtime.KeepAlive(states)
	}
}

// TestTenantsNamespaces: how long it takes to read a cluster grows with its namespaces, not with their square, though each may have
// a Subscription.
func TestTenantsNamespaces(t *testing.T) {
	c := &clusterObjects{}
	for i := range 10_000 {
		c.subscriptions = append(c.subscriptions, v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("project-%d", i), Name: "own"}, Spec: &v1alpha1.SubscriptionSpec{Package: "boat"}})
	}
	states := c.states("")
	require.Lenf(t, states, len(c.subscriptions), "got %d States, want %d", len(states), len(c.subscriptions))
	for _, st := range states {
		require.Emptyf(t, st.WithGroup, "namespace %s is compared with %d others, of which none has an OperatorGroup", st.Namespace, len(st.WithGroup))
	}
}
