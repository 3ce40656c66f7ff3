package refusal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/olm/featuregates"
)

const allNamespaces = v1alpha1.InstallModeTypeAllNamespaces

// bundle is one that OLM installs, with changes.
func bundle(change func(*Bundle)) *Bundle {
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Spec.InstallModes = modes(allNamespaces)
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "tug"}}
	b := &Bundle{Name: "tug.v1.0.0", Version: "1.0.0", Package: "tug", CSV: csv}
	change(b)
	return b
}

func modes(supported ...v1alpha1.InstallModeType) (all []v1alpha1.InstallMode) {
	for _, of := range []v1alpha1.InstallModeType{allNamespaces, v1alpha1.InstallModeTypeOwnNamespace, v1alpha1.InstallModeTypeSingleNamespace, v1alpha1.InstallModeTypeMultiNamespace} {
		all = append(all, v1alpha1.InstallMode{Type: of, Supported: slices.Contains(supported, of)})
	}
	return all
}

func webhook(of v1alpha1.WebhookAdmissionType, name string) v1alpha1.WebhookDescription {
	return v1alpha1.WebhookDescription{Type: of, GenerateName: name, DeploymentName: "tug"}
}

// TestOf: the refusals that do not depend on the cluster. Suite olm-v1-predictions compares them with the real program.
func TestOf(t *testing.T) {
	with := func(webhooks ...v1alpha1.WebhookDescription) func(*Bundle) {
		return func(b *Bundle) { b.CSV.Spec.WebhookDefinitions = webhooks }
	}
	supporting := func(supported ...v1alpha1.InstallModeType) func(*Bundle) {
		return func(b *Bundle) { b.CSV.Spec.InstallModes = modes(supported...) }
	}
	for name, test := range map[string]struct {
		change   func(*Bundle)
		settings string // of gates
		config   string
		want     string // in the message; "" if OLM installs it
		code     Code
	}{
		"nothing": {change: func(*Bundle) {}},
		"API services": {change: func(b *Bundle) {
			b.CSV.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Name: "tugs"}}
		}, want: "apiServiceDefintions are not supported", code: APIService},
		"webhooks": {change: with(webhook(v1alpha1.ValidatingAdmissionWebhook, "tug.example.com"))},
		"webhooks without certificates": {change: with(webhook(v1alpha1.ValidatingAdmissionWebhook, "tug.example.com")), settings: featuregates.All(false),
			want: "webhookDefinitions are not supported", code: Webhook},
		"own namespace":               {change: supporting(v1alpha1.InstallModeTypeOwnNamespace), want: "does not support AllNamespaces", code: InstallMode},
		"own namespace, by the gate":  {change: supporting(v1alpha1.InstallModeTypeOwnNamespace), settings: featuregates.All(true), want: `required field "watchNamespace" is missing`, code: Configuration},
		"own namespace, as wanted":    {change: supporting(v1alpha1.InstallModeTypeOwnNamespace), settings: featuregates.All(true), config: `{"watchNamespace": "harbour"}`},
		"own namespace, another":      {change: supporting(v1alpha1.InstallModeTypeOwnNamespace), settings: featuregates.All(true), config: `{"watchNamespace": "sea"}`, want: `must be "harbour"`, code: Configuration},
		"single namespace, as wanted": {change: supporting(v1alpha1.InstallModeTypeSingleNamespace), settings: featuregates.All(true), config: `{"watchNamespace": "sea"}`},
		"single namespace, its own":   {change: supporting(v1alpha1.InstallModeTypeSingleNamespace), settings: featuregates.All(true), config: `{"watchNamespace": "harbour"}`, want: `must be different from "harbour"`, code: Configuration},
		"several namespaces":          {change: supporting(v1alpha1.InstallModeTypeMultiNamespace), settings: featuregates.All(true), want: "at least one of [AllNamespaces", code: InstallMode},
		"an unknown field":            {change: func(*Bundle) {}, config: `{"replicas": 2}`, want: `unknown field "replicas"`, code: Configuration},
		"a field without its gate":    {change: func(*Bundle) {}, config: `{"deploymentConfig": {}}`, want: `unknown field "deploymentConfig"`, code: Configuration},
		"a field with its gate":       {change: func(*Bundle) {}, settings: featuregates.All(true), config: `{"deploymentConfig": {"nodeSelector": {"a": "b"}, "env": [{"name": "A", "value": "b"}]}}`},
		"a field of another type":     {change: func(*Bundle) {}, settings: featuregates.All(true), config: `{"deploymentConfig": {"nodeSelector": {"a": 1}}}`, want: "invalid type for field \"deploymentConfig.nodeSelector.a\": got number, want string", code: Configuration},
		"a list that is none":         {change: func(*Bundle) {}, config: `[]`, want: "invalid type: got array, want object", code: Configuration},
		"two Deployments of a name": {change: func(b *Bundle) {
			b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "tug"}, {Name: "tug"}}
		}, want: "duplicate strategy deployment spec 'tug'", code: Invalid},
		"a name": {change: func(b *Bundle) {
			b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name = "Tug"
		}, want: "invalid cluster service version strategy deployment name 'Tug': ", code: Invalid},
		"a missing CRD": {change: func(b *Bundle) {
			b.CSV.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "tugs.example.com"}}
		}, want: "'tugs.example.com' not found in bundle", code: Invalid},
		"no package":           {change: func(b *Bundle) { b.Package = "" }, want: "package name is empty", code: Invalid},
		"an unsupported kind":  {change: func(b *Bundle) { b.Others = []*unstructured.Unstructured{object("batch/v1", "Job", "", "tow")} }, want: `unsupported resource "tow" with kind "Job"`, code: Kind},
		"a webhook of nothing": {change: with(v1alpha1.WebhookDescription{Type: v1alpha1.MutatingAdmissionWebhook, GenerateName: "tug", DeploymentName: "boat"}), want: "references non-existent deployment 'boat'", code: Invalid},
		"a webhook for all groups": {change: func(b *Bundle) {
			w := webhook(v1alpha1.MutatingAdmissionWebhook, "tug")
			w.Rules = []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}}}}
			b.CSV.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{w}
		}, want: `cannot reference API group "*"`, code: Invalid},
		"two webhooks of a name":               {change: with(webhook(v1alpha1.MutatingAdmissionWebhook, "tug"), webhook(v1alpha1.MutatingAdmissionWebhook, "tug")), want: "duplicate webhook 'tug' of type 'MutatingAdmissionWebhook'", code: Invalid},
		"two webhooks of a name and two types": {change: with(webhook(v1alpha1.MutatingAdmissionWebhook, "tug"), webhook(v1alpha1.ValidatingAdmissionWebhook, "tug"))},
		"a conversion of others' CRDs": {change: func(b *Bundle) {
			w := webhook(v1alpha1.ConversionWebhook, "tug")
			w.ConversionCRDs = []string{"boats.example.com"}
			b.CSV.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{w}
		}, want: "'boats.example.com' not owned bundle", code: Invalid},
		"a conversion in one namespace": {change: func(b *Bundle) {
			b.CSV.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{webhook(v1alpha1.ConversionWebhook, "tug")}
			b.CSV.Spec.InstallModes = modes(allNamespaces, v1alpha1.InstallModeTypeOwnNamespace)
		}, want: "supports install modes [AllNamespaces OwnNamespace]", code: ConversionWebhook},
		"an object twice": {change: func(b *Bundle) {
			b.CSV.Spec.InstallStrategy.StrategySpec.Permissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "tug"}, {ServiceAccountName: "tug"}}
			b.Others = []*unstructured.Unstructured{object("v1", "ServiceAccount", "", "tug")}
		}, want: "1 error occurred:\n\t* serviceaccounts \"tug\" already exists\n\n", code: Twice},
		"an object twice, with Boxcutter": {settings: "BoxcutterRuntime=true", change: func(b *Bundle) {
			b.CSV.Spec.InstallStrategy.StrategySpec.Permissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "tug"}}
			b.Others = []*unstructured.Unstructured{object("v1", "ServiceAccount", "", "tug")}
		}, want: `revision validation error: revision "tug-`, code: Twice},
		"what is only described is not checked": {change: func(b *Bundle) { b.Described, b.Package = true, "" }},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(test.change)
			r := request(t, test.settings)
			if test.config != "" {
				r.Configured, r.Config = true, json.RawMessage(test.config)
			}
			all := Of(b, r)
			said := Message(b, all)
			if (test.want == "") != (said == "") || !strings.Contains(said, test.want) {
				t.Fatalf("got %q, want %q in it", said, test.want)
			}
			if test.want == "" {
				return
			}
			if first := First(all); first.step != stepRollout && !strings.HasPrefix(said, `error for resolved bundle "tug.v1.0.0" with version "1.0.0": `) {
				t.Errorf("got %q, want the bundle's name and version before it", said)
			}
			if all[0].Code != test.code || (Reason(all) == InvalidConfiguration) != (test.code == Configuration) || all[0].What == "" || all[0].Do == "" {
				t.Errorf("got %+v, want %s", all[0], test.code)
			}
		})
	}
}

