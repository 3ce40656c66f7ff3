package olmv1_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type fields = map[string]any

// trap is a ClusterExtension of a package of its own, which OLM v1 may refuse.
type trap struct {
	name string
	// bundles are the versions of the package. Each replaces the one before.
	bundles []bundle
	// installed is the version to install first, or "". The fields below are set on the ClusterExtension after that.
	installed string
	wants     fields // of spec.source.catalog
	config    any    // spec.config.inline, if it is not nil
	unsafe    bool   // the check of CRDs is off
	// vague says why OLM's message differs from time to time: it names one of several unknown fields, any of them.
	vague string
	// silent says that OLM cannot write the status, so nothing shows its action.
	silent bool
	exists []fields
}

// bundle is a version of a package: a Deployment on a process node, which reports its pods as running, a ServiceAccount with a permission, and a CRD.
type bundle struct {
	version    string
	change     func(*parts)
	deprecated string
	properties []property.Property
	release    string
	noImage    bool
}

// parts are the objects of a bundle, for a trap to change.
type parts struct {
	pkg     string // in the annotations
	csv     *v1alpha1.ClusterServiceVersion
	crds    []fields
	objects []fields
}

// group is the API group of a trap's CRDs.
func (tr *trap) group() string { return tr.name + ".example.com" }

// told returns a message without its varying parts.
func (tr *trap) told(message string) string {
	if tr.vague == "" {
		return message
	}
	return regexp.MustCompile(`unknown field "\w+"`).ReplaceAllString(message, "unknown field")
}

// parts returns the objects of a bundle.
func (tr *trap) parts(b bundle) *parts {
	labels := map[string]string{"app": tr.name}
	csv := &v1alpha1.ClusterServiceVersion{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: tr.name + ".v" + b.version},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			Version: version.OperatorVersion{Version: semver.MustParse(b.version)},
			InstallStrategy: v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
				DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: tr.name, Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec: corev1.PodSpec{ServiceAccountName: tr.name, NodeSelector: map[string]string{corev1.LabelHostname: "control-plane-0"},
							Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Containers: []corev1.Container{{Name: "operator", Image: "registry.example.com/operator:" + b.version}}}},
				}}},
				Permissions: []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: tr.name,
					Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}},
			}},
		},
	}
	p := &parts{pkg: tr.name, csv: csv}
	p.modes(v1alpha1.InstallModeTypeAllNamespaces)
	p.own(tr.crd("boats", "Boat", text))
	if b.change != nil {
		b.change(p)
	}
	return p
}

// modes sets the supported install modes.
func (p *parts) modes(supported ...v1alpha1.InstallModeType) {
	p.csv.Spec.InstallModes = nil
	for _, of := range []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeAllNamespaces, v1alpha1.InstallModeTypeOwnNamespace,
		v1alpha1.InstallModeTypeSingleNamespace, v1alpha1.InstallModeTypeMultiNamespace} {
		mode := v1alpha1.InstallMode{Type: of}
		for _, s := range supported {
			mode.Supported = mode.Supported || s == of
		}
		p.csv.Spec.InstallModes = append(p.csv.Spec.InstallModes, mode)
	}
}

// own sets the CRD of the bundle.
func (p *parts) own(crd fields) {
	p.crds = []fields{crd}
	spec := crd["spec"].(fields)
	p.csv.Spec.CustomResourceDefinitions.Owned = nil
	for _, v := range spec["versions"].([]any) {
		p.csv.Spec.CustomResourceDefinitions.Owned = append(p.csv.Spec.CustomResourceDefinitions.Owned, v1alpha1.CRDDescription{
			Name: crd["metadata"].(fields)["name"].(string), Kind: spec["names"].(fields)["kind"].(string), Version: v.(fields)["name"].(string)})
	}
}

// text is the schema of a string.
var text = fields{"type": "string"}

// crd is a CRD with one version, v1, whose objects have one field.
func (tr *trap) crd(plural, kind string, field fields) fields {
	return fields{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": fields{"name": plural + "." + tr.group()},
		"spec": fields{"group": tr.group(), "scope": "Namespaced", "names": fields{"plural": plural, "kind": kind}, "versions": []any{crdVersion("v1", true, field)}},
	}
}

