package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/memory"
	"github.com/berth-csi/berth/lab/registry"
)

// upload is an image to push, which may be malformed.
type upload struct {
	manifest map[string]any
	blobs    [][]byte
}

const (
	imageType = "application/vnd.oci.image.manifest.v1+json"
	indexType = "application/vnd.oci.image.index.v1+json"
	layerType = "application/vnd.oci.image.layer.v1.tar"
)

func descriptor(mediaType string, content []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "size": len(content), "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(content))}
}

// hostileImage returns an image with layers of testdata/hostile.
func hostileImage(t testing.TB, layers ...string) *upload {
	t.Helper()
	config := []byte("{}")
	image := &upload{blobs: [][]byte{config}}
	var descriptors []any
	for _, name := range layers {
		content, err := os.ReadFile(filepath.Join(hostile, name))
		require.NoError(t, err)
		mediaType := layerType + map[string]string{".gz": "+gzip", ".zst": "+zstd"}[filepath.Ext(name)]
		image.blobs, descriptors = append(image.blobs, content), append(descriptors, descriptor(mediaType, content))
	}
	image.manifest = map[string]any{"schemaVersion": 2, "mediaType": imageType, "layers": descriptors,
		"config": descriptor("application/vnd.oci.image.config.v1+json", config)}
	return image
}

// layer returns the descriptor of a layer.
func (u *upload) layer(i int) map[string]any { return u.manifest["layers"].([]any)[i].(map[string]any) }

// text returns the manifest as JSON.
func (u *upload) text(t testing.TB) []byte {
	t.Helper()
	text, err := json.Marshal(u.manifest)
	require.NoError(t, err)
	return text
}

// upload pushes the image to a registry and returns its reference.
func (u *upload) upload(t testing.TB, address, tag string) (reference string) {
	t.Helper()
	repository := "http://" + address + "/v2/harbour/ship/"
	for _, blob := range u.blobs {
		send(t, http.MethodPost, fmt.Sprintf("%sblobs/uploads/?digest=sha256:%x", repository, sha256.Sum256(blob)), "application/octet-stream", blob)
	}
	send(t, http.MethodPut, repository+"manifests/"+tag, u.manifest["mediaType"].(string), u.text(t))
	return address + "/harbour/ship:" + tag
}

func send(t testing.TB, method, url, mediaType string, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", mediaType)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		answer, _ := io.ReadAll(response.Body)
		t.Fatalf("%s %s: %s: %s", method, url, response.Status, answer)
	}
}

// entry is an image in an index.
type entry struct {
	image    *upload
	platform map[string]any
}

func linux(architecture string) map[string]any {
	return map[string]any{"os": "linux", "architecture": architecture}
}

// uploadIndex pushes an index of images to a registry and returns its reference.
func uploadIndex(t *testing.T, address string, change func(manifests []any) []any, entries ...entry) (reference string) {
	t.Helper()
	index := &upload{manifest: map[string]any{"schemaVersion": 2, "mediaType": indexType}}
	var manifests []any
	for i, e := range entries {
		e.image.upload(t, address, fmt.Sprint("entry", i))
		d := descriptor(imageType, e.image.text(t))
		if e.platform != nil {
			d["platform"] = e.platform
		}
		manifests = append(manifests, d)
	}
	if change != nil {
		manifests = change(manifests)
	}
	index.manifest["manifests"] = manifests
	keepSeed(t, index.text(t))
	return index.upload(t, address, "index")
}

