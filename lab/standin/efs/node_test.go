package efs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berth-csi/berth/lab/cluster"
)

func publish(target string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: fileSystem, TargetPath: target, VolumeCapability: shared[0]}
}

// TestFailedMount: a failed mount's new folder is gone, and the error names the mount source.
func TestFailedMount(t *testing.T) {
	target := filepath.Join(t.TempDir(), "pods", "mount")
	d := &driver{version: V2, volumes: newMeasurements(VolumeMetrics{}), mount: func(context.Context, source, string) error { return errors.New("no way") }}
	_, err := d.NodePublishVolume(t.Context(), publish(target))
	if want := `Could not mount "` + fileSystem + `:/" at "` + target + `": no way`; status.Code(err) != codes.Internal || status.Convert(err).Message() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = os.Stat(target)
	assert.Truef(t, os.IsNotExist(err), "%s: %v, want it to be gone", target, err)
}

// TestMostMounts: at the limit of concurrent mounts, another one fails.
func TestMostMounts(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	d := &driver{version: V3, Options: Options{MostMounts: 1}, mounting: make(chan struct{}, 1), mount: func(context.Context, source, string) error {
		close(began)
		<-goOn
		return nil
	}}
	first := make(chan error)
	go func() {
		_, err := d.NodePublishVolume(t.Context(), publish(filepath.Join(t.TempDir(), "a")))
		first <- err
	}()
	<-began
	_, err := d.NodePublishVolume(t.Context(), publish(filepath.Join(t.TempDir(), "b")))
	assert.Equalf(t, codes.Aborted, status.Code(err), "the second mount: %v", err)
	close(goOn)
	assert.NoError(t, <-first)
}

// TestInfo: only the later version names the zone of a node.
func TestInfo(t *testing.T) {
	at := place{"i-0123", "sea-west-1", "sea-west-1a"}
	for _, version := range []Version{V2, V3} {
		d := &driver{version: version, place: at, Options: Options{MostVolumes: 7}}
		info, err := d.NodeGetInfo(t.Context(), nil)
		if err != nil || info.NodeId != at.instance || info.MaxVolumesPerNode != 7 || info.AccessibleTopology.GetSegments()[corev1.LabelTopologyZone] != map[bool]string{true: at.zone}[version.zones] {
			t.Errorf("%s says %v, %v", version.Number, info, err)
		}
	}
}

// TestVolumeMetrics: how full a volume is, is known after it was measured, and unknown after it was unmounted.
func TestVolumeMetrics(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), make([]byte, 10_000), 0o600))
	d := &driver{version: V2, volumes: newMeasurements(VolumeMetrics{On: true, Refresh: time.Hour, AtOnce: 1})}
	ask := func() *csi.VolumeUsage {
		t.Helper()
		response, err := d.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: fileSystem, VolumePath: folder})
		require.NoError(t, err)
		return response.Usage[0]
	}
	got := ask()
	assert.Equalf(t, csi.VolumeUsage_UNKNOWN, got.Unit, "at first, got %v", got)
	cluster.Eventually(t, time.Minute, "the volume to be measured", func(context.Context) error {
		if got := ask(); got.Unit != csi.VolumeUsage_BYTES || got.Used < 10_000 || got.Total < got.Used {
			return errors.New(got.String())
		}
		return nil
	})
	d.volumes.forget(fileSystem)
	got = ask()
	assert.Equalf(t, csi.VolumeUsage_UNKNOWN, got.Unit, "after the volume was unmounted, got %v", got)
	_, err := d.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: fileSystem, VolumePath: "/nowhere"})
	assert.Equalf(t, codes.NotFound, status.Code(err), "for a path that does not exist: %v", err)
}

// TestTaint: the taint of the driver is taken from its node, and no other.
func TestTaint(t *testing.T) {
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule}
	for name, taints := range map[string][]corev1.Taint{
		"none": nil, "another": {other}, "its own": {{Key: taintKey, Effect: corev1.TaintEffectNoExecute}, other},
	} {
		api := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pier"}, Spec: corev1.NodeSpec{Taints: taints}})
		assert.NoError(t, takeTaint(t.Context(), api, "pier"), name)
		node, err := api.CoreV1().Nodes().Get(t.Context(), "pier", metav1.GetOptions{})
		if err != nil || len(node.Spec.Taints) > 1 || len(node.Spec.Taints) == 1 && node.Spec.Taints[0] != other {
			t.Errorf("%s: it has %v, %v", name, node.Spec.Taints, err)
		}
		patched := 0
		for _, action := range api.Actions() {
			if action.GetVerb() == "patch" {
				patched++
			}
		}
		assert.Equalf(t, map[bool]int{true: 1}[name == "its own"], patched, "%s: the Node was patched", name)
	}
}
