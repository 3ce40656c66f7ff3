package prediction

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestLongFaults: the author of a custom resource chooses how many faults it has, and how long the values are that these quote.
func TestLongFaults(t *testing.T) {
	var faults field.ErrorList
	for range 1000 {
		faults = append(faults, field.Invalid(field.NewPath("spec", "text"), strings.Repeat("x", 1<<20), "must be shorter"))
	}
	assert.Less(t, len(describe(faults)), 2*maxFaults*maxText)
	assert.Equal(t, "a, b and 7 more", some([]string{"a", "b"}, 9))
	assert.Equal(t, "a, b", some([]string{"a", "b"}, 2))
}
