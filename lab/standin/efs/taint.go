package efs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// taintKey is the taint that an administrator gives to nodes so that no pod is there before the driver.
const taintKey = Name + "/agent-not-ready"

// removeTaint removes the taint from the driver's node. It tries each second until it succeeds. If it does not know the API server
// or the name of the node, it does nothing.
func removeTaint(ctx context.Context) {
	name := os.Getenv(nodeName)
	api, err := apiServer()
	if name == "" || err != nil {
		klog.Infof("skipping taint removal: node %q, error %v", name, err)
		return
	}
	for {
		err := takeTaint(ctx, api, name)
		if err == nil {
			return
		}
		klog.Errorf("Unexpected failure when attempting to remove node taint(s): %v", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// takeTaint removes the taint from a node. It fails if the node's taints have changed meanwhile.
func takeTaint(ctx context.Context, api kubernetes.Interface, name string) error {
	node, err := api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), isTaint)
	if len(kept) == len(node.Spec.Taints) {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/taints", "value": node.Spec.Taints},
		{"op": "replace", "path": "/spec/taints", "value": kept},
	})
	if err != nil {
		return err
	}
	after, err := api.CoreV1().Nodes().Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(after.Spec.Taints, isTaint) {
		return fmt.Errorf("taint %s still present after patch", taintKey)
	}
	return nil
}

func isTaint(t corev1.Taint) bool { return t.Key == taintKey }
