package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/mustgather"
)

// ofSnapshots are the objects about the snapshots, attributes and capacity of a driver, DRIVER, in a namespace, NAMESPACE. One snapshot has
// a content, and two wait for one: one names the driver's class, and the other a claim of the driver. The name of a class is its author's
// text: in the last one it has lines, one of which is like that of a snapshot in the namespace OTHER.
const ofSnapshots = `
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: NAMESPACE}, provisioner: DRIVER}
---
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {namespace: NAMESPACE, name: capacity}, storageClassName: NAMESPACE, capacity: 7Gi}
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: NAMESPACE}, driverName: DRIVER, parameters: {iops: "100"}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: NAMESPACE, name: claim, annotations: {volume.kubernetes.io/storage-provisioner: DRIVER}},
  spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: NAMESPACE}, driver: DRIVER, deletionPolicy: Delete}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent, metadata: {name: NAMESPACE},
  spec: {driver: DRIVER, deletionPolicy: Delete, source: {volumeHandle: vol-1}, volumeSnapshotRef: {namespace: NAMESPACE, name: bound}}}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {namespace: NAMESPACE, name: bound}, spec: {source: {volumeSnapshotContentName: NAMESPACE}}}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {namespace: NAMESPACE, name: of-class},
  spec: {volumeSnapshotClassName: NAMESPACE, source: {persistentVolumeClaimName: elsewhere}}}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {namespace: NAMESPACE, name: of-claim}, spec: {source: {persistentVolumeClaimName: claim}}}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {namespace: NAMESPACE, name: forged},
  spec: {volumeSnapshotClassName: "x\nOTHER bound NAMESPACE y\nz", source: {persistentVolumeClaimName: elsewhere}}}
`

// TestMustGatherTakesSnapshots: the snapshots of a driver, their contents and classes, its VolumeAttributesClasses and
// the capacity of its StorageClasses are collected, but no objects of another driver.
func TestMustGatherTakesSnapshots(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	const driver = "ebs.csi.aws.com"
	own, other := c.Namespace(t), c.Namespace(t)
	for namespace, of := range map[string]string{own: driver, other: "tug.csi.example.com"} {
		elsewhere := map[string]string{own: other, other: own}[namespace]
		for _, document := range strings.Split(strings.NewReplacer("NAMESPACE", namespace, "DRIVER", of, "OTHER", elsewhere).Replace(ofSnapshots), "---\n") {
			object := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
			require.NoError(t, c.Client().Create(t.Context(), object))
			if object.GetNamespace() == "" {
				t.Cleanup(func() {
					if err := c.Client().Delete(context.Background(), object); err != nil && !apierrors.IsNotFound(err) {
						t.Error(err)
					}
				})
			}
		}
	}
	folder, _ := mustgather.Run(t, c, driver)
	files := mustgather.Files(t, folder)
	mustgather.Check(t, files, map[string]string{
		driver + "/volumesnapshotclasses-1.yaml":              "name: " + own,
		driver + "/volumesnapshotcontents-1.yaml":             "volumeHandle: vol-1",
		driver + "/volumesnapshots/" + own + "-1.yaml":        "name: bound",
		driver + "/volumeattributesclasses-1.yaml":            "iops: \"100\"",
		driver + "/csistoragecapacities/" + own + "-1.yaml":   "capacity: 7Gi",
		driver + "/persistentvolumeclaims/" + own + "-1.yaml": "name: claim",
	})
	for _, name := range []string{"of-class", "of-claim"} {
		assert.Containsf(t, files[driver+"/volumesnapshots/"+own+"-1.yaml"], "name: "+name, "VolumeSnapshot %s, which waits, is not collected", name)
	}
	for name, content := range files {
		if strings.HasPrefix(name, driver+"/") && strings.Contains(content, other) {
			t.Errorf("%s has objects of another driver: %s", name, content)
		}
	}
	for line := range strings.Lines(files["missing.txt"]) {
		if strings.Contains(line, "snapshot") || strings.Contains(line, "capacit") || strings.Contains(line, "attributes") {
			t.Errorf("not collected: %s", line)
		}
	}
}
