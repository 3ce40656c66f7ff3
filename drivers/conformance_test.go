package drivers_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/drivers/sample"
)

// The tests in this package apply to every driver. Tests of a single driver are in its folder.

const namespace = "harbour"

// everyDriver returns the drivers of the registry and the sample, which is in no release.
func everyDriver() []drivers.Driver { return append(registry.All(), sample.Driver) }

// forEachDriver runs a test with the manifests of each driver. Images are named after their variables.
func forEachDriver(t *testing.T, test func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest)) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			manifests, err := d.Manifests(drivers.Values{Namespace: namespace, Image: imageOf})
			require.NoError(t, err)
			test(t, d, manifests)
		})
	}
}

func imageOf(env string) string { return "registry.example/" + strings.ToLower(env) + ":1" }

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, securityv1.Install, operatorv1.Install, apiextensionsv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// untyped are kinds without Go types here. The API server checks their fields, in TestApply.
var untyped = []string{"CredentialsRequest", "ServiceMonitor", "VolumeSnapshotClass"}

func TestObjectsDecodeStrictly(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, m := range manifests {
			if slices.Contains(untyped, m.Object.GetKind()) {
				continue
			}
			if _, _, err := decoder.Decode(m.YAML, nil, nil); err != nil {
				t.Errorf("%s: %v", m.File, err)
			}
		}
	})
}

func as[T any](t *testing.T, m drivers.Manifest) T {
	t.Helper()
	var typed T
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &typed), m.File)
	return typed
}

// filledIn are the placeholders that library-go's controllers replace, by the kind of object.
var filledIn = map[string][]string{
	"Deployment": {
		"CLUSTER_ID", "LOG_LEVEL", "TLS_CIPHER_SUITES", "TLS_MIN_VERSION",
		"LEADER_ELECTION_LEASE_DURATION", "LEADER_ELECTION_RENEW_DEADLINE", "LEADER_ELECTION_RETRY_PERIOD",
	},
	"DaemonSet": {"LOG_LEVEL", "TLS_CIPHER_SUITES", "TLS_MIN_VERSION"},
}

// This pattern is generous: whatever looks like a placeholder must be one that is replaced.
var likeAPlaceholder = regexp.MustCompile(`\$\{([^}]*)\}?`)

func TestPlaceholdersAreKnown(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, m := range manifests {
			known := filledIn[m.Object.GetKind()]
			for _, found := range likeAPlaceholder.FindAllStringSubmatch(string(m.YAML), -1) {
				assert.Containsf(t, known, found[1], "what replaces %s in %s, by library-go for kind %s", found[0], m.File, m.Object.GetKind())
			}
			var pairs []string
			for _, name := range known {
				pairs = append(pairs, "${"+name+"}", "value")
			}
			assert.NoError(t, drivers.CheckRendered([]byte(strings.NewReplacer(pairs...).Replace(string(m.YAML)))), m.File)
		}
	})
}

func TestMissingImages(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, _ []drivers.Manifest) {
		present, missing := d.Images[0].Env, []string{}
		for _, image := range d.Images[1:] {
			missing = append(missing, image.Env)
		}
		_, err := d.Manifests(drivers.Values{Namespace: namespace, Image: func(env string) string {
			return map[string]string{present: "an image"}[env]
		}})
		got, ok := err.(*drivers.MissingImagesError)
		if !ok {
			t.Fatalf("error %v, want a MissingImagesError", err)
		}
		assert.Empty(t, cmp.Diff(missing, got.Env), "missing images (-want +got)")
		for _, env := range missing {
			assert.ErrorContains(t, err, env)
		}
	})
}

