package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/test/hostile"
)

// A place is a judgement with an object that has all the fields that it shows.
type place struct {
	object string
	judge  func(data []byte) ([]findings.Check, error)
}

// judged returns a place of a judgement about a type of objects.
func judged[T any](object string, judge func(*T) []findings.Check) place {
	return place{object, func(data []byte) ([]findings.Check, error) {
		read := new(T)
		if err := json.Unmarshal(data, read); err != nil {
			return nil, err
		}
		return judge(read), nil
	}}
}

var places = map[string]place{
	"OLM": judged(`{"metadata":{"name":"operator-lifecycle-manager"},"status":{"conditions":[{"type":"Available","status":"False","reason":"r","message":"m"}]}}`,
		func(o *configv1.ClusterOperator) []findings.Check { return judgeOLM([]configv1.ClusterOperator{*o}) }),
	"Subscription": judged(`{"metadata":{"namespace":"ns","name":"s"},"spec":{"name":"p","channel":"c","source":"s","sourceNamespace":"m","installPlanApproval":"Manual"},
		"status":{"state":"UpgradePending","installedCSV":"i","currentCSV":"c","installPlanRef":{"name":"plan"},"conditions":[{"type":"ResolutionFailed","status":"True","reason":"r","message":"m"}]}}`,
		func(s *v1alpha1.Subscription) []findings.Check {
			kept := trimmed(*s)
			return append(judgeSubscription(&kept), judgeSource(&kept, nil))
		}),
	"nothing installed": judged(`{"metadata":{"namespace":"ns","name":"s"},"spec":{"name":"p","channel":"c","source":"s","sourceNamespace":"m"}}`, judgeSubscription),
	"CatalogSource": judged(`{"metadata":{"namespace":"ns","name":"s"},"status":{"message":"m","connectionState":{"lastObservedState":"TRANSIENT_FAILURE"}}}`,
		func(s *v1alpha1.CatalogSource) []findings.Check {
			return []findings.Check{judgeSource(&v1alpha1.Subscription{Spec: &v1alpha1.SubscriptionSpec{CatalogSource: s.Name, CatalogSourceNamespace: s.Namespace}}, s)}
		}),
	"OperatorGroup": judged(`{"metadata":{"namespace":"ns","name":"g"},"spec":{"targetNamespaces":["a"]}}`,
		func(g *operatorsv1.OperatorGroup) []findings.Check {
			return []findings.Check{judgeGroups(g.Namespace, []operatorsv1.OperatorGroup{*g}), judgeGroups(g.Namespace, []operatorsv1.OperatorGroup{*g, *g})}
		}),
	"ClusterServiceVersion": judged(`{"metadata":{"namespace":"ns","name":"v"},"status":{"phase":"Failed","reason":"r","message":"m"}}`,
		func(v *v1alpha1.ClusterServiceVersion) []findings.Check { return []findings.Check{judgeCSV(v)} }),
	"ClusterExtension": judged(`{"metadata":{"name":"e"},"spec":{"namespace":"ns"},"status":{"install":{"bundle":{"name":"b"}},"conditions":[{"type":"Installed","status":"False","reason":"r","message":"m"}]}}`,
		func(fields *map[string]any) []findings.Check {
			return judgeExtensions(&examinedDriver{location: &location{extensions: []*unstructured.Unstructured{{Object: *fields}}}})
		}),
	"ClusterCSIDriver": judged(`{"metadata":{"name":"d"},"spec":{"managementState":"Odd"},"status":{"conditions":[{"type":"XDegraded","status":"True","reason":"r","message":"m"},{"type":"Y","status":"False","reason":"r","message":"m"}]}}`,
		func(custom *operatorv1.ClusterCSIDriver) []findings.Check {
			return judgeCustomResource(custom.Name, custom, false)
		}),
	"CredentialsRequest": judged(`{"metadata":{"namespace":"ns","name":"r"},"status":{"conditions":[{"type":"T","status":"True","reason":"r","message":"m"}]}}`,
		func(fields *map[string]any) []findings.Check {
			return []findings.Check{judgeCredentials(&unstructured.Unstructured{Object: *fields})}
		}),
	"StorageClasses": judged(`{"metadata":{"name":"c","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}`,
		func(c *storagev1.StorageClass) []findings.Check {
			return []findings.Check{judgeDefaultClass([]storagev1.StorageClass{*c, *c})}
		}),
	"Node": judged(`{"key":"k","name":"n"}`, func(of *map[string]string) []findings.Check {
		name := []string{(*of)["name"]}
		return append(judgeTaints((*of)["key"], name),
			registrations{want: 2, known: []string{"other"}, missing: name}.judge((*of)["key"]), registrations{want: 1, reported: name}.judge((*of)["key"]))
	}),
	"workload": judged(`{"kind":"DaemonSet","namespace":"ns","name":"w","trouble":"t"}`, func(of *map[string]string) (results []findings.Check) {
		w := workload{kind: (*of)["kind"], namespace: (*of)["namespace"], name: (*of)["name"], want: 1, observed: true}
		results = append(results, w.judge(nil), w.judge([]string{(*of)["trouble"]}))
		w.want = 0
		return append(results, w.judge(nil))
	}),
	"Namespace": judged(`{"name":"n"}`, func(of *map[string]string) []findings.Check {
		return []findings.Check{judgeMonitoring((*of)["name"], nil)}
	}),
}

// TestHostileFields puts hostile texts into each field that doctor reads, one at a time: the report shows them as they are, and a shell starts no
// program of theirs in the commands of its advice.
func TestHostileFields(t *testing.T) {
	for name, place := range places {
		var object any
		require.NoError(t, json.Unmarshal([]byte(place.object), &object))
		for _, text := range []string{hostile.Short(), hostile.Long()} {
			fields := hostile.Each(&object, text, func(path string) {
				if strings.HasSuffix(path, " as the key") {
					return // the API server knows all names of fields
				}
				data, err := json.Marshal(object)
				require.NoError(t, err)
				results, err := place.judge(data)
				if err != nil {
					return // no such object can be read
				}
				report := &Report{Cluster: []Section{{Subject: "s", Results: results}}}
				hostile.Check(t, fmt.Sprintf("%s, with a hostile %s", name, path), report.Text(findings.Plain), 64<<10)
			})
			if fields == 0 {
				t.Errorf("%s: there are no fields", name)
			}
		}
	}
}
