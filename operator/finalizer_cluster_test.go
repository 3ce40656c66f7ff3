package operator_test

import (
	"fmt"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// TestStrippedFinalizerIsRestored: an administrator replaces the ClusterCSIDriver with a manifest that has no
// finalizers. The running operator adds its own again, or the driver would stay in the cluster when the
// ClusterCSIDriver is deleted. It leaves other finalizers alone.
func TestStrippedFinalizerIsRestored(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	custom := env.installDriver()
	ours := env.driver.Operator.Name + ".operator.openshift.io/uninstall"
	const theirs = "example.com/backup"
	for _, test := range []struct {
		name    string
		replace func(*operatorv1.ClusterCSIDriver)
	}{
		{"finalizers", func(custom *operatorv1.ClusterCSIDriver) { custom.Finalizers = []string{theirs} }},
		{"finalizers and annotations", func(custom *operatorv1.ClusterCSIDriver) {
			custom.Finalizers, custom.Annotations = []string{theirs}, nil
		}},
		{"finalizers, while the driver is to be removed", func(custom *operatorv1.ClusterCSIDriver) {
			custom.Finalizers, custom.Spec.ManagementState = nil, operatorv1.Removed
		}},
	} {
		annotations := custom.Annotations
		change(env, custom, test.replace)
		want := append(slices.Clone(custom.Finalizers), ours)
		env.Await(t, limit, "what was stripped to be restored: "+test.name, custom, func() error {
			if !slices.Equal(custom.Finalizers, want) {
				return fmt.Errorf("finalizers are %q, want %q", custom.Finalizers, want)
			}
			for key, value := range annotations {
				if custom.Annotations[key] != value {
					return fmt.Errorf("annotation %s is %q, want %q", key, custom.Annotations[key], value)
				}
			}
			return nil
		})
	}
	env.waitForReason(env.driver.ConditionPrefix+"UninstallProgressing", "Removed")
	env.deleteCustomResource()
	env.waitUntilRemoved()
}