func request(t *testing.T, settings string) *Request {
	t.Helper()
	set, err := featuregates.Of(featuregates.Latest)
	if err == nil {
		set, err = set.With(settings)
	}
	require.NoError(t, err)
	return &Request{Gates: set, Name: "tug", Namespace: "harbour"}
}

// TestMessageIsCut: a condition has at most 32 KiB.
func TestMessageIsCut(t *testing.T) {
	b := bundle(func(b *Bundle) {
		for range 500 {
			b.Others = append(b.Others, object("batch/v1", "Job", "", strings.Repeat("tow", 40)))
		}
	})
	if said := Message(b, Of(b, request(t, ""))); len(said) != conditionLimit || !strings.HasSuffix(said, cut) {
		t.Errorf("got %d bytes that end in %q", len(said), said[len(said)-30:])
	}
}

// TestRepeatedWebhookRules: a rule is refused for each of its groups and each of its resources, and a condition shows only the first.
func TestRepeatedWebhookRules(t *testing.T) {
	of := func(n int) []Refusal {
		guarding := webhook(v1alpha1.ValidatingAdmissionWebhook, "tug.example.com")
		guarding.Rules = []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{
			APIGroups: slices.Repeat([]string{"admissionregistration.k8s.io"}, n), Resources: slices.Repeat([]string{"mutatingwebhookconfigurations"}, n)}}}
		return Of(bundle(func(b *Bundle) { b.CSV.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{guarding} }), request(t, ""))
	}
	assert.Len(t, of(20), 400)
	all := of(300)
	assert.Less(t, len(all), 2*enough)
	assert.Len(t, Message(&Bundle{}, all), conditionLimit)
}

