package adoption

import (
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/drivers/predecessor"
)

// TestRefusal: an administrator's decision against a hand-over is no fault, and any other refusal is.
func TestRefusal(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*input)
		stage  predecessor.Stage
		says   []string
	}{
		{"an unmanaged driver", func(in *input) { in.old[0].ManagementState = operatorv1.Unmanaged }, predecessor.Declined, []string{"Unmanaged", "(decide what becomes of the driver"}},
		{"a ClusterExtension", func(in *input) { *in = *healthyExtension(); in.bySuccessor = true }, predecessor.Declined, []string{"ClusterExtension boat", "(hand it over with `berth adopt apply boat`"}},
		{"a failed ClusterServiceVersion", func(in *input) { in.versions[0].Status.Phase = v1alpha1.CSVPhaseFailed }, predecessor.Refused, []string{"Failed", "(find out why"}},
		{"both", func(in *input) {
			in.versions[0].Status.Phase, in.old[0].ManagementState = v1alpha1.CSVPhaseFailed, operatorv1.Removed
		}, predecessor.Declined, []string{"Failed", "Removed"}},
	} {
		in := healthy()
		in.bySuccessor = true
		in.storage.Status.Conditions = nil // it does not wait for itself
		if p := in.plan(); !p.Checks.Safe() {
			t.Fatalf("a healthy driver: %+v", p.Checks)
		}
		tc.change(in)
		got := refusal(in.plan().Checks)
		if got.Stage != tc.stage || got.Again {
			t.Errorf("%s: got %+v, want stage %s", tc.name, got, tc.stage)
		}
		for _, fragment := range tc.says {
			assert.Containsf(t, got.Message, fragment, "%s: message", tc.name)
		}
	}
}

// TestManySubscriptions: users may write any number of Subscriptions, and neither a plan nor a message grows with it.
func TestManySubscriptions(t *testing.T) {
	in := healthy()
	for i := range 10_000 {
		s := v1alpha1.Subscription{}
		s.Namespace, s.Name = fmt.Sprintf("project-%d", i), "boat"
		in.subscriptions = append(in.subscriptions, s)
	}
	for _, c := range in.plan().Checks {
		assert.LessOrEqualf(t, len(c.What), 500, "bytes of check %s", c.Code)
		if c.Code == subscriptions && !strings.HasSuffix(c.What, "project-4/boat, and 9995 others") {
			t.Errorf("it says %q, want that there are 9995 others", c.What)
		}
	}
}
