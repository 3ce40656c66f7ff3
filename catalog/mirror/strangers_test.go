package mirror_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
)

// push pushes an image with a text to a registry, and returns its digest.
func push(t *testing.T, reference, text string) (digest string) {
	t.Helper()
	index, err := oci.Content{Files: map[string][]byte{"hold/cargo": []byte(text)}}.Index()
	check(t, err)
	digest, err = oci.Push(t.Context(), reference, index)
	check(t, err)
	return digest
}

// catalogWith writes a catalog whose bundle has an image and related ones.
func catalogWith(t *testing.T, dir, bundle string, related ...string) string {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	listed := []map[string]string{}
	for i, image := range related {
		listed = append(listed, map[string]string{"name": fmt.Sprint(i), "image": image})
	}
	images, err := json.Marshal(listed)
	check(t, err)
	text := "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\nentries: [{name: tide.v1.0.0}]\n---\n" +
		"schema: olm.bundle\npackage: tide\nname: tide.v1.0.0\nimage: " + bundle + "\nrelatedImages: " + string(images) +
		"\nproperties: [{type: olm.package, value: {packageName: tide, version: 1.0.0}}]\n"
	check(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text), 0o644))
	return dir
}

// options changes the options of a mirror.
type options func(*mirror.Options)

// runAs mirrors a catalog under a name.
func runAs(t *testing.T, from, to, name string, change ...options) (mirror.Document, error) {
	t.Helper()
	opened, err := source.Open(t.Context(), from)
	if err != nil {
		return mirror.Document{}, err
	}
	defer opened.Close()
	o := mirror.Options{Name: name, Tag: "latest", Namespace: "n", Jobs: 2, Time: time.Minute, Text: from, Origin: opened.Origin, Host: opened.Host}
	for _, c := range change {
		c(&o)
	}
	m, err := mirror.New(t.Context(), opened.Dir, o)
	if err != nil {
		return mirror.Document{}, err
	}
	defer m.Close()
	destination, err := mirror.OpenDestination(to, name)
	if err != nil {
		return mirror.Document{}, err
	}
	defer destination.Close()
	if err := m.Inspect(t.Context(), opened.Images(t.Context(), nil), destination); err != nil {
		return mirror.Document{}, err
	}
	d := m.Document(from, to, false)
	return d, m.Copy(t.Context(), func(mirror.Image) {})
}

// TestOthersStay: a catalog replaces nothing of another one in the mirror: no image, no base image and no signature.
func TestOthersStay(t *testing.T) {
	genuine, evil, to := registry.Start(t, nil), registry.Start(t, nil), registry.Start(t, nil)+"/mirror"
	operator := push(t, genuine+"/example/operator:v1", "operator")
	signature := ":" + strings.Replace(operator, ":", "-", 1) + ".sig"
	push(t, genuine+"/example/operator"+signature, "genuine")
	push(t, genuine+"/ubi9/ubi:latest", "ubi")
	certified := catalogWith(t, t.TempDir(), genuine+"/example/operator@"+operator, genuine+"/ubi9/ubi:latest")
	_, err := runAs(t, certified, to, "certified")
	check(t, err)
	theirs := map[string]string{}
	for _, place := range []string{"certified:latest", "certified:latest-mirror-record", placeOf(genuine + "/ubi9/ubi:latest"), placeOf(genuine + "/example/operator" + signature)} {
		if theirs[place] = digestIn(t, to+"/"+place); theirs[place] == "" {
			t.Fatalf("there is no %s", place)
		}
	}
	push(t, evil+"/example/operator:v1", "operator") // the same digest
	for _, place := range []string{"example/operator" + signature, "ubi9/ubi:latest", "certified:latest", "certified:latest-mirror-record"} {
		push(t, evil+"/"+place, "evil")
	}
	community := catalogWith(t, t.TempDir(), evil+"/example/operator@"+operator, evil+"/ubi9/ubi:latest", evil+"/certified:latest", evil+"/certified:latest-mirror-record",
		genuine+"/ubi9/ubi:latest")
	_, err = runAs(t, community, to, "community")
	check(t, err)
	_, err = runAs(t, catalogWith(t, t.TempDir(), evil+"/example/operator@"+operator, genuine+"/example/operator@"+operator), to, "both") // in one run
	check(t, err)
	for place, was := range theirs {
		if now := digestIn(t, to+"/"+place); now != was {
			t.Errorf("%s is %s, and was %s", place, now, was)
		}
	}
}

