package csimigration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
)

// Execute performs the write of a step.
func (s *state) Execute(ctx context.Context, c client.Client, step migrate.StepName) error {
	switch step {
	case PausePools:
		return patchPool(ctx, c, s.unpaused(), true)
	case UnpausePools:
		return patchPool(ctx, c, s.paused(), false)
	case EnableControlPlane, DisableNodes:
		return s.set(ctx, c, controlPlaneSet, nil)
	case EnableNodes:
		return s.set(ctx, c, nodeSet, nil)
	case DisableControlPlane:
		return s.set(ctx, c, s.plan.Off, nil)
	case EnableGates:
		set := ways[s.plan.Way].sets[0]
		if s.plan.Way != Custom {
			return s.set(ctx, c, set, nil)
		}
		return s.set(ctx, c, set, s.list(true))
	case DisableGates:
		return s.set(ctx, c, configv1.CustomNoUpgrade, s.list(false))
	}
	return fmt.Errorf("step %q writes nothing", step)
}

// set changes the feature set, unless the FeatureGate has changed since it was observed. An empty set is sent as "", too,
// because the API server refuses to remove the field.
func (s *state) set(ctx context.Context, c client.Client, set configv1.FeatureSet, listed *configv1.CustomFeatureGates) error {
	spec := map[string]any{"featureSet": string(set)}
	if listed != nil {
		spec["customNoUpgrade"] = map[string]any{"enabled": names(listed.Enabled), "disabled": names(listed.Disabled)}
	}
	return patch(ctx, c, s.featureGate, "config.openshift.io/v1", "FeatureGate", nil, spec)
}

func names(gates []configv1.FeatureGateName) []any {
	found := []any{}
	for _, gate := range gates {
		found = append(found, string(gate))
	}
	return found
}

// list returns the list of gates with the plan's gates on or off. The general gate stays on: other plugins may need it.
func (s *state) list(on bool) *configv1.CustomFeatureGates {
	listed := &configv1.CustomFeatureGates{}
	if is := s.featureGate.Spec.CustomNoUpgrade; is != nil {
		listed = is.DeepCopy()
	}
	move := func(gate configv1.FeatureGateName, on bool) {
		is := func(other configv1.FeatureGateName) bool { return other == gate }
		listed.Enabled, listed.Disabled = slices.DeleteFunc(listed.Enabled, is), slices.DeleteFunc(listed.Disabled, is)
		if on {
			listed.Enabled = append(listed.Enabled, gate)
		} else {
			listed.Disabled = append(listed.Disabled, gate)
		}
	}
	if on {
		move(generalGate, true)
	}
	for _, d := range s.of() {
		move(configv1.FeatureGateName(d.InTree.Gate), on)
	}
	return listed
}

// patchPool pauses a pool, and marks it as paused by a migration, or the reverse.
func patchPool(ctx context.Context, c client.Client, pool *mcfgv1.MachineConfigPool, paused bool) error {
	mark := any("true")
	if !paused {
		mark = nil
	}
	return patch(ctx, c, pool, mcfgv1.GroupVersion.String(), "MachineConfigPool", map[string]any{pausedAnnotation: mark}, map[string]any{"paused": paused})
}

// patch merges a change into an object, unless it has changed since it was observed.
func patch(ctx context.Context, c client.Client, object client.Object, version, kind string, annotations, spec map[string]any) error {
	changed := &unstructured.Unstructured{}
	changed.SetAPIVersion(version)
	changed.SetKind(kind)
	changed.SetName(object.GetName())
	metadata := map[string]any{"uid": string(object.GetUID()), "resourceVersion": object.GetResourceVersion()}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return c.Patch(ctx, changed, mergePatch{map[string]any{"metadata": metadata, "spec": spec}})
}

// mergePatch is a merge patch with this content, whatever the object is.
type mergePatch struct{ content map[string]any }

// Type returns the type of the patch.
func (mergePatch) Type() types.PatchType { return types.MergePatchType }

// Data returns the patch.
func (p mergePatch) Data(client.Object) ([]byte, error) { return json.Marshal(p.content) }
