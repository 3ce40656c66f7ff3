package olmv1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/migrate/move"
)

// movedPackages are the packages of community operators whose latest version is moved: of many makers and shapes, and small enough for all to
// be in one catalog.
var movedPackages = strings.Fields(`ack-s3-controller apicurio-registry aws-efs-operator cass-operator-community cockroachdb external-secrets-operator
flux-operator grafana-operator group-sync-operator kepler-operator keycloak-operator konveyor-operator mariadb-operator rabbitmq-cluster-operator
snapscheduler strimzi-kafka-operator zookeeper-operator`)

// publicShapes are the operators of these packages; none without a folder with them.
func publicShapes(t *testing.T) (all []*shape) {
	t.Helper()
	if os.Getenv(programs.OperatorsVariable) == "" {
		return nil
	}
	for _, p := range readPackages(t, movedPackages, 1) {
		all = append(all, p.shape(t))
	}
	if want := 10; len(all) < want {
		t.Errorf("%s has %d of the packages %q, want at least %d", programs.OperatorsVariable, len(all), movedPackages, want)
	}
	return all
}

// shape is the latest version of a package, with the objects of its folder.
func (p *public) shape(t *testing.T) *shape {
	t.Helper()
	latest := p.versions[len(p.versions)-1]
	s := &shape{public: true, trap: trap{name: p.name, bundles: []bundle{{version: latest.number.String()}}}}
	var all parts
	for _, o := range latest.contents.Objects {
		switch o.GetKind() {
		case v1alpha1.ClusterServiceVersionKind:
			all.csv = &v1alpha1.ClusterServiceVersion{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Unstructured.Object, all.csv), filepath.Join(p.name, o.File))
		case "CustomResourceDefinition":
			all.crds = append(all.crds, o.Unstructured.Object)
		default:
			all.objects = append(all.objects, o.Unstructured.Object)
		}
	}
	deployments := all.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range deployments { // a process node runs no operating system
		deployments[i].Spec.Template.Spec.Affinity, deployments[i].Spec.Template.Spec.NodeSelector = nil, nil
	}
	s.named = all.csv.Name
	s.bundles[0].change = func(made *parts) { made.csv, made.crds, made.objects = all.csv, all.crds, all.objects }
	supports := func(mode v1alpha1.InstallModeType) bool {
		return slices.ContainsFunc(all.csv.Spec.InstallModes, func(m v1alpha1.InstallMode) bool { return m.Type == mode && m.Supported })
	}
	if !supports(allNamespaces) {
		s.targets = []string{p.name}
	}
	return s
}

func hasWebhooks(s *shape) bool { return len(s.parts(s.installed()).csv.Spec.WebhookDefinitions) > 0 }

// runElsewhere makes process nodes run the operators: a real node lacks their images. A process node only reports its containers as
// running.
func runElsewhere(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	nodes := &corev1.NodeList{}
	require.NoError(t, c.Client().List(t.Context(), nodes))
	for _, n := range nodes.Items {
		changed := n.DeepCopy()
		if n.Name == cluster.RealNode(0) {
			changed.Spec.Unschedulable = true
		} else {
			changed.Spec.Taints = nil
		}
		require.NoError(t, c.Client().Patch(t.Context(), changed, client.MergeFrom(&n)))
	}
}

// logRefusals logs the reasons for which a plan refuses a public operator.
func (m *mover) logRefusals(t *testing.T, p *move.Plan) {
	var codes []string
	for _, c := range p.Checks {
		if c.Verdict == findings.Refused {
			t.Logf("refused: %s; do: %s", c.What, c.Do)
			codes = append(codes, c.Code)
		}
	}
	slices.Sort(codes)
	m.result = "refused: " + strings.Join(slices.Compact(codes), ", ")
}

// createIfValid creates an object of a public API with the fields that its schema requires. Some schemas also have rules that such values do
// not meet; then there is no object.
func (m *mover) createIfValid(t *testing.T, object *unstructured.Unstructured, schema fields) {
	t.Helper()
	for name, value := range valueOf(schema).(fields) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			object.Object[name] = value
		}
	}
	err := m.Client().Create(t.Context(), object)
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsInternalError(err) {
		t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	if err != nil {
		t.Logf("no object of %s: %v", object.GetKind(), err)
	}
}

// valueOf returns a value of a schema, with required fields only.
func valueOf(schema fields) any {
	for _, given := range []string{"default", "example"} {
		if value, has := schema[given]; has {
			return value
		}
	}
	if values, _ := schema["enum"].([]any); len(values) > 0 {
		return values[0]
	}
	switch schema["type"] {
	case "string":
		least, _ := schema["minLength"].(int64)
		return strings.Repeat("a", max(1, int(least)))
	case "integer":
		least, _ := schema["minimum"].(int64)
		return max(1, least)
	case "number":
		return float64(1)
	case "boolean":
		return true
	case "array":
		items, _ := schema["items"].(fields)
		least, _ := schema["minItems"].(int64)
		list := []any{}
		for range least {
			list = append(list, valueOf(items))
		}
		return list
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return int64(1)
	}
	value := fields{}
	properties, _ := schema["properties"].(fields)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if of, is := properties[fmt.Sprint(name)].(fields); is {
			value[fmt.Sprint(name)] = valueOf(of)
		}
	}
	return value
}

// TestValueOf: a value has the required fields of its schema, and no others.
func TestValueOf(t *testing.T) {
	schema := fields{"type": "object", "required": []any{"name", "sizes", "mode"}, "properties": fields{
		"name": fields{"type": "string", "minLength": int64(2)}, "mode": fields{"type": "string", "enum": []any{"fast", "slow"}}, "left": text,
		"sizes": fields{"type": "array", "minItems": int64(1), "items": fields{"type": "object", "required": []any{"gigabytes"}, "properties": fields{"gigabytes": fields{"type": "integer", "minimum": int64(3)}}}},
	}}
	got := fmt.Sprint(valueOf(schema))
	assert.Equal(t, "map[mode:fast name:aa sizes:[map[gigabytes:3]]]", got)
}
