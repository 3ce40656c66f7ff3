package mirror_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
)

// lenient is a registry's guard that takes lists of which the registry lacks images, as some registries do.
func lenient(h http.Handler) http.Handler {
	var mu sync.Mutex
	lists := map[string][]byte{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		kind := r.Header.Get("Content-Type")
		if r.Method == http.MethodPut && strings.Contains(kind, "index") && strings.Contains(r.URL.Path, "/manifests/sha256:") {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			lists[r.URL.Path] = text
			w.WriteHeader(http.StatusCreated)
			return
		}
		if text, is := lists[r.URL.Path]; is {
			w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
			w.Header().Set("Docker-Content-Digest", r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
			_, _ = w.Write(text)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// copyImages mirrors single images.
func copyImages(t *testing.T, ctx context.Context, to string, options mirror.Options, references ...string) (mirror.Document, error) {
	t.Helper()
	options.Name, options.Jobs, options.Time = "additional-images", 2, time.Minute
	m, err := mirror.NewImages(references, options)
	if err != nil {
		return mirror.Document{}, err
	}
	defer m.Close()
	destination, err := mirror.OpenDestination(to, options.Name)
	if err != nil {
		return mirror.Document{}, err
	}
	defer destination.Close()
	if err := m.Inspect(ctx, oci.Registries(ctx), destination); err != nil {
		return mirror.Document{}, err
	}
	d := m.Document("images", to, false)
	if err := m.Fault(); err != nil {
		return d, err
	}
	if err := m.Copy(ctx, func(mirror.Image) {}); err != nil {
		return d, err
	}
	_, err = m.Write(t.TempDir()+"/objects", d)
	return d, err
}

// TestPlatforms: with platforms, only their images are copied, and the list of all keeps its digest. A registry that takes no such
// list says so, and no platform at all is a fault.
func TestPlatforms(t *testing.T) {
	s := newSea(t, nil)
	image := s.images[1]
	to := registry.Start(t, lenient)
	only := mirror.Options{Platforms: []string{"linux/arm64"}}
	d, err := copyImages(t, t.Context(), to+"/mirror", only, image)
	require.NoError(t, err)
	whole, err := copyImages(t, t.Context(), registry.Start(t, nil)+"/mirror", mirror.Options{}, image)
	require.NoError(t, err)
	if d.Size >= whole.Size || d.Images[0].Digest != whole.Images[0].Digest {
		t.Errorf("for one platform it is %d bytes of %s, for all %d of %s; want fewer, of the same", d.Size, d.Images[0].Digest, whole.Size, whole.Images[0].Digest)
	}
	ref, err := name.ParseReference(to + "/mirror/" + placeOf(image))
	require.NoError(t, err)
	index, err := remote.Index(ref)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	var there []string
	for _, child := range manifest.Manifests {
		if digestIn(t, to+"/mirror/"+strings.Split(placeOf(image), "@")[0]+"@"+child.Digest.String()) != "" {
			there = append(there, child.Platform.String())
		}
	}
	if !slices.Equal(there, []string{"linux/arm64"}) || len(manifest.Manifests) < 2 {
		t.Errorf("of %d images, those for %s are there; want linux/arm64 of several", len(manifest.Manifests), there)
	}
	for _, tc := range []struct{ to, platform, want string }{
		{registry.Start(t, nil), "linux/arm64", "takes no list of which it lacks images"},
		{to, "plan9/mips", "expected one for plan9/mips"},
	} {
		_, err := copyImages(t, t.Context(), tc.to+"/mirror", mirror.Options{Platforms: []string{tc.platform}}, image)
		assert.ErrorContains(t, err, tc.want, tc.platform)
	}
}

// TestBlocked: a blocked image is not copied, and the report names it.
func TestBlocked(t *testing.T) {
	s := newSea(t, nil)
	to := registry.Start(t, nil)
	options := mirror.Options{Blocked: []*regexp.Regexp{regexp.MustCompile("tide-bundle")}}
	d, err := copyImages(t, t.Context(), to+"/mirror", options, s.images[0], s.images[1])
	require.NoError(t, err)
	if len(d.Images) != 1 || d.Images[0].Source != s.images[1] || !slices.Equal(d.Blocked, s.images[:1]) {
		t.Errorf("it has copied %v and blocked %v, want %s and %s", d.Images, d.Blocked, s.images[1], s.images[0])
	}
	assert.Empty(t, digestIn(t, to+"/mirror/"+placeOf(s.images[0])), "the blocked image is there")
}
