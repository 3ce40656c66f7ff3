package build_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	opmtemplate "github.com/operator-framework/operator-registry/alpha/template"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/registryv1/cache"
	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/openshift"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// pushTides pushes the images that the templates in testdata/opm name to a registry, and returns the digest of tide:v1.0.0.
func pushTides(t testing.TB, address string) (digest string) {
	t.Helper()
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.0.1", "1.1.0", "1.1.1", "2.0.0", "2.1.0-rc.1"} {
		folder := filepath.Join(dir, version)
		catalogs.WriteBundle(t, folder, "tide", version, "icon: [{base64data: PHN2Zy8+, mediatype: image/svg+xml}]\n  relatedImages: [{name: moon, image: \"quay.io/example/moon:v1\"}]")
		catalogs.Write(t, filepath.Join(folder, "manifests", "settings.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {version: "+version+"}\n")
		pushed := catalogs.PushBundle(t, folder, "tide", address+"/tide:v"+version)
		if version == "1.0.0" {
			digest = pushed
		}
	}
	// A rebuild by its annotation, which opm orders by its build metadata.
	catalogs.WriteBundle(t, filepath.Join(dir, "rebuilt"), "tide", "3.0.0+1", "")
	rebuilt := filepath.Join(dir, "rebuilt", "manifests", "csv.yaml")
	text, err := os.ReadFile(rebuilt)
	require.NoError(t, err)
	catalogs.Write(t, rebuilt, strings.Replace(string(text), "{name: tide.v3.0.0+1}", "{name: tide.v3.0.0-1, annotations: {olm.substitutesFor: tide.v3.0.0}}", 1))
	catalogs.PushBundle(t, filepath.Join(dir, "rebuilt"), "tide", address+"/tide:v3.0.0-1")
	catalogs.WriteBundle(t, filepath.Join(dir, "moon"), "moon", "1.0.0", "")
	catalogs.PushBundle(t, filepath.Join(dir, "moon"), "moon", address+"/moon:v1.0.0")
	return digest
}

// opmTemplates writes the templates in testdata/opm into a folder, with the images of a registry.
func opmTemplates(t testing.TB, address, digest string) (files []string) {
	t.Helper()
	names, err := filepath.Glob("testdata/opm/*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	dir := t.TempDir()
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		file := filepath.Join(dir, filepath.Base(name))
		catalogs.Write(t, file, strings.NewReplacer("REGISTRY", address, "DIGEST", digest).Replace(string(text)))
		files = append(files, file)
	}
	return files
}

// documentsOf returns the documents of all catalogs of a template without errors, as opm writes them.
func documentsOf(t *testing.T, file string, o build.Options) string {
	t.Helper()
	built := builtOf(t, []string{file}, o)
	var text bytes.Buffer
	for _, c := range built.Catalogs {
		require.NoError(t, c.WriteDocuments(&text))
	}
	if text.Len() == 0 {
		t.Fatalf("%s: no catalog: %v", file, built.Found)
	}
	return text.String()
}

// TestTemplatesLikeOPM: real opm makes the same documents of the same templates and images, in each format of bundles.
func TestTemplatesLikeOPM(t *testing.T) {
	address := registry.Start(t, nil)
	for _, file := range opmTemplates(t, address, pushTides(t, address)) {
		for _, format := range []render.Format{"", render.Whole, render.Described} {
			t.Run(filepath.Base(file)+" "+string(format), func(t *testing.T) {
				args := []string{"alpha", "render-template", "--use-http", "-o", "yaml", file}
				if format != "" {
					args = append(args, "--migrate-level="+string(format))
				}
				want, err := catalogs.OPMOfImages(t, args...).Output()
				if err != nil {
					t.Fatalf("opm: %v\n%s", err, stderrOf(err))
				}
				assert.Empty(t, cmp.Diff(string(want), documentsOf(t, file, build.Options{Format: format})), "-opm +ours")
			})
		}
	}
}

