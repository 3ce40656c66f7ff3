package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/test/hostile"
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
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
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

// TestNoOLM: a cluster without OLM gets a warning, unless the cluster storage operator runs the operators of all its drivers.
func TestNoOLM(t *testing.T) {
	efs, err := registry.Get("efs")
	require.NoError(t, err)
	disk, err := registry.Get("azuredisk")
	require.NoError(t, err)
	cluster := serving(t, nil)
	cluster.Client = interceptor.NewClient(cluster.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			if binding, is := object.(*unstructured.Unstructured); is && key.Name == disk.SuccessorBinding() {
				binding.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "namespace": drivers.ClusterStorageNamespace, "name": disk.Operator.Name}}
				return nil
			}
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{}
		},
	})
	for _, test := range []struct {
		drivers []drivers.Driver
		warns   bool
	}{{nil, true}, {[]drivers.Driver{disk}, false}, {[]drivers.Driver{disk, efs}, true}} {
		report, err := Examine(t.Context(), cluster, nil, test.drivers)
		require.NoError(t, err)
		assert.Equal(t, test.warns, strings.Contains(report.Text(findings.Plain), "does not serve the API of the Operator Lifecycle Manager"), report.Text(findings.Plain))
	}
}

const servedSharedVolumes = "/apis/aws-efs.managed.openshift.io/v1alpha1/namespaces/shop/sharedvolumes"

