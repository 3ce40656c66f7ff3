package prediction

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// real45 has the bundles of the operators of OpenShift 4.5, beside a checkout of this repository.
const real45 = "../../../shared/fixtures/olm-4.5"

// TestUpdateFromOpenShift45: OLM updates the operators of OpenShift 4.5 to ours, which have the same package names, from
// each of our catalogs and in the old operators' channel.
func TestUpdateFromOpenShift45(t *testing.T) {
	for _, pkg := range []string{"aws-ebs-csi-driver-operator", "manila-csi-driver-operator"} {
		for _, catalog := range []string{"certified", "community"} {
			c := read(t, filepath.Join("../../catalog", catalog))
			for _, channel := range []string{"preview", "stable"} {
				predict := func(t *testing.T, change func(*State)) {
					st, err := Installed(c, pkg, pkg+".v4.5.0", channel)
					require.NoError(t, err)
					change(st)
					predictions, err := st.Predict(t.Context())
					require.NoError(t, err)
					p := predictions[0]
					if p.Reaction != Updates || p.Next == nil || p.Next.Name != pkg+".v5.0.0" {
						t.Errorf("OLM %s, for the reasons %v and %v; want an update to %s.v5.0.0", p.Sentence(), p.Blockers, p.Why, pkg)
					}
				}
				name := pkg + " " + catalog + " " + channel
				t.Run(name, func(t *testing.T) { predict(t, func(*State) {}) })
				t.Run(name+" real", func(t *testing.T) {
					real := readCSV(t, filepath.Join(real45, pkg, "bundle/manifests/*clusterserviceversion.yaml"))
					predict(t, func(st *State) {
						made := st.CSVs[0]
						if real.Name != made.Name || real.Spec.Version.String() != made.Spec.Version.String() {
							t.Errorf("the real one is %s, version %s; want %s", real.Name, real.Spec.Version, made.Name)
						}
						// OLM adds the annotation, and sets the namespace and the status.
						real.Namespace, real.Status = made.Namespace, made.Status
						for key, value := range made.Annotations {
							real.Annotations[key] = value
						}
						st.CSVs[0] = real
					})
				})
			}
		}
	}
}

// readCSV reads the only file that matches a pattern. It skips the test without one.
func readCSV(t *testing.T, pattern string) *v1alpha1.ClusterServiceVersion {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	if len(files) != 1 {
		t.Skipf("%s: found %d files, want one: the bundles of OpenShift 4.5 are not part of this repository", pattern, len(files))
	}
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	csv := &v1alpha1.ClusterServiceVersion{}
	require.NoError(t, yaml.Unmarshal(data, csv))
	return csv
}