// TestHostilePlatforms: the files must be the same for all platforms of an image.
func TestHostilePlatforms(t *testing.T) {
	one, again, other := func() *upload { return hostileImage(t, "one.tar") }, func() *upload { return hostileImage(t, "one-with-other-time.tar") }, func() *upload { return hostileImage(t, "other-for-s390x.tar") }
	unknown := map[string]any{"os": "unknown", "architecture": "unknown"}
	for _, tc := range []struct {
		name    string
		entries []entry
		change  func([]any) []any
		want    string
	}{
		{"the same layers", []entry{{one(), linux("amd64")}, {one(), linux("arm64")}}, nil, "hold/tea"},
		{"the same files in other layers", []entry{{one(), linux("amd64")}, {again(), linux("arm64")}}, nil, "hold/tea"},
		{"how it was made", []entry{{one(), linux("amd64")}, {other(), unknown}}, nil, "hold/tea"},
		{"another file", []entry{{one(), linux("amd64")}, {again(), linux("arm64")}, {other(), linux("s390x")}}, nil,
			`its file "hold/tea" is not the same for platform "linux/amd64" and for platform "linux/s390x"; expected the same files for all platforms`},
		{"another file for no platform", []entry{{one(), linux("amd64")}, {other(), nil}}, nil,
			`its file "hold/tea" is not the same for platform "linux/amd64" and for no platform, sha256:[0-9a-f]{64}; .*`},
		{"another file for half a platform", []entry{{one(), linux("amd64")}, {other(), map[string]any{"os": "unknown", "architecture": "amd64"}}}, nil, `its file "hold/tea" is not the same .*`},
		{"a file that another platform lacks", []entry{{one(), linux("amd64")}, {hostileImage(t, "below-mast.tar"), linux("arm64")}}, nil, `its file "hold/tea" is not the same .*`},
		{"a platform whose name has control characters", []entry{{one(), linux("amd64")}, {other(), linux("\x1b[31m\n")}}, nil, `.* platform "linux/\\x1b\[31m\\n"; .*`},
		{"an index in the index", []entry{{one(), linux("amd64")}}, func(m []any) []any {
			return append(m, map[string]any{"mediaType": indexType, "size": 1, "digest": m[0].(map[string]any)["digest"], "platform": linux("arm64")})
		}, `it lists another list of images, sha256:.*; expected a list of images only`},
		{"another file in what does not say that it is an image", []entry{{one(), linux("amd64")}, {other(), linux("s390x")}}, func(m []any) []any {
			m[1].(map[string]any)["mediaType"] = "application/vnd.example.chart"
			return m
		}, `it lists sha256:[0-9a-f]{64} of media type "application/vnd.example.chart"; expected images only, .*`},
		{"too many images", []entry{{one(), linux("amd64")}}, func(m []any) []any {
			for len(m) <= 64 {
				m = append(m, m[0])
			}
			return m
		}, `it lists 65 images; expected at most 64`},
		{"an image with foreign urls", []entry{{one(), linux("amd64")}}, func(m []any) []any {
			m[0].(map[string]any)["urls"] = []string{"http://127.0.0.1:1/"}
			return m
		}, `its blob sha256:.* has URLs outside of the registry; .*`},
		{"a size that is not true", []entry{{one(), linux("amd64")}}, func(m []any) []any {
			m[0].(map[string]any)["size"] = 1
			return m
		}, `the manifest sha256:.* is \d+ bytes long, but listed with 1; expected the same`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reference := uploadIndex(t, registry.Start(t, nil), tc.change, tc.entries...)
			pulled, err := Pull(t.Context(), reference, generous, "hold")
			check(t, reference, pulled, err, tc.want)
		})
	}
}

// keepSeed compares a manifest with its file in the seed corpus of FuzzManifest, or updates that.
func keepSeed(t *testing.T, manifest []byte) {
	t.Helper()
	file := filepath.Join(hostile, strings.NewReplacer("/", "-", "_", "-", ",", "", "'", "").Replace(strings.TrimPrefix(t.Name(), "TestHostile"))+".json")
	if *update {
		require.NoError(t, os.WriteFile(file, manifest, 0o644))
	}
	if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, manifest) {
		t.Errorf("%s is not what this test sends (%v); run it with -update", file, err)
	}
}

// check compares the pulled files, or the error, with a regular expression.
func check(t *testing.T, reference string, pulled Pulled, err error, want string) {
	t.Helper()
	var got string
	for name := range pulled.Files {
		got += name
	}
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "cannot pull image "+reference+": ")
	}
	assert.Regexp(t, `^`+want+`$`, got)
}

