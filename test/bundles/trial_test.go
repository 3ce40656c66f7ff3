package bundles_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/install"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/catalogs"
)

// laboratory tries bundles with the real programs.
type laboratory struct {
	opm       string
	cluster   *cluster.Cluster
	supported map[string]bool
}

// supportedKinds returns the kinds that OLM installs besides those that its code has a case for, from its source.
func supportedKinds(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/operator-framework/operator-lifecycle-manager").Output()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "pkg/controller/operators/catalog/supportedresources.go"))
	require.NoError(t, err)
	kinds := map[string]bool{}
	for _, kind := range regexp.MustCompile(`= "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		kinds[kind[1]] = true
	}
	require.GreaterOrEqualf(t, len(kinds), 10, "OLM's list of kinds is %v", kinds)
	return kinds
}

// prepare serves ClusterServiceVersions.
func (l *laboratory) prepare(t *testing.T) {
	t.Helper()
	definition := crds.ClusterServiceVersion()
	if err := l.cluster.Client().Create(t.Context(), definition); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	cluster.Eventually(t, time.Minute, "ClusterServiceVersions to be served", func(ctx context.Context) error {
		return l.cluster.Client().List(ctx, &v1alpha1.ClusterServiceVersionList{})
	})
}

// trial has the parts of a bundle that the real programs refuse.
type trial struct {
	csvFile string
	files   map[string]string // of objects, by kind and name
	refused []refused
}

// refused is a refusal by a program, of an object in a file or, without a file, of the bundle.
type refused struct{ by, file, text string }

func (r *trial) String() string {
	text := ""
	for _, one := range r.refused {
		text += fmt.Sprintf("\n\t%s: %s: %.500s", one.by, one.file, one.text)
	}
	return text
}

func (r *trial) refuse(by, file string, err error) {
	if err != nil {
		r.refused = append(r.refused, refused{by, file, err.Error()})
	}
}

// ofBundle are the rules about the bundle as a whole, which opm or OLM refuse. Others are about the object in the file of the finding.
var ofBundle = map[string]bool{"bundle": true, "olm-api": true, "upgrade-edge": true, "olm-version": true, "olm-property": true, "olm-annotations": true, "syntax": true, "bundle-format": true, "alpha-deprecated-apis": true}

// refusal returns the program that refuses what a finding is about, or "".
func (r *trial) refusal(f *findings.Finding) string {
	for _, one := range r.refused {
		if ofBundle[f.Rule] || one.file == f.File || one.file == "" && one.by == "opm render" {
			return one.by
		}
	}
	return ""
}

// try has opm, OLM's code and the API server do what happens when a bundle is added to a catalog and installed.
func (l *laboratory) try(t *testing.T, f faulty) *trial {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, extract(t.Context(), f.repository, f.path, dir))
	at := filepath.Join(dir, f.path)
	r := &trial{files: map[string]string{}}
	if contents, err := registryv1.Load(at); err == nil {
		for _, o := range contents.Objects {
			r.files[o.GetKind()+" "+o.GetName()] = o.File
		}
		r.csvFile = strings.TrimPrefix(contents.CSV.File, at+"/")
	}
	out, err := exec.CommandContext(t.Context(), l.opm, "render", at).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		r.refuse("opm render", "", errors.New(lastLine(exit.Stderr)))
		return r
	}
	require.NoError(t, err)
	rendered, err := declcfg.LoadReader(bytes.NewReader(out))
	require.NoError(t, err)
	b := rendered.Bundles[0]
	l.validate(t, r, b)
	steps, err := resolver.NewStepsFromBundle(&api.Bundle{CsvName: b.Name, CsvJson: b.CsvJSON, Object: b.Objects}, "default", "", "lab", "default")
	r.refuse("OLM", r.csvFile, err)
	for _, step := range steps {
		l.step(t.Context(), r, step)
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	if json.Unmarshal([]byte(b.CsvJSON), csv) == nil {
		l.install(t.Context(), r, csv)
	}
	return r
}

// validate has opm validate a catalog with the bundle.
func (l *laboratory) validate(t *testing.T, r *trial, b declcfg.Bundle) {
	t.Helper()
	csv := &unstructured.Unstructured{}
	require.NoError(t, csv.UnmarshalJSON([]byte(b.CsvJSON)))
	entry := declcfg.ChannelEntry{Name: b.Name, SkipRange: csv.GetAnnotations()["olm.skipRange"]}
	entry.Replaces, _, _ = unstructured.NestedString(csv.Object, "spec", "replaces")
	entry.Skips, _, _ = unstructured.NestedStringSlice(csv.Object, "spec", "skips")
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: b.Package, DefaultChannel: "lab"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Name: "lab", Package: b.Package, Entries: []declcfg.ChannelEntry{entry}}},
		Bundles:  []declcfg.Bundle{b},
	})
	if out, err := exec.CommandContext(t.Context(), l.opm, "validate", dir).CombinedOutput(); err != nil {
		r.refuse("opm validate", "", errors.New(string(out)))
	}
}

// step does what OLM does for a step of an InstallPlan.
func (l *laboratory) step(ctx context.Context, r *trial, step *v1alpha1.Step) {
	kind, file := step.Resource.Kind, r.files[step.Resource.Kind+" "+step.Resource.Name]
	var object client.Object
	switch kind {
	case v1alpha1.ClusterServiceVersionKind:
		object, file = &v1alpha1.ClusterServiceVersion{}, r.csvFile
	case "ServiceAccount":
		object = &corev1.ServiceAccount{}
	case "Service":
		object = &corev1.Service{}
	case "ConfigMap":
		object = &corev1.ConfigMap{}
	case resolver.BundleSecretKind:
		object, file = &corev1.Secret{}, r.files["Secret "+step.Resource.Name]
	case "Role":
		object = &rbacv1.Role{}
	case "RoleBinding":
		object = &rbacv1.RoleBinding{}
	case "ClusterRole":
		object = &rbacv1.ClusterRole{}
	case "ClusterRoleBinding":
		object = &rbacv1.ClusterRoleBinding{}
	default:
		object = &unstructured.Unstructured{}
		if kind != "CustomResourceDefinition" && !l.supported[kind] {
			r.refuse("OLM", file, fmt.Errorf("%s is of no kind that OLM installs", kind))
			return
		}
	}
	if file == "" {
		file = r.csvFile // OLM makes it of the install strategy
	}
	if err := json.Unmarshal([]byte(step.Resource.Manifest), object); err != nil {
		r.refuse("OLM", file, err)
		return
	}
	l.create(ctx, r, file, object)
}

// create has the API server check an object.
func (l *laboratory) create(ctx context.Context, r *trial, file string, object client.Object) {
	api := l.cluster.Client()
	namespaced, err := api.IsObjectNamespaced(object)
	if meta.IsNoMatchError(err) && !strings.HasSuffix("."+object.GetObjectKind().GroupVersionKind().Group, ".k8s.io") && strings.Contains(object.GetObjectKind().GroupVersionKind().Group, ".") {
		return // this cluster lacks the API, others have it
	}
	if err != nil {
		r.refuse("API server", file, err)
		return
	}
	if object.SetNamespace(""); namespaced {
		object.SetNamespace("default")
	}
	if err := api.Create(ctx, object, client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
		r.refuse("API server", file, err)
	}
}

// install creates what OLM makes from the install strategy and from webhooks, and checks the rest as OLM's code does.
func (l *laboratory) install(ctx context.Context, r *trial, csv *v1alpha1.ClusterServiceVersion) {
	served := map[string]bool{}
	for _, w := range csv.Spec.WebhookDefinitions {
		served[w.DeploymentName] = true
		r.refuse("OLM", r.csvFile, install.ValidWebhookRules(w.Rules))
		name := metav1.ObjectMeta{Name: w.GenerateName + "-abcde"}
		switch w.Type {
		case v1alpha1.ValidatingAdmissionWebhook:
			l.create(ctx, r, r.csvFile, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionregistrationv1.ValidatingWebhook{w.GetValidatingWebhook("default", nil, nil)}})
		case v1alpha1.MutatingAdmissionWebhook:
			l.create(ctx, r, r.csvFile, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionregistrationv1.MutatingWebhook{w.GetMutatingWebhook("default", nil, nil)}})
		}
	}
	for _, a := range csv.Spec.APIServiceDefinitions.Owned {
		served[a.DeploymentName] = true
	}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: map[string]string{"olm.owner": csv.Name}}, Spec: *d.Spec.DeepCopy()}
		if served[d.Name] {
			install.AddDefaultCertVolumeAndVolumeMounts(&deployment.Spec, "cert")
			l.create(ctx, r, r.csvFile, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: install.ServiceName(d.Name)}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}})
		}
		l.create(ctx, r, r.csvFile, deployment)
	}
	modes := v1alpha1.InstallModeSet{}
	for _, mode := range csv.Spec.InstallModes {
		modes[mode.Type] = mode.Supported
	}
	var unsupported error
	for _, targets := range [][]string{{""}, {"default"}, {"other"}, {"other", "another"}} {
		if unsupported = modes.Supports("default", targets); unsupported == nil {
			break
		}
	}
	r.refuse("OLM", r.csvFile, unsupported)
}
