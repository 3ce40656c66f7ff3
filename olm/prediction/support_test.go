package prediction

import (
	"path/filepath"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestSupport: a prediction gives the support of the version at which updates end, and warns if that has ended, or if the version
// does not run on the cluster's OpenShift.
func TestSupport(t *testing.T) {
	const phases = "  phases: [{name: Full support, startDate: '2024-01-01', endDate: '2024-12-31'}]\n"
	const head = "schema: io.openshift.operators.lifecycles.v1alpha1\npackage: tide\nversions:\n- name: '1.0'\n" + phases
	const runsOn = "  platformCompatibility: [{name: openshift, versions: ['4.22', '4.23']}]\n"
	for name, test := range map[string]struct {
		lifecycle, openShift string
		today                lifecycle.Date
		wantSaid             string
		want                 []Code
	}{
		"no lifecycle":               {"", "4.22.3", "2025-01-01", "", nil},
		"supported":                  {head, "", "2024-12-31", "Full support until 2024-12-31", nil},
		"ended":                      {head, "", "2025-01-01", "ended on 2024-12-31", []Code{SupportEnded}},
		"of another version":         {"schema: io.openshift.operators.lifecycles.v1alpha1\npackage: tide\nversions:\n- name: '1.1'\n" + phases, "", "2025-01-01", "", nil},
		"two lifecycles":             {head + "---\n" + head, "", "2025-01-01", "", nil},
		"on this OpenShift":          {head + runsOn, "4.22.3", "2024-12-31", "Full support until 2024-12-31", nil},
		"5.0 is 4.23":                {head + runsOn, "5.0.1", "2024-12-31", "Full support until 2024-12-31", nil},
		"on another OpenShift":       {head + runsOn, "4.21.3", "2024-12-31", "Full support until 2024-12-31", []Code{OpenShiftUnsupported}},
		"ended on another OpenShift": {head + runsOn, "4.21.3", "2025-01-01", "ended on 2024-12-31", []Code{OpenShiftUnsupported, SupportEnded}},
		"a platform that is unknown": {head, "4.21.3", "2024-12-31", "Full support until 2024-12-31", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
				Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"}},
				Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "tide.v1.0.0", Replaces: "tide.v0.0.0"}}}},
				Bundles:  []declcfg.Bundle{catalogs.Bundle("tide", "tide.v1.0.0")},
			})
			if test.lifecycle != "" {
				catalogs.Write(t, filepath.Join(dir, "lifecycle.yaml"), test.lifecycle)
			}
			st, err := Installed(read(t, dir), "tide", "0.0.0", "")
			require.NoError(t, err)
			if st.Today = test.today; test.openShift != "" {
				version := semver.MustParse(test.openShift)
				st.OpenShift = &version
			}
			predictions, err := st.Predict(t.Context())
			require.NoError(t, err)
			p := predictions[0]
			if name, said := p.last(); name != "tide.v1.0.0" || said.String() != test.wantSaid || p.Next.Support.String() != test.wantSaid {
				t.Errorf("%s: %s, want %s", name, said, test.wantSaid)
			}
			var got []Code
			for _, risk := range p.Risks {
				got = append(got, risk.Code)
			}
			require.Lenf(t, got, len(test.want), "risks, want %q", test.want)
			for i, want := range test.want {
				assert.Equal(t, want, got[i])
			}
		})
	}
}
