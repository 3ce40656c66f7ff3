package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// ReplaceKeys replaces an earlier operator's keys in a Secret by the desired keys, in one write. Everything else in the
// Secret stays. It fails if the Secret has changed since it was observed.
func (a *Writer) ReplaceKeys(ctx context.Context, observed, desired *unstructured.Unstructured, retired *drivers.RetiredKeys) error {
	data := map[string]any{}
	for _, key := range retired.Keys {
		data[key] = nil
	}
	own, _, err := unstructured.NestedMap(desired.Object, "data")
	if err != nil {
		return fmt.Errorf("field data of Secret %s: %w", desired.GetName(), err)
	}
	maps.Copy(data, own)
	patch, err := json.Marshal(map[string]any{"data": data, "metadata": map[string]any{
		"resourceVersion": observed.GetResourceVersion(), "annotations": map[string]any{retired.Mark: nil},
	}})
	if err != nil {
		return err
	}
	if err := a.client.Patch(ctx, observed.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(a.fieldManager)); err != nil {
		return fmt.Errorf("replacing the keys of an earlier operator in Secret %s: %w", observed.GetName(), err)
	}
	klog.V(2).InfoS("Replaced the keys of an earlier operator", "kind", "Secret", "object", klog.KObj(observed))
	a.recorder.Eventf("SecretUpdated", "Replaced the keys of an earlier operator in Secret %s, as none of its pods is left", observed.GetName())
	return nil
}
