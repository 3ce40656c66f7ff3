package catalogsource

import (
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
)

func TestReachable(t *testing.T) {
	for state, want := range map[string]bool{
		"READY": true, "IDLE": true,
		"CONNECTING": false, "TRANSIENT_FAILURE": false, "SHUTDOWN": false, "": false,
	} {
		source := &v1alpha1.CatalogSource{Status: v1alpha1.CatalogSourceStatus{
			GRPCConnectionState: &v1alpha1.GRPCConnectionState{LastObservedState: state}}}
		assert.Equalf(t, want, Reachable(source), "in state %q", state)
	}
	if source := (&v1alpha1.CatalogSource{}); Reachable(source) || ConnectionState(source) != NotConnected {
		t.Errorf("before OLM has tried to connect: reachable is %t, the state is %q", Reachable(source), ConnectionState(source))
	}
}