func crdVersion(name string, stored bool, field fields) fields {
	return fields{"name": name, "served": true, "storage": stored, "schema": fields{"openAPIV3Schema": fields{"type": "object", "properties": fields{
		"spec": fields{"type": "object", "properties": fields{"field": field}}}}}}
}

// webhook adds a webhook. Its rules are about the trap's own API.
func (p *parts) webhook(of v1alpha1.WebhookAdmissionType, name string, change func(*v1alpha1.WebhookDescription)) {
	w := v1alpha1.WebhookDescription{
		Type: of, GenerateName: name, DeploymentName: p.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name, ContainerPort: 443,
		AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone), FailurePolicy: new(admissionregistrationv1.Ignore),
	}
	if of == v1alpha1.ConversionWebhook {
		w.ConversionCRDs = []string{p.crds[0]["metadata"].(fields)["name"].(string)}
	} else {
		w.Rules = []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{p.crds[0]["spec"].(fields)["group"].(string)}, APIVersions: []string{"v1"}, Resources: []string{"boats"}}}}
	}
	if change != nil {
		change(&w)
	}
	p.csv.Spec.WebhookDefinitions = append(p.csv.Spec.WebhookDefinitions, w)
}

// manifests are the objects of a bundle.
func (p *parts) manifests() (all []any) {
	all = append(all, p.csv)
	for _, object := range append(p.crds, p.objects...) {
		all = append(all, object)
	}
	return all
}

// objects returns the manifests as registryv1 reads them.
func (p *parts) unstructured(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, manifest := range p.manifests() {
		o := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal(marshal(t, manifest), &o.Object))
		all = append(all, o)
	}
	return all
}

func marshal(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	require.NoError(t, err)
	return data
}

// folder writes a bundle as a folder.
func (p *parts) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]any{"metadata/annotations.yaml": fields{"annotations": fields{
		"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
		"operators.operatorframework.io.bundle.manifests.v1": "manifests/",
		"operators.operatorframework.io.bundle.metadata.v1":  "metadata/",
		"operators.operatorframework.io.bundle.package.v1":   p.pkg,
	}}}
	for i, manifest := range p.manifests() {
		files[fmt.Sprintf("manifests/%03d.yaml", i)] = manifest
	}
	for name, object := range files { // JSON is YAML
		path := filepath.Join(dir, name)
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, marshal(t, object), 0o644)))
	}
	return dir
}

