package mirror_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// sea is a registry with the images of a catalog, and that catalog.
type sea struct {
	address string
	open    string   // where the tests push images
	dir     string   // of the catalog
	images  []string // by digest
}

func newSea(t *testing.T, guard func(http.Handler) http.Handler) *sea {
	t.Helper()
	address := registry.Start(t, guard)
	return fill(t, &sea{address: address, open: address, dir: t.TempDir()})
}

// fill pushes a bundle and an operator for each of three versions, with an SBOM and a signature of the last operator.
func fill(t *testing.T, s *sea) *sea {
	t.Helper()
	text := "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\nentries:\n" +
		"- {name: tide.v1.0.0}\n- {name: tide.v1.1.0, replaces: tide.v1.0.0}\n- {name: tide.v2.0.0, replaces: tide.v1.1.0, skipRange: '<2.0.0'}\n"
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
		bundle, operator := s.push(t, "example/tide-bundle", "v"+version), s.push(t, "example/deep/tide", "v"+version)
		text += fmt.Sprintf("---\nschema: olm.bundle\npackage: tide\nname: tide.v%[1]s\nimage: %[2]s\nproperties:\n- {type: olm.package, value: {packageName: tide, version: %[1]s}}\n"+
			"- {type: olm.maxOpenShiftVersion, value: '4.21'}\n- {type: sea.example.com/depth, value: 12345678901234567890}\n"+
			"relatedImages:\n- {name: bundle, image: %[2]q}\n- {name: operator, image: %[3]q}\n", version, bundle, operator)
	}
	text += "---\nschema: sea.example.com.chart\npackage: tide\nname: depths\ndepth: 3\n"
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "catalog.yaml"), []byte(text), 0o644))
	last := s.images[len(s.images)-1]
	_, err := oci.Attach(t.Context(), strings.Replace(last, s.address, s.open, 1), "application/spdx+json", []byte(`{"spdxVersion": "SPDX-2.3"}`))
	require.NoError(t, err)
	digest := last[strings.Index(last, "sha256:"):]
	s.push(t, "example/deep/tide", strings.Replace(digest, ":", "-", 1)+".sig") // as cosign attaches a signature
	return s
}

// push pushes an image for all architectures, and returns its pull spec by digest.
func (s *sea) push(t *testing.T, repository, tag string) string {
	t.Helper()
	index, err := oci.Content{Files: map[string][]byte{"hold/cargo": []byte(strings.Repeat(repository+tag, 1000))}, Labels: map[string]string{"version": tag}}.Index()
	require.NoError(t, err)
	digest, err := oci.Push(t.Context(), s.open+"/"+repository+":"+tag, index)
	require.NoError(t, err)
	s.images = append(s.images, s.address+"/"+repository+"@"+digest)
	return s.images[len(s.images)-1]
}

// run mirrors from a source to a destination, and returns the report, the number of copied bytes, and the folder of the
// objects.
func run(t *testing.T, ctx context.Context, from, to string, selections ...string) (mirror.Document, int64, string, error) {
	t.Helper()
	opened, err := source.Open(ctx, from)
	if err != nil {
		return mirror.Document{}, 0, "", err
	}
	defer opened.Close()
	options := mirror.Options{Name: "sea", Tag: "latest", Namespace: "openshift-marketplace", Jobs: 3, Time: time.Minute, Text: from, Origin: opened.Origin, Host: opened.Host}
	for _, text := range selections {
		s, err := mirror.ParseSelection(text)
		require.NoError(t, err)
		options.Selections = append(options.Selections, s)
	}
	m, err := mirror.New(ctx, opened.Dir, options)
	if err != nil {
		return mirror.Document{}, 0, "", err
	}
	defer m.Close()
	destination, err := mirror.OpenDestination(to, options.Name)
	if err != nil {
		return mirror.Document{}, 0, "", err
	}
	defer destination.Close()
	if err := m.Inspect(ctx, opened.Images(ctx, nil), destination); err != nil {
		return mirror.Document{}, 0, "", err
	}
	d := m.Document(from, to, false)
	if err := m.Copy(ctx, func(mirror.Image) {}); err != nil {
		return d, m.Copied(), "", err
	}
	if mirror.IsFolder(to) {
		return d, m.Copied(), "", nil
	}
	resources := filepath.Join(t.TempDir(), "mirror")
	_, err = m.Write(resources, d)
	return d, m.Copied(), resources, err
}

