package oci

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/memory"
	"github.com/berth-csi/berth/lab/registry"
)

// pushed pushes cargo to a registry, and returns its pull spec by digest.
func pushed(t *testing.T, address string) string {
	t.Helper()
	pullSpec := address + "/harbour/cargo@" + digest
	_, err := Push(t.Context(), pullSpec, mustIndex(t, cargo()))
	require.NoError(t, err)
	return pullSpec
}

func TestFindAndTag(t *testing.T) {
	address := registry.Start(t, nil)
	pullSpec, tag := pushed(t, address), address+"/harbour/cargo:v1"
	if got, err := Find(t.Context(), tag); got != "" || err != nil {
		t.Errorf("before it is tagged: %q, %v", got, err)
	}
	for range 2 { // the second push finds it
		require.NoError(t, Tag(t.Context(), pullSpec, "v1"))
		if got, err := Find(t.Context(), tag); got != digest || err != nil {
			t.Errorf("%q, %v; want %s", got, err, digest)
		}
	}
	_, err := Find(t.Context(), registry.Nobody()+"/harbour/cargo:v1")
	assert.ErrorContains(t, err, "can be reached", "of a registry that is down")
	if got, err := Pin(t.Context(), tag); got != pullSpec || err != nil {
		t.Errorf("pinned: %q, %v; want %s", got, err, pullSpec)
	}
	if got, err := Pin(t.Context(), "registry.invalid/a/b@"+digest); got != "registry.invalid/a/b@"+digest || err != nil {
		t.Errorf("what is pinned: %q, %v", got, err)
	}
	_, err = Pin(t.Context(), address+"/harbour/tea:v1")
	assert.ErrorContains(t, err, "has no such image", "pinning what is not there")
}

// TestDistrust: the error about a certificate of an unknown authority says how to trust it.
func TestDistrust(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err == nil {
		answer.Body.Close()
		t.Fatal("nobody trusts that server")
	}
	repository, failed := name.NewRepository("registry.example.com/harbour/cargo")
	require.NoError(t, failed)
	const want = "; if you trust registry.example.com, name a file with the certificate of its authority in the environment variable SSL_CERT_FILE"
	for what, got := range map[string]string{"pull": remedy(repository, err), "push": pushRemedy(repository, err)} {
		assert.EqualValues(t, want, got, what)
	}
}

// TestCheckComplete: a registry may have lost or replaced a part of an image.
func TestCheckComplete(t *testing.T) {
	layer := regexp.MustCompile(`/blobs/sha256:`)
	platform := regexp.MustCompile(`/manifests/sha256:`)
	for _, tc := range []struct {
		name, want string
		answer     func(w http.ResponseWriter, r *http.Request) bool
	}{
		{"whole", "", func(http.ResponseWriter, *http.Request) bool { return false }},
		{"a layer is missing", "blob sha256:", func(w http.ResponseWriter, r *http.Request) bool {
			return layer.MatchString(r.URL.Path) && notFound(w)
		}},
		{"a platform is missing", "for linux/amd64", func(w http.ResponseWriter, r *http.Request) bool {
			return platform.MatchString(r.URL.Path) && !strings.HasSuffix(r.URL.Path, digest) && notFound(w)
		}},
		{"another digest", "does not match", func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, digest) {
				return false
			}
			w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
			_, err := w.Write([]byte(`{"schemaVersion": 2, "manifests": []}`))
			return err == nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lost := false
			address := registry.Start(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !lost || !tc.answer(w, r) {
						next.ServeHTTP(w, r)
					}
				})
			})
			pullSpec := pushed(t, address)
			lost = true
			err := CheckComplete(t.Context(), pullSpec)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "the registry does not have all of "+pullSpec) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want the pull spec and %q", err, tc.want)
			}
		})
	}
}

