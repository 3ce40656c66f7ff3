package olmv1_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/lab/authority"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/test/catalogs/operators"
	"github.com/berth-csi/berth/test/olmv1"
)

var (
	withOLM      = flag.Bool("olm-v1", false, "run OLM v1 on a real node")
	update       = flag.Bool("update", false, "record the verdicts of OLM v1")
	updateFailed = flag.Bool("update-failed", false, "record them also if predictions differ")
)

func TestMain(m *testing.M) {
	// Parallel tests here wait for OLM most of the time, and take no processor.
	if err := flag.Set("test.parallel", "200"); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

// limit is for a step of OLM v1, which retries with a backoff.
const limit = 15 * time.Minute

// TestPredictions: OLM v1 does what `berth catalog plan` predicts for a ClusterExtension.
func TestPredictions(t *testing.T) {
	if !*withOLM {
		t.Skip("without -olm-v1: see make prove SUITE=olm-v1-predictions")
	}
	c := cluster.Start(t, cluster.Options{RealNodes: 1, Images: olmv1.Images(t)})
	olm := olmv1.Start(t, c, olmv1.Options{})
	catalogs := map[string]string{}
	for pkg, documents := range map[string]string{"rowboat": operators.Rowboats, "ferry": operators.Ferries} {
		catalogs[pkg] = addCatalog(t, olm, pkg, documents)
	}
	type fields = map[string]any
	for name, test := range map[string]struct {
		pkg, installed string
		wants          fields // of spec.source.catalog
		reaction       prediction.Reaction
	}{
		"nothing-is-installed":      {pkg: "rowboat", reaction: prediction.Installs},
		"a-skiprange":               {pkg: "rowboat", installed: "1.0.0", reaction: prediction.Updates},
		"no-edge":                   {pkg: "rowboat", installed: "1.1.0", reaction: prediction.Stranded},
		"the-latest":                {pkg: "rowboat", installed: "2.0.0", reaction: prediction.Latest},
		"edges-of-other-channels":   {pkg: "rowboat", installed: "1.0.0", wants: fields{"channels": []any{"slow"}}, reaction: prediction.Updates},
		"no-such-channel":           {pkg: "rowboat", wants: fields{"channels": []any{"fast"}}, reaction: prediction.Refused},
		"no-such-version":           {pkg: "rowboat", installed: "1.0.0", wants: fields{"version": ">=3"}, reaction: prediction.Refused},
		"no-edge-is-needed":         {pkg: "rowboat", installed: "1.1.0", wants: fields{"upgradeConstraintPolicy": "SelfCertified"}, reaction: prediction.Updates},
		"an-earlier-version":        {pkg: "rowboat", installed: "1.1.0", wants: fields{"upgradeConstraintPolicy": "SelfCertified", "version": "1.0.0"}, reaction: prediction.Updates},
		"a-deprecated-is-skipped":   {pkg: "ferry", installed: "1.0.0", reaction: prediction.Updates},
		"a-deprecated-is-not-new":   {pkg: "ferry", installed: "1.1.0", reaction: prediction.Latest},
		"a-deprecated-is-installed": {pkg: "ferry", installed: "2.0.0", reaction: prediction.Latest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &extension{Cluster: c, name: name}
			x.install(t, test.pkg, test.installed)
			p := x.predict(t, catalogs[test.pkg], test.pkg, test.wants)
			require.Equalf(t, test.reaction, p.Reaction, "%+v", p)
			x.want(t, test.pkg, test.wants)
			x.mustDo(t, p, test.installed)
		})
	}
	t.Run("by-the-cluster's-own-catalogs", func(t *testing.T) {
		t.Parallel()
		x := &extension{Cluster: c, name: "by-the-clusters-own-catalogs"}
		x.install(t, "rowboat", "1.0.0")
		x.want(t, "rowboat", fields{"version": ">=3"})
		x.mustReadCatalogs(t, olm)
	})
}

// mustReadCatalogs fails unless berth reads the catalogs that catalogd serves, by a port that the API server forwards, and says of the
// ClusterExtension, which OLM refuses, what OLM says. Without catalogd's authority, it says that of no catalog.
func (x *extension) mustReadCatalogs(t *testing.T, olm *olmv1.OLM) {
	t.Helper()
	built, err := tools.Programs(t.Context(), "./cmd/berth")
	require.NoError(t, err)
	plan := func(authority []byte) (*prediction.Prediction, string) {
		file := filepath.Join(t.TempDir(), "ca.crt")
		require.NoError(t, os.WriteFile(file, authority, 0o644))
		command := exec.CommandContext(t.Context(), built.Path("berth"), "catalog", "plan", "--kubeconfig", x.Kubeconfig(), "--catalogd-ca", file, "-o", "json")
		var stderr strings.Builder
		command.Stderr = &stderr
		out, _ := command.Output() // it has an exit code of its own, because extensions are refused
		var document prediction.Document
		require.NoErrorf(t, json.Unmarshal(out, &document), "%s%s", out, stderr.String())
		i := slices.IndexFunc(document.Predictions, func(p *prediction.Prediction) bool { return p.ClusterExtension == x.name })
		require.GreaterOrEqualf(t, i, 0, "no prediction for the ClusterExtension: %s%s", out, stderr.String())
		return document.Predictions[i], string(out)
	}
	p, _ := plan(olm.Authority)
	assert.Equalf(t, prediction.Refused, p.Reaction, "got %+v, want that it is refused", p)
	x.mustDo(t, p, "1.0.0")
	stranger, err := authority.New("stranger")
	require.NoError(t, err)
	p, out := plan(stranger.PEM())
	if p.Reaction == prediction.Refused && strings.Contains(p.Message, ">=3") || !strings.Contains(out, "certificate") {
		t.Errorf("with another authority, got %s", out)
	}
}

