package operator

import (
	"context"
	"errors"
	"time"

	"github.com/operator-framework/operator-lib/leader"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lockPollMax bounds how long a new operator pod goes on waiting after the old one has left.
const lockPollMax = 2 * time.Second

// becomeLeader waits until this pod holds the leader-for-life lock: a ConfigMap that the pod owns,
// so that it is free again only when the pod is gone. Earlier operators of the same driver use the
// same lock; thus an old and a new one are never active together, whatever a Deployment's rollout does.
//
// Outside a cluster there is no pod to own the lock; there a developer looks after it.
func becomeLeader(ctx context.Context, cfg *rest.Config, lock string) error {
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	err = leader.Become(ctx, lock, leader.WithClient(c), func(c *leader.Config) error {
		c.MaxBackoffInterval = lockPollMax
		return nil
	})
	if errors.Is(err, leader.ErrNoNamespace) {
		klog.Warningf("not running in a pod: going on without the lock %s", lock)
		return nil
	}
	return err
}
