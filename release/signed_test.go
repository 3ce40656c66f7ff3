package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// all adds architectures and workstations that take too long for make test.
var all = flag.Bool("all-architectures", false, "release for all architectures and workstations, sign, and build again in another clone")

// TestSignedRelease is the release as the workflow of releases makes it, from a clean clone, verified as those do who install it.
func TestSignedRelease(t *testing.T) {
	if !*all {
		t.Skip("compiles everything for all platforms; make prove SUITE=release runs it")
	}
	r := startReleasing(t)
	r.base = r.serveBase(t)
	u := newVerifier(t)
	clone := filepath.Join(t.TempDir(), "berth")
	mustRun(t, r.root, "git", "clone", "-q", r.root, clone)
	r.releaseByWorkflow(t, clone, u)
	archives := filepath.Join(clone, "bin", "release", "archives")

	t.Run("binary", func(t *testing.T) { u.checkSums(t, archives); checkArchive(t, archives) })
	t.Run("images", func(t *testing.T) { r.checkSignatures(t, u) })
	t.Run("bundles", func(t *testing.T) { r.checkBundles(t) })
	t.Run("catalogs", func(t *testing.T) { r.checkCatalogs(t) })
	t.Run("documents", func(t *testing.T) { r.checkDocuments(t); r.checkSignedDocuments(t, u) })
	t.Run("another clone", func(t *testing.T) { r.checkAnotherClone(t) })
}

// releaseByWorkflow does in a clone what the workflow of releases does, with a registry, a key and images of this test.
func (r *releasing) releaseByWorkflow(t *testing.T, clone string, u *verifier) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(u.keys, "cosign.key"))
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", workflowStep(t, clone, "Build, push and sign"))
	command.Dir = clone
	command.Env = append(os.Environ(), "REGISTRY="+r.prefix, "SIGNING_KEY="+string(key), "RUNNER_TEMP="+t.TempDir(), "PINS="+r.pins, "MUST_GATHER_BASE="+r.base)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("the release:\n%s", out)
}

// workflowStep returns what a step of the workflow of releases runs.
func workflowStep(t *testing.T, root, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "release.yml"))
	require.NoError(t, err)
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Name, Run string } }
	}
	require.NoError(t, boundedyaml.Unmarshal(content, &workflow))
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if step.Name == name {
				return step.Run
			}
		}
	}
	t.Fatalf("the workflow of releases has no step %q", name)
	return ""
}

// verifier is somebody with cosign and the public key of a release.
type verifier struct{ cosign, keys string }

func newVerifier(t *testing.T) *verifier {
	t.Helper()
	cosign, err := tools.Program{Name: "cosign", Package: "github.com/sigstore/cosign/v3/cmd/cosign", Folder: cosignFolder}.Ensure(t.Context(), nil)
	require.NoError(t, err)
	u := &verifier{cosign, t.TempDir()}
	t.Setenv("COSIGN_PASSWORD", "secret")
	mustRun(t, u.keys, cosign, "generate-key-pair")
	return u
}

// verify runs a command of cosign with the public key.
func (u *verifier) verify(t *testing.T, command string, args ...string) error {
	t.Helper()
	args = append([]string{command, "--key", filepath.Join(u.keys, "cosign.pub"), "--private-infrastructure"}, args...)
	if out, err := exec.CommandContext(t.Context(), u.cosign, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("cosign %q: %w\n%s", args, err, out)
	}
	return nil
}

// checkSums checks the signature of the checksums, that it is of nothing else, and the checksums.
func (u *verifier) checkSums(t *testing.T, archives string) {
	sums := filepath.Join(archives, "SHA256SUMS")
	assert.NoError(t, u.verify(t, "verify-blob", "--bundle", sums+".sigstore.json", sums))
	content, err := os.ReadFile(sums)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "SHA256SUMS")
	require.NoError(t, os.WriteFile(other, append(content, '\n'), 0o600))
	assert.Error(t, u.verify(t, "verify-blob", "--bundle", sums+".sigstore.json", other), "cosign verifies checksums that somebody has changed")
	mustRun(t, archives, "sha256sum", "--check", "--strict", "SHA256SUMS")
}

// checkSignatures checks the signature of each image by its digest, and that there is none of another image.
func (r *releasing) checkSignatures(t *testing.T, u *verifier) {
	signed := slices.Clone(bundleImages)
	for _, p := range programImages {
		signed = append(signed, p.name+":latest")
		r.checkSizes(t, p.name)
	}
	for _, c := range catalogImages {
		signed = append(signed, c.name+":latest")
	}
	for _, reference := range signed {
		assert.NoError(t, u.verify(t, "verify", r.byDigest(t, reference)))
	}
	assert.Error(t, u.verify(t, "verify", r.base), "cosign verifies an image that nobody signed")
}

// checkSignedDocuments checks the signatures of the SBOM and the provenance of the operator's image.
func (r *releasing) checkSignedDocuments(t *testing.T, u *verifier) {
	index := r.index(t, "berth-operator:latest")
	whole, err := index.Digest()
	require.NoError(t, err)
	one, err := platform(t, index).Digest()
	require.NoError(t, err)
	documents := append(r.documents(t, "berth-operator", whole, provenanceType), r.documents(t, "berth-operator", one, sbomType)...)
	assert.Len(t, documents, 2, "the registry lists; want a provenance and an SBOM")
	for _, document := range documents {
		assert.NoError(t, u.verify(t, "verify", document.Name()))
	}
}

// checkAnotherClone checks that another clone, at another path, compiled without what is compiled already, gives the same programs.
func (r *releasing) checkAnotherClone(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "elsewhere", "berth")
	mustRun(t, r.root, "git", "clone", "-q", r.root, clone)
	elsewhere := *r
	elsewhere.root, elsewhere.prefix = clone, r.Address+"/again"
	_, messages, err := elsewhere.release(t.Context(), []string{"GOCACHE=" + t.TempDir()}, "--output", t.TempDir())
	require.NoError(t, err, messages)
	for _, p := range programImages {
		again := platform(t, elsewhere.index(t, p.name+":latest"))
		digest, err := again.Digest()
		require.NoError(t, err)
		manifest, err := r.index(t, p.name+":latest").IndexManifest()
		require.NoError(t, err)
		if !slices.ContainsFunc(manifest.Manifests, func(m v1.Descriptor) bool { return m.Digest == digest }) {
			t.Errorf("another clone gives %s for %s, want one of %v", digest, p.name, manifest.Manifests)
		}
	}
}

// serveBase pushes a base for all architectures.
func (r *releasing) serveBase(t *testing.T) string {
	t.Helper()
	index, err := oci.Content{Files: map[string][]byte{"bin/bash": []byte("a stand-in")}}.Index()
	require.NoError(t, err)
	reference := r.Address + "/base:all"
	_, err = oci.Push(t.Context(), reference, index)
	require.NoError(t, err)
	return reference
}

// checkSizes checks that an image is for all architectures, and within the goal if it is the operator's.
func (r *releasing) checkSizes(t *testing.T, name string) {
	index := r.index(t, name+":latest")
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	var architectures []string
	for _, m := range manifest.Manifests {
		architectures = append(architectures, m.Platform.Architecture)
		img, err := index.Image(m.Digest)
		require.NoError(t, err)
		if size, err := compressedSize(img); err != nil || name == "berth-operator" && size > maxOperator {
			t.Errorf("%s for %s has %d bytes compressed (%v), want at most %d", name, m.Platform.Architecture, size, err, maxOperator)
		}
	}
	assert.Equal(t, oci.Architectures, architectures, name)
}