// TestTemplatesOfFolders: an image may be a folder beside the template. opm's library makes the same documents from the folders.
func TestTemplatesOfFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	writeBundles(t)
	folder := func(_ context.Context, reference string) (*declcfg.DeclarativeConfig, error) {
		b, err := render.Folder(reference)
		if err != nil {
			return nil, err
		}
		whole, err := b.In(render.Whole)
		whole.Image = reference // or opm could not tell them apart
		return &declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{whole}}, err
	}
	text := "schema: olm.semver\nstable: {bundles: [{image: bundles/1.0.0}, {image: bundles/1.1.0}, {image: bundles/1.2.0}]}\n"
	catalogs.Write(t, "tide.yaml", text)
	library, reader, err := opmtemplate.NewRegistry().CreateTemplateBySchema(strings.NewReader(text), folder)
	require.NoError(t, err)
	config, err := library.Render(t.Context(), reader)
	require.NoError(t, err)
	for i := range config.Bundles {
		config.Bundles[i].Image = ""
	}
	var want bytes.Buffer
	require.NoError(t, declcfg.WriteYAML(*config, &want))
	assert.Empty(t, cmp.Diff(want.String(), documentsOf(t, "tide.yaml", build.Options{})), "-opm +ours")
}

// TestSources: templates of all kinds come from files, folders and standard input in one run.
func TestSources(t *testing.T) {
	t.Chdir(t.TempDir())
	writeBundles(t)
	catalogs.Write(t, "templates/tide.yaml", "schema: olm.semver\nstable: {bundles: [{image: ../bundles/1.0.0}]}\n")
	catalogs.Write(t, "templates/README.md", "# None\n")
	catalogs.Write(t, "templates/.hidden.yaml", "none")
	catalogs.WriteBundle(t, "bundles/sun", "sun", "1.0.0", "")
	catalogs.Write(t, "sun.yaml", "schema: berth.template\npackage: sun\nbundles: [{folder: bundles/sun}]\nchannels: [{name: stable}]\n")
	stdin := "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: moon, defaultChannel: stable}\n" +
		"- {schema: olm.channel, package: moon, name: stable, entries: [{name: moon.v1.0.0}]}\n- {schema: olm.bundle, image: bundles/moon}\n"
	built := builtOf(t, []string{"templates", "sun.yaml", build.Stdin}, build.Options{Stdin: strings.NewReader(stdin)})
	var got []string
	for _, c := range built.Catalogs {
		got = append(got, c.Config.Packages[0].Name)
	}
	if want := []string{"tide", "sun", "moon"}; !cmp.Equal(got, want) {
		t.Errorf("got packages %v, want %v; findings %v", got, want, built.Found)
	}
	for source, want := range map[string]string{"bundles": "bundles has neither templates nor a bundle", "nothing.yaml": "nothing.yaml"} {
		if _, err := build.Templates(t.Context(), []string{source}, build.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", source, err, want)
		}
	}
}

// TestKept: cached images are not pulled again: a digest takes no request, and a tag only the request for the digest.
func TestKept(t *testing.T) {
	var requests atomic.Int64
	address := registry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			next.ServeHTTP(w, r)
		})
	})
	digest := pushTides(t, address)
	file := filepath.Join(t.TempDir(), "tide.yaml")
	dir := t.TempDir()
	keeping := func(image string) (text string, took int64) {
		catalogs.Write(t, file, "schema: olm.semver\nstable: {bundles: [{image: \""+image+"\"}]}\n")
		kept := cache.New(dir, cache.Limit)
		before := requests.Load()
		text = documentsOf(t, file, build.Options{Keeper: kept})
		assert.NoError(t, kept.Close())
		return text, requests.Load() - before
	}
	byDigest, byTag := address+"/tide@"+digest, address+"/tide:v1.0.0"
	first, took := keeping(byDigest)
	if took < 3 {
		t.Errorf("the first pull took %d requests", took)
	}
	if again, took := keeping(byDigest); again != first || took != 0 {
		t.Errorf("by digest again: %d requests, want none; same text: %v", took, again == first)
	}
	catalogs.Write(t, file, "schema: olm.semver\nstable: {bundles: [{image: \""+address+"/elsewhere@"+digest+"\"}]}\n")
	kept := cache.New(dir, cache.Limit)
	defer kept.Close()
	if built := builtOf(t, []string{file}, build.Options{Keeper: kept}); len(built.Catalogs) > 0 || len(built.Found) != 1 {
		t.Errorf("of a repository without the image there are %d catalogs, findings %v; want one finding", len(built.Catalogs), built.Found)
	}
	if _, took := keeping(byTag); took != 2 { // whether the registry wants a login, and the manifest
		t.Errorf("by tag: %d requests, want 2", took)
	}
}