// TestTagsStay: only the catalog that set a tag moves it, unless the user allows it.
func TestTagsStay(t *testing.T) {
	from, to := registry.Start(t, nil), registry.Start(t, nil)+"/mirror"
	bundle := from + "/example/bundle@" + push(t, from+"/example/bundle:v1", "bundle")
	push(t, from+"/ubi9/ubi:latest", "first")
	first, other := catalogWith(t, t.TempDir(), bundle, from+"/ubi9/ubi:latest"), catalogWith(t, t.TempDir(), bundle, from+"/ubi9/ubi:latest", from+"/example/bundle:v1")
	_, err := runAs(t, first, to, "first")
	check(t, err)
	_, err = runAs(t, other, to, "other")
	check(t, err)
	second := push(t, from+"/ubi9/ubi:latest", "second")
	tag := to + "/" + placeOf(from+"/ubi9/ubi:latest")
	_, err = runAs(t, other, to, "other")
	if err == nil || !strings.Contains(err.Error(), "the tag "+tag+" names sha256:") || !strings.Contains(err.Error(), "add --overwrite "+tag) {
		t.Errorf("by another catalog: %v", err)
	}
	if _, err = runAs(t, first, to, "first"); err != nil || digestIn(t, tag) != second {
		t.Errorf("by the catalog that has set it: %v", err)
	}
	third := push(t, from+"/ubi9/ubi:latest", "third")
	if _, err = runAs(t, other, to, "other", func(o *mirror.Options) { o.Overwrite = []string{tag} }); err != nil || digestIn(t, tag) != third {
		t.Errorf("as the user says so: %v", err)
	}

	// The catalog's own tag: another catalog of the name, from a registry, is not this one.
	push(t, from+"/evil/first:v1", "no catalog")
	index, err := oci.Content{Files: map[string][]byte{"configs/catalog.yaml": read(t, filepath.Join(other, "catalog.yaml"))},
		Labels: map[string]string{source.ConfigsLabel: "/configs"}}.Index()
	check(t, err)
	_, err = oci.Push(t.Context(), from+"/evil/first:v1", index)
	check(t, err)
	before := digestIn(t, to+"/first:latest")
	if _, err = runAs(t, from+"/evil/first:v1", to, "first"); err == nil || !strings.Contains(err.Error(), "which this catalog, "+from+"/evil/first, has not put there") || digestIn(t, to+"/first:latest") != before {
		t.Errorf("another catalog of the name: %v", err)
	}
	if _, err = runAs(t, other, to, "first", func(o *mirror.Options) { o.Overwrite = []string{tag} }); err != nil || digestIn(t, to+"/first:latest") == before {
		t.Errorf("a later state of the same catalog: %v", err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	return text
}

// TestEarlierMirror: a mirror that an earlier version made keeps working: the report of that run lets its catalog move its tag,
// the plan lists moved images, and nodes find images at both places.
func TestEarlierMirror(t *testing.T) {
	s := newSea(t, nil)
	to := registry.Start(t, nil) + "/mirror"
	for _, original := range s.images[:6] { // as the earlier version put them
		_, path, _ := strings.Cut(original, "/")
		copyImage(t, original, to+"/"+path)
	}
	former := push(t, to+"/sea:latest", "an earlier catalog")
	if _, _, _, err := run(t, t.Context(), s.dir, to); err == nil || !strings.Contains(err.Error(), "--overwrite "+to+"/sea:latest") {
		t.Errorf("without the report: %v", err)
	}
	last := &mirror.Document{Source: s.dir, Catalog: mirror.Image{Destination: to + "/sea:latest", Digest: former}}
	d, err := runAs(t, s.dir, to, "sea", func(o *mirror.Options) { o.Last = last })
	check(t, err)
	for _, i := range d.Images {
		host, path, _ := strings.Cut(i.Source, "/")
		repository, _, _ := strings.Cut(path, "@")
		if want := to + "/" + repository; i.Former != want || host != s.address {
			t.Errorf("%s was at %q, want %s", i.Source, i.Former, want)
		}
	}
	checkCopied(t, to, s.images[:6])
	_, _, resources, err := run(t, t.Context(), s.dir, to)
	check(t, err)
	if text := string(read(t, filepath.Join(resources, "imagedigestmirrorset.yaml"))); !strings.Contains(text, "    - "+to+"/"+placeOf(s.address+"/example/deep/tide")+"\n    - "+to+"/example/deep/tide\n") {
		t.Errorf("nodes do not find what is only at the earlier place:\n%s", text)
	}
}

// copyImage copies an image with another tool.
func copyImage(t *testing.T, from, to string) {
	t.Helper()
	source, err := name.ParseReference(from)
	check(t, err)
	target, err := name.ParseReference(to)
	check(t, err)
	index, err := remote.Index(source)
	check(t, err)
	check(t, remote.WriteIndex(target, index))
}

// TestNewHosts: registries that a catalog names for the first time are reported.
func TestNewHosts(t *testing.T) {
	one, two, to := registry.Start(t, nil), registry.Start(t, nil), registry.Start(t, nil)+"/mirror"
	bundle := one + "/example/bundle@" + push(t, one+"/example/bundle:v1", "bundle")
	dir := catalogWith(t, t.TempDir(), bundle)
	for _, tc := range []struct {
		related string
		want    []string
	}{{bundle, []string{one}}, {bundle, nil}, {two + "/example/bundle@" + push(t, two+"/example/bundle:v1", "two"), []string{two}}} {
		catalogWith(t, dir, bundle, tc.related)
		d, err := runAs(t, dir, to, "sea")
		assert.NoError(t, err)
		assert.Equal(t, tc.want, d.NewHosts)
	}
}

// TestOneBadImage: an image that its registry does not provide in time delays no other, and the same command continues.
func TestOneBadImage(t *testing.T) {
	var slow atomic.Bool
	from, to := registry.Start(t, nil), registry.Start(t, nil)+"/mirror"
	manifests := func(r *http.Request) bool { return slow.Load() && strings.Contains(r.URL.Path, "/manifests/") }
	trickling := registry.Start(t, answering(manifests, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(" "))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	bundle := from + "/example/bundle@" + push(t, from+"/example/bundle:v1", "bundle")
	bad := trickling + "/example/bad@" + push(t, trickling+"/example/bad:v1", "bad")
	slow.Store(true)
	dir := catalogWith(t, t.TempDir(), bundle, bad)
	_, err := runAs(t, dir, to, "sea", func(o *mirror.Options) { o.Time = 2 * time.Second })
	assert.ErrorContains(t, err, "bundle tide.v1.0.0: it took longer than 2s: image "+bad, "the bad image")
	if digestIn(t, to+"/"+placeOf(bundle)) == "" || digestIn(t, to+"/sea:latest") != "" {
		t.Error("the bad image holds another one, or the catalog is there without it")
	}
	slow.Store(false)
	if _, err = runAs(t, dir, to, "sea"); err != nil || digestIn(t, to+"/sea:latest") == "" {
		t.Errorf("once more: %v", err)
	}
}
