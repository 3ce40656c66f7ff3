package gates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
)

func TestParse(t *testing.T) {
	p, err := Parse([]string{"openshift-5.0", "community", "openshift-4.20", "community", "openshift-5.0"})
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff([]string{"community", "openshift-4.20", "openshift-5.0"}, p.Names()))
	for gate, want := range map[findings.Gate]bool{findings.Community: true, findings.OpenShift: true, findings.Certified: false} {
		if p.Has(gate) != want || p.Enforces(findings.Rule{Gates: []findings.Gate{findings.Konflux, gate}}) != want {
			t.Errorf("%s: %v", gate, !want)
		}
	}
	rule := findings.Rule{Gates: []findings.Gate{findings.Community}}
	if p.Severity(rule, findings.Warning) != findings.Error || (Profile{}).Severity(rule, findings.Warning) != findings.Warning {
		t.Error("a gate of the profile makes a warning an error, and no other does")
	}
}

func TestParseRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"comunity":       `there is no profile "comunity"; expected community, certified, konflux, operatorhub or openshift-4.20 with a version of OpenShift; did you mean community?`,
		"openshift":      `there is no profile "openshift"`,
		"openshift-4":    `"4" is not a version of OpenShift`,
		"openshift-4.99": "OpenShift 4.99 is not known here; expected one from 4.1 to 5.0",
	} {
		_, err := Parse([]string{name})
		assert.ErrorContains(t, err, want, name)
	}
}