// TestUnreachable: all images are read although some cannot be, and each fault is reported at its line.
func TestUnreachable(t *testing.T) {
	address := registry.Start(t, nil)
	pushTides(t, address)
	file := filepath.Join(t.TempDir(), "tide.yaml")
	catalogs.Write(t, file, fmt.Sprintf("schema: olm.semver\nstable:\n  bundles:\n  - image: %s/none:v1\n  - image: %[1]s/tide:v1.0.0\n  - image: %s/tide:v1\n", address, registry.Nobody()))
	var read atomic.Int64
	built := builtOf(t, []string{file}, build.Options{Progress: func(done, all int) {
		read.Store(int64(done))
		if all != 3 {
			t.Errorf("progress says %d bundles, want 3", all)
		}
	}})
	var lines []int
	for _, f := range built.Found {
		lines = append(lines, f.Line)
	}
	if want := []int{4, 6}; len(built.Catalogs) > 0 || !cmp.Equal(lines, want) {
		t.Errorf("%d catalogs, findings in lines %v, want none and %v: %v", len(built.Catalogs), lines, want, built.Found)
	}
	if read.Load() == 0 {
		t.Error("there was no progress")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := build.Templates(ctx, []string{file}, build.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// stranding is a template whose graph strands tide.v1.0.0: OLM never installs tide.v1.1.0, which alone updates it.
const stranding = `schema: olm.template.basic
entries:
- {schema: olm.package, name: tide, defaultChannel: stable}
- schema: olm.channel
  package: tide
  name: stable
  entries:
  - {name: tide.v1.0.0}
  - {name: tide.v1.1.0, replaces: tide.v1.0.0}
  - {name: tide.v1.2.0, skips: [tide.v1.1.0]}
- {schema: olm.bundle, image: bundles/1.0.0}
- {schema: olm.bundle, image: bundles/1.1.0}
- {schema: olm.bundle, image: bundles/1.2.0}
`

// TestStrandNobody: versions that OLM never installs are a warning, since opm makes the same catalog, and an option corrects that.
func TestStrandNobody(t *testing.T) {
	t.Chdir(t.TempDir())
	writeBundles(t)
	catalogs.Write(t, "tide.yaml", stranding)
	head := func(o build.Options) (skips []string, found []string) {
		built := builtOf(t, []string{"tide.yaml"}, o)
		for _, f := range built.Found {
			found = append(found, f.String())
		}
		require.Lenf(t, built.Catalogs, 1, "no catalog: %v", found)
		return built.Catalogs[0].Config.Channels[0].Entries[2].Skips, found
	}
	skips, found := head(build.Options{})
	const want = `tide.yaml:8:5: warning: no update leads from entry "tide.v1.0.0" of channel "stable" to the head "tide.v1.2.0": "tide.v1.1.0" replaces "tide.v1.0.0", but "tide.v1.2.0" skips "tide.v1.1.0"; let "tide.v1.2.0" skip it, too (channel-path)`
	if !cmp.Equal(skips, []string{"tide.v1.1.0"}) || !cmp.Equal(found, []string{want}) {
		t.Errorf("the head skips %q, findings\n%s\nwant\n%s", skips, strings.Join(found, "\n"), want)
	}
	if skips, found := head(build.Options{StrandNobody: true}); !cmp.Equal(skips, []string{"tide.v1.1.0", "tide.v1.0.0"}) || len(found) > 0 {
		t.Errorf("the head skips %q, findings %q, want both earlier entries and no findings", skips, found)
	}
}

// TestTemplateAgainst: a template that strands clusters of the earlier catalog has findings at its lines, and nothing is built.
func TestTemplateAgainst(t *testing.T) {
	t.Chdir(t.TempDir())
	writeBundles(t)
	earlier := declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"}, {Schema: declcfg.SchemaPackage, Name: "sun", DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{
			{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "tide.v0.8.0"}}},
			{Schema: declcfg.SchemaChannel, Package: "tide", Name: "fast", Entries: []declcfg.ChannelEntry{{Name: "tide.v0.8.0"}}},
			{Schema: declcfg.SchemaChannel, Package: "sun", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "sun.v1.0.0"}}},
		},
		Bundles: []declcfg.Bundle{catalogs.Bundle("tide", "tide.v0.8.0"), catalogs.Bundle("sun", "sun.v1.0.0")},
	}
	catalogs.WriteConfig(t, "earlier", earlier)
	against, _, err := fbc.Read(t.Context(), "earlier")
	require.NoError(t, err)
	catalogs.Write(t, "basic.yaml", strings.Replace(stranding, "skips: [tide.v1.1.0]", "replaces: tide.v1.1.0", 1))
	catalogs.Write(t, "own.yaml", "schema: berth.template\npackage: tide\nchannels: [{name: stable}]\nbundles: [{folder: bundles/1.0.0}]\n")
	for file, lines := range map[string][]int{"basic.yaml": {3, 7}, "own.yaml": {2, 3}} {
		built := builtOf(t, []string{file}, build.Options{Against: against})
		var got []int
		for _, f := range built.Found {
			got = append(got, f.Line)
		}
		if len(built.Catalogs) > 0 || !cmp.Equal(got, lines) {
			t.Errorf("%s: %d catalogs, want none; findings in lines %v, want %v: %v", file, len(built.Catalogs), got, lines, built.Found)
		}
	}
}