// addCatalog makes OLM serve a catalog of a package, with bundles of the versions that its channels name, and returns its folder.
func addCatalog(t *testing.T, olm *olmv1.OLM, pkg, documents string) string {
	t.Helper()
	bundles := map[string]string{}
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
		name := pkg + ".v" + version
		bundles[name] = operators.Folder(t, pkg, operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: name}, Modes: []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeAllNamespaces}})
		documents += operators.BundleDocument(pkg, version)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(documents), 0o644))
	olm.AddCatalog(pkg, dir, pkg, bundles)
	return dir
}

// extension is a ClusterExtension of a name, in a namespace of that name.
type extension struct {
	*cluster.Cluster
	name string
}

func (x *extension) get(ctx context.Context) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(clusterextension.Kind)
	return object, x.Client().Get(ctx, client.ObjectKey{Name: x.name}, object)
}

// install makes OLM install a version, if one is given.
func (x *extension) install(t *testing.T, pkg, version string) {
	t.Helper()
	require.NoError(t, x.EnsureNamespace(t.Context(), x.name))
	if version == "" {
		return
	}
	x.want(t, pkg, map[string]any{"version": version})
	x.await(t, "version "+version+" to be installed", func(object *unstructured.Unstructured) bool { return versionOf(object) == version })
}

// wanting returns the ClusterExtension as it is, or a new one, but with other fields of spec.source.catalog.
func (x *extension) wanting(ctx context.Context, pkg string, fields map[string]any) (*unstructured.Unstructured, error) {
	object, err := x.get(ctx)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	catalog := map[string]any{"packageName": pkg}
	maps.Copy(catalog, fields)
	object.SetName(x.name)
	return object, unstructured.SetNestedMap(object.Object, map[string]any{
		"namespace": x.name, "source": map[string]any{"sourceType": "Catalog", "catalog": catalog},
	}, "spec")
}

// want writes the fields that wanting returns.
func (x *extension) want(t *testing.T, pkg string, fields map[string]any) {
	t.Helper()
	cluster.Eventually(t, limit, "the ClusterExtension to be written", func(ctx context.Context) error {
		object, err := x.wanting(ctx, pkg, fields)
		if err != nil {
			return err
		}
		if object.GetUID() == "" {
			return x.Client().Create(ctx, object)
		}
		return x.Client().Update(ctx, object)
	})
}

// predict predicts OLM's action when the ClusterExtension has other fields.
func (x *extension) predict(t *testing.T, catalog, pkg string, fields map[string]any) *prediction.Prediction {
	t.Helper()
	object, err := x.wanting(t.Context(), pkg, fields)
	require.NoError(t, err)
	e, err := prediction.ExtensionOf(object)
	require.NoError(t, err)
	read, err := rules.Load(t.Context(), catalog)
	require.NoError(t, err)
	p, err := e.Predict(t.Context(), read)
	require.NoError(t, err)
	return p
}

// mustDo waits until OLM has done the predicted action.
func (x *extension) mustDo(t *testing.T, p *prediction.Prediction, installed string) {
	t.Helper()
	want := installed
	if p.Next != nil {
		want = p.Next.Version
	}
	x.await(t, fmt.Sprintf("OLM to do what is predicted, %s %q", p.Reaction, want), func(object *unstructured.Unstructured) bool {
		if generationSeen(object) != object.GetGeneration() || versionOf(object) != want {
			return false
		}
		_, reason, message := clusterextension.Condition(object, "Progressing")
		if p.Reaction == prediction.Refused {
			return reason == "Retrying" && message == p.Message
		}
		return reason == "Succeeded"
	})
}

// await waits until the ClusterExtension is as it should be.
func (x *extension) await(t *testing.T, what string, is func(*unstructured.Unstructured) bool) {
	t.Helper()
	cluster.Eventually(t, limit, what, func(ctx context.Context) error {
		object, err := x.get(ctx)
		if err != nil {
			return err
		}
		if !is(object) {
			status, reason, message := clusterextension.Condition(object, "Progressing")
			return fmt.Errorf("version %q is installed, and Progressing is %s, %s: %s", versionOf(object), status, reason, message)
		}
		return nil
	})
}

func versionOf(object *unstructured.Unstructured) string {
	version, _, _ := unstructured.NestedString(object.Object, "status", "install", "bundle", "version")
	return version
}

// generationSeen is the generation of the ClusterExtension that the condition Progressing is about.
func generationSeen(object *unstructured.Unstructured) (generation int64) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if fields := c.(map[string]any); fields["type"] == "Progressing" {
			generation, _ = fields["observedGeneration"].(int64)
		}
	}
	return generation
}
