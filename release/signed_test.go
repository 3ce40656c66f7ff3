package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// all adds architectures and workstations that take too long for make test.
var all = flag.Bool("all-architectures", false, "release for all architectures and workstations, sign, and build again in another clone")

// TestSignedRelease is the release as people make it, verified as they do.
func TestSignedRelease(t *testing.T) {
	if !*all {
		t.Skip("compiles everything for all platforms; make prove SUITE=release runs it")
	}
	r := startReleasing(t)
	cosign, err := tools.Program{Name: "cosign", Package: "github.com/sigstore/cosign/v3/cmd/cosign", Folder: cosignFolder}.Ensure(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := t.TempDir()
	t.Setenv("COSIGN_PASSWORD", "secret")
	mustRun(t, keys, cosign, "generate-key-pair")
	r.base = r.serveBase(t)
	output := t.TempDir()
	report := r.mustRelease(t, "--architectures", strings.Join(oci.Architectures, ","), "--key", filepath.Join(keys, "cosign.key"), "--output", output)
	t.Logf("the release:\n%s", report)

	verify := []string{"verify", "--key", filepath.Join(keys, "cosign.pub"), "--private-infrastructure"}
	for _, p := range programImages {
		mustRun(t, keys, cosign, append(verify, r.prefix+"/"+p.name+":latest")...)
		r.checkSizes(t, p.name)
	}
	for _, c := range catalogImages {
		mustRun(t, keys, cosign, append(verify, r.prefix+"/"+c.name+":latest")...)
	}
	sums := filepath.Join(output, "archives", "SHA256SUMS")
	mustRun(t, keys, cosign, "verify-blob", "--key", filepath.Join(keys, "cosign.pub"), "--private-infrastructure", "--bundle", sums+".sigstore.json", sums)
	mustRun(t, filepath.Dir(sums), "sha256sum", "--check", "--strict", "SHA256SUMS")
	if unsigned := exec.CommandContext(t.Context(), cosign, append(verify, r.base)...); unsigned.Run() == nil {
		t.Error("cosign verifies an image that nobody signed")
	}

	// Another clone, at another path, with an empty build cache, gives the same programs.
	clone := filepath.Join(t.TempDir(), "elsewhere", "berth")
	mustRun(t, r.root, "git", "clone", "-q", r.root, clone)
	elsewhere := *r
	elsewhere.root, elsewhere.prefix = clone, r.Address+"/again"
	_, messages, err := elsewhere.release(t.Context(), []string{"GOCACHE=" + t.TempDir()}, "--output", t.TempDir())
	if err != nil {
		t.Fatalf("%v\n%s", err, messages)
	}
	for _, p := range programImages {
		again := platform(t, elsewhere.index(t, p.name+":latest"))
		digest, err := again.Digest()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := r.index(t, p.name+":latest").IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(manifest.Manifests, func(m v1.Descriptor) bool { return m.Digest == digest }) {
			t.Errorf("another clone gives %s for %s, want one of %v", digest, p.name, manifest.Manifests)
		}
	}
}

// serveBase pushes a base for all architectures.
func (r *releasing) serveBase(t *testing.T) string {
	t.Helper()
	index, err := oci.Content{Files: map[string][]byte{"bin/bash": []byte("a stand-in")}}.Index()
	if err != nil {
		t.Fatal(err)
	}
	reference := r.Address + "/base:all"
	if _, err := oci.Push(t.Context(), reference, index); err != nil {
		t.Fatal(err)
	}
	return reference
}

// checkSizes checks that an image is for all architectures, and within the goal if it is the operator's.
func (r *releasing) checkSizes(t *testing.T, name string) {
	index := r.index(t, name+":latest")
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var architectures []string
	for _, m := range manifest.Manifests {
		architectures = append(architectures, m.Platform.Architecture)
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if size, err := compressedSize(img); err != nil || name == "berth-operator" && size > maxOperator {
			t.Errorf("%s for %s has %d bytes compressed (%v), want at most %d", name, m.Platform.Architecture, size, err, maxOperator)
		}
	}
	if !slices.Equal(architectures, oci.Architectures) {
		t.Errorf("%s is for %v, want %v", name, architectures, oci.Architectures)
	}
}