// catalog returns the part of a catalog that is the trap's package, with images that do not exist.
func (tr *trap) catalog() (config declcfg.DeclarativeConfig) {
	config.Packages = []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: tr.name, DefaultChannel: "stable"}}
	channel := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: tr.name, Name: "stable"}
	var deprecated []declcfg.DeprecationEntry
	before := ""
	for _, b := range tr.bundles {
		name := tr.name + ".v" + strings.ReplaceAll(b.version, "+", "-")
		if tr.silent {
			name = tr.name + ".v" + b.version
		}
		entry := declcfg.ChannelEntry{Name: name, Replaces: before}
		stated := property.MustBuildPackage(tr.name, b.version)
		if b.release != "" {
			stated.Value = json.RawMessage(fmt.Sprintf(`{"packageName":%q,"version":%q,"release":%q}`, tr.name, b.version, b.release))
			name = tr.name + "-v" + strings.ReplaceAll(b.version, "+", "-") + "-" + b.release
			entry.Name = name
		}
		declared := declcfg.Bundle{Schema: declcfg.SchemaBundle, Package: tr.name, Name: name, Image: "registry.example.com/" + tr.name + ":v" + strings.ReplaceAll(b.version, "+", "-"),
			Properties: append([]property.Property{stated}, b.properties...)}
		if b.noImage {
			declared.Image = ""
			declared.Properties = append(declared.Properties, property.MustBuildBundleObject([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"inline"}}`)))
		}
		config.Bundles = append(config.Bundles, declared)
		config.Channels = append(config.Channels, declcfg.Channel{Schema: declcfg.SchemaChannel, Package: tr.name, Name: only(b), Entries: []declcfg.ChannelEntry{{Name: name}}})
		channel.Entries = append(channel.Entries, entry)
		if b.deprecated != "" {
			deprecated = append(deprecated, declcfg.DeprecationEntry{Reference: declcfg.PackageScopedReference{Schema: declcfg.SchemaBundle, Name: name}, Message: b.deprecated})
		}
		before = name
	}
	config.Channels = append(config.Channels, channel)
	if len(deprecated) > 0 {
		config.Deprecations = []declcfg.Deprecation{{Schema: declcfg.SchemaDeprecation, Package: tr.name, Entries: deprecated}}
	}
	return config
}

// only is the name of the channel that has only this bundle, for its first installation.
func only(b bundle) string {
	return "only-" + strings.ReplaceAll(b.version+b.release, "+", "-")
}

// one is a trap whose only bundle has a change.
func one(name string, change func(*parts)) *trap {
	return &trap{name: name, bundles: []bundle{{version: "1.0.0", change: change}}}
}

// configured is a trap whose bundle supports these install modes, and whose ClusterExtension has a configuration.
func configured(name string, config any, supported ...v1alpha1.InstallModeType) *trap {
	tr := one(name, func(p *parts) { p.modes(supported...) })
	tr.config = config
	return tr
}

// updated is a trap whose second version has another CRD.
func updated(name string, change func(tr *trap, from, to *parts)) *trap {
	tr := &trap{name: name, installed: "1.0.0"}
	tr.bundles = []bundle{
		{version: "1.0.0", change: func(p *parts) { change(tr, p, &parts{csv: &v1alpha1.ClusterServiceVersion{}}) }},
		{version: "2.0.0", change: func(p *parts) { change(tr, &parts{csv: &v1alpha1.ClusterServiceVersion{}}, p) }},
	}
	return tr
}

// field is an update that changes the schema of a field.
func field(name string, from, to fields) *trap {
	return updated(name, func(tr *trap, was, is *parts) {
		was.own(tr.crd("boats", "Boat", from))
		is.own(tr.crd("boats", "Boat", to))
	})
}

// existing is a trap whose bundle has, or makes, an object that exists.
func existing(name string, change func(*parts), objects ...fields) *trap {
	tr := one(name, change)
	tr.exists = objects
	return tr
}

// in is the namespace of a trap's ClusterExtension, in objects that exist.
const in = "NAMESPACE"

func configMap(name string, metadata fields) fields {
	all := fields{"name": name, "namespace": in}
	for key, value := range metadata {
		all[key] = value
	}
	return fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": all}
}

func with(objects ...fields) func(*parts) {
	return func(p *parts) { p.objects = append(p.objects, objects...) }
}

// plain is an object of a bundle.
func plain(apiVersion, kind, name string, rest fields) fields {
	object := fields{"apiVersion": apiVersion, "kind": kind, "metadata": fields{"name": name}}
	for key, value := range rest {
		object[key] = value
	}
	return object
}

const (
	allNamespaces   = v1alpha1.InstallModeTypeAllNamespaces
	ownNamespace    = v1alpha1.InstallModeTypeOwnNamespace
	singleNamespace = v1alpha1.InstallModeTypeSingleNamespace
	multiNamespace  = v1alpha1.InstallModeTypeMultiNamespace
	validating      = v1alpha1.ValidatingAdmissionWebhook
	mutating        = v1alpha1.MutatingAdmissionWebhook
	conversion      = v1alpha1.ConversionWebhook
)

func deployments(names ...string) func(*parts) {
	return func(p *parts) {
		strategy := &p.csv.Spec.InstallStrategy.StrategySpec
		first := strategy.DeploymentSpecs[0]
		strategy.DeploymentSpecs = nil
		for _, name := range names {
			first.Name = name
			strategy.DeploymentSpecs = append(strategy.DeploymentSpecs, first)
		}
	}
}

func hooks(add func(*parts)) func(*parts) { return add }

// allTraps are the traps of every setup.
func allTraps() []*trap {
	two := func(change func(*bundle)) []bundle {
		second := bundle{version: "2.0.0"}
		change(&second)
		return []bundle{{version: "1.0.0"}, second}
	}
	return []*trap{
		one("installs", nil),
		updated("updates", func(*trap, *parts, *parts) {}),

		// Objects that no setup installs.
		one("api-service", func(p *parts) {
			p.csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Name: "tides", Group: "tides.example.com", Version: "v1", Kind: "Tide", DeploymentName: p.pkg}}
		}),
		one("no-mode", func(p *parts) { p.modes() }),
		one("multi-namespace", func(p *parts) { p.modes(multiNamespace) }),
		one("unsupported-kind", with(plain("batch/v1", "Job", "tow", nil))),
		one("unsupported-kinds", with(plain("batch/v1", "Job", "tow", nil), plain("v1", "Namespace", "sea", nil), plain("apps/v1", "DaemonSet", "net", nil))),
		one("custom-resource", func(p *parts) {
			p.objects = []fields{plain("custom-resource.example.com/v1", "Boat", "boat", nil)}
		}),
		one("crd-missing", func(p *parts) { p.crds = nil }),
		one("crd-unowned", func(p *parts) { p.csv.Spec.CustomResourceDefinitions.Owned = nil }),
		one("crd-twice", func(p *parts) { p.crds = append(p.crds, p.crds[0]) }),
		one("no-package", func(p *parts) { p.pkg = "" }),
		one("other-package", func(p *parts) { p.pkg = "canoe" }),
		one("deployment-twice", deployments("boat", "boat")),
		one("deployment-name", deployments("Boat_1")),
		one("several-faults", func(p *parts) {
			deployments("Boat_1", "Boat_1")(p)
			p.pkg, p.crds = "", nil
		}),

		one("account-twice", func(p *parts) { p.objects = []fields{plain("v1", "ServiceAccount", "account-twice", nil)} }),
		one("crd-old", func(p *parts) { p.crds[0]["apiVersion"] = "apiextensions.k8s.io/v1beta1" }),

		// Webhooks.
		one("validating", hooks(func(p *parts) { p.webhook(validating, "boats.validating.example.com", nil) })),
		one("mutating", hooks(func(p *parts) { p.webhook(mutating, "boats.mutating.example.com", nil) })),
		one("both-hooks", hooks(func(p *parts) {
			p.webhook(validating, "boats.both.example.com", nil)
			p.webhook(mutating, "boats.both.example.com", nil)
		})),
		one("conversion", hooks(func(p *parts) { p.webhook(conversion, "boats.conversion.example.com", nil) })),
		one("conversion-modes", hooks(func(p *parts) {
			p.modes(allNamespaces, ownNamespace)
			p.webhook(conversion, "boats.modes.example.com", nil)
		})),
		one("conversion-unowned", hooks(func(p *parts) {
			p.webhook(conversion, "boats.unowned.example.com", func(w *v1alpha1.WebhookDescription) { w.ConversionCRDs = []string{"boats.sea.example.com"} })
		})),
		one("conversion-twice", hooks(func(p *parts) {
			p.webhook(conversion, "a.twice.example.com", nil)
			p.webhook(conversion, "b.twice.example.com", nil)
		})),
		one("conversion-preserving", hooks(func(p *parts) {
			p.webhook(conversion, "boats.preserving.example.com", nil)
			p.crds[0]["spec"].(fields)["preserveUnknownFields"] = true
		})),
		one("hook-twice", hooks(func(p *parts) {
			p.webhook(validating, "boats.hooktwice.example.com", nil)
			p.webhook(validating, "boats.hooktwice.example.com", nil)
		})),
		one("hook-of-nothing", hooks(func(p *parts) {
			p.webhook(validating, "boats.nothing.example.com", func(w *v1alpha1.WebhookDescription) { w.DeploymentName = "canoe" })
		})),
		one("hook-name", hooks(func(p *parts) { p.webhook(validating, "Boats_1", nil) })),
		one("hook-all-groups", hooks(func(p *parts) {
			p.webhook(mutating, "boats.all.example.com", func(w *v1alpha1.WebhookDescription) { w.Rules[0].APIGroups = []string{"*"} })
		})),
		one("hook-olm", hooks(func(p *parts) {
			p.webhook(mutating, "boats.olm.example.com", func(w *v1alpha1.WebhookDescription) { w.Rules[0].APIGroups = []string{"olm.operatorframework.io"} })
		})),
		one("hook-hooks", hooks(func(p *parts) {
			p.webhook(mutating, "boats.hooks.example.com", func(w *v1alpha1.WebhookDescription) {
				w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"admissionregistration.k8s.io"}, []string{"ValidatingWebhookConfigurations"}
			})
		})),

		// Install modes and spec.config.
		configured("own", nil, ownNamespace),
		configured("own-itself", fields{"watchNamespace": in}, ownNamespace),
		configured("own-another", fields{"watchNamespace": "sea"}, ownNamespace),
		configured("own-null", fields{"watchNamespace": nil}, ownNamespace),
		configured("single", nil, singleNamespace),
		configured("single-another", fields{"watchNamespace": "default"}, singleNamespace),
		configured("single-itself", fields{"watchNamespace": in}, singleNamespace),
		configured("single-no-name", fields{"watchNamespace": "Sea!"}, singleNamespace),
		configured("single-empty", fields{"watchNamespace": ""}, singleNamespace),
		configured("single-long", fields{"watchNamespace": strings.Repeat("sea", 30)}, singleNamespace),
		configured("own-or-single", fields{"watchNamespace": "default"}, ownNamespace, singleNamespace),
		configured("own-or-single-itself", fields{"watchNamespace": in}, ownNamespace, singleNamespace),
		configured("all-or-own", nil, allNamespaces, ownNamespace),
		configured("all-or-own-itself", fields{"watchNamespace": in}, allNamespaces, ownNamespace),
		configured("all-or-own-another", fields{"watchNamespace": "default"}, allNamespaces, ownNamespace),
		configured("all-or-own-null", fields{"watchNamespace": nil}, allNamespaces, ownNamespace),
		configured("all-watching", fields{"watchNamespace": "default"}, allNamespaces),
		configured("unknown-field", fields{"replicas": 2}, allNamespaces),
		func() *trap {
			tr := configured("unknown-fields", fields{"replicas": 2, "colour": "red"}, allNamespaces)
			tr.vague = "OLM names the first of a map's keys"
			return tr
		}(),
		configured("number", fields{"watchNamespace": 5}, singleNamespace),
		configured("deployment-config", fields{"deploymentConfig": fields{"nodeSelector": fields{"kubernetes.io/hostname": "control-plane-0"}, "env": []any{fields{"name": "A", "value": "b"}}}}, allNamespaces),
		configured("deployment-config-null", fields{"deploymentConfig": nil}, allNamespaces),
		configured("deployment-config-unknown", fields{"deploymentConfig": fields{"selector": fields{}}}, allNamespaces),
		configured("deployment-config-type", fields{"deploymentConfig": fields{"nodeSelector": fields{"zone": 1}}}, allNamespaces),
		configured("deployment-config-env", fields{"deploymentConfig": fields{"env": []any{fields{"value": "b"}}}}, allNamespaces),
		configured("deployment-config-quantity", fields{"deploymentConfig": fields{"resources": fields{"limits": fields{"memory": "much"}}}}, allNamespaces),
		configured("deployment-config-resources", fields{"deploymentConfig": fields{"resources": fields{"limits": fields{"memory": "1Gi", "cpu": 1}}}}, allNamespaces),
		configured("deployment-config-tolerations", fields{"deploymentConfig": fields{"tolerations": []any{fields{"key": "a", "operator": "Exists", "tolerationSeconds": "5"}}}}, allNamespaces),
		configured("deployment-config-affinity", fields{"deploymentConfig": fields{"affinity": fields{"nodeAffinity": fields{"requiredDuringSchedulingIgnoredDuringExecution": fields{}}}}}, allNamespaces),

		// CRD upgrade safety.
		field("field-type", text, fields{"type": "integer"}),
		field("field-described", text, fields{"type": "string", "description": "of a boat"}),
		field("field-limit", text, fields{"type": "string", "maxLength": 5}),
		field("field-limit-lifted", fields{"type": "string", "maxLength": 5}, text),
		field("field-limit-raised", fields{"type": "string", "maxLength": 5}, fields{"type": "string", "maxLength": 6}),
		field("field-limit-lowered", fields{"type": "string", "maxLength": 5}, fields{"type": "string", "maxLength": 4}),
		field("field-pattern", text, fields{"type": "string", "pattern": "^a"}),
		field("field-format", text, fields{"type": "string", "format": "date"}),
		field("field-enum", text, fields{"type": "string", "enum": []any{"a"}}),
		field("field-enum-grows", fields{"type": "string", "enum": []any{"a"}}, fields{"type": "string", "enum": []any{"a", "b"}}),
		field("field-enum-shrinks", fields{"type": "string", "enum": []any{"a", "b"}}, fields{"type": "string", "enum": []any{"a"}}),
		field("field-default", text, fields{"type": "string", "default": "a"}),
		field("field-default-changes", fields{"type": "string", "default": "a"}, fields{"type": "string", "default": "b"}),
		field("field-default-gone", fields{"type": "string", "default": "a"}, text),
		field("field-required", fields{"type": "object", "properties": fields{"a": text}}, fields{"type": "object", "required": []any{"a"}, "properties": fields{"a": text}}),
		field("field-optional", fields{"type": "object", "required": []any{"a"}, "properties": fields{"a": text}}, fields{"type": "object", "properties": fields{"a": text}}),
		field("field-added", fields{"type": "object", "properties": fields{"a": text}}, fields{"type": "object", "properties": fields{"a": text, "b": text}}),
		field("field-removed", fields{"type": "object", "properties": fields{"a": text, "b": text}}, fields{"type": "object", "properties": fields{"a": text}}),
		field("field-nullable", text, fields{"type": "string", "nullable": true}),
		field("field-minimum", fields{"type": "integer"}, fields{"type": "integer", "minimum": 1}),
		field("field-items", fields{"type": "array", "items": text}, fields{"type": "array", "items": text, "maxItems": 3}),
		field("field-rule", text, fields{"type": "string", "x-kubernetes-validations": []any{fields{"rule": "self != ''", "message": "name it"}}}),
		field("field-preserving", fields{"type": "object"}, fields{"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
		field("field-one-of", fields{"type": "string", "oneOf": []any{fields{"pattern": "^a"}}}, fields{"type": "string", "oneOf": []any{fields{"pattern": "^a"}, fields{"pattern": "^b"}}}),
		field("field-several", fields{"type": "object", "properties": fields{"a": text, "b": text}}, fields{"type": "object", "required": []any{"c"}, "properties": fields{"a": fields{"type": "integer"}, "c": text}}),
		updated("version-added", func(tr *trap, was, is *parts) {
			was.own(tr.crd("boats", "Boat", text))
			crd := tr.crd("boats", "Boat", text)
			crd["spec"].(fields)["versions"] = []any{crdVersion("v1", true, text), crdVersion("v2", false, text)}
			is.own(crd)
		}),
		updated("version-differs", func(tr *trap, was, is *parts) {
			was.own(tr.crd("boats", "Boat", text))
			crd := tr.crd("boats", "Boat", text)
			crd["spec"].(fields)["versions"] = []any{crdVersion("v1", true, text), crdVersion("v2", false, fields{"type": "integer"})}
			is.own(crd)
		}),
		updated("version-removed", func(tr *trap, was, is *parts) {
			crd := tr.crd("boats", "Boat", text)
			crd["spec"].(fields)["versions"] = []any{crdVersion("v1beta1", true, text)}
			was.own(crd)
			is.own(tr.crd("boats", "Boat", text))
		}),
		updated("version-unstored-removed", func(tr *trap, was, is *parts) {
			crd := tr.crd("boats", "Boat", text)
			crd["spec"].(fields)["versions"] = []any{crdVersion("v1beta1", false, text), crdVersion("v1", true, text)}
			was.own(crd)
			is.own(tr.crd("boats", "Boat", text))
		}),
		updated("crd-replaced", func(tr *trap, was, is *parts) {
			was.own(tr.crd("boats", "Boat", text))
			is.own(tr.crd("ships", "Ship", text))
		}),
		updated("scope", func(tr *trap, was, is *parts) {
			was.own(tr.crd("boats", "Boat", text))
			crd := tr.crd("boats", "Boat", text)
			crd["spec"].(fields)["scope"] = "Cluster"
			is.own(crd)
		}),
		func() *trap {
			tr := field("field-type-allowed", text, fields{"type": "integer"})
			tr.unsafe = true
			return tr
		}(),

		// Existing objects.
		existing("exists-config", with(plain("v1", "ConfigMap", "lights", nil)), configMap("lights", nil)),
		existing("exists-helm", with(plain("v1", "ConfigMap", "lights", nil)), configMap("lights", fields{
			"labels": fields{"app.kubernetes.io/managed-by": "Helm"}, "annotations": fields{"meta.helm.sh/release-name": "barge", "meta.helm.sh/release-namespace": in}})),
		existing("exists-ours", with(plain("v1", "ConfigMap", "lights", nil)), configMap("lights", fields{
			"labels": fields{"app.kubernetes.io/managed-by": "Helm"}, "annotations": fields{"meta.helm.sh/release-name": "exists-ours", "meta.helm.sh/release-namespace": in}})),
		existing("exists-account", nil, fields{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": fields{"name": "exists-account", "namespace": in}}),
		existing("exists-crd", nil, (&trap{name: "exists-crd"}).crd("boats", "Boat", text)),
		existing("exists-crd-other", nil, (&trap{name: "exists-crd-other"}).crd("boats", "Boat", fields{"type": "integer"})),
		existing("exists-two", with(plain("v1", "ConfigMap", "lights", nil)), configMap("lights", nil),
			fields{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": fields{"name": "exists-two", "namespace": in}}),

		// APIs that a cluster may not serve.
		one("service-monitor", with(plain("monitoring.coreos.com/v1", "ServiceMonitor", "boats", fields{"spec": fields{"selector": fields{}, "endpoints": []any{}}}))),
		one("pod-monitor", with(plain("monitoring.coreos.com/v1", "PodMonitor", "boats", fields{"spec": fields{"selector": fields{}, "podMetricsEndpoints": []any{}}}))),
		one("console", with(plain("console.openshift.io/v1", "ConsoleYAMLSample", "boats", fields{"spec": fields{}}))),
		one("priority-class", with(plain("scheduling.k8s.io/v1", "PriorityClass", "boats-first", fields{"value": 5}))),
		one("network-policy", with(plain("networking.k8s.io/v1", "NetworkPolicy", "boats", fields{"spec": fields{"podSelector": fields{}}}))),

		// The choice.
		{name: "no-version", bundles: two(func(*bundle) {}), wants: fields{"version": ">=3"}},
		{name: "no-version-after", bundles: two(func(*bundle) {}), installed: "1.0.0", wants: fields{"version": ">=3"}},
		{name: "no-channel", bundles: two(func(*bundle) {}), wants: fields{"channels": []any{"fast"}}},
		{name: "channel", bundles: two(func(*bundle) {}), wants: fields{"channels": []any{"stable"}}},
		{name: "earlier", bundles: two(func(*bundle) {}), installed: "2.0.0", wants: fields{"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}},
		{name: "earlier-refused", bundles: two(func(*bundle) {}), installed: "2.0.0", wants: fields{"version": "1.0.0"}},
		{name: "dependency", bundles: two(func(b *bundle) {
			b.properties = []property.Property{property.MustBuildPackageRequired("oar", ">0.0.0")}
		})},
		{name: "dependency-later", bundles: two(func(b *bundle) {
			b.properties = []property.Property{property.MustBuildGVKRequired("oars.example.com", "v1", "Oar")}
		}), installed: "1.0.0"},
		{name: "no-image", bundles: two(func(b *bundle) { b.noImage = true })},
		{name: "deprecated-head", bundles: two(func(b *bundle) { b.deprecated = "it leaks" })},
		{name: "deprecated-successor", bundles: two(func(b *bundle) { b.deprecated = "it leaks" }), installed: "1.0.0"},
		{name: "deprecated-between", bundles: []bundle{{version: "1.0.0"}, {version: "1.1.0", deprecated: "it leaks"}, {version: "1.2.0"}}, installed: "1.0.0"},
		{name: "builds", bundles: []bundle{{version: "1.0.0+2"}, {version: "1.0.0+10"}}},
		{name: "builds-later", bundles: []bundle{{version: "1.0.0+2"}, {version: "1.0.0+10"}}, installed: "1.0.0+2"},
		{name: "plus", bundles: []bundle{{version: "1.0.0+2"}}, silent: true},
		{name: "releases", bundles: []bundle{{version: "1.0.0", release: "2"}, {version: "1.0.0", release: "10"}}},
		{name: "releases-later", bundles: []bundle{{version: "1.0.0", release: "2"}, {version: "1.1.0", release: "1"}}, installed: "1.0.0"},
	}
}