// listOf returns a list for an API server.
func listOf(items ...string) string {
	return `{"kind":"List","apiVersion":"v1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
}

// ofATeam are lists of what is broken in a team's namespace, with all fields that are read.
func ofATeam() map[string]string {
	return map[string]string{
		servedSharedVolumes: listOf(`{"metadata":{"namespace":"shop","name":"logs"},"status":{"phase":"Failed","conditions":[{"type":"Ready","status":"False","reason":"NotGranted","message":"ask"}]}}`,
			`{"metadata":{"namespace":"shop","name":"old"},"status":{"phase":"Ready","conditions":[{"type":"FileSystemAvailable","status":"False","reason":"NotFound","message":"gone"}]}}`),
		"/api/v1/namespaces/shop/persistentvolumeclaims": listOf(`{"metadata":{"name":"pvc-logs"},"status":{"phase":"Pending"}}`,
			`{"metadata":{"name":"pvc-old","deletionTimestamp":"2026-11-30T18:00:28Z","finalizers":["example.com/backup"]},"status":{"phase":"Bound"}}`),
		"/api/v1/namespaces/shop/pods": listOf(
			`{"metadata":{"name":"web"},"spec":{"nodeName":"n1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"pvc-logs"}}]},"status":{"phase":"Pending",
				"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node"}]}}`,
			`{"metadata":{"name":"job"},"spec":{"nodeName":"n1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"pvc-old"}}]},"status":{"phase":"Pending",
				"containerStatuses":[{"name":"c","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},"lastState":{"terminated":{"exitCode":1,"message":"ended"}}}]}}`),
		"/api/v1/namespaces/shop/events": listOf(`{"metadata":{"name":"e"},"type":"Warning","reason":"FailedMount","message":"Failed to resolve","involvedObject":{"kind":"Pod","name":"web"}}`,
			`{"metadata":{"name":"f"},"type":"Warning","reason":"ProvisioningFailed","message":"no GID","involvedObject":{"kind":"PersistentVolumeClaim","name":"pvc-logs"}}`),
	}
}

// TestHostileTeam puts hostile texts into each field of the objects in a namespace that doctor -n reads, its events included, one at a time:
// the report and its JSON show them as they are, and no command starts a program.
func TestHostileTeam(t *testing.T) {
	fields := 0
	for path, list := range ofATeam() {
		var document any
		require.NoError(t, json.Unmarshal([]byte(list), &document))
		for _, text := range []string{hostile.Short(), hostile.Long()} {
			fields += hostile.Each(&document, text, func(at string) {
				changed, err := json.Marshal(document)
				require.NoError(t, err)
				lists := ofATeam()
				lists[path] = string(changed)
				report, err := ExamineNamespace(t.Context(), serving(t, lists), "shop")
				require.NoError(t, err)
				what := path + at
				hostile.Check(t, what, report.Text(findings.Plain), 64<<10)
				var data bytes.Buffer
				require.NoError(t, escape.JSON(&data, report))
				if strings.ContainsFunc(data.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
					t.Errorf("%s: the JSON has characters that are not visible: %.500q", what, data.String())
				}
			})
		}
	}
	if fields == 0 {
		t.Error("there are no fields")
	}
	t.Logf("%d pairs of a field and a text, each in two formats", fields)
}

// TestCrowdedClasses: who administers storage may write very many StorageClasses. The report names some of them, and counts the others.
func TestCrowdedClasses(t *testing.T) {
	d, err := registry.Get("efs")
	require.NoError(t, err)
	var classes []string
	for i := range 2 * maxOfTeam {
		classes = append(classes, fmt.Sprintf(`{"metadata":{"name":"c%d","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":%q,
			"parameters":{"provisioningMode":"efs-ap","subPathPattern":"/","ensureUniqueDirectory":"false"}}`, i, d.CSIName))
	}
	p := &examinedDriver{Cluster: serving(t, map[string]string{"/apis/storage.k8s.io/v1/storageclasses": listOf(classes...)}), driver: d}
	results, err := examineClassRisks(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, results, maxOfTeam+1)
	assert.Equal(t, "20 more StorageClasses like these", results[maxOfTeam].What)
	results, err = examineDefaultClass(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, results, 1)
	assert.Equal(t, "40 StorageClasses are the default, and claims get the newest: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 30 more", results[0].What)
}

// TestCrowdedTeam: very many objects that wait hide none that does not work, and those that a report leaves out are counted.
func TestCrowdedTeam(t *testing.T) {
	var volumes, claims, pods []string
	for i := range 2 * maxOfTeam {
		volumes = append(volumes, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"a%d"},"status":{"phase":"Pending"}}`, i))
		claims = append(claims, fmt.Sprintf(`{"metadata":{"name":"a%d"},"status":{"phase":"Pending"}}`, i))
		pods = append(pods, fmt.Sprintf(`{"metadata":{"name":"a%d"},"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]},"status":{"phase":"Pending"}}`, i))
	}
	volumes = append(volumes, `{"metadata":{"namespace":"shop","name":"broken"},"status":{"phase":"Failed","conditions":[{"type":"Ready","status":"False","reason":"NotGranted","message":"ask"}]}}`)
	pods = append(pods, `{"metadata":{"name":"broken"},"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]},"status":{"phase":"Pending",
		"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node"}]}}`)
	report, err := ExamineNamespace(t.Context(), serving(t, map[string]string{servedSharedVolumes: listOf(volumes...),
		"/api/v1/namespaces/shop/persistentvolumeclaims": listOf(claims...), "/api/v1/namespaces/shop/pods": listOf(pods...), "/api/v1/namespaces/shop/events": listOf()}), "shop")
	require.NoError(t, err)
	text := report.Text(findings.Plain)
	for _, want := range []string{
		"✗ SharedVolume broken is not Ready, with reason NotGranted: ask\n", "! 21 more SharedVolumes like these\n      do: oc -n shop get sharedvolumes\n",
		"! 20 more claims like these\n      do: oc -n shop get pvc\n",
		"✗ pod broken, which uses c, waits to start: pod broken is not scheduled: Unschedulable: no node\n", "! 21 more pods like these\n      do: oc -n shop get pods\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not have %q:\n%s", want, text)
		}
	}
}

// TestEventsOfATeam: of events, only those about objects in the report are kept: anybody in a namespace may write any number of them, with
// names of a megabyte.
func TestEventsOfATeam(t *testing.T) {
	event := func(about, message string) string {
		return fmt.Sprintf(`{"metadata":{"name":"e"},"type":"Warning","reason":"FailedMount","message":%q,"involvedObject":{"kind":"Pod","name":%q}}`, message, about)
	}
	cluster := serving(t, map[string]string{"/api/v1/namespaces/shop/events": listOf(event("web", "Failed to resolve"), event(strings.Repeat("much", 1<<18), "forged"))})
	said, err := (&team{namespace: "shop"}).events(t.Context(), &examinedDriver{Cluster: cluster}, "Pod", []string{"web", "job"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"web": "FailedMount: Failed to resolve"}, said)
}