// TestEndlessAnswers: a registry that is written to cannot fill the memory either, whatever it is asked for.
func TestEndlessAnswers(t *testing.T) {
	image := func(address string) name.Digest {
		ref, err := name.NewDigest(address + "/harbour/cargo@" + digest)
		require.NoError(t, err)
		return ref
	}
	destination := func(address string) Destination {
		d, err := Below(address)
		require.NoError(t, err)
		return d
	}
	blob := contentDescriptor{Descriptor: v1.Descriptor{Size: 3, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}}
	for call, do := range map[string]func(ctx context.Context, address string) error{
		"Find": func(ctx context.Context, address string) error {
			_, err := Find(ctx, address+"/harbour/cargo:v1")
			return err
		},
		"Tag":           func(ctx context.Context, address string) error { return Tag(ctx, image(address).String(), "v1") },
		"CheckComplete": func(ctx context.Context, address string) error { return CheckComplete(ctx, image(address).String()) },
		"Digests": func(ctx context.Context, address string) error {
			_, err := Digests(ctx, image(address).String())
			return err
		},
		"Delete": func(ctx context.Context, address string) error { return Delete(ctx, image(address).String()) },
		"Attach": func(ctx context.Context, address string) error {
			_, err := Attach(ctx, image(address).String(), "text/plain", []byte("x"))
			return err
		},
		"Push": func(ctx context.Context, address string) error {
			_, err := Push(ctx, address+"/harbour/cargo:v1", empty.Index)
			return err
		},
		"MayPush": func(_ context.Context, address string) error { return MayPush(address + "/harbour/cargo") },
		"tagged": func(ctx context.Context, address string) error {
			_, err := destination(address).tagged(ctx, image(address).Context().Tag("v1"))
			return err
		},
		"upload": func(ctx context.Context, address string) error {
			return destination(address).upload(ctx, image(address).Context(), blob, func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader("tea")), nil
			})
		},
		"put": func(ctx context.Context, address string) error {
			return destination(address).put(ctx, image(address).Context(), blob, []byte("{}"))
		},
	} {
		for _, status := range []int{http.StatusOK, http.StatusForbidden} {
			t.Run(fmt.Sprintf("%s/%d", call, status), func(t *testing.T) {
				block := make([]byte, 64<<10)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(status)
					for sent := 0; sent < 256<<20; sent += len(block) {
						if _, err := w.Write(block); err != nil {
							return
						}
					}
				}))
				defer server.Close()
				var err error
				used := memory.Allocated(func() { err = do(t.Context(), strings.TrimPrefix(server.URL, "http://")) })
				if err != nil {
					assert.Less(t, len(err.Error()), 20<<10)
				}
				assert.Less(t, used, uint64(64<<20), "bytes were allocated")
			})
		}
	}
}

// TestRepeatedLists: a list that has the same list many times, which has another one many times, takes one request for each list.
func TestRepeatedLists(t *testing.T) {
	var requests atomic.Int32
	address := registry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
				requests.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	image := hostileImage(t, "one.tar")
	image.upload(t, address, "image")
	listed := descriptor(imageType, image.text(t))
	var reference string
	for range maxNesting {
		list := &upload{manifest: map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": slices.Repeat([]any{listed}, 8)}}
		reference, listed = list.upload(t, address, "list"), descriptor(indexType, list.text(t))
	}
	all, err := Digests(t.Context(), reference)
	require.NoError(t, err)
	slices.Sort(all)
	assert.Len(t, slices.Compact(all), 1+maxNesting)
	assert.EqualValues(t, maxNesting, requests.Load(), "requests for %d lists", maxNesting)
}

func notFound(w http.ResponseWriter) bool {
	http.Error(w, `{"errors": [{"code": "MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
	return true
}

func TestMayPush(t *testing.T) {
	var refuse atomic.Bool
	address := registry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refuse.Load() && r.Method == http.MethodPost {
				http.Error(w, `{"errors": [{"code": "DENIED"}]}`, http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	assert.NoError(t, MayPush(address+"/harbour/cargo"))
	refuse.Store(true)
	assert.ErrorContains(t, MayPush(address+"/harbour/cargo"), "docker login "+address, "where pushing is forbidden")
}
