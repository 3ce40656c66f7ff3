package realnode

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mirrorTransport sends requests as containerd does to a mirror: with the registry that was meant.
type mirrorTransport struct{ registry string }

func (m mirrorTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	query := request.URL.Query()
	query.Set("ns", m.registry)
	request.URL.RawQuery = query.Encode()
	return http.DefaultTransport.RoundTrip(request)
}

// TestServedImages: every kind of image can be pulled, and has the content that its manifest says.
func TestServedImages(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/true"), 0o755))
	whole, err := random.Image(2000, 2)
	require.NoError(t, err)
	tag, err := name.NewTag("any:v1")
	require.NoError(t, err)
	archive, folder := filepath.Join(t.TempDir(), "image.tar"), t.TempDir()
	require.NoError(t, tarball.WriteToFile(archive, tag, whole))
	_, err = layout.Write(folder, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: whole}))
	require.NoError(t, err)
	r := registry{images: map[string]func() (v1.Image, error){}}
	require.NoError(t, r.add(map[string]string{"quay.io/some/program": program, "program": program}, programImage))
	require.NoError(t, r.add(map[string]string{"quay.io/some/archive": archive, "quay.io/some/layout": folder}, readImage))
	server := httptest.NewServer(r)
	defer server.Close()
	pull := func(registry, repository string) error {
		reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/" + repository)
		if err != nil {
			return err
		}
		image, err := remote.Image(reference, remote.WithTransport(mirrorTransport{registry}))
		if err != nil {
			return err
		}
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		for _, layer := range layers {
			// The library compares the content with the digest. It cannot validate layers that are not compressed.
			content, err := layer.Compressed()
			if err != nil {
				return err
			}
			defer content.Close()
			if _, err := io.Copy(io.Discard, content); err != nil {
				return err
			}
		}
		return validate.Image(image, validate.Fast)
	}
	for _, pulled := range []struct{ registry, repository string }{
		{"quay.io", "some/program:v1"}, {"quay.io", "some/program:v2"}, {"docker.io", "library/program"}, {"quay.io", "some/archive"}, {"quay.io", "some/layout"},
	} {
		assert.NoErrorf(t, pull(pulled.registry, pulled.repository), "pull %s of %s", pulled.repository, pulled.registry)
	}
	for _, missing := range []struct{ registry, repository string }{
		{"docker.io", "some/program:v1"}, {"quay.io", "some/other"},
		{"quay.io", "some/program@sha256:0000000000000000000000000000000000000000000000000000000000000000"},
	} {
		assert.ErrorContainsf(t, pull(missing.registry, missing.repository), "404", "pull %s of %s", missing.repository, missing.registry)
	}
}