// TestNoSuchNamespace: a mistyped namespace is not one in which all is well. The API server's lists of what is in it are empty.
func TestNoSuchNamespace(t *testing.T) {
	cluster := serving(t, map[string]string{servedSharedVolumes: listOf(), "/api/v1/namespaces/shop/persistentvolumeclaims": listOf(), "/api/v1/namespaces/shop/pods": listOf()})
	cluster.Client = interceptor.NewClient(cluster.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewNotFound(corev1.Resource("namespaces"), key.Name)
		}})
	_, err := ExamineNamespace(t.Context(), cluster, "shop")
	require.EqualError(t, err, "there is no namespace shop")
}

// TestLastEventOfATeam: the last event is the one that happened last, in whichever of its fields the time is: the scheduler's events have it in eventTime
// alone, and repeated ones in their series.
func TestLastEventOfATeam(t *testing.T) {
	event := func(message, times string) string {
		return fmt.Sprintf(`{"metadata":{"name":"e"},"type":"Warning","reason":"R","message":%q,"involvedObject":{"kind":"Pod","name":"web"},%s}`, message, times)
	}
	for name, events := range map[string][]string{
		"eventTime": {event("last", `"eventTime":"2026-01-02T00:00:00.000000Z","lastTimestamp":null`), event("before", `"lastTimestamp":"2026-01-01T00:00:00Z"`)},
		"series": {event("last", `"eventTime":"2025-01-01T00:00:00.000000Z","lastTimestamp":null,"series":{"count":2,"lastObservedTime":"2026-01-02T00:00:00.000000Z"}`),
			event("before", `"eventTime":"2026-01-01T00:00:00.000000Z","lastTimestamp":null`)},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := serving(t, map[string]string{"/api/v1/namespaces/shop/events": listOf(events...)})
			said, err := (&team{namespace: "shop"}).events(t.Context(), &examinedDriver{Cluster: cluster}, "Pod", []string{"web"})
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"web": "R: last"}, said)
		})
	}
}

