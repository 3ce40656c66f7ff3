package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
)

// generous are the limits of tests that are not about limits.
var generous = Limits{Time: time.Minute, Size: 1 << 20}

func TestPull(t *testing.T) {
	repository := registry.Start(t, nil) + "/harbour/cargo"
	_, err := Push(t.Context(), repository+":v1", mustIndex(t, cargo()))
	require.NoError(t, err)
	want := Pulled{Reference: repository + "@" + digest,
		Files: map[string][]byte{"hold/deep/rum": []byte("barrels"), "hold/tea": []byte("chests")}}
	for _, reference := range []string{repository + ":v1", repository + "@" + digest, repository + ":v1@" + digest} {
		got, err := Pull(t.Context(), reference, generous, "hold", "mast")
		require.NoError(t, err)
		assert.Emptyf(t, cmp.Diff(want, got), "%s (-want +got)", reference)
	}
}

// TestPullReadsLayers: an upper layer hides files of lower layers. The archives are lists of entries: a folder (with a
// slash), a link (with an arrow) or a file.
func TestPullReadsLayers(t *testing.T) {
	address := registry.Start(t, nil)
	for _, tc := range []struct {
		name   string
		layers [][]string
		want   string // the files and their layers, or a regular expression for the error
	}{
		{"a file is replaced", [][]string{{"hold/", "hold/tea", "hold/rum"}, {"hold/tea"}}, "hold/rum of 0, hold/tea of 1"},
		{"a file is removed", [][]string{{"hold/tea", "hold/rum"}, {"hold/.wh.tea"}}, "hold/rum of 0"},
		{"a file is removed and recreated", [][]string{{"hold/tea"}, {"hold/.wh.tea"}, {"hold/tea"}}, "hold/tea of 2"},
		{"what a layer removes is below it", [][]string{{"hold/tea"}, {"hold/tea", "hold/.wh.tea"}}, "hold/tea of 1"},
		{"a folder is removed", [][]string{{"hold/deep/rum", "hold/tea"}, {"hold/.wh.deep"}}, "hold/tea of 0"},
		{"a folder above is removed", [][]string{{"hold/deep/rum"}, {".wh.hold"}}, ""},
		{"a folder is emptied", [][]string{{"hold/deep/rum", "hold/tea"}, {"hold/deep/.wh..wh..opq", "hold/deep/gin"}}, "hold/deep/gin of 1, hold/tea of 0"},
		{"everything is emptied", [][]string{{"hold/tea"}, {".wh..wh..opq"}}, ""},
		{"a folder becomes a file", [][]string{{"hold/deep/rum"}, {"hold/deep"}}, "hold/deep of 1"},
		{"a file becomes a folder", [][]string{{"hold/deep"}, {"hold/deep/rum"}}, "hold/deep/rum of 1"},
		{"names with a dot or a slash before them", [][]string{{"./hold/tea", "/hold/rum"}}, "hold/rum of 0, hold/tea of 0"},
		{"what is elsewhere does not matter", [][]string{{"mast", "bin/sh->busybox", "holdall/x", "hold/tea"}}, "hold/tea of 0"},
		{"a link", [][]string{{"hold/tea->/etc/passwd"}}, `.* "hold/tea" is a link or something else that is not a file; .*`},
		{"a link in place of a folder", [][]string{{"hold->/etc"}}, `.* "hold" is a link .*`},
		{"a name that leads out", [][]string{{"hold/../../etc/passwd"}}, `.* its file "hold/../../etc/passwd" leads out of its folder`},
		{"a removal that leads out", [][]string{{"hold/../../.wh.etc"}}, `.* leads out of its folder`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reference := push(t, address, layered(t, tc.layers))
			pulled, err := Pull(t.Context(), reference, generous, "hold")
			got := listed(pulled.Files)
			if err != nil {
				got = err.Error()
			}
			assert.Regexp(t, `^`+tc.want+`$`, got)
		})
	}
}