// TestAccessAgainst: a template of Berth whose head asks for more than the earlier one has a finding at the bundle. Bundles of opm's
// templates have no payload in memory, so nothing is said of them.
func TestAccessAgainst(t *testing.T) {
	bundles, err := filepath.Abs("../testdata/bundles/tide")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.CopyFS("bundles", os.DirFS(bundles)))
	own := "schema: berth.template\npackage: tide\nchannels: [{name: stable}]\nbundles:\n- folder: bundles/0.1.0\n"
	catalogs.Write(t, "own.yaml", own)
	catalogs.WriteConfig(t, "earlier", *builtOf(t, []string{"own.yaml"}, build.Options{}).Catalogs[0].Config)
	against, _, err := fbc.Read(t.Context(), "earlier")
	require.NoError(t, err)
	files, err := filepath.Glob("bundles/0.2.0/manifests/*clusterserviceversion.yaml")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	csv, err := os.ReadFile(files[0])
	require.NoError(t, err)
	const resources = "apiGroups: [sea.example.com]\n          resources: [tides]"
	if !strings.Contains(string(csv), resources) {
		t.Fatalf("%s has no %q", files[0], resources)
	}
	catalogs.Write(t, files[0], strings.Replace(string(csv), resources, "apiGroups: ['']\n          resources: [secrets]", 1))
	catalogs.Write(t, "own.yaml", own+"- folder: bundles/0.2.0\n")
	catalogs.Write(t, "basic.yaml", "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: tide, defaultChannel: stable}\n"+
		"- {schema: olm.channel, package: tide, name: stable, entries: [{name: tide.v0.1.0}, {name: tide.v0.2.0, replaces: tide.v0.1.0}]}\n"+
		"- {schema: olm.bundle, image: bundles/0.1.0}\n- {schema: olm.bundle, image: bundles/0.2.0}\n")
	for file, want := range map[string]string{
		"own.yaml":   `own.yaml:6:3: the head tide.v0.2.0 of channel "stable" asks for what tide.v0.1.0 does not: cluster secrets (get, list, watch): reads credentials`,
		"basic.yaml": "",
	} {
		got := ""
		for _, f := range builtOf(t, []string{file}, build.Options{Against: against}).Found {
			if f.Rule == "against-access" {
				got += f.Error()
			}
		}
		assert.EqualValues(t, want, got, file)
	}
}