// TestLongWebhookNames: each refusal about a conversion webhook names it, and there is one for each definition.
func TestLongWebhookNames(t *testing.T) {
	long := strings.Repeat("t", 2*conditionLimit)
	for _, hooks := range []int{1, 2} {
		b := bundle(func(b *Bundle) {
			for range hooks {
				converting := webhook(v1alpha1.ConversionWebhook, long)
				for i := range 2 * enough {
					converting.ConversionCRDs = append(converting.ConversionCRDs, fmt.Sprintf("a%d.example.com", i))
				}
				b.CSV.Spec.WebhookDefinitions = append(b.CSV.Spec.WebhookDefinitions, converting)
			}
		})
		all := Of(b, request(t, ""))
		said := 0
		for _, r := range all {
			said += len(r.Text) + len(r.What)
		}
		assert.Less(t, said, 2*enough*2*conditionLimit)
		assert.Len(t, Message(b, all), conditionLimit)
	}
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// fakeCluster has these objects, and serves all kinds except monitoring's.
type fakeCluster []*unstructured.Unstructured

func (c fakeCluster) Serves(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	return kind.Group != "monitoring.coreos.com" && kind.Version != "v1beta1", nil
}

func (c fakeCluster) Find(_ context.Context, o Object) (*unstructured.Unstructured, error) {
	for _, has := range c {
		if has.GroupVersionKind() == o.GroupVersionKind && has.GetNamespace() == o.Namespace && has.GetName() == o.Name {
			return has, nil
		}
	}
	return nil, nil
}

// definitionOf is a CustomResourceDefinition whose objects have a field of a type.
func definitionOf(kind string) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.APIVersion, d.Kind, d.Name = "apiextensions.k8s.io/v1", crdKind, "tugs.example.com"
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"power": {Type: kind}}}}}}
	return d
}

