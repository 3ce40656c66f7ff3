package subscription

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/rollout"
)

// Remark names, at the end of a switch, the NotReady nodes, which it has not waited for. It is "" without such nodes,
// and otherwise continues a sentence.
func (p *Plan) Remark(ctx context.Context, c client.Client) (string, error) {
	s := &state{plan: p}
	if err := s.readDriver(ctx, c); err != nil {
		return "", err
	}
	remark := ""
	for _, set := range s.daemonSets {
		if rollout.IsComplete(&set) {
			continue
		}
		nodes, err := rollout.NotReady(ctx, c, &set)
		if err != nil {
			return "", err
		}
		if len(nodes) > 0 {
			remark += fmt.Sprintf("; DaemonSet %s/%s will be up to date on these nodes, which are NotReady, when they are ready: %s",
				set.Namespace, set.Name, rollout.Names(nodes))
		}
	}
	return remark, nil
}