// digestIn returns the digest of a reference in a registry, or "".
func digestIn(t *testing.T, reference string) string {
	t.Helper()
	digest, err := oci.Find(t.Context(), reference)
	require.NoError(t, err)
	return digest
}

// checkCopied fails unless a registry has complete copies of images, with everything attached to the last one.
func checkCopied(t *testing.T, to string, images []string) {
	t.Helper()
	for _, original := range images {
		assert.NoError(t, oci.CheckComplete(t.Context(), to+"/"+placeOf(original)))
	}
}

// placeOf returns the place of an image below the path of a mirror.
func placeOf(original string) string {
	host, path, _ := strings.Cut(original, "/")
	return strings.Replace(host, ":", "__", 1) + "/" + path
}

// attachedTo returns the number of referrers, and whether there is a signature of cosign's.
func attachedTo(t *testing.T, pullSpec string) (referrers int, signed bool) {
	t.Helper()
	ref, err := name.NewDigest(pullSpec)
	require.NoError(t, err)
	index, err := remote.Referrers(ref)
	require.NoError(t, err)
	list, err := index.IndexManifest()
	require.NoError(t, err)
	return len(list.Manifests), digestIn(t, ref.Context().Tag(strings.Replace(ref.DigestStr(), ":", "-", 1)+".sig").Name()) != ""
}

// TestMirror mirrors from registry to registry, and by way of a folder: the copies are complete, with everything attached,
// the catalog is valid for us and for opm, and a second run copies nothing.
func TestMirror(t *testing.T) {
	s := newSea(t, nil)
	for _, way := range []struct {
		name   string
		places func(to string) []string
	}{
		{"from registry to registry", func(to string) []string { return []string{s.dir, to} }},
		{"by a folder", func(to string) []string { return []string{s.dir, "oci:" + filepath.Join(t.TempDir(), "carried"), to} }},
	} {
		t.Run(way.name, func(t *testing.T) {
			to := registry.Start(t, nil) + "/mirror/here"
			places := way.places(to)
			var d mirror.Document
			var resources string
			for i, from := range places[:len(places)-1] {
				var copied int64
				var err error
				if d, copied, resources, err = run(t, t.Context(), from, places[i+1], "tide@>=1.1.0"); err != nil {
					t.Fatal(err)
				}
				if copied != d.Missing || copied == 0 || d.Missing != d.Size {
					t.Errorf("%d bytes were copied; %d of %d were missing", copied, d.Missing, d.Size)
				}
				if again, copied, _, err := run(t, t.Context(), from, places[i+1], "tide@>=1.1.0"); err != nil || copied != 0 || again.Missing != 0 || again.Catalog.Digest != d.Catalog.Digest {
					t.Errorf("once more: %d bytes were copied, %d were missing: %v", copied, again.Missing, err)
				}
			}
			wanted := s.images[2:6] // the images of 1.1.0 and 2.0.0
			checkCopied(t, to, wanted)
			assert.Lenf(t, d.Images, len(wanted), "%d images, want %d", len(d.Images), len(wanted))
			assert.Empty(t, digestIn(t, to+"/"+placeOf(s.address+"/example/tide-bundle:v1.0.0")), "a version that nobody chose is there")
			path := placeOf(wanted[3])
			if referrers, signed := attachedTo(t, to+"/"+path); referrers != 1 || !signed {
				t.Errorf("%d referrers of %s, and a signature: %t; want 1 and true", referrers, path, signed)
			}
			if got := digestIn(t, to+"/sea:latest"); got != d.Catalog.Digest {
				t.Errorf("the catalog is %s, want %s", got, d.Catalog.Digest)
			}
			if out, err := catalogs.OPMOfImages(t, "render", to+"/sea:latest", "--use-http").CombinedOutput(); err != nil || !strings.Contains(string(out), `"name": "tide.v2.0.0"`) {
				t.Errorf("opm render of the catalog's image: %v\n%.2000s", err, out)
			}
			checkResources(t, s, to, resources)
		})
	}
}

