package rollout_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/drivers/rollout"
)

// TestLastRefusal: the last event counts, whichever of its fields says when it was. Few are read at a time.
func TestLastRefusal(t *testing.T) {
	now := time.Now()
	ago := func(message string, minutes int) corev1.Event {
		return corev1.Event{Message: message, LastTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))}
	}
	series := ago("series", 30)
	series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(-time.Minute))}
	for name, test := range map[string]struct {
		events []corev1.Event
		want   string
	}{
		"none":                     {nil, ""},
		"one":                      {[]corev1.Event{ago("a", 1)}, "a"},
		"the last":                 {[]corev1.Event{ago("a", 2), ago("b", 1), ago("c", 3)}, "b"},
		"one that is over":         {[]corev1.Event{ago("a", 21)}, ""},
		"one that is tried seldom": {[]corev1.Event{ago("a", 17)}, "a"},
		"a new time":               {[]corev1.Event{{Message: "a", EventTime: metav1.NewMicroTime(now.Add(-time.Minute))}}, "a"},
		"a series":                 {[]corev1.Event{ago("a", 2), series}, "series"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "/api/v1/namespaces/port/events", r.URL.Path)
			assert.Equal(t, "involvedObject.uid=set-1,reason=FailedCreate", r.URL.Query().Get("fieldSelector"))
			assert.Equal(t, "50", r.URL.Query().Get("limit"), "the number of events in a page")
			w.Header().Set("Content-Type", "application/json")
			assert.NoError(t, json.NewEncoder(w).Encode(corev1.EventList{Items: test.events}))
		}))
		core, err := rest.RESTClientFor(&rest.Config{Host: server.URL, APIPath: "/api",
			ContentConfig: rest.ContentConfig{GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
		require.NoError(t, err)
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "port", Name: "set", UID: "set-1"}}
		got, err := rollout.LastRefusal(t.Context(), core, set, now)
		server.Close()
		require.NoError(t, err, name)
		assert.Equal(t, test.want, got, name)
	}
}
