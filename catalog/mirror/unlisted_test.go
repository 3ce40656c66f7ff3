package mirror_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// operatorCSV is a ClusterServiceVersion with images in its list, its containers and their environment variables.
const operatorCSV = `{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "tide.v1.0.0"}, "spec": {"version": "1.0.0",
  "relatedImages": [{"name": "listed", "image": %[1]q}],
  "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "tide", "spec": {"selector": {}, "template": {"spec": {
    "initContainers": [{"name": "first", "image": %[2]q}],
    "containers": [{"name": "tide", "image": %[3]q, "env": [{"name": "RELATED_IMAGE_OPERAND", "value": %[4]q}, {"name": "RELATED_IMAGE_NONE", "value": ""}, {"name": "PLACE", "value": "harbour/east"}]}]}}}}]}}}}`

// unlistedCatalog is a catalog with a bundle whose last fields vary.
const unlistedCatalog = "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\nentries: [{name: tide.v1.0.0}]\n---\n" +
	"schema: olm.bundle\npackage: tide\nname: tide.v1.0.0\nproperties:\n- {type: olm.package, value: {packageName: tide, version: 1.0.0}}\n%s\n"

// TestUnlistedImages: the catalog lists no image of a bundle, or lists one without a pull spec. All images that the bundle's
// ClusterServiceVersion names are copied, or a warning says that they are not.
func TestUnlistedImages(t *testing.T) {
	s := &sea{address: registry.Start(t, nil)}
	s.open = s.address
	var needed []any
	for _, name := range []string{"listed", "first", "tide", "operand"} {
		needed = append(needed, s.push(t, "example/"+name, "v1"))
	}
	csv := fmt.Sprintf(operatorCSV, needed...)
	folder := t.TempDir()
	catalogs.Write(t, filepath.Join(folder, "manifests", "csv.yaml"), csv)
	catalogs.WriteAnnotations(t, folder, "tide")
	bundle := s.address + "/example/bundle@" + catalogs.PushBundle(t, folder, "tide", s.address+"/example/bundle:v1")
	noBundle := s.push(t, "example/no-bundle", "v1")
	for _, tc := range []struct {
		name, bundle string // the fields of the bundle
		images       int
		warning      string
	}{
		{"the catalog lists none", "image: " + bundle, 5, ""},
		{"one has no pull spec", fmt.Sprintf("image: %s\nrelatedImages: [{name: bundle, image: %q}, {name: listed, image: ''}]", bundle, bundle), 5, ""},
		{"the bundle is carried", fmt.Sprintf("- {type: olm.bundle.object, value: {data: %s}}", base64.StdEncoding.EncodeToString([]byte(csv))), 4, ""},
		{"no bundle is in the image", "image: " + noBundle, 1, "the catalog lists no related images of bundle tide.v1.0.0, and the bundle cannot be read: images that it needs may be missing"},
		{"no bundle, and no pull spec", fmt.Sprintf("image: %s\nrelatedImages: [{name: operand, image: ''}]", noBundle), 1, `the catalog has no pull spec of the related image "operand" of bundle tide.v1.0.0, and the bundle cannot be read`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), fmt.Sprintf(unlistedCatalog, tc.bundle))
			d, _, _, err := run(t, t.Context(), dir, registry.Start(t, nil)+"/mirror")
			require.NoError(t, err)
			var got []string
			for _, i := range d.Images {
				got = append(got, i.Source)
			}
			if len(got) != tc.images || tc.images > 1 && slices.ContainsFunc(needed, func(image any) bool { return !slices.Contains(got, image.(string)) }) {
				t.Errorf("got images %q, want %d with %q", got, tc.images, needed)
			}
			if got := strings.Join(d.Warnings, "\n"); (got == "") != (tc.warning == "") || !strings.Contains(got, tc.warning) {
				t.Errorf("got warnings %q, want %q", got, tc.warning)
			}
		})
	}
}

// TestBlockedBundleIsNotRead: nothing asks a registry for a bundle that the user does not want, to learn which images it needs.
func TestBlockedBundleIsNotRead(t *testing.T) {
	var asked atomic.Int32
	address := registry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "example/bundle") {
				asked.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	bundle := address + "/example/bundle:v1"
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), fmt.Sprintf(unlistedCatalog, "image: "+bundle))
	opened, err := source.Open(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { opened.Close() })
	m, err := mirror.New(t.Context(), opened.Dir, mirror.Options{Name: "sea", Tag: "latest", Jobs: 1, Time: time.Minute, Text: dir, Blocked: []*regexp.Regexp{regexp.MustCompile("example/bundle")}})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	to := registry.Start(t, nil) + "/mirror"
	destination, err := mirror.OpenDestination(to, "sea")
	require.NoError(t, err)
	t.Cleanup(func() { destination.Close() })
	require.NoError(t, m.Inspect(t.Context(), opened.Images(t.Context(), nil), destination))
	d := m.Document(dir, to, true)
	assert.Equal(t, []string{bundle}, d.Blocked)
	assert.Empty(t, d.Images)
	assert.Empty(t, d.Warnings)
	assert.Zero(t, asked.Load(), "requests for the bundle")
}
