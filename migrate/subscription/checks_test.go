package subscription

import (
	"strings"
	"testing"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/olm/prediction"
)

// TestUnmanagedDriver: the plan says how to be reminded of the ClusterCSIDriver, unless the alert reaches somebody anyway.
func TestUnmanagedDriver(t *testing.T) {
	for monitored, want := range map[bool]bool{false: true, true: false} {
		in := &input{State: &prediction.State{Namespace: "harbour"},
			driver: &observedDriver{Driver: drivers.Driver{CSIName: "x.csi.example.com"}, monitored: monitored}}
		checks := in.checkRest(&Plan{}, false)
		if len(checks) != 1 || checks[0].Code != driverUnmanaged {
			t.Fatalf("the checks are %+v, want just %s", checks, driverUnmanaged)
		}
		if got := strings.Contains(checks[0].Do, "oc label namespace harbour openshift.io/cluster-monitoring=true"); got != want {
			t.Errorf("monitored: %v: the plan says to do %q, want the label in it: %v", monitored, checks[0].Do, want)
		}
	}
}
