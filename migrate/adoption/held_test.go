package adoption

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHeldRemains: whoever may write in the driver's namespace does not hold a clean-up up with a finalizer on what it has deleted. What is
// not in it is waited for.
func TestHeldRemains(t *testing.T) {
	m := remaining()
	for i := range m.leftovers {
		m.leftovers[i].object.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		m.leftovers[i].object.SetFinalizers([]string{"example.com/never"})
	}
	c := m.cleanup()
	for _, r := range c.Remains {
		assert.NotEqual(t, port, r.Namespace, "namespace of what is waited for")
	}
	if !slices.ContainsFunc(c.Remains, func(r Remain) bool { return r.Kind == "ClusterRole" }) {
		t.Error("a cluster role that goes is not waited for")
	}
}
