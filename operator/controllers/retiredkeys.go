package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// podInterval is how often the controller looks for the last pods of an earlier operator.
const podInterval = 5 * time.Second

// replaceKeys replaces the keys of earlier operators that no pod needs any more. It keeps the remaining keys in c.keys, and the reasons in
// c.waits.
func (c *Retirement) replaceKeys(ctx context.Context) error {
	keys := c.keys
	c.keys, c.waits = nil, nil
	for i := range keys {
		waits, err := c.replaceIn(ctx, &keys[i])
		if err != nil {
			c.keys = append(c.keys, keys[i:]...)
			return err
		}
		if waits != "" {
			c.keys, c.waits = append(c.keys, keys[i]), append(c.waits, waits)
		}
	}
	return nil
}

// replaceIn replaces the keys in one Secret, or returns what they wait for. It returns "" if the Secret has none of
// them.
func (c *Retirement) replaceIn(ctx context.Context, retired *drivers.RetiredKeys) (waits string, err error) {
	desired := drivers.Named(c.Own, "Secret", retired.Secret)
	if len(desired) != 1 {
		return "", fmt.Errorf("the definition of driver %s has %d Secrets %s, whose keys it retires; want one", c.Driver.Name, len(desired), retired.Secret)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired[0].Object.GroupVersionKind())
	if err := c.Reader.Get(ctx, client.ObjectKeyFromObject(desired[0].Object), live); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading Secret %s: %w", retired.Secret, err)
	}
	if !retired.In(live) {
		return "", nil
	}
	waits = fmt.Sprintf("the keys of an earlier operator in Secret %s are replaced once the driver has rolled out", retired.Secret)
	if !c.Reporter.RolledOut() {
		return waits, nil
	}
	// A terminating pod, or a pod on a lost node, is not part of the rollout.
	for _, account := range retired.Accounts {
		pods := &corev1.PodList{}
		if err := c.Reader.List(ctx, pods, client.InNamespace(c.Namespace), client.Limit(1),
			client.MatchingFieldsSelector{Selector: fields.AndSelectors(fields.OneTermEqualSelector("spec.serviceAccountName", account),
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))}); err != nil {
			return "", fmt.Errorf("listing the pods of an earlier operator: %w", err)
		}
		if len(pods.Items) > 0 {
			pod := pods.Items[0]
			return fmt.Sprintf("%s, and pod %s on node %s, which still needs them, is gone; if that node is lost, delete its Node object", waits, pod.Name, pod.Spec.NodeName), nil
		}
	}
	return "", c.Applier.ReplaceKeys(ctx, live, desired[0].Object, retired)
}
