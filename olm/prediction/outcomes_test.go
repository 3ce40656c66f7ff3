package prediction

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/lab/cluster"
)

// unchanged: OLM has resolved the namespace, changed nothing, and does not report it.
func unchanged(s *scene, p *Prediction) string {
	s.awaitSync(noUpdates)
	subscription := s.subscription(s.Context(), s.cluster.Client(), "buoy")
	if failure(subscription).Status == corev1.ConditionTrue || subscription.Status.InstalledCSV != p.Installed {
		s.Fatalf("the Subscription's status is %+v", subscription.Status)
	}
	return fmt.Sprintf("OLM has resolved the namespace; the Subscription stays %s with %s, without condition ResolutionFailed", subscription.Status.State, subscription.Status.InstalledCSV)
}

// failure returns the condition that OLM sets when it resolves nothing.
func failure(s *v1alpha1.Subscription) v1alpha1.SubscriptionCondition {
	return s.Status.GetCondition(v1alpha1.SubscriptionResolutionFailed)
}

// refused: OLM writes the predicted message into the Subscription's condition.
func refused(s *scene, p *Prediction) string {
	return refusedBy(s, p, func(said string) bool { return clauses(said) == clauses(p.Message) })
}

func refusedBy(s *scene, p *Prediction, is func(said string) bool) (happened string) {
	s.Helper()
	cluster.Eventually(s, limit, "OLM to set ResolutionFailed", func(ctx context.Context) error {
		condition := failure(s.subscription(ctx, s.watched, "buoy"))
		if condition.Status != corev1.ConditionTrue || !is(condition.Message) {
			return fmt.Errorf("its message is %q; %q was predicted", condition.Message, p.Message)
		}
		happened = fmt.Sprintf("ResolutionFailed, %s: %s", condition.Reason, clauses(condition.Message))
		return nil
	})
	return happened
}

// clauses sorts the clauses of a message, because the resolver's order is random.
func clauses(message string) string {
	head, rest, found := strings.Cut(message, ": ")
	if !found || strings.Contains(head, "catalogsource") {
		return message
	}
	all := strings.Split(rest, ", ")
	slices.Sort(all)
	return head + ": " + strings.Join(all, ", ")
}

// stuck: the InstallPlan does not complete, because of an error.
func stuck(because string) func(*scene, *Prediction) string {
	return func(s *scene, _ *Prediction) (happened string) {
		s.Helper()
		cluster.Eventually(s, limit, "the InstallPlan to be stuck", func(ctx context.Context) error {
			plan, err := s.installPlan(ctx)
			if err != nil {
				return err
			}
			if !strings.Contains(plan.Status.Message, because) {
				return fmt.Errorf("it is %s: %s", plan.Status.Phase, plan.Status.Message)
			}
			// OLM tries again for a minute.
			happened = "the InstallPlan does not complete: " + strings.TrimPrefix(plan.Status.Message, "retrying execution due to error: ")
			return nil
		})
		return happened
	}
}

// updated: OLM makes the update.
func updated(s *scene, p *Prediction) string {
	s.awaitInstalled("buoy", p.Next.Name)
	return p.Next.Name + " is installed, and Succeeded"
}