func TestSelectorsMatch(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		selected := map[string]string{}
		for _, w := range workloads(t, manifests) {
			want := metav1.FormatLabelSelector(w.selector)
			podLabels := maps.Clone(w.pod.Labels)
			maps.DeleteFunc(podLabels, func(name, _ string) bool { return strings.HasPrefix(name, networkPolicyLabel) })
			if diff := cmp.Diff(w.selector.MatchLabels, podLabels); diff != "" || len(w.selector.MatchExpressions) > 0 {
				t.Errorf("%s: selector and pod labels differ (-selector +labels):\n%s", w.file, diff)
			}
			if other, taken := selected[want]; taken {
				t.Errorf("%s and %s select the same pods", w.file, other)
			}
			selected[want] = w.file
		}
		for _, m := range manifests {
			var path []string
			switch m.Object.GetKind() {
			case "Service":
				path = []string{"spec", "selector"}
			case "PodDisruptionBudget":
				path = []string{"spec", "selector", "matchLabels"}
			default:
				continue
			}
			labels, _, _ := unstructured.NestedStringMap(m.Object.Object, path...)
			if selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels}); selected[selector] == "" {
				t.Errorf("%s: selects %s, want the pods of one of %v", m.File, selector, selected)
			}
		}
		for _, m := range drivers.OfKind(manifests, "ServiceMonitor") {
			want, _, _ := unstructured.NestedStringMap(m.Object.Object, "spec", "selector", "matchLabels")
			if !slices.ContainsFunc(drivers.OfKind(manifests, "Service"), func(s drivers.Manifest) bool {
				return cmp.Equal(s.Object.GetLabels(), want)
			}) {
				t.Errorf("%s: selects %v, which no Service is labelled with", m.File, want)
			}
		}
	})
}

// anyPods are the SecurityContextConstraints of every OpenShift cluster that any pod may use.
const anyPods = "restricted-v2"

func TestReferencesExist(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		position := map[string]int{} // in the order in which objects are applied, from 1
		for i, m := range manifests {
			position[m.Object.GetKind()+" "+m.Object.GetName()] = i + 1
		}
		secrets := givenSecrets(t, manifests)
		want := func(file, object string) {
			assert.NotZerof(t, position[object], "%s: refers to %s, which is not among the assets", file, object)
		}
		mounted := map[string]bool{}
		for _, w := range workloads(t, manifests) {
			want(w.file, "ServiceAccount "+w.pod.Spec.ServiceAccountName)
			if scc := w.pod.Annotations["openshift.io/required-scc"]; scc != anyPods {
				want(w.file, "SecurityContextConstraints "+scc)
			}
			for _, v := range w.pod.Spec.Volumes {
				if v.Secret == nil {
					continue
				}
				mounted[v.Secret.SecretName] = true
				if !slices.Contains(secrets, v.Secret.SecretName) && position["Secret "+v.Secret.SecretName] == 0 {
					t.Errorf("%s: mounts the Secret %s, which is not among the assets, and which neither a CredentialsRequest nor a Service requests", w.file, v.Secret.SecretName)
				}
			}
		}
		if d.CloudAccess != nil {
			mounted[d.CloudAccess.Secret] = true // the operator reads it
		}
		if d.Configuration != nil {
			want("driver.go", "Secret "+d.Configuration.Secret)
			mounted[d.Configuration.Credentials] = true // in that Secret
		}
		for _, secret := range secrets {
			assert.Truef(t, mounted[secret], "the Secret %s is requested, but never mounted", secret)
		}
		for _, m := range slices.Concat(drivers.OfKind(manifests, "RoleBinding"), drivers.OfKind(manifests, "ClusterRoleBinding")) {
			binding := as[rbacv1.ClusterRoleBinding](t, m) // also fits a RoleBinding
			role := binding.RoleRef.Kind + " " + binding.RoleRef.Name
			want(m.File, role)
			if position[role] > position[m.Object.GetKind()+" "+m.Object.GetName()] {
				t.Errorf("%s: is applied before %s, and would be rejected: rename a file", m.File, role)
			}
			for _, s := range binding.Subjects {
				if s.Namespace == namespace {
					want(m.File, s.Kind+" "+s.Name)
				}
			}
		}
		want("driver.go", "ConfigMap "+d.TrustedCABundle)
		want("driver.go", "CSIDriver "+d.CSIName)
	})
}

