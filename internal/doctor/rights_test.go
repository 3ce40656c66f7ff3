package doctor

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings"
)

// serving returns a connection to an API server that shows some lists, by their paths, and forbids everything else.
func serving(t *testing.T, lists map[string]string) Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if list, shown := lists[r.URL.Path]; shown {
			_, _ = w.Write([]byte(list))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonForbidden,
			Message: r.URL.Path + " is forbidden", Code: http.StatusForbidden})
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	require.NoError(t, err)
	return Cluster{Config: config, Client: c}
}

// TestFewRights: a user who may read nothing gets no faults, and no drivers that may not exist.
func TestFewRights(t *testing.T) {
	report, err := Examine(t.Context(), serving(t, nil), registry.All(), nil)
	require.NoError(t, err)
	text := report.Text(func(_ findings.Verdict, mark string) string { return mark })
	if report.Faults() || report.Healthy || len(report.Drivers) > 0 || !strings.Contains(text, "? which drivers are installed: ") {
		t.Errorf("got %s", text)
	}
	if strings.Contains(text, "*v1") || strings.Contains(text, "v1alpha1.") {
		t.Errorf("it names types of Go: %s", text)
	}
	efs, err := registry.Get("efs")
	require.NoError(t, err)
	disk, err := registry.Get("azuredisk") // in no package
	require.NoError(t, err)
	report, err = Examine(t.Context(), serving(t, nil), registry.All(), []drivers.Driver{efs, disk})
	require.NoError(t, err)
	if text := report.Text(func(_ findings.Verdict, mark string) string { return mark }); report.Faults() || len(report.Drivers) != 2 {
		t.Errorf("of drivers that are named: %s", text)
	}
}

// TestTeam: a team sees the faults in its namespace, from the SharedVolume to the events of its pods.
func TestTeam(t *testing.T) {
	const api = "/apis/aws-efs.managed.openshift.io/v1alpha1/namespaces/shop/sharedvolumes"
	list := func(items string) string {
		return `{"kind":"List","apiVersion":"v1","metadata":{},"items":[` + items + `]}`
	}
	broken := map[string]string{
		api: list(`{"metadata":{"namespace":"shop","name":"logs"},"status":{"phase":"Failed","conditions":[{"type":"Ready","status":"False","reason":"NotGranted","message":"ask"}]}}`),
		"/api/v1/namespaces/shop/persistentvolumeclaims": list(`{"metadata":{"name":"pvc-logs"},"status":{"phase":"Pending"}},{"metadata":{"name":"fine"},"status":{"phase":"Bound"}}`),
		"/api/v1/namespaces/shop/pods": list(`{"metadata":{"name":"web"},"spec":{"nodeName":"n1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"pvc-logs"}}]},"status":{"phase":"Pending"}},
			{"metadata":{"name":"other"},"status":{"phase":"Pending"}}`),
		"/api/v1/namespaces/shop/events": list(`{"metadata":{"name":"e"},"type":"Warning","reason":"FailedMount","message":"Failed to resolve","involvedObject":{"kind":"Pod","name":"web"}},
			{"metadata":{"name":"f"},"type":"Warning","reason":"ProvisioningFailed","message":"no GID","involvedObject":{"kind":"PersistentVolumeClaim","name":"pvc-logs"}}`),
	}
	whole := map[string]string{api: list(""), "/api/v1/namespaces/shop/persistentvolumeclaims": list(`{"metadata":{"name":"fine"},"status":{"phase":"Bound"}}`), "/api/v1/namespaces/shop/pods": list("")}
	for _, test := range []struct {
		name  string
		shows map[string]string
		want  []string
	}{
		{"broken", broken, []string{
			"fault SharedVolume logs is not Ready, with reason NotGranted: ask",
			"warning claim pvc-logs is not bound: ProvisioningFailed: no GID",
			"fault pod web, which uses pvc-logs, waits to start: FailedMount: Failed to resolve",
		}},
		{"whole", whole, []string{"ok there are no SharedVolumes", "ok 1 claim is bound", "ok 0 pods that use claims, and none waits to start"}},
		{"no rights", nil, []string{"not-examined ", "not-examined ", "not-examined "}},
	} {
		report, err := ExamineNamespace(t.Context(), serving(t, test.shows), "shop")
		require.NoError(t, err)
		var got []string
		for _, s := range report.Team {
			for _, r := range s.Results {
				got = append(got, string(r.Verdict)+" "+r.What)
			}
		}
		assert.Truef(t, slices.EqualFunc(got, test.want, strings.HasPrefix), "%s: got %q, want %q", test.name, got, test.want)
		if text := report.Text(func(_ findings.Verdict, mark string) string { return mark }); !strings.HasPrefix(text, "Namespace shop\n") || strings.Contains(text, "No driver is installed") {
			t.Errorf("%s: the text is %s", test.name, text)
		}
	}
}
