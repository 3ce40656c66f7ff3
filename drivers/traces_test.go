package drivers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

// TestEachDriverHasTraces: without traces nobody could find the driver of an earlier operator.
func TestEachDriverHasTraces(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		traces, err := d.Traces()
		require.NoError(t, err)
		accounts := map[string]bool{}
		for _, trace := range traces {
			for _, account := range trace.Accounts {
				accounts[account] = true
			}
		}
		for _, m := range drivers.OfKind(manifests, "ServiceAccount") {
			assert.Truef(t, accounts[m.Object.GetName()], "no trace names the service account %s", m.Object.GetName())
		}
	})
}

func TestAccountsIn(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"users": []any{"system:admin", "system:serviceaccount:a:node", "system:serviceaccount:b", "serviceaccount:c:node", "system:serviceaccount:d:x:y"},
		"subjects": []any{
			map[string]any{"kind": "ServiceAccount", "namespace": "e", "name": "node"},
			map[string]any{"kind": "User", "name": "system:serviceaccount:f:node"},
			"garbage",
		},
	}}
	want := []drivers.Account{{Namespace: "a", Name: "node"}, {Namespace: "d", Name: "x:y"}, {Namespace: "e", Name: "node"}}
	assert.Empty(t, cmp.Diff(want, drivers.AccountsIn(object)), "accounts (-want +got)")
}