// givenSecrets are the Secrets that other components create because an asset requests them.
func givenSecrets(t *testing.T, manifests []drivers.Manifest) []string {
	t.Helper()
	var names []string
	for _, m := range drivers.OfKind(manifests, "CredentialsRequest") {
		name, _, err := unstructured.NestedString(m.Object.Object, "spec", "secretRef", "name")
		if err != nil || name == "" {
			t.Errorf("%s: has no spec.secretRef.name: %v", m.File, err)
		}
		if in, _, _ := unstructured.NestedString(m.Object.Object, "spec", "secretRef", "namespace"); in != namespace {
			t.Errorf("%s: requests the Secret %s in namespace %q, want the driver's own", m.File, name, in)
		}
		names = append(names, name)
	}
	for _, m := range drivers.OfKind(manifests, "Service") {
		if name := m.Object.GetAnnotations()["service.beta.openshift.io/serving-cert-secret-name"]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// TestCredentialsRollPods: programs read credentials once, when they start, so they must be restarted when the
// credentials change. The operator reads its own for each pass over the tags.
func TestCredentialsRollPods(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		declared := slices.Clone(d.Secrets)
		if d.CloudAccess != nil {
			declared = append(declared, d.CloudAccess.Secret)
		}
		assert.Equal(t, givenSecrets(t, drivers.OfKind(manifests, "CredentialsRequest")), declared, "Driver.Secrets and Tagging.Secret, want those of the CredentialsRequests")
	})
}

// TestRolesCanBeSet: with short-lived credentials each request needs its own role, and an administrator must be able
// to set it.
func TestRolesCanBeSet(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		users := map[string]string{}
		for _, m := range drivers.OfKind(manifests, "CredentialsRequest") {
			if kind, _, _ := unstructured.NestedString(m.Object.Object, "spec", "providerSpec", "kind"); kind != "AWSProviderSpec" {
				continue // its cloud has no roles to assume
			}
			const annotation = "credentials.openshift.io/role-arns-vars"
			variable := m.Object.GetAnnotations()[annotation]
			assert.Containsf(t, d.Operator.Env, variable, "%s: annotation %s is %q, want one of Operator.Env %q", m.File, annotation, variable, d.Operator.Env)
			assert.Emptyf(t, users[variable], "what takes its role from the same variable %s as %s", variable, m.File)
			users[variable] = m.File
		}
	})
}

func TestSettingsHaveContainers(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, setting := range d.Settings {
			users := 0
			for _, w := range workloads(t, manifests) {
				for _, c := range w.pod.Spec.Containers {
					if c.Name == setting.Container {
						users++
					}
				}
			}
			assert.NotZerof(t, users, "a setting is for container %s, which is in no pod", setting.Container)
		}
	})
}

func TestPackage(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, _ []drivers.Manifest) {
		filled := func(fields map[string]string) {
			for field, value := range fields {
				assert.NotEmpty(t, value, field)
			}
		}
		filled(map[string]string{"Operator.Name": d.Operator.Name, "Operator.Lock": d.Operator.Lock, "ConditionPrefix": d.ConditionPrefix})
		if !d.HasPackage() {
			assert.NotNil(t, d.ClusterStorage, "the driver has neither a package nor a platform that needs it: nobody can install it")
			return
		}
		filled(map[string]string{
			"Package.DisplayName": d.Package.DisplayName, "Package.Summary": d.Package.Summary, "Package.Description": d.Package.Description,
			"Package.Channel": d.Package.Channel, "Package.MinKubeVersion": d.Package.MinKubeVersion,
		})
		if !strings.HasPrefix(string(d.Package.Icon), "<svg ") {
			t.Errorf("the icon is not an SVG image: %.20s", d.Package.Icon)
		}
		first := examples(t, d)[0]
		if first.GetKind() != "ClusterCSIDriver" || first.GetName() != d.CSIName {
			t.Errorf("the first example is %s %s, want ClusterCSIDriver %s: it installs the driver", first.GetKind(), first.GetName(), d.CSIName)
		}
	})
}

