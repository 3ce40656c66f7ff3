package uninstall

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
)

var testDriver = drivers.Driver{CSIName: "disk.csi.example.com", InTree: drivers.InTree{Source: "exampleDisk"}}

// decode decodes an object.
func decode[T any](t *testing.T, document string) T {
	t.Helper()
	var object T
	require.NoError(t, json.Unmarshal([]byte(document), &object))
	return object
}

// TestControllerWork: which objects are work for the driver's controller.
func TestControllerWork(t *testing.T) {
	const deleted = `"name": "o", "deletionTimestamp": "2026-01-01T00:00:00Z"`
	volume := func(metadata, source, policy, phase string) worksForController {
		return decode[deletedVolume](t, fmt.Sprintf(`{"metadata": {%s}, "spec": {%s, "persistentVolumeReclaimPolicy": %q}, "status": {"phase": %q}}`,
			metadata, source, policy, phase))
	}
	snapshot := func(metadata, driver string) worksForController {
		return decode[snapshotContent](t, fmt.Sprintf(`{"metadata": {%s}, "spec": {"driver": %q}}`, metadata, driver))
	}
	const name, own, other = `"name": "o"`, `"csi": {"driver": "disk.csi.example.com"}`, `"csi": {"driver": "other.csi.example.com"}`
	for _, test := range []struct {
		name   string
		object worksForController
		want   string
	}{
		{"attachment", decode[attachment](t, `{"metadata": {"name": "o"}, "spec": {"attacher": "disk.csi.example.com", "nodeName": "n"}}`), "o (node n)"},
		{"another driver's attachment", decode[attachment](t, `{"metadata": {"name": "o"}, "spec": {"attacher": "other.csi.example.com", "nodeName": "n"}}`), ""},

		{"bound volume", volume(name, own, "Delete", "Bound"), ""},
		{"available volume", volume(name, own, "Delete", "Available"), ""},
		{"released volume", volume(name, own, "Delete", "Released"), "o (Released)"},
		{"released volume, retained", volume(name, own, "Retain", "Released"), ""},
		{"released in-tree volume", volume(name, `"exampleDisk": {"id": "d"}`, "Delete", "Released"), "o (Released)"},
		{"released volume of another in-tree source", volume(name, `"otherDisk": {"id": "d"}`, "Delete", "Released"), ""},
		{"another driver's released volume", volume(name, other, "Delete", "Released"), ""},
		{"volume that failed, so that nobody tries again", volume(name, own, "Delete", "Failed"), ""},
		{"deleted volume", volume(deleted, own, "Delete", "Released"), "o (Terminating)"},
		{"deleted volume, retained", volume(deleted, own, "Retain", "Available"), "o (Terminating)"},
		{"deleted volume that has a claim", volume(deleted, own, "Retain", "Bound"), "o (Terminating, and still bound: delete its claim)"},
		{"another driver's deleted volume", volume(deleted, other, "Delete", "Released"), ""},

		{"snapshot", snapshot(name, "disk.csi.example.com"), ""},
		{"deleted snapshot", snapshot(deleted, "disk.csi.example.com"), "o"},
		{"another driver's deleted snapshot", snapshot(deleted, "other.csi.example.com"), ""},
	} {
		assert.EqualValues(t, test.want, test.object.work(testDriver), test.name)
	}
}

// TestTasksAreBounded: a message names the first objects, and counts all.
func TestTasksAreBounded(t *testing.T) {
	many := task{kind: "PersistentVolume", verb: "delete"}
	for i := range 1000 {
		many.add(fmt.Sprintf("%s-%d", strings.Repeat("v", 240), i))
	}
	one := task{kind: "VolumeAttachment", verb: "detach"}
	one.add("a")
	got := describeTasks([]task{one, many})
	if want := "-4 and 995 more"; !strings.HasPrefix(got, "detach 1 VolumeAttachment: a; delete 1000 PersistentVolumes: vvv") || !strings.HasSuffix(got, want) || len(got) > 2000 {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
}

// TestSources: a CSI driver's volumes have its name, or CSI migration hands them to it.
func TestSources(t *testing.T) {
	for _, test := range []struct {
		source      string
		csi, inTree bool
	}{
		{`{"csi": {"driver": "disk.csi.example.com"}}`, true, false},
		{`{"csi": {"driver": "other.csi.example.com"}}`, false, false},
		{`{"exampleDisk": {"id": "d"}}`, false, true},
		{`{"": {}}`, false, false},
		{`{"emptyDir": {}}`, false, false},
	} {
		got := decode[sourced[struct{}]](t, test.source)
		if got.csi(testDriver) != test.csi || got.inTree(testDriver) != test.inTree {
			t.Errorf("%s: csi %v, inTree %v; want %v, %v", test.source, got.csi(testDriver), got.inTree(testDriver), test.csi, test.inTree)
		}
		if none := (drivers.Driver{CSIName: "disk.csi.example.com"}); got.inTree(none) {
			t.Errorf("%s: a driver without in-tree volumes has one", test.source)
		}
	}
}
