package objects

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestSighting(t *testing.T) {
	class := func(value string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "rope", Annotations: map[string]string{"default": value}}}
	}
	s := &Sighting{IsDefault: func(annotations map[string]string) bool { return annotations["default"] == "true" }}
	check := func(when, want string, wantGone bool) {
		t.Helper()
		if record, gone := s.Last("recorded"); record != want || gone != wantGone {
			t.Errorf("%s: record %q, gone %v; want %q, %v", when, record, gone, want, wantGone)
		}
	}
	check("without a class", "recorded", true)
	s.Handler().OnAdd(class("true"), true)
	check("with a class", "true", false)
	s.Handler().OnDelete(class("true"))
	check("deleted", "true", true)
	s.Handler().OnAdd(class("true"), false)
	s.Handler().OnUpdate(class("true"), class("false"))
	s.Handler().OnDelete(cache.DeletedFinalStateUnknown{Obj: class("false")})
	check("changed and deleted", "false", true)
}
