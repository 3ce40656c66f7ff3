package controllers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

func node(name, os string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os, "example.com/large": "value"}},
		Status: corev1.NodeStatus{
			Images:     []corev1.ContainerImage{{Names: []string{"example.com/image"}}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}},
		},
	}
}

func TestNotReady(t *testing.T) {
	factory := informers.NewSharedInformerFactory(nil, 0) // it is never started
	nodes, trim := NewNodes(factory.Core().V1().Nodes()), TrimNodes([]string{corev1.LabelOSStable})
	for _, n := range []*corev1.Node{
		node("b", "linux", corev1.ConditionUnknown), node("a", "linux", corev1.ConditionFalse), node("c", "linux", corev1.ConditionTrue),
		node("d", "windows", corev1.ConditionFalse), {ObjectMeta: metav1.ObjectMeta{Name: "e"}},
	} {
		trimmed, err := trim(n)
		require.NoError(t, err)
		if kept := trimmed.(*corev1.Node); len(kept.Status.Images) > 0 || len(kept.Labels) > 1 || kept.Name != n.Name {
			t.Errorf("kept of node %s: %+v", n.Name, kept)
		}
		require.NoError(t, factory.Core().V1().Nodes().Informer().GetStore().Add(trimmed))
	}
	got, err := nodes.NotReady(map[string]string{corev1.LabelOSStable: "linux"})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, got, "the nodes that are NotReady")
	got, err = nodes.NotReady(nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "d", "e"}, got, "of all nodes, those that are NotReady")
}

// TestOnlyReadinessTriggers: the status that a kubelet writes every five minutes triggers nothing.
func TestOnlyReadinessTriggers(t *testing.T) {
	var got []string
	record := func(what string) func(any) { return func(any) { got = append(got, what) } }
	handler := handlerOf(cache.ResourceEventHandlerFuncs{
		AddFunc: record("add"), DeleteFunc: record("delete"), UpdateFunc: func(any, any) { got = append(got, "update") }})
	ready, notReady := node("a", "linux", corev1.ConditionTrue), node("a", "linux", corev1.ConditionUnknown)
	for _, tc := range []struct {
		name string
		do   func()
		want []string
	}{
		{"a node is added that is ready", func() { handler.OnAdd(ready, false) }, nil},
		{"a node is added that is NotReady", func() { handler.OnAdd(notReady, false) }, []string{"add"}},
		{"a node stays ready", func() { handler.OnUpdate(ready, ready) }, nil},
		{"a node stays NotReady", func() { handler.OnUpdate(notReady, notReady) }, nil},
		{"a node becomes NotReady", func() { handler.OnUpdate(ready, notReady) }, []string{"add"}},
		{"a node becomes ready", func() { handler.OnUpdate(notReady, ready) }, []string{"delete"}},
		{"a node is deleted that is ready", func() { handler.OnDelete(ready) }, nil},
		{"a node is deleted that is NotReady", func() { handler.OnDelete(notReady) }, []string{"delete"}},
		{"a node is missed", func() { handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "a"}) }, []string{"delete"}},
	} {
		got = nil
		if tc.do(); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: triggered %q, want %q", tc.name, got, tc.want)
		}
	}
}