// TestIn: the refusals that depend on the cluster.
func TestIn(t *testing.T) {
	with := func(o *unstructured.Unstructured) func(*Bundle) {
		return func(b *Bundle) { b.Others = []*unstructured.Unstructured{o} }
	}
	ours := object("v1", "ConfigMap", "harbour", "lights")
	ours.SetLabels(map[string]string{managedByLabel: "Helm"})
	ours.SetAnnotations(map[string]string{releaseNameAnnotation: "tug", releaseNamespaceAnnotation: "harbour"})
	theirs := ours.DeepCopy()
	theirs.SetAnnotations(map[string]string{releaseNameAnnotation: "barge", releaseNamespaceAnnotation: "harbour"})
	lights := object("v1", "ConfigMap", "", "lights")
	for name, test := range map[string]struct {
		change   func(*Bundle)
		cluster  fakeCluster
		settings string
		want     string
		code     Code
	}{
		"nothing exists":     {change: with(lights)},
		"an object exists":   {change: with(lights), cluster: fakeCluster{object("v1", "ConfigMap", "harbour", "lights")}, want: `ConfigMap 'lights' already exists in namespace 'harbour' and cannot be managed by operator-controller`, code: Existing},
		"it is ours":         {change: with(lights), cluster: fakeCluster{ours}},
		"it is another's":    {change: with(lights), cluster: fakeCluster{theirs}, want: `ConfigMap 'lights' already exists`, code: Existing},
		"a Deployment":       {change: func(*Bundle) {}, cluster: fakeCluster{object("apps/v1", "Deployment", "harbour", "tug")}, want: `Deployment 'tug' already`, code: Existing},
		"Boxcutter collides": {change: with(lights), cluster: fakeCluster{ours}, settings: "BoxcutterRuntime=true", want: "revision object collisions in phase 0", code: Existing},
		"a phase later":      {change: with(lights), cluster: fakeCluster{object("apps/v1", "Deployment", "harbour", "tug")}, settings: "BoxcutterRuntime=true", want: "revision object collisions in phase 1", code: Existing},
		"an old CRD": {change: func(b *Bundle) {
			d := definitionOf("string")
			d.APIVersion = "apiextensions.k8s.io/v1beta1"
			b.CRDs = []*apiextensionsv1.CustomResourceDefinition{d}
		}, want: `no matches for kind "CustomResourceDefinition" in version "apiextensions.k8s.io/v1beta1"`, code: API},
		"an old CRD, with Boxcutter": {settings: "BoxcutterRuntime=true", change: func(b *Bundle) {
			d := definitionOf("string")
			d.APIVersion = "apiextensions.k8s.io/v1beta1"
			b.CRDs = []*apiextensionsv1.CustomResourceDefinition{d}
		}},
		"an API is missing": {change: with(object("monitoring.coreos.com/v1", "ServiceMonitor", "", "tug")), want: `no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"`, code: API},
		"a CRD changes":     {change: func(b *Bundle) { b.CRDs = []*apiextensionsv1.CustomResourceDefinition{definitionOf("integer")} }, cluster: fakeCluster{installed(t, definitionOf("string"))}, want: "validating upgrade for CRD \"tugs.example.com\": v1: ^.power: type", code: Definition},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle(test.change)
			all, err := In(t.Context(), test.cluster, b, nil, request(t, test.settings))
			require.NoError(t, err)
			if said := Message(b, all); (test.want == "") != (said == "") || !strings.Contains(said, test.want) {
				t.Fatalf("got %q, want %q in it", said, test.want)
			}
			if test.want != "" && all[0].Code != test.code {
				t.Errorf("got %+v, want %s", all[0], test.code)
			}
		})
	}
}