// TestHostileManifests: a manifest with URLs outside of the registry or with false descriptors.
func TestHostileManifests(t *testing.T) {
	var requests atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer elsewhere.Close()
	const foreign = `its blob sha256:.* has URLs outside of the registry; expected all blobs in the registry: build the image without foreign layers`
	for _, tc := range []struct {
		name   string
		change func(*upload)
		want   string
	}{
		{"a layer with urls that the registry lacks", func(u *upload) {
			u.layer(0)["urls"], u.layer(0)["digest"] = []string{elsewhere.URL + "/layer"}, "sha256:"+strings.Repeat("0", 64)
		}, foreign},
		{"a layer with urls", func(u *upload) { u.layer(0)["urls"] = []string{elsewhere.URL + "/layer"} }, foreign},
		{"a layer that may not be shared", func(u *upload) {
			u.layer(0)["mediaType"] = "application/vnd.oci.image.layer.nondistributable.v1.tar"
		}, foreign},
		{"a foreign layer of Docker's", func(u *upload) {
			u.layer(0)["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
		}, foreign},
		{"a configuration with urls", func(u *upload) {
			u.manifest["config"].(map[string]any)["urls"] = []string{elsewhere.URL + "/config"}
		}, foreign},
		{"a layer of another type", func(u *upload) { u.layer(0)["mediaType"] = "application/zip" }, `its layer sha256:.* is of media type "application/zip"; expected a tar archive, .*`},
		{"a list of images, too", func(u *upload) { u.manifest["manifests"] = []any{} }, `the manifest sha256:.* lists both layers and images; expected either`},
		{"a layer that is longer than said", func(u *upload) { u.layer(0)["size"] = 100 }, `.*(unexpected EOF|its blob sha256:.* does not have the 100 bytes .*)`},
		{"a layer that is shorter than said", func(u *upload) { u.layer(0)["size"] = 100 << 10 }, `its blob sha256:.* does not have the 102400 bytes that its manifest says; expected the same size`},
		{"a layer that is said to be huge", func(u *upload) { u.layer(0)["size"] = int64(1) << 60 }, `its files take more than 1048576 bytes; .*`},
		{"a layer of negative size", func(u *upload) { u.layer(0)["size"] = -1 }, `its files take more than 1048576 bytes; .*`},
		{"too many layers", func(u *upload) {
			for len(u.manifest["layers"].([]any)) <= 128 {
				u.manifest["layers"] = append(u.manifest["layers"].([]any), u.layer(0))
			}
		}, `it has 129 layers; expected at most 128`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			image := hostileImage(t, "one.tar")
			tc.change(image)
			keepSeed(t, bytes.ReplaceAll(image.text(t), []byte(elsewhere.URL), []byte("http://elsewhere.example.com")))
			reference := image.upload(t, registry.Start(t, nil), "v1")
			pulled, err := Pull(t.Context(), reference, generous, "hold")
			check(t, reference, pulled, err, tc.want)
		})
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests went to a URL in a manifest; want none", n)
	}
}

