package prediction

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/test/hostile"
)

// TestHostileFields puts hostile texts into each field that Observe keeps of a cluster's objects, and looks at what a prediction shows of them.
func TestHostileFields(t *testing.T) {
	const limit = 20 << 10 // bytes of a line
	for name, change := range map[string]func(*State){
		"an update": func(st *State) { elsewhere(st, "Tide.v1.sea.example.com") },
		"an operator that asks to wait": func(st *State) {
			st.Conditions = []*operatorsv2.OperatorCondition{{ObjectMeta: metav1.ObjectMeta{Name: st.CSVs[0].Name, Namespace: st.Namespace},
				Status: operatorsv2.OperatorConditionStatus{Conditions: []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse, Message: "m"}}}}}
		},
		"an InstallPlan that is gone": func(st *State) {
			s := st.Subscriptions[0]
			s.Status.State, s.Status.InstallPlanRef, s.Status.CurrentCSV = v1alpha1.SubscriptionStateUpgradePending, &corev1.ObjectReference{Name: "install-1", UID: "p-1"}, "tide.v1.0.0"
		},
		"a catalog that OLM cannot reach": func(st *State) { unreachableSource(st, st.Namespace) },
		"another Subscription":            func(st *State) { other(st).Spec.InstallPlanApproval = v1alpha1.ApprovalManual },
	} {
		t.Run(name, func(t *testing.T) {
			catalog := tide(t)
			for _, text := range hostile.Texts() {
				st, err := Installed(catalog, "tide", "0.0.0", "")
				require.NoError(t, err)
				change(st)
				kept := struct {
					Subscriptions  []*v1alpha1.Subscription
					CSVs           []*v1alpha1.ClusterServiceVersion
					OperatorGroups []*operatorsv1.OperatorGroup
					Conditions     []*operatorsv2.OperatorCondition
					CatalogSources []*v1alpha1.CatalogSource
				}{st.Subscriptions, st.CSVs, st.OperatorGroups, st.Conditions, st.CatalogSources}
				for _, there := range st.WithGroup {
					kept.OperatorGroups = append(kept.OperatorGroups, there.OperatorGroups...)
				}
				n := hostile.Each(&kept, text, func(path string) {
					predictions, err := st.Predict(t.Context())
					if err != nil {
						hostile.Check(t, "the error for a hostile "+path, escape.Line(err.Error()), limit)
						return
					}
					var out, data bytes.Buffer
					require.NoError(t, errors.Join(Write(&out, "text", predictions), Write(&data, "json", predictions)))
					hostile.Check(t, "a prediction with a hostile "+path, out.String(), limit)
					// In the JSON itself, the quotes of commands are escaped once more, so it is judged as programs read it.
					if strings.ContainsFunc(data.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
						t.Errorf("a prediction as JSON, with a hostile %s, has characters that are not visible: %.500q", path, &data)
					}
					document := Document{}
					require.NoError(t, json.Unmarshal(data.Bytes(), &document))
					out.Reset()
					require.NoError(t, Write(&out, "text", document.Predictions))
					hostile.Check(t, "a prediction from JSON, with a hostile "+path, out.String(), limit)
				})
				assert.NotZero(t, n, "no field was tried")
			}
		})
	}
}
