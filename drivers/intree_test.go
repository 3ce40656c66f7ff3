package drivers_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/berth-csi/berth/drivers"
)

// TestInTreeSources: the definitions name exactly the volume sources that Kubernetes hands to the drivers, and the
// must-gather script knows them.
func TestInTreeSources(t *testing.T) {
	script, err := os.ReadFile("../deploy/must-gather/gather")
	require.NoError(t, err)
	migrated := inTreeSources(t)
	if len(migrated) < 6 {
		t.Fatalf("Kubernetes migrates only these sources: %v", migrated)
	}
	for _, d := range everyDriver() {
		named := drivers.InTree{Source: d.InTree.Source, Plugin: d.InTree.Plugin}
		assert.Equalf(t, migrated[d.CSIName], named, "InTree of driver %s", d.Name)
		if isSwitched := d.InTree.Gate != "" && d.InTree.Preview != "" && d.InTree.Migrated != ""; isSwitched != (d.InTree.Plugin != "") {
			t.Errorf("InTree of driver %s is %+v: want the gate and its versions for each source", d.Name, d.InTree)
		}
		known := d.CSIName + `) echo "` + d.InTree.Source + " " + d.InTree.Plugin + `" ;;`
		if d.InTree != (drivers.InTree{}) && !strings.Contains(string(script), known) {
			t.Errorf("deploy/must-gather/gather lacks the line: %s", known)
		}
	}
}

// inTreeSources returns the volume sources that Kubernetes hands to CSI drivers, by the name of the driver. It fails if
// PersistentVolumes and pods have different names for one.
func inTreeSources(t *testing.T) map[string]drivers.InTree {
	t.Helper()
	translator, found := csitranslation.New(), map[string]drivers.InTree{}
	sources := reflect.TypeFor[corev1.PersistentVolumeSource]()
	for i := range sources.NumField() {
		source, _, _ := strings.Cut(sources.Field(i).Tag.Get("json"), ",")
		document := []byte(`{"` + source + `": {}}`)
		var volume corev1.PersistentVolume
		var inline corev1.Volume
		for _, decode := range []error{json.Unmarshal(document, &volume.Spec), json.Unmarshal(document, &inline)} {
			require.NoError(t, decode)
		}
		if !translator.IsPVMigratable(&volume) {
			continue
		}
		plugin, err := translator.GetInTreePluginNameFromSpec(&volume, nil)
		require.NoError(t, err)
		csiName, err := translator.GetCSINameFromInTreeName(plugin)
		require.NoError(t, err)
		assert.Truef(t, translator.IsInlineMigratable(&inline), "pods have another name for the source %s of PersistentVolumes", source)
		found[csiName] = drivers.InTree{Source: source, Plugin: plugin}
	}
	return found
}
