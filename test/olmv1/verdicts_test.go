package olmv1_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/olmv1"
)

// setup is a setup of OLM v1.
type setup struct {
	name  string
	gates string // as the flag --feature-gates has them
	// certManager says that the cluster serves the API of cert-manager.
	certManager bool
}

var setups = []setup{
	{name: "helm"},
	{name: "boxcutter", gates: "BoxcutterRuntime=true"},
	{name: "helm-all-gates", gates: featuregates.All(true) + ",BoxcutterRuntime=false", certManager: true},
	{name: "boxcutter-all-gates", gates: featuregates.All(true)},
	{name: "helm-no-gates", gates: featuregates.All(false)},
	{name: "helm-openshift", gates: "WebhookProviderCertManager=false"},
}

func (s *setup) on(t *testing.T) featuregates.Set {
	t.Helper()
	set, err := featuregates.Of(featuregates.Latest)
	if err == nil {
		set, err = set.With(s.gates)
	}
	require.NoError(t, err)
	return set
}

// verdict is OLM v1's reaction to a trap: the condition Progressing, and the installed bundle.
type verdict struct {
	Setup   string `json:"setup"`
	Case    string `json:"case"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Bundle  string `json:"bundle,omitempty"`
}

// record holds verdicts, with their time and the version of OLM.
type record struct {
	Date               string    `json:"date"`
	OperatorController string    `json:"operatorController"`
	Kubernetes         string    `json:"kubernetes"`
	Verdicts           []verdict `json:"verdicts"`
}

const recordFile = "testdata/verdicts.json"

// of returns the verdict that a prediction expects.
func of(p *prediction.Prediction, installed string) verdict {
	want := verdict{Reason: "Succeeded", Bundle: installed}
	if p.Next != nil {
		want.Bundle = p.Next.Name
	}
	if p.Reaction == prediction.Refused {
		want.Reason, want.Message = p.Reason, p.Message
	}
	return want
}

// agrees returns the difference of a verdict to the expected one, or "". told removes the varying parts of messages.
func (v verdict) agrees(p *prediction.Prediction, want verdict, told func(string) string) string {
	for _, risk := range p.Risks {
		if risk.Code == prediction.VersionAmbiguous && slices.Contains(strings.FieldsFunc(risk.What, func(r rune) bool { return r == ' ' || r == ',' }), v.Bundle) {
			want.Bundle = v.Bundle // any of them
		}
	}
	v.Message, want.Message = told(v.Message), told(want.Message)
	if v.Bundle == "" && v.Reason != "Succeeded" && p.Reaction == prediction.Refused && want.Message == "" { // it cannot write the status
		return ""
	}
	if v.Reason != want.Reason || v.Bundle != want.Bundle {
		return fmt.Sprintf("OLM says %s with bundle %q, and %q; predicted is %s with bundle %q, and %q", v.Reason, v.Bundle, v.Message, want.Reason, want.Bundle, want.Message)
	}
	if want.Message == "" {
		return ""
	}
	const cut = "... [message truncated]"
	if strings.HasSuffix(v.Message, cut) && strings.HasSuffix(want.Message, cut) { // the cut depends on the order of the lines
		return ""
	}
	have, wanted := lines(v.Message), lines(want.Message)
	if p.MessageGoesOn && strings.HasPrefix(v.Message, want.Message) || slices.Equal(have, wanted) {
		return ""
	}
	return fmt.Sprintf("OLM says\n\t%s\npredicted is\n\t%s", strings.Join(have, "\n\t"), strings.Join(wanted, "\n\t"))
}

// fieldsList matches a list of names in a message.
var fieldsList = regexp.MustCompile(`: \[([\w\s]+)\]`)

// lines returns the parts of a message, sorted: OLM has them, and names in lists, in another order each time.
func lines(message string) []string {
	for _, heading := range []string{"\": ^", "invalid configuration: ", "multiple errors found:", "with version "} {
		message = strings.ReplaceAll(message, heading, heading+"\n")
	}
	message = strings.NewReplacer("validating upgrade", "\nvalidating upgrade", "\": ", "\":\n", "failed: [", "failed:\n", "failed: ", "failed:\n", "first, resource", "first\nresource", "first]", "first").Replace(message)
	message = fieldsList.ReplaceAllStringFunc(message, func(list string) string {
		names := strings.Fields(list[len(": [") : len(list)-1])
		slices.Sort(names)
		return ": [" + strings.Join(names, " ") + "]"
	})
	all := strings.FieldsFunc(message, func(r rune) bool { return r == '\n' })
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	slices.Sort(all)
	return all
}

// TestPredictionsOfTraps makes OLM v1 install every trap in every setup, and compares the result with the prediction. It records the
// verdicts with -update.
func TestPredictionsOfTraps(t *testing.T) {
	if !*withOLM {
		t.Skip("without -olm-v1: see make prove SUITE=olm-v1-predictions")
	}
	images := olmv1.Images(t)
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			found := &record{Date: time.Now().UTC().Format(time.DateOnly), OperatorController: "v1.11.0"}
			t.Run("traps", func(t *testing.T) { s.run(t, images, found) })
			if *update && (!t.Failed() || *updateFailed) {
				found.write(t, recordFile)
			}
		})
	}
}

// write writes the verdicts, sorted, and replaces the file's verdicts of the same setups and cases.
func (r *record) write(t *testing.T, path string) {
	t.Helper()
	given := map[[2]string]bool{}
	for _, v := range r.Verdicts {
		given[[2]string{v.Setup, v.Case}] = true
	}
	var earlier record
	if data, err := os.ReadFile(path); err == nil {
		require.NoError(t, json.Unmarshal(data, &earlier))
	}
	for _, v := range earlier.Verdicts {
		if !given[[2]string{v.Setup, v.Case}] {
			r.Verdicts = append(r.Verdicts, v)
		}
	}
	slices.SortFunc(r.Verdicts, func(a, b verdict) int { return strings.Compare(a.Setup+" "+a.Case, b.Setup+" "+b.Case) })
	data, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, append(data, '\n'), 0o644))
	}
	require.NoError(t, err)
}

// run runs the traps in one setup.
func (s *setup) run(t *testing.T, images map[string]string, found *record) {
	c := cluster.Start(t, cluster.Options{RealNodes: 1, Images: images})
	info, err := kubernetesVersion(c)
	require.NoError(t, err)
	found.Kubernetes = info
	if s.certManager {
		for _, definition := range certManager() {
			require.NoError(t, c.Client().Create(t.Context(), definition))
		}
	}
	olm := olmv1.Start(t, c, olmv1.Options{Gates: s.gates, Experimental: true})
	traps := allTraps()
	var all declcfg.DeclarativeConfig
	folders := map[string]string{}
	for _, tr := range traps {
		config := tr.catalog()
		for i, b := range tr.bundles {
			if !b.noImage {
				folders[config.Bundles[i].Name] = tr.parts(b).folder(t)
			}
		}
		all.Packages, all.Channels = append(all.Packages, config.Packages...), append(all.Channels, config.Channels...)
		all.Bundles, all.Deprecations = append(all.Bundles, config.Bundles...), append(all.Deprecations, config.Deprecations...)
	}
	olm.Serve("traps", 0, all, folders)
	live, err := prediction.ClusterOf(c.Config())
	require.NoError(t, err)
	var recording sync.Mutex
	for _, tr := range traps {
		t.Run(tr.name, func(t *testing.T) {
			if !tr.silent { // while OLM is busy, it is silent anyway
				t.Parallel()
			}
			x := &extension{Cluster: c, name: tr.name}
			v := x.try(t, s, tr, live)
			recording.Lock()
			defer recording.Unlock()
			found.Verdicts = append(found.Verdicts, v)
		})
	}
}

// try has OLM act on a trap, and returns its verdict.
func (x *extension) try(t *testing.T, s *setup, tr *trap, live refusal.Cluster) verdict {
	t.Helper()
	require.NoError(t, x.EnsureNamespace(t.Context(), x.name))
	for _, o := range tr.existing(t, x.name) {
		require.NoError(t, x.Client().Create(t.Context(), o))
	}
	installed := ""
	if tr.installed != "" {
		installed = x.installFirst(t, tr)
	}
	object, err := x.wanting(t.Context(), tr.name, tr.wants)
	require.NoError(t, err)
	tr.configure(t, object, x.name)
	e, err := prediction.ExtensionOf(object)
	require.NoError(t, err)
	e.Gates, e.Cluster, e.Content = s.on(t), live, tr.content(t)
	p, err := e.Predict(t.Context(), tr.read(t))
	require.NoError(t, err)
	want := of(p, installed)
	x.write(t, tr, tr.wants)
	got := verdict{Setup: s.name, Case: tr.name}
	if tr.silent {
		time.Sleep(silentPeriod)
		if got, err = x.verdict(t.Context()); err != nil || got.Bundle != "" || got.Reason == "Succeeded" {
			t.Errorf("OLM says %s, error %v; want nothing of an installed version", got.Reason, err)
		}
		if p.Reaction != prediction.Refused || p.Message != "" {
			t.Errorf("predicted is %s, %q; want a refusal without a message", p.Reaction, p.Message)
		}
		return verdict{Setup: s.name, Case: tr.name, Reason: got.Reason}
	}
	got = x.observe(t, p, want, installed, tr.told)
	got.Setup, got.Case = s.name, tr.name
	return got
}

// observe waits for the predicted action of OLM, and returns its final verdict.
func (x *extension) observe(t *testing.T, p *prediction.Prediction, want verdict, installed string, told func(string) string) (got verdict) {
	t.Helper()
	problem := ""
	began, seen := time.Now(), time.Time{}
	for wait := settlePeriod; ; wait = 500 * time.Millisecond {
		if want.Reason != "Succeeded" || want.Bundle != installed {
			wait = 500 * time.Millisecond
		}
		time.Sleep(wait)
		var err error
		if got, err = x.verdict(t.Context()); err == nil && got.Reason != "" {
			if seen.IsZero() {
				seen = time.Now()
			}
			if problem = got.agrees(p, want, told); problem == "" {
				return got
			}
		}
		if !seen.IsZero() && time.Since(seen) > actionTimeout || time.Since(began) > observeTimeout {
			t.Errorf("%s (%v)", problem, err)
			return got
		}
	}
}

// actionTimeout limits OLM's predicted action once it has seen a ClusterExtension, and observeTimeout the time until it
// sees one: it looks at one after the other. silentPeriod is how long it reports nothing if it cannot write the status.
// settlePeriod is how long nothing must change if no change is predicted.
const (
	actionTimeout  = 8 * time.Minute
	observeTimeout = 15 * time.Minute
	silentPeriod   = 20 * time.Second
	settlePeriod   = 4 * time.Second
)

// verdict returns OLM's status of the current ClusterExtension, or no reason if OLM has not seen it yet.
func (x *extension) verdict(ctx context.Context) (v verdict, err error) {
	object, err := x.get(ctx)
	if err != nil || generationSeen(object) != object.GetGeneration() {
		return v, err
	}
	_, v.Reason, v.Message = clusterextension.Condition(object, "Progressing")
	if v.Reason == "Succeeded" {
		v.Message = ""
	}
	v.Bundle = bundleNameOf(object)
	return v, nil
}

// installFirst makes OLM install the version that a trap begins with, and returns the name of its bundle.
func (x *extension) installFirst(t *testing.T, tr *trap) string {
	t.Helper()
	i := slices.IndexFunc(tr.bundles, func(b bundle) bool { return b.version == tr.installed })
	x.write(t, nil, map[string]any{"channels": []any{only(tr.bundles[i])}})
	name := ""
	x.await(t, "version "+tr.installed+" to be installed", func(object *unstructured.Unstructured) bool {
		_, reason, _ := clusterextension.Condition(object, "Progressing")
		name = bundleNameOf(object)
		return name != "" && reason == "Succeeded"
	})
	return name
}

// write writes the ClusterExtension with these fields of spec.source.catalog, and with the additional fields of a trap,
// which may be nil.
func (x *extension) write(t *testing.T, tr *trap, wants fields) {
	t.Helper()
	cluster.Eventually(t, limit, "the ClusterExtension to be written", func(ctx context.Context) error {
		object, err := x.wanting(ctx, x.name, wants)
		if err != nil {
			return err
		}
		if tr != nil {
			tr.configure(t, object, x.name)
		}
		if object.GetUID() == "" {
			return x.Client().Create(ctx, object)
		}
		return x.Client().Update(ctx, object)
	})
}

// configure sets a trap's fields beside the catalog.
func (tr *trap) configure(t *testing.T, object *unstructured.Unstructured, namespace string) {
	t.Helper()
	set := func(value any, path ...string) {
		require.NoError(t, unstructured.SetNestedField(object.Object, value, path...))
	}
	if tr.config != nil {
		var inline any
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(marshal(t, tr.config)), in, namespace)), &inline))
		set(fields{"configType": "Inline", "inline": inline}, "spec", "config")
	}
	if tr.unsafe {
		set("None", "spec", "install", "preflight", "crdUpgradeSafety", "enforcement")
	}
}

// existing returns the objects that exist before.
func (tr *trap) existing(t *testing.T, namespace string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range tr.exists {
		o := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(marshal(t, object)), in, namespace)), &o.Object))
		all = append(all, o)
	}
	return all
}

// content returns the parts of the trap's bundles that OLM reads.
func (tr *trap) content(t *testing.T) func(context.Context, *fbc.Bundle) (*refusal.Bundle, error) {
	t.Helper()
	config := tr.catalog()
	return func(_ context.Context, listed *fbc.Bundle) (*refusal.Bundle, error) {
		i := slices.IndexFunc(config.Bundles, func(b declcfg.Bundle) bool { return b.Name == listed.Name })
		p := tr.parts(tr.bundles[i])
		b, err := refusal.FromObjects(p.pkg, p.unstructured(t))
		if err != nil {
			return nil, err
		}
		return b.As(listed), nil
	}
}

// installedAs are the fields that a status has of the installed bundle.
func (tr *trap) installedAs(t *testing.T, on featuregates.Set) fields {
	t.Helper()
	i := slices.IndexFunc(tr.bundles, func(b bundle) bool { return b.version == tr.installed })
	b := tr.bundles[i]
	said := fields{"name": tr.catalog().Bundles[i].Name, "version": b.version}
	if !on[featuregates.BundleRelease] {
		return said
	}
	if b.release != "" {
		said["release"] = b.release
	} else if number, build, has := strings.Cut(b.version, "+"); has {
		said["version"], said["release"] = number, build
	}
	return said
}

// certManager returns minimal definitions of cert-manager's APIs.
func certManager() (all []*unstructured.Unstructured) {
	for plural, kind := range map[string]string{"issuers": "Issuer", "certificates": "Certificate"} {
		all = append(all, &unstructured.Unstructured{Object: fields{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": fields{"name": plural + ".cert-manager.io"},
			"spec": fields{"group": "cert-manager.io", "scope": "Namespaced", "names": fields{"plural": plural, "kind": kind}, "versions": []any{fields{
				"name": "v1", "served": true, "storage": true,
				"schema": fields{"openAPIV3Schema": fields{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}}},
		}})
	}
	return all
}

func kubernetesVersion(c *cluster.Cluster) (string, error) {
	output, err := c.Kubectl(context.Background(), "version", "--output=json").Output()
	if err != nil {
		return "", err
	}
	var said struct{ ServerVersion struct{ GitVersion string } }
	err = json.Unmarshal(output, &said)
	return said.ServerVersion.GitVersion, err
}

// bundleNameOf returns the name of the bundle that is installed.
func bundleNameOf(object *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(object.Object, "status", "install", "bundle", "name")
	return name
}