// TestPullOfAnIndex: entries that are not images for an architecture are skipped.
func TestPullOfAnIndex(t *testing.T) {
	address := registry.Start(t, nil)
	attestation, image := layered(t, [][]string{{"hold/signature"}}), layered(t, [][]string{{"hold/tea"}})
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: attestation, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}})
	_, err := Push(t.Context(), address+"/harbour/index:v1", index)
	require.NoError(t, err)
	pulled, err := Pull(t.Context(), address+"/harbour/index:v1", generous, "hold")
	if got := listed(pulled.Files); err != nil || got != "hold/tea of 0" {
		t.Errorf("got %q and error %v", got, err)
	}
	_, err = Push(t.Context(), address+"/harbour/none:v1", empty.Index)
	require.NoError(t, err)
	_, err = Pull(t.Context(), address+"/harbour/none:v1", generous, "hold")
	assert.ErrorContains(t, err, "no image of any architecture", "of an index without images")
}

func TestPullHasALimit(t *testing.T) {
	reference := push(t, registry.Start(t, nil), layered(t, [][]string{{"mast"}, {"hold/tea"}, {"mast"}}))
	_, err := Pull(t.Context(), reference, Limits{Time: time.Minute, Size: 64 << 10}, "hold")
	assert.NoError(t, err)
	_, err = Pull(t.Context(), reference, Limits{Time: time.Minute, Size: 4 << 10}, "hold") // an archive with one file has 2 KiB
	if err == nil || !strings.HasSuffix(err.Error(), "its files take more than 4096 bytes; expected a smaller image") {
		t.Errorf("got error %v", err)
	}
}

// TestPullKeepsLittle: files in the folders to read, and the names of all files, have their own limits, because they are
// kept in memory.
func TestPullKeepsLittle(t *testing.T) {
	content := Content{Files: map[string][]byte{"mast/large": make([]byte, 64<<10), "hold/tea": make([]byte, 2<<10), "hold/rum": make([]byte, 2<<10)}}
	reference := registry.Start(t, nil) + "/harbour/large:v1"
	_, err := Push(t.Context(), reference, mustIndex(t, content))
	require.NoError(t, err)
	_, err = Pull(t.Context(), reference, Limits{Time: time.Minute, Size: 1 << 20, Kept: 4 << 10}, "hold")
	assert.NoError(t, err)
	_, err = Pull(t.Context(), reference, Limits{Time: time.Minute, Size: 1 << 20, Kept: 3 << 10}, "hold")
	if err == nil || !strings.HasSuffix(err.Error(), "its files in the folders that are read take more than 3072 bytes; expected a smaller image") {
		t.Errorf("got error %v", err)
	}

	layer, err := Files{"hold/tea": {}, "mast/a": {}, "mast/b": {}}.Layer()
	require.NoError(t, err)
	for entries, want := range map[int]string{5: "", 4: "its layers have more than 1048576 entries; expected a smaller image"} {
		stream, err := layer.Compressed()
		require.NoError(t, err)
		left := newBudget(generous)
		left.entries = entries // the folders are entries, too
		if _, err := readLayer(stream, left, []string{"hold"}); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("of %d entries: got error %v, want %q", entries, err, want)
		}
	}
}

