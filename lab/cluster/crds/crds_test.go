package crds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSets(t *testing.T) {
	for _, test := range []struct {
		set  Set
		want []string // some of them
	}{
		{OpenShift, []string{
			"clustercsidrivers.operator.openshift.io", "infrastructures.config.openshift.io",
			"securitycontextconstraints.security.openshift.io", "credentialsrequests.cloudcredential.openshift.io",
			"servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com",
		}},
		{OLM, []string{"clusterserviceversions.operators.coreos.com", "subscriptions.operators.coreos.com"}},
	} {
		path, err := test.set.Ensure(t.Context())
		require.NoError(t, err)
		definitions, err := Read(path)
		require.NoError(t, err)
		var names []string
		for _, definition := range definitions {
			names = append(names, definition.Name)
		}
		for _, name := range test.want {
			assert.Containsf(t, names, name, "%s lacks %s; it has %q", test.set.name, name, names)
		}
	}
}

// With the file in the cache, no program is run.
func TestEnsureWarm(t *testing.T) {
	cold, err := OLM.Ensure(t.Context())
	require.NoError(t, err)
	t.Setenv("PATH", t.TempDir())
	if warm, err := OLM.Ensure(t.Context()); err != nil || warm != cold {
		t.Errorf("got %q, %v; want %q", warm, err, cold)
	}
}

func TestParseRefusesWhatIsNoDefinition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.yaml")
	require.NoError(t, os.WriteFile(path, []byte("kind: ConfigMap\nmetadata: {name: x}\n"), 0o644))
	if _, err := parse(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "ConfigMap") {
		t.Errorf("got %v, want an error that names the file and what it found", err)
	}
}