// TestHostileRegistry: a registry that lies, sends data forever, or redirects.
func TestHostileRegistry(t *testing.T) {
	trickle := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			<-time.After(time.Millisecond)
		}
	}
	endless := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			for block := make([]byte, 64<<10); r.Context().Err() == nil; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}
	}
	const refused = `(?s).*unexpected status code 404 Not Found: \x00+; check the name: .* has no such image`
	const late, long = `it took longer than 300ms: .*`, `.*its registry sent more than 4194304 bytes instead of a manifest or a token; expected less`
	for _, tc := range []struct {
		name, path string
		answer     http.HandlerFunc
		want       string
	}{
		{"slow at the greeting", "/v2/$", trickle, "(hold/tea|" + late + ")"},
		{"slow with the manifest", "/manifests/", trickle, late},
		{"slow with a layer", "/blobs/", trickle, late},
		{"fails again and again", "/blobs/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, late},
		{"an endless manifest", "/manifests/", endless(http.StatusOK), long},
		{"an endless error", "/manifests/", endless(http.StatusNotFound), refused},
		{"an endless error for a layer", "/blobs/", endless(http.StatusNotFound), refused},
		{"an endless layer", "/blobs/", endless(http.StatusOK), `.*error verifying sha256 checksum .*|its blob .*|one of its layers is not a tar archive: .*`},
		{"another layer", "/blobs/", func(w http.ResponseWriter, _ *http.Request) {
			other, err := os.ReadFile(hostile + "/other-for-s390x.tar")
			assert.NoError(t, err)
			w.Write(other)
		}, `.*error verifying sha256 checksum .*|its blob .*`},
		{"no image", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		}, `the manifest sha256:.* is of media type "application/json"; expected an image, .*`},
		{"another type than the manifest's", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", indexType)
			fmt.Fprintf(w, `{"mediaType": %q}`, imageType)
		}, `the manifest sha256:.* says that it is of media type .*, but its registry says .*; expected the same`},
		{"on to the cloud's credentials", "/blobs/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
		}, `.*its registry redirects to "169.254.169.254", an address of this machine or its cloud; expected an address where registries keep layers`},
		{"for a token to the cloud's credentials", "/v2/$", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://[fe80::1]/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, `.*its registry redirects to "\[fe80::1\]", an address of this machine .*`},
		{"an endless token, at an address like that of a layer", "/(v2/|blobs/token)$", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/blobs/token" {
				endless(http.StatusOK)(w, r)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/blobs/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, long},
		{"very many images in few bytes", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", indexType)
			fmt.Fprintf(w, `{"schemaVersion": 2, "mediaType": %q, "manifests": [{}%s]}`, indexType, strings.Repeat(",{}", 300_000))
		}, `the manifest sha256:.* cannot be read: it has more than 20000 values; expected fewer`},
		{"on and on", "/blobs/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, `.*stopped after 10 redirects.*`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hostile := regexp.MustCompile(tc.path)
			uploaded := false
			address := registry.Start(t, func(inner http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if uploaded && hostile.MatchString(r.URL.Path) {
						tc.answer(w, r)
						return
					}
					inner.ServeHTTP(w, r)
				})
			})
			reference := hostileImage(t, "one.tar").upload(t, address, "v1")
			uploaded = true
			limits := generous
			if strings.Contains(tc.want, late) {
				limits.Time = 300 * time.Millisecond
			}
			var pulled Pulled
			var err error
			used := memory.Allocated(func() { pulled, err = Pull(t.Context(), reference, limits, "hold") })
			check(t, reference, pulled, err, tc.want)
			if err != nil && len(err.Error()) > 20<<10 {
				t.Errorf("the error has %d bytes; want less than 20 KiB", len(err.Error()))
			}
			if used > 64<<20 {
				t.Errorf("it allocated %d MiB; want less than 64", used>>20)
			}
		})
	}
}