// TestPullLogsIn: Pull uses the credentials of container tools.
func TestPullLogsIn(t *testing.T) {
	address := registry.Start(t, func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "jim" || password != "treasure" {
				w.Header().Set("WWW-Authenticate", `Basic realm="harbour"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			inner.ServeHTTP(w, r)
		})
	})
	home := t.TempDir()
	t.Setenv("DOCKER_CONFIG", home)
	_, err := Pull(t.Context(), address+"/harbour/cargo:v1", generous, "hold")
	assert.ErrorContains(t, err, "; check the name, and log in with `docker login "+address+"`", "without a login")
	config := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, address, base64.StdEncoding.EncodeToString([]byte("jim:treasure")))
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.json"), []byte(config), 0o600))
	_, err = Push(t.Context(), address+"/harbour/cargo:v1", mustIndex(t, cargo()))
	require.NoError(t, err)
	_, err = Pull(t.Context(), address+"/harbour/cargo:v1", generous, "hold")
	assert.NoError(t, err)
}

func TestPullExplains(t *testing.T) {
	address := registry.Start(t, nil)
	nobody := registry.Nobody()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	require.NoError(t, err)
	defer silent.Close()
	for _, tc := range []struct {
		reference, want string
		time            time.Duration
	}{
		{"Not An Image", `image "Not An Image": want a reference with its registry and a tag or a digest, such as .*`, time.Minute},
		{"cargo:v1", `image "cargo:v1": want a reference with its registry .*`, time.Minute},
		{address + "/harbour/cargo", `image ".*/harbour/cargo" has neither a tag nor a digest: want one of them, such as ` + address + `/harbour/cargo:v1.0.0`, time.Minute},
		{address + "/harbour/nothing:v1", `cannot pull image ` + address + `/harbour/nothing:v1: GET http://.*; check the name: ` + address + ` has no such image`, time.Minute},
		{nobody + "/harbour/cargo:v1", `cannot pull image .*: .*Get "http://` + nobody + `/v2/": .* connection refused; check that ` + nobody + ` can be reached from here, .*`, time.Minute},
		{silent.Addr().String() + "/harbour/cargo:v1", `cannot pull image .*: it took longer than 100ms: .*; check that .* can be reached from here, .*`, 100 * time.Millisecond},
	} {
		t.Run(tc.reference, func(t *testing.T) {
			_, err := Pull(t.Context(), tc.reference, Limits{Time: tc.time, Size: 1 << 20}, "hold")
			if err == nil || !regexp.MustCompile(`^`+tc.want+`$`).MatchString(err.Error()) {
				t.Errorf("got error\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

// TestPullIsInterrupted: the error of a cancelled pull has no advice.
func TestPullIsInterrupted(t *testing.T) {
	asked := make(chan struct{}, 1)
	address := registry.Start(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-r.Context().Done()
		})
	})
	ctx, interrupt := context.WithCancel(t.Context())
	go func() { <-asked; interrupt() }()
	_, err := Pull(ctx, address+"/harbour/cargo:v1", generous, "hold")
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "; check") {
		t.Errorf("got error %v", err)
	}
}

// push pushes an image for one architecture and returns its reference.
func push(t *testing.T, address string, image v1.Image) (reference string) {
	t.Helper()
	reference = address + "/harbour/ship:v1"
	ref, err := name.ParseReference(reference)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image, remote.WithContext(t.Context())))
	return reference
}

// layered returns an image with layers. Each file contains the number of its layer.
func layered(t *testing.T, layers [][]string) v1.Image {
	t.Helper()
	image := empty.Image
	for number, entries := range layers {
		var archive bytes.Buffer
		writer := tar.NewWriter(&archive)
		for _, entry := range entries {
			content := fmt.Sprint(number)
			header := &tar.Header{Name: entry, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
			if link, target, is := strings.Cut(entry, "->"); is {
				*header, content = tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: target}, ""
			} else if strings.HasSuffix(entry, "/") {
				*header, content = tar.Header{Name: entry, Typeflag: tar.TypeDir, Mode: 0o755}, ""
			}
			require.NoError(t, writer.WriteHeader(header))
			_, err := writer.Write([]byte(content))
			require.NoError(t, err)
		}
		require.NoError(t, writer.Close())
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
		require.NoError(t, err)
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

// listed returns files and their content, sorted by name.
func listed(files map[string][]byte) string {
	var texts []string
	for file, content := range files {
		texts = append(texts, fmt.Sprintf("%s of %s", file, content))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