// TestTeam: a team sees the faults in its namespace, from the SharedVolume to the events of its pods.
func TestTeam(t *testing.T) {
	broken := map[string]string{
		servedSharedVolumes: listOf(`{"metadata":{"namespace":"shop","name":"logs"},"status":{"phase":"Failed","conditions":[{"type":"Ready","status":"False","reason":"NotGranted","message":"ask"}]}}`),
		"/api/v1/namespaces/shop/persistentvolumeclaims": listOf(`{"metadata":{"name":"pvc-logs"},"status":{"phase":"Pending"}},{"metadata":{"name":"fine"},"status":{"phase":"Bound"}}`),
		"/api/v1/namespaces/shop/pods": listOf(`{"metadata":{"name":"web"},"spec":{"nodeName":"n1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"pvc-logs"}}]},"status":{"phase":"Pending"}},
			{"metadata":{"name":"other"},"status":{"phase":"Pending"}}`),
		"/api/v1/namespaces/shop/events": listOf(`{"metadata":{"name":"e"},"type":"Warning","reason":"FailedMount","message":"Failed to resolve","involvedObject":{"kind":"Pod","name":"web"}},
			{"metadata":{"name":"f"},"type":"Warning","reason":"ProvisioningFailed","message":"no GID","involvedObject":{"kind":"PersistentVolumeClaim","name":"pvc-logs"}}`),
	}
	// The end of what the kubelet says about a mount is the cause.
	mount := "MountVolume.SetUp failed" + strings.Repeat(" at /var/lib/kubelet", 50) + strings.Repeat(".", 308) + `Output: Failed to resolve "fs-0123456789"`
	long := map[string]string{servedSharedVolumes: listOf(), "/api/v1/namespaces/shop/persistentvolumeclaims": listOf(),
		"/api/v1/namespaces/shop/pods":   listOf(`{"metadata":{"name":"web"},"spec":{"nodeName":"n1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"pvc-logs"}}]},"status":{"phase":"Pending"}}`),
		"/api/v1/namespaces/shop/events": listOf(fmt.Sprintf(`{"metadata":{"name":"e"},"type":"Warning","reason":"FailedMount","message":%q,"involvedObject":{"kind":"Pod","name":"web"}}`, mount))}
	leaving := map[string]string{servedSharedVolumes: listOf(`{"metadata":{"namespace":"shop","name":"logs","deletionTimestamp":"2026-11-30T18:00:28Z"},"status":{"phase":"Ready","conditions":[{"type":"Ready","status":"True","reason":"Bound","message":"bound"}]}}`,
		`{"metadata":{"namespace":"shop","name":"seen","deletionTimestamp":"2026-11-30T18:00:28Z"},"status":{"phase":"Deleting","conditions":[{"type":"Ready","status":"False","reason":"ClaimInUse","message":"pod web uses it"}]}}`),
		"/api/v1/namespaces/shop/persistentvolumeclaims": listOf(), "/api/v1/namespaces/shop/pods": listOf()}
	whole := map[string]string{servedSharedVolumes: listOf(), "/api/v1/namespaces/shop/persistentvolumeclaims": listOf(`{"metadata":{"name":"fine"},"status":{"phase":"Bound"}}`), "/api/v1/namespaces/shop/pods": listOf()}
	deleted := map[string]string{servedSharedVolumes: listOf(),
		"/api/v1/namespaces/shop/persistentvolumeclaims": listOf(`{"metadata":{"name":"data","deletionTimestamp":"2026-11-30T18:00:28Z","finalizers":["kubernetes.io/pvc-protection","example.com/backup"]},"status":{"phase":"Bound"}}`,
			`{"metadata":{"name":"old","deletionTimestamp":"2026-11-30T18:00:28Z","finalizers":["example.com/backup"]},"status":{"phase":"Pending"}}`, `{"metadata":{"name":"fine"},"status":{"phase":"Bound"}}`),
		"/api/v1/namespaces/shop/pods": listOf(`{"metadata":{"name":"web"},"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}},{"name":"w","persistentVolumeClaim":{"claimName":"fine"}},{"name":"x","persistentVolumeClaim":{"claimName":"data","readOnly":true}}]},"status":{"phase":"Running"}}`,
			`{"metadata":{"name":"ended"},"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]},"status":{"phase":"Succeeded"}}`)}
	hidden := map[string]string{servedSharedVolumes: listOf(), "/api/v1/namespaces/shop/persistentvolumeclaims": deleted["/api/v1/namespaces/shop/persistentvolumeclaims"]}
	for _, test := range []struct {
		name  string
		shows map[string]string
		want  []string
	}{
		{"claims that are being deleted", deleted, []string{"ok ",
			"warning claim data is being deleted: pods that use it: web; finalizers: kubernetes.io/pvc-protection, example.com/backup",
			"warning claim old is being deleted: finalizers: example.com/backup", "ok "}},
		{"claims that are being deleted, and pods that the user may not read", hidden, []string{"ok ",
			"warning claim data is being deleted: finalizers: kubernetes.io/pvc-protection, example.com/backup",
			"warning claim old is being deleted: finalizers: example.com/backup", "not-examined ", "not-examined "}},
		{"broken", broken, []string{
			"fault SharedVolume logs is not Ready, with reason NotGranted: ask",
			"warning claim pvc-logs is not bound: ProvisioningFailed: no GID",
			"fault pod web, which uses pvc-logs, waits to start: FailedMount: Failed to resolve",
		}},
		{"a long message about a mount", long, []string{"ok ", "ok ",
			"fault pod web, which uses pvc-logs, waits to start: FailedMount: " + mount[:137] + "… (886 more characters) …" + mount[len(mount)-350:]}},
		{"a deletion that no operator has seen", leaving, []string{
			"warning SharedVolume logs is being deleted, and no operator has reported on that",
			"warning SharedVolume seen is not Ready, with reason ClaimInUse: pod web uses it", "ok ", "ok "}},
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
