package controllers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/drivers"
)

// TestLimitClasses: a backend that offers something else each time it is asked gets a limited number of StorageClasses in all.
func TestLimitClasses(t *testing.T) {
	driver := drivers.Driver{Backend: &drivers.Backend{Name: "Manila", Kind: "share type", Secret: "credentials"}}
	offer := func(from, to int) []drivers.Manifest {
		var classes []storagev1.StorageClass
		for i := from; i < to; i++ {
			classes = append(classes, storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%03d", i)}})
		}
		made, err := classManifests(driver, classes)
		require.NoError(t, err)
		return made
	}
	var known []drivers.Manifest
	for _, step := range []struct {
		from, to, kept, known int
		leftOut               string
	}{
		{0, 150, 150, 150, ""},
		{0, 150, 150, 150, ""},
		{140, 210, 60, 200, "10 more share types get no StorageClass, such as class-200: the operator makes at most 200 classes. " +
			"Check that the Secret credentials names the right cloud, and make StorageClasses by hand."},
		{300, 400, 0, 200, "100 more share types get no StorageClass, such as class-300: the operator makes at most 200 classes. " +
			"Check that the Secret credentials names the right cloud, and make StorageClasses by hand."},
	} {
		kept, leftOut := limitClasses(driver.Backend, offer(step.from, step.to), known)
		known = MergeClasses(known, kept)
		assert.Equal(t, step.kept, len(kept), "classes that are kept") // assert.Len would print them all
		assert.Equal(t, step.known, len(known), "classes in all")
		assert.Equal(t, step.leftOut, leftOut)
	}
}

// TestForgedClasses: whoever may write StorageClasses gives others the label of the operator's. The operator keeps few, and its own.
func TestForgedClasses(t *testing.T) {
	driver := drivers.Driver{CSIName: "rope.example.com", Operator: drivers.Operator{Name: "rope-operator"}, Backend: &drivers.Backend{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "app.kubernetes.io/managed-by=rope-operator", r.URL.Query().Get("labelSelector"))
		assert.Equal(t, "50", r.URL.Query().Get("limit"), "the number of classes in a page")
		var list storagev1.StorageClassList
		add := func(name, provisioner, text string, at int64) {
			list.Items = append(list.Items, storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(at, 0))},
				Provisioner: provisioner, Parameters: map[string]string{"type": text}})
		}
		for i := range 1000 {
			add(fmt.Sprintf("a-%03d", i), driver.CSIName, "forged", 2000)
		}
		add("b-of-another-driver", "chain.example.com", "forged", 0)
		add("b-large", driver.CSIName, strings.Repeat("m", 1<<20), 0)
		add("b-that-cannot-be-applied", driver.CSIName, "${FORGED}", 0)
		add("own", driver.CSIName, "fast", 1000)
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(list))
	}))
	defer server.Close()
	storage, err := rest.RESTClientFor(&rest.Config{Host: server.URL, APIPath: "/apis",
		ContentConfig: rest.ContentConfig{GroupVersion: &storagev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	require.NoError(t, err)
	found, err := ExistingClasses(t.Context(), driver, storage)
	require.NoError(t, err)
	names := classNames(found)
	require.Equal(t, drivers.MaxClasses, len(names), "classes that are kept") // assert.Len would print them all
	assert.Equal(t, []string{"own", "a-000"}, names[:2], "the oldest classes")
}