// checkResources checks the folder with the catalog and the objects.
func checkResources(t *testing.T, s *sea, to, dir string) {
	t.Helper()
	catalog := filepath.Join(dir, "catalog")
	c, err := rules.Load(t.Context(), catalog)
	require.NoError(t, err)
	if out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", catalog).CombinedOutput(); err != nil {
		t.Errorf("opm validate: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(catalog, "tide", "catalog.json"))
	require.NoError(t, err)
	for _, passed := range []string{`"olm.maxOpenShiftVersion"`, `12345678901234567890`, `"sea.example.com.chart"`} {
		assert.Contains(t, string(text), passed, "the catalog has lost something")
	}
	full, _, err := fbc.Read(t.Context(), s.dir)
	require.NoError(t, err)
	for _, f := range rules.Against(c, full) { // updates still lead from dropped entries to the head
		assert.Equal(t, "against-gone", f.Rule, f)
	}
	for file, want := range map[string]string{
		"imagedigestmirrorset.yaml": fmt.Sprintf("  - mirrors:\n    - %[1]s/%[3]s/example/deep/tide\n    source: %[2]s/example/deep/tide\n  - mirrors:\n    - %[1]s/%[3]s/example/tide-bundle\n    source: %[2]s/example/tide-bundle\n", to, s.address, placeOf(s.address + "/")[:len(s.address)+1]),
		"catalogsource.yaml":        "\n  image: " + to + "/sea:latest\n",
		"clustercatalog.yaml":       "\n      ref: " + to + "/sea:latest\n",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		assert.Contains(t, string(text), want, file)
	}
	assert.NoFileExists(t, filepath.Join(dir, "imagetagmirrorset.yaml"), "there is an ImageTagMirrorSet, but no image is named by tag")
}

// TestTags: an image that the catalog names by tag is copied under it, and nodes are told to look for that tag in the mirror.
func TestTags(t *testing.T) {
	s := newSea(t, nil)
	replace(t, filepath.Join(s.dir, "catalog.yaml"), strconv.Quote(s.images[1]), strconv.Quote(s.address+"/example/deep/tide:v1.0.0"))
	to := registry.Start(t, nil) + "/mirror"
	_, _, resources, err := run(t, t.Context(), s.dir, to)
	require.NoError(t, err)
	if got := digestIn(t, to+"/"+placeOf(s.address+"/example/deep/tide:v1.0.0")); !strings.HasSuffix(s.images[1], "@"+got) {
		t.Errorf("the tag is of %s, want %s", got, s.images[1])
	}
	text, err := os.ReadFile(filepath.Join(resources, "imagetagmirrorset.yaml"))
	require.NoError(t, err)
	want := fmt.Sprintf("apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata:\n  name: sea\nspec:\n  imageTagMirrors:\n  - mirrors:\n    - %s/%s\n    source: %s/example/deep/tide\n", to, placeOf(s.address+"/example/deep/tide"), s.address)
	assert.Equal(t, want, string(text), "the ImageTagMirrorSet")
}

// blobReads wraps a registry, and calls before for each read of a blob.
func blobReads(before func(w http.ResponseWriter, r *http.Request, h http.Handler)) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				before(w, r, h)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

// TestResume ends a mirror at every fifth blob, in both kinds of destinations, until one run succeeds: each continues where
// the one before ended, and no cluster sees a catalog before its images are there.
func TestResume(t *testing.T) {
	for _, kind := range []string{"registry", "folder"} {
		t.Run(kind, func(t *testing.T) {
			var mu sync.Mutex
			left, served := 0, map[string]int{}
			end := func() {}
			s := newSea(t, blobReads(func(w http.ResponseWriter, r *http.Request, h http.Handler) {
				mu.Lock()
				left--
				ends := left < 0
				if ends {
					end()
				} else {
					served[r.URL.Path]++
				}
				mu.Unlock()
				if ends {
					panic(http.ErrAbortHandler)
				}
				h.ServeHTTP(w, r)
			}))
			to := registry.Start(t, nil) + "/mirror"
			destination := to
			if kind == "folder" {
				destination = "oci:" + filepath.Join(t.TempDir(), "carried")
			}
			ended := 0
			for ; ; ended++ {
				ctx, cancel := context.WithCancel(t.Context())
				mu.Lock()
				left, end = 5, cancel
				mu.Unlock()
				_, _, _, err := run(t, ctx, s.dir, destination)
				cancel()
				if err == nil {
					break
				}
				require.LessOrEqualf(t, ended, 20, "it makes no progress: %v", err)
				if kind == "registry" && digestIn(t, to+"/sea:latest") != "" {
					t.Error("the catalog is there, and its images are not")
				}
				if kind == "folder" {
					_, err := source.Open(t.Context(), destination)
					assert.ErrorContains(t, err, "index.json", "an unfinished folder is a source")
				}
			}
			require.GreaterOrEqual(t, ended, 2, "it ended early too few times for this test")
			again := 0
			for _, times := range served {
				again += times - 1
			}
			if most := 3 * ended; again > most { // those that were in flight, three at a time
				t.Errorf("%d blobs were read again in %d runs, want at most %d", again, ended, most)
			}
			if kind == "folder" {
				if _, _, _, err := run(t, t.Context(), destination, to); err != nil {
					t.Fatal(err)
				}
			}
			checkCopied(t, to, s.images[:6])
		})
	}
}

// TestDroppedConnections: a registry that drops a connection within a blob is asked again.
func TestDroppedConnections(t *testing.T) {
	for _, kind := range []string{"registry", "folder"} {
		t.Run(kind, func(t *testing.T) {
			var drops atomic.Int32
			s := newSea(t, blobReads(func(w http.ResponseWriter, r *http.Request, h http.Handler) {
				if drops.Add(1) > 2 {
					h.ServeHTTP(w, r)
					return
				}
				answer := httptest.NewRecorder()
				h.ServeHTTP(answer, r)
				w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
				_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
				panic(http.ErrAbortHandler)
			}))
			to := registry.Start(t, nil) + "/mirror"
			if kind == "folder" {
				to = "oci:" + filepath.Join(t.TempDir(), "carried")
			}
			d, copied, _, err := run(t, t.Context(), s.dir, to)
			require.NoError(t, err)
			if copied != d.Missing || drops.Load() < 3 {
				t.Errorf("%d bytes count as copied, want %d; %d requests", copied, d.Missing, drops.Load())
			}
		})
	}
}

// TestSmallerLater: a second mirror to a folder leaves only the images of the second choice.
func TestSmallerLater(t *testing.T) {
	s := newSea(t, nil)
	folder := filepath.Join(t.TempDir(), "carried")
	blobs := func() []string {
		files, err := filepath.Glob(folder + "/blobs/sha256/*")
		require.NoError(t, err)
		return files
	}
	if _, _, _, err := run(t, t.Context(), s.dir, "oci:"+folder); err != nil {
		t.Fatal(err)
	}
	all := blobs()
	if _, copied, _, err := run(t, t.Context(), s.dir, "oci:"+folder, "tide@head"); err != nil || copied > 10<<10 {
		t.Errorf("%d bytes were copied, more than a catalog has: %v", copied, err)
	}
	if left := blobs(); len(left) >= len(all) || slices.ContainsFunc(left, func(file string) bool { return strings.Contains(file, "unfinished") }) {
		t.Errorf("%d files are left of %d", len(left), len(all))
	}
	if _, _, _, err := run(t, t.Context(), "oci:"+folder, registry.Start(t, nil)); err != nil {
		t.Error(err)
	}
}