func TestFolderHasDriversName(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, _ []drivers.Manifest) {
		assert.FileExists(t, filepath.Join(d.Name, "driver.go"), "the driver is not in the folder with its name")
	})
}

// TestNames: the objects in a driver's names.txt keep the names, and their pods the labels, that earlier operators gave them, so
// that they are updated in place. A line has kind, namespace if any, name and, for pods, the selector.
func TestNames(t *testing.T) {
	files, err := filepath.Glob("*/testdata/names.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, d := range registry.All() {
		file := filepath.Join(d.Name, "testdata", "names.txt")
		if !slices.Contains(files, file) {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			manifests, err := d.Manifests(drivers.Values{Namespace: d.Namespace, Image: imageOf})
			require.NoError(t, err)
			var got []string
			for _, m := range manifests {
				selector, _, _ := unstructured.NestedStringMap(m.Object.Object, "spec", "selector", "matchLabels")
				words := []string{m.Object.GetKind(), m.Object.GetNamespace(), m.Object.GetName(), labels.Set(selector).String()}
				got = append(got, strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " "))
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				assert.Containsf(t, got, strings.TrimSpace(line), "%s", file)
			}
		})
	}
}

func examples(t *testing.T, d drivers.Driver) []*unstructured.Unstructured {
	t.Helper()
	files, err := fs.Glob(d.Package.Examples, "*")
	require.NoError(t, err)
	require.NotEmpty(t, files, "examples")
	var found []*unstructured.Unstructured
	for _, file := range files {
		raw, err := fs.ReadFile(d.Package.Examples, file)
		require.NoError(t, err)
		object := &unstructured.Unstructured{}
		require.NoErrorf(t, yaml.UnmarshalStrict(raw, &object.Object), "example %s", file)
		found = append(found, object)
	}
	return found
}

// TestNobodyMayDeleteWhatVolumesReferTo: no bug can make an operator delete a namespace or a Secret, as it lacks the
// permission.
func TestNobodyMayDeleteWhatVolumesReferTo(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, _ []drivers.Manifest) {
		for _, operators := range []permissions.Operators{permissions.Removable, permissions.Permanent} {
			rules, err := d.OperatorRules(operators)
			require.NoError(t, err)
			for p := range permissions.SetOf(rules) {
				if slices.Contains([]string{"namespaces", "secrets"}, p.Resource) && slices.Contains([]string{"delete", "deletecollection"}, p.Verb) {
					t.Errorf("the %s operator may: %s", operators, p)
				}
			}
		}
	})
}

// TestDefaultClass: a platform has one class that may be the default of a fresh cluster at most, and no asset has the
// annotation: only the operator knows whether the cluster is a fresh one.
func TestDefaultClass(t *testing.T) {
	of := map[string]string{} // drivers, by platform
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, m := range drivers.OfKind(manifests, "StorageClass") {
			assert.Emptyf(t, m.Object.GetAnnotations(), "annotations of %s", m.File)
		}
		if d.ClusterStorage == nil || d.ClusterStorage.DefaultClass == "" {
			return
		}
		if d.Backend == nil && len(drivers.Named(manifests, "StorageClass", d.ClusterStorage.DefaultClass)) == 0 {
			t.Errorf("the default class %s is not among the assets, and there is no backend that offers it", d.ClusterStorage.DefaultClass)
		}
		platform := string(d.ClusterStorage.Platform)
		assert.Emptyf(t, of[platform], "another driver with a default class for the platform %s", platform)
		of[platform] = d.Name
	})
}
