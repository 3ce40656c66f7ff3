package subscription

import (
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/olm/prediction"
)

// TestUnmanagedDriver: the plan says how to be reminded of the ClusterCSIDriver, unless the alert reaches somebody anyway.
func TestUnmanagedDriver(t *testing.T) {
	for monitored, want := range map[bool]bool{false: true, true: false} {
		in := &input{State: &prediction.State{Namespace: "harbour"},
			subscription: &v1alpha1.Subscription{}, driver: &observedDriver{Driver: drivers.Driver{CSIName: "x.csi.example.com"}, monitored: monitored}}
		checks := in.checkRest(&Plan{}, false)
		if len(checks) != 1 || checks[0].Code != driverUnmanaged {
			t.Fatalf("the checks are %+v, want just %s", checks, driverUnmanaged)
		}
		if got := strings.Contains(checks[0].Do, "oc label namespace harbour openshift.io/cluster-monitoring=true"); got != want {
			t.Errorf("monitored: %v: the plan says to do %q, want the label in it: %v", monitored, checks[0].Do, want)
		}
	}
}

// TestDeletedSubscription: a plan refuses a Subscription that is about to go.
func TestDeletedSubscription(t *testing.T) {
	in := &input{State: &prediction.State{Namespace: "harbour"}, subscription: &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "buoy"}}}
	checks := in.checkRest(&Plan{}, false)
	require.Truef(t, checks.Safe(), "the checks are %+v", checks)
	in.subscription.DeletionTimestamp, in.subscription.Finalizers = &metav1.Time{}, []string{"example.com/hold"}
	checks = in.checkRest(&Plan{}, false)
	if checks.Safe() || checks[0].Code != subscriptionDeleted || !strings.Contains(checks[0].What, "example.com/hold") {
		t.Errorf("the checks are %+v, want %s refused", checks, subscriptionDeleted)
	}
}