// TestOpenShift: one template makes a catalog for each version of OpenShift, with the bundles that the version offers, in its
// format.
func TestOpenShift(t *testing.T) {
	address := registry.Start(t, nil)
	dir := t.TempDir()
	for version, offeredBy := range map[string]string{"1.0.0": "v4.12-v4.16", "1.1.0": "=v4.18", "1.2.0": "", "1.3.0": "v4.17,v4.18"} {
		folder := filepath.Join(dir, version)
		catalogs.WriteBundle(t, folder, "tide", version, "")
		if offeredBy != "" {
			annotations := filepath.Join(folder, "metadata", "annotations.yaml")
			text, err := os.ReadFile(annotations)
			require.NoError(t, err)
			catalogs.Write(t, annotations, string(text)+"  com.redhat.openshift.versions: \""+offeredBy+"\"\n")
		}
		catalogs.PushBundle(t, folder, "tide", address+"/tide:v"+version)
	}
	const basic = "schema: olm.template.basic\nentries:\n" +
		"- {schema: olm.package, name: tide, defaultChannel: old}\n" +
		"- {schema: olm.channel, package: tide, name: old, entries: [{name: tide.v1.0.0}]}\n" +
		"- {schema: olm.channel, package: tide, name: stable, entries: [{name: tide.v1.0.0}, {name: tide.v1.1.0, replaces: tide.v1.0.0}, {name: tide.v1.2.0, replaces: tide.v1.1.0}, {name: tide.v1.3.0, replaces: tide.v1.2.0}]}\n" +
		"- {schema: olm.bundle, image: REGISTRY/tide:v1.0.0}\n- {schema: olm.bundle, image: REGISTRY/tide:v1.1.0}\n" +
		"- {schema: olm.bundle, image: REGISTRY/tide:v1.2.0}\n- {schema: olm.bundle, image: REGISTRY/tide:v1.3.0}\n" +
		"- {schema: olm.deprecations, package: tide, entries: [{reference: {schema: olm.bundle, name: tide.v1.0.0}, message: Old.}]}\n"
	const semver = "schema: olm.semver\nstable: {bundles: [{image: REGISTRY/tide:v1.0.0}, {image: REGISTRY/tide:v1.1.0}, {image: REGISTRY/tide:v1.2.0}, {image: REGISTRY/tide:v1.3.0}]}\n"
	const own = "schema: berth.template\npackage: tide\ndefaultChannel: old\n" +
		"channels: [{name: old, entries: [{version: 1.0.0}]}, {name: stable}]\n" +
		"bundles: [{image: REGISTRY/tide:v1.0.0}, {image: REGISTRY/tide:v1.1.0}, {image: REGISTRY/tide:v1.2.0}, {image: REGISTRY/tide:v1.3.0}]\n"
	versions := []openshift.Version{{Major: 4, Minor: 11}, {Major: 4, Minor: 16}, {Major: 4, Minor: 18}}
	for name, tc := range map[string]struct {
		template string
		want     []string // of each catalog: its folder, default channel and format, and its entries
	}{
		"basic": {basic, []string{
			"v4.11 stable olm.bundle.object stable/tide.v1.2.0>tide.v1.1.0",
			"v4.16 old olm.bundle.object old/tide.v1.0.0 stable/tide.v1.0.0 stable/tide.v1.2.0>tide.v1.0.0+tide.v1.1.0 1 deprecations",
			"v4.18 stable olm.csv.metadata stable/tide.v1.1.0>tide.v1.0.0 stable/tide.v1.2.0>tide.v1.1.0",
		}},
		"semver": {semver, []string{
			"v4.11 stable-v1.2 olm.bundle.object stable-v1.2/tide.v1.2.0",
			"v4.16 stable-v1.2 olm.bundle.object stable-v1.0/tide.v1.0.0 stable-v1.2/tide.v1.2.0>tide.v1.0.0",
			"v4.18 stable-v1.2 olm.csv.metadata stable-v1.1/tide.v1.1.0 stable-v1.2/tide.v1.2.0>tide.v1.1.0",
		}},
		"own": {own, []string{
			"v4.11 stable olm.bundle.object stable/tide.v1.2.0>tide.v1.1.0",
			"v4.16 old olm.bundle.object old/tide.v1.0.0 stable/tide.v1.0.0 stable/tide.v1.2.0>tide.v1.0.0+tide.v1.1.0",
			"v4.18 stable olm.csv.metadata stable/tide.v1.1.0>tide.v1.0.0 stable/tide.v1.2.0>tide.v1.1.0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tide.yaml")
			catalogs.Write(t, file, strings.ReplaceAll(tc.template, "REGISTRY", address))
			built := builtOf(t, []string{file}, build.Options{Versions: versions})
			var got []string
			for _, c := range built.Catalogs {
				written, err := c.Write(t.TempDir())
				require.NoError(t, err)
				got = append(got, summary(t, written))
			}
			assert.Empty(t, cmp.Diff(tc.want, got), "-want +got")
			found := map[string]int{}
			for _, f := range built.Found {
				for _, part := range []string{`is "v4.17,v4.18", so no version of OpenShift offers it`, `the default channel "old" is for this version of OpenShift, so the default channel is "stable"; only in the catalogs for OpenShift 4.11, 4.18`} {
					if strings.Contains(f.Message, part) {
						found[part]++
					}
				}
			}
			if want := map[string]int{"basic": 2, "semver": 1, "own": 2}[name]; len(found) != want || len(built.Found) != want {
				t.Errorf("found %v, want %d findings: %v", found, want, built.Found)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "tide.yaml")
	catalogs.Write(t, file, strings.ReplaceAll("schema: olm.semver\nstable: {bundles: [{image: REGISTRY/tide:v1.1.0}]}\n", "REGISTRY", address))
	if built := builtOf(t, []string{file}, build.Options{Versions: versions[:1]}); len(built.Catalogs) > 0 || len(built.Found) > 0 {
		t.Errorf("%d catalogs, findings %v; want none, as no bundle is for the version", len(built.Catalogs), built.Found)
	}
}

// summary describes a written catalog: folder, default channel, format of bundles, entries, and the number of deprecations.
func summary(t *testing.T, file string) string {
	t.Helper()
	config, err := declcfg.LoadFS(t.Context(), os.DirFS(filepath.Dir(file)))
	require.NoError(t, err)
	payload := config.Bundles[0].Properties[len(config.Bundles[0].Properties)-1].Type
	text := []string{filepath.Base(filepath.Dir(filepath.Dir(file))), config.Packages[0].DefaultChannel, payload}
	for _, c := range config.Channels {
		for _, e := range c.Entries {
			entry := c.Name + "/" + e.Name
			if e.Replaces != "" {
				entry += ">" + strings.Join(append([]string{e.Replaces}, e.Skips...), "+")
			}
			text = append(text, entry)
		}
	}
	for _, d := range config.Deprecations {
		text = append(text, fmt.Sprintf("%d deprecations", len(d.Entries)))
	}
	return strings.Join(text, " ")
}
