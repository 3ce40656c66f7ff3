package permissions_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/drivers/permissions"
)

func TestCountOf(t *testing.T) {
	got := permissions.CountOf([]permissions.Rule{
		{Own: true, Resources: []string{"pods"}, Verbs: []string{"get"}},                                  // in its own namespace
		{Resources: []string{"secrets"}, Names: []string{"key"}, Verbs: []string{"get"}},                  // of one name
		{Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},                                    // wide, used
		{Resources: []string{"nodes", "events"}, Verbs: []string{"get"}, Delegated: true},                 // the first is used, too; the second is not
		{Resources: []string{"nodes"}, Names: []string{"a"}, Verbs: []string{"get"}},                      // included in another
		{Group: "apps", Resources: []string{"deployments"}, Verbs: []string{"create"}, Own: true},         // in its own namespace
		{Group: "apps", Resources: []string{"deployments"}, Names: []string{"b"}, Verbs: []string{"get"}}, // of one name
	})
	assert.Equal(t, permissions.Count{Rules: 6, Wide: 3, WideUsed: 2}, got)
}