// TestRemoved: without a cluster, kinds that no Kubernetes has any more are known.
func TestRemoved(t *testing.T) {
	with := func(o *unstructured.Unstructured) func(*Bundle) {
		return func(b *Bundle) { b.Others = []*unstructured.Unstructured{o} }
	}
	old := func(b *Bundle) {
		d := definitionOf("string")
		d.APIVersion = "apiextensions.k8s.io/v1beta1"
		b.CRDs = []*apiextensionsv1.CustomResourceDefinition{d}
	}
	for name, test := range map[string]struct {
		change         func(*Bundle)
		settings       string
		text, what, do string
	}{
		"a CRD of v1beta1": {change: old, text: `no matches for kind "CustomResourceDefinition" in version "apiextensions.k8s.io/v1beta1"`,
			what: "no Kubernetes on which OLM v1 runs serves CustomResourceDefinition (apiextensions.k8s.io/v1beta1), which tug.v1.0.0 needs", do: "authors: write CustomResourceDefinition tugs.example.com for apiextensions.k8s.io/v1"},
		"Boxcutter reads it": {change: old, settings: "BoxcutterRuntime=true"},
		"a budget": {change: with(object("policy/v1beta1", "PodDisruptionBudget", "", "tug")), text: `no matches for kind "PodDisruptionBudget" in version "policy/v1beta1"`,
			what: "no Kubernetes on which OLM v1 runs serves PodDisruptionBudget (policy/v1beta1), which tug.v1.0.0 needs", do: "authors: write PodDisruptionBudget tug for policy/v1"},
		"a kind that some have": {change: with(object("monitoring.coreos.com/v1", "ServiceMonitor", "", "tug"))},
	} {
		t.Run(name, func(t *testing.T) {
			all := Removed(bundle(test.change), request(t, test.settings))
			if test.what == "" {
				assert.Empty(t, all, "refused")
				return
			}
			if len(all) != 1 || !strings.Contains(all[0].Text, test.text) || all[0].What != test.what || all[0].Do != test.do || all[0].Code != API {
				t.Errorf("got %+v\nwant one with %s; %s; %s", all, test.text, test.what, test.do)
			}
		})
	}
}

// installed is a CustomResourceDefinition in a cluster, which belongs to the ClusterExtension.
func installed(t *testing.T, d *apiextensionsv1.CustomResourceDefinition) *unstructured.Unstructured {
	t.Helper()
	d.APIVersion, d.Kind = "apiextensions.k8s.io/v1", crdKind
	d.Labels = map[string]string{managedByLabel: "Helm"}
	d.Annotations = map[string]string{releaseNameAnnotation: "tug", releaseNamespaceAnnotation: "harbour"}
	data, err := json.Marshal(d)
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(data, &o.Object))
	return o
}

// TestBetween: an update that changes a CustomResourceDefinition.
func TestBetween(t *testing.T) {
	of := func(kind string) *Bundle {
		return bundle(func(b *Bundle) { b.CRDs = []*apiextensionsv1.CustomResourceDefinition{definitionOf(kind)} })
	}
	r := request(t, "")
	if all, err := Between(of("string"), of("string"), r); err != nil || len(all) != 0 {
		t.Errorf("got %+v, error %v, want nothing", all, err)
	}
	if all, err := Between(of("string"), of("integer"), r); err != nil || len(all) != 1 || all[0].Code != Definition {
		t.Errorf("got %+v, error %v, want one refusal", all, err)
	}
	bare := of("string")
	bare.CRDs[0].Spec.Versions[0].Schema = nil
	if all, err := Between(of("string"), bare, r); err != nil || len(all) != 1 || !strings.Contains(all[0].What, "cannot be compared") {
		t.Errorf("got %+v, error %v, want one refusal without a schema", all, err)
	}
	r.UnsafeDefinitions = true
	if all, err := Between(of("string"), of("integer"), r); err != nil || len(all) != 0 {
		t.Errorf("got %+v, error %v, want nothing if the check is off", all, err)
	}
}