// TestRedirects: a remote registry cannot redirect its clients to their own machine, to their cloud's metadata
// service, or from HTTPS to HTTP.
func TestRedirects(t *testing.T) {
	var requests atomic.Int32
	here := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer here.Close()
	port := here.URL[strings.LastIndex(here.URL, ":"):]
	for _, tc := range []struct {
		registry, to string
		allowed      bool
	}{
		{"registry.example.com", "http://storage.example.com/", false},
		{"registry.example.com", "https://storage.example.com/", true},
		{"registry.example.com", "https://10.1.2.3/", true},
		{"registry.example.com", "https://127.0.0.1" + port, false},
		{"10.1.2.3:5000", here.URL, false},
		{"10.1.2.3:5000", "http://localhost" + port, false},
		{"10.1.2.3:5000", "http://LocalHost." + port, false},
		{"10.1.2.3:5000", "http://[::1]" + port, false},
		{"10.1.2.3:5000", "http://[::ffff:127.0.0.1]" + port, false},
		{"10.1.2.3:5000", "http://0.0.0.0" + port, false},
		{"10.1.2.3:5000", "http://169.254.169.254/", false},
		{"10.1.2.3:5000", "http://[::ffff:169.254.169.254]/", false},
		{"10.1.2.3:5000", "http://[fd00:ec2::254]/", false},
		{"10.1.2.3:5000", "http://[fe80::1%25eth0]/", false},
		{"10.1.2.3:5000", "http://0.1.2.3/", false},
		{"10.1.2.3:5000", "http://168.63.129.16/", false},        // Azure's
		{"10.1.2.3:5000", "http://[64:ff9b::a9fe:a9fe]/", false}, // 169.254.169.254 behind a router
		{"10.1.2.3:5000", "http://[2002:7f00:1::]/", false},
		{"10.1.2.3:5000", "http://[64:ff9b::a01:203]/", true},
		{"10.1.2.3:5000", "http://10.1.2.4/", true},
		{"127.0.0.1:5000", here.URL, true},
		{"127.0.0.1:5000", "http://169.254.169.254/", false},
	} {
		from, err := name.NewRegistry(tc.registry)
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.to, nil)
		require.NoError(t, err)
		_, err = newGuard(from).transport(request)
		assert.Equalf(t, tc.allowed, err == nil, "from %s on to %s: error %v", tc.registry, tc.to, err)
	}
	// A name may stand for any address. It is looked at when it is known.
	for address, local := range map[string]bool{"127.0.0.1:80": false, "[::1]:80": false, "169.254.169.254:80": true, "[fe80::1%eth0]:80": true, "0.0.0.0:80": false} {
		assert.Errorf(t, checkAddress(address, local), "%s can be reached", address)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, here.URL, nil)
	require.NoError(t, err)
	if response, err := toPublic.RoundTrip(request); err == nil {
		response.Body.Close()
		t.Error("the transport for others' addresses connects to this machine")
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests arrived; want none", n)
	}
}

// TestAnswersArePaced: what comes in answer to any request may not come too slowly.
func TestAnswersArePaced(t *testing.T) {
	for path, status := range map[string]int{"/manifest": http.StatusOK, "/refused": http.StatusNotFound} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer server.Close()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		response, err := (&guard{registry: request.URL.Host}).RoundTrip(request)
		require.NoError(t, err)
		defer response.Body.Close()
		var body io.Closer = response.Body
		switch limited := body.(type) {
		case *limitedBody:
			body = limited.ReadCloser
		case *beginning:
			body = limited.Closer
		}
		if _, is := body.(*minRateBody); !is {
			t.Errorf("%s: the body is a %T, want one that ends if it is too slow", path, body)
		}
	}
}

// TestDestinationsAnswerInTime: a registry that stores something may take longer to answer than one that is asked, but not for ever.
func TestDestinationsAnswerInTime(t *testing.T) {
	arrived, stored := make(chan string, 2), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Method
		select {
		case <-stored:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	send := func(by http.RoundTripper, method string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		require.NoError(t, err)
		response, err := by.RoundTrip(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	for _, transport := range []*http.Transport{toWrite.reads, toWrite.writes} {
		require.NotZero(t, transport.ResponseHeaderTimeout)
		require.EqualValues(t, maxHeader, transport.MaxResponseHeaderBytes)
	}
	impatient := limited{toWrite.reads.Clone(), toWrite.writes}
	impatient.reads.ResponseHeaderTimeout /= 1000
	answered := make(chan error, 1)
	go func() { answered <- send(impatient, http.MethodPut) }()
	require.Equal(t, http.MethodPut, <-arrived)
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		require.ErrorContains(t, send(impatient, method), "timeout awaiting response headers", method)
		require.Equal(t, method, <-arrived)
	}
	close(stored)
	require.NoError(t, <-answered)
}
