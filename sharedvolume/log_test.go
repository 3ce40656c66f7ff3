package sharedvolume_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/berth-csi/berth/sharedvolume"
)

// TestLog: at verbosity 2, the log has each write about a SharedVolume and each change of its status, with its key.
func TestLog(t *testing.T) {
	env := isolated(t)
	namespace := env.keptNamespace()
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(2), ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	done := make(chan error)
	go func() { done <- sharedvolume.Run(ctx, confined(isolatedConfig, namespace), sharedvolume.Options{}) }()
	stop := sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-done, "the controller failed")
	})
	t.Cleanup(stop)

	sv := env.create(namespace, "logs")
	volume := env.ready(sv).volume.Name
	env.do("delete", env.client.Delete(t.Context(), sv))
	env.gone(sv)
	stop()

	var got []string
	for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		verb, _, _ := strings.Cut(entry.Message, " ")
		if entry.Verbosity != 2 || !slices.Contains([]string{"Created", "Patched", "Deleted", "Changed"}, verb) {
			continue
		}
		values := map[any]any{}
		for _, list := range [][]any{entry.WithKVList, entry.ParameterKVList} {
			for i := 0; i+1 < len(list); i += 2 {
				values[list[i]] = list[i+1]
			}
		}
		if values["controller"] != "sharedvolume" {
			continue
		}
		if values["namespace"] != namespace || values["name"] != sv.Name {
			t.Errorf("%q lacks the key of the SharedVolume: %v", entry.Message, values)
		}
		line := entry.Message
		if object, ok := values["object"]; ok {
			line += fmt.Sprintf(" %v", object)
		} else {
			line += fmt.Sprintf(": %v", values["reason"])
		}
		got = append(got, line)
	}
	want := []string{
		"Patched SharedVolume " + namespace + "/logs", // its finalizer
		"Created PersistentVolumeClaim " + namespace + "/pvc-logs",
		"Created PersistentVolume " + volume,
		"Changed the status: Bound",
		"Changed the status: Deleting",
		"Deleted PersistentVolumeClaim " + namespace + "/pvc-logs",
		"Deleted PersistentVolume " + volume,
		"Patched SharedVolume " + namespace + "/logs",
	}
	assert.Empty(t, cmp.Diff(want, got), "-want +got")
}
