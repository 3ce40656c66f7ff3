package prediction

import (
	"fmt"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManySubscriptions: a tenant creates very many Subscriptions to one package in a project, which OLM resolves together, or does not. Each has
// a prediction, and what they say of the others does not grow with the square.
func TestManySubscriptions(t *testing.T) {
	const n = 1000
	for name, channel := range map[string]string{"that nothing can be resolved for": "none", "that hinder each other": "fast"} {
		t.Run(name, func(t *testing.T) {
			st, err := Installed(tide(t), "tide", "0.0.0", "")
			require.NoError(t, err)
			st.OperatorGroups = nil
			for i := range n {
				s := st.Subscriptions[0].DeepCopy()
				s.Name, s.UID, s.Status, s.Spec.Channel = fmt.Sprintf("tide-%d", i), "", v1alpha1.SubscriptionStatus{}, channel
				st.Subscriptions = append(st.Subscriptions, s)
			}
			predictions, err := st.Predict(t.Context())
			require.NoError(t, err)
			require.Len(t, predictions, n+1)
			reasons := 0
			for _, p := range predictions {
				assert.Equal(t, Refused, p.Reaction)
				reasons += len(p.Why)
			}
			assert.Less(t, reasons, n*(2*maxOthers+5))
			var said []string
			for _, reason := range predictions[0].Why {
				said = append(said, reason.What)
			}
			more := fmt.Sprintf("; and %d more Subscriptions", n-maxOthers)
			assert.Contains(t, said, fmt.Sprintf("Subscription tide-%d is for package \"tide\", too", maxOthers-1)+more)
			if channel == "none" {
				assert.Contains(t, said[len(said)-1], "cannot resolve Subscription tide-")
				assert.Contains(t, said[len(said)-1], more)
			}
		})
	}
}
