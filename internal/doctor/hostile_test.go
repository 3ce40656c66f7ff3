package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/findings"
)

// hostile is a text that starts a program in a shell, unless it is quoted as one word.
const hostile = "x; started & $(started) `started` || started # '; started; '\n started"

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

// TestHostileFields puts a hostile text into each field that doctor reads, one at a time, and lets a shell run the commands in
// doctor's advice. It finds the fields in the objects by reflection.
func TestHostileFields(t *testing.T) {
	require.True(t, starts(t, fmt.Sprintf("oc get pod %s", hostile)), "the text starts nothing even if it is not quoted: the test proves nothing")
	for name, place := range places {
		fields := 0
		var object any
		require.NoError(t, json.Unmarshal([]byte(place.object), &object))
		eachField(object, func(path string) {
			fields++
			data, err := json.Marshal(object)
			require.NoError(t, err)
			results, err := place.judge(data)
			if err != nil {
				return // no such object can be read
			}
			for _, result := range results {
				for _, command := range strings.SplitAfter(result.Do, ": ") {
					if strings.Contains(command, "oc ") && starts(t, command[strings.Index(command, "oc "):]) {
						t.Errorf("%s, with a hostile %s: %q starts a program", name, path, result.Do)
					}
				}
			}
		})
		assert.NotZerof(t, fields, "%s: there are no fields", name)
	}
}

// starts reports whether a shell that runs a command starts the program of the hostile text.
func starts(t *testing.T, command string) bool {
	t.Helper()
	dir := t.TempDir()
	for program, script := range map[string]string{"started": "#!/bin/sh\n: >" + filepath.Join(dir, "ran"), "oc": "#!/bin/sh\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700))
	}
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	shell.Dir, shell.Env = dir, []string{"PATH=" + dir}
	_ = shell.Run() // it may fail: only the programs that it starts count
	_, err := os.Stat(filepath.Join(dir, "ran"))
	return err == nil
}

// eachField calls f once for each text in a value, with the hostile one in its place.
func eachField(value any, f func(path string)) {
	var walk func(any, string)
	walk = func(value any, path string) {
		switch v := value.(type) {
		case map[string]any:
			for key, of := range v {
				if text, is := of.(string); is {
					v[key] = hostile
					f(path + "." + key)
					v[key] = text
				} else {
					walk(of, path+"."+key)
				}
			}
		case []any:
			for i, of := range v {
				if text, is := of.(string); is {
					v[i] = hostile
					f(fmt.Sprintf("%s[%d]", path, i))
					v[i] = text
				} else {
					walk(of, fmt.Sprintf("%s[%d]", path, i))
				}
			}
		}
	}
	walk(value, "")
}
