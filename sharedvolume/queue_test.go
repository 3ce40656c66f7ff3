package sharedvolume

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// requestOf returns the request that "namespace/name" stands for.
func requestOf(text string) reconcile.Request {
	namespace, name, _ := strings.Cut(text, "/")
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func TestRoundRobin(t *testing.T) {
	for _, test := range []struct{ name, do, want string }{
		{"empty", "", ""},
		{"one namespace: in order", "a/1 a/2 a/3", "a/1 a/2 a/3"},
		{"one of each in turn", "a/1 a/2 a/3 b/1 b/2 c/1", "a/1 b/1 c/1 a/2 b/2 a/3"},
		{"a new namespace waits for one of each other", "a/1 a/2 a/3 pop b/1", "a/1 a/2 b/1 a/3"},
		{"no namespace is served twice before another", "a/1 b/1 pop a/2 b/2", "a/1 b/1 a/2 b/2"},
		{"a namespace with new requests", "a/1 pop a/2 b/1 pop a/3", "a/1 a/2 b/1 a/3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var q roundRobin
			got := []string{}
			pop := func() { got = append(got, q.Pop().String()) }
			for _, word := range strings.Fields(test.do) {
				if word == "pop" {
					pop()
				} else {
					q.Push(requestOf(word))
				}
			}
			for left := q.Len(); left > 0; left-- {
				assert.EqualValues(t, left, q.Len(), "Len")
				pop()
			}
			assert.Empty(t, cmp.Diff(strings.Fields(test.want), got))
			if q.Len() != 0 || len(q.namespaces) != 0 || len(q.byName) != 0 {
				t.Errorf("something remains: %+v", q)
			}
		})
	}
}

// TestQueueServesNamespacesRoundRobin: the work queue still handles requests that are added twice, or while they are processed.
func TestQueueServesNamespacesRoundRobin(t *testing.T) {
	q := newQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour))
	defer q.ShutDown()
	for _, request := range []string{"a/1", "a/2", "a/1", "b/1"} {
		q.Add(requestOf(request))
	}
	var got []string
	for range 3 {
		request, _ := q.Get()
		got = append(got, request.String())
		if request == requestOf("a/1") {
			q.Add(request) // while it is processed
		}
		q.Done(request)
	}
	assert.Empty(t, cmp.Diff([]string{"a/1", "b/1", "a/2"}, got))
	if request, _ := q.Get(); request != requestOf("a/1") || q.Len() != 0 {
		t.Errorf("the last is %v, and %d are left", request, q.Len())
	}
}
